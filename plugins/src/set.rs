//! The plugins of one agent at work: pinned files become engines, engines become skills and trust policies.
//!
//! Faults are contained here. A policy that fails refuses the sender as a stranger is refused, whoever it is; a skill
//! that fails is answered for, by its name alone. What happened is logged with the plugin's name, once a minute for
//! each kind of fault, so that a flood of messages does not become a flood of lines.
use std::{collections::BTreeMap, sync::Arc};

use muretai_protocol::json::Value;
use tokio::sync::Semaphore;

use crate::{
    SkillInfo, Skills, TrustPolicy,
    contract::Declaration,
    engine::{Engine, HostCommand, Limits, PluginFault},
    manifest::{Entry, Kind, Manifest, ManifestError, PluginFile},
    native::{self, NativeEngine, Stderr},
    wasm::{self, WasmEngine},
};

mod faults;
mod policy;
mod skills;
#[cfg(test)]
mod tests;

use faults::FaultLog;
use policy::PluginPolicy;
use skills::PluginSkills;

/// Why the plugins of an agent could not be started.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum LoadError {
    /// The manifest, or a file that it names.
    #[error(transparent)]
    Manifest(#[from] ManifestError),
    /// A plugin did not start.
    #[error("the plugin {name} does not start")]
    Fault {
        /// Which.
        name: String,
        /// Why.
        #[source]
        fault: PluginFault,
    },
    /// `offers` lists what the plugin does not have.
    #[error("the plugin {name} has no {offer}, which plugins.toml lists")]
    NotDeclared {
        /// Which.
        name: String,
        /// The offer.
        offer: String,
    },
    /// Two plugins of one agent have a skill of the same id.
    #[error("the plugins {first} and {second} both have a skill {id}")]
    SkillTwice {
        /// The skill.
        id: String,
        /// One plugin.
        first: String,
        /// The other.
        second: String,
    },
    /// Two plugins of one agent want to answer what is addressed to no skill.
    #[error("the plugins {first} and {second} both have the default skill")]
    DefaultTwice {
        /// One.
        first: String,
        /// The other.
        second: String,
    },
}

impl LoadError {
    /// Whether a file is not what its pin says.
    pub fn is_unverified(&self) -> bool {
        matches!(self, LoadError::Manifest(error) if error.is_unverified())
    }
    /// What to do next.
    pub fn hint(&self) -> Option<String> {
        match self {
            LoadError::Manifest(error) => error.hint(),
            LoadError::Fault { name, .. } => Some(format!(
                "`muretai plugin inspect {name}` looks at it alone; `muretai plugin remove {name}` does without it"
            )),
            LoadError::NotDeclared { name, .. } => Some(format!("`muretai plugin inspect {name}` shows what it has")),
            LoadError::SkillTwice { second, .. } => Some(format!(
                "take the skill out of the offers of {second} in plugins.toml, or `muretai plugin remove {second}`"
            )),
            LoadError::DefaultTwice { .. } => {
                Some("take default_skill away from one of them in plugins.toml".to_owned())
            }
        }
    }
}

/// Asks a plugin's bytes what they declare. A native library runs for that, in a process of its own.
pub async fn inspect(file: &PluginFile, host: &HostCommand) -> Result<(Kind, Declaration), PluginFault> {
    let kind = Kind::of(&file.bytes);
    let declared = match kind {
        Kind::Native => native::describe(Arc::clone(&file.bytes), host).await?,
        Kind::Wasm => wasm::describe(&file.bytes).await?,
    };
    Ok((kind, Declaration::parse(&declared)?))
}

/// Starts an engine over a plugin's bytes. What native code writes to its standard error goes where `stderr` says.
pub async fn engine(
    kind: Kind,
    file: &PluginFile,
    config: &Value,
    limits: Limits,
    host: &HostCommand,
    stderr: Stderr,
) -> Result<Arc<dyn Engine>, PluginFault> {
    let config = config.to_json();
    Ok(match kind {
        Kind::Native => {
            Arc::new(NativeEngine::start_with(Arc::clone(&file.bytes), config.as_bytes(), limits, host, stderr).await?)
        }
        Kind::Wasm => Arc::new(WasmEngine::start(&file.bytes, config.as_bytes(), limits).await?),
    })
}

/// One plugin that runs.
struct Plugin {
    name: String,
    engine: Arc<dyn Engine>,
    limits: Limits,
    /// Calls of its skills at the same time; more messages wait.
    places: Semaphore,
    faults: FaultLog,
}

/// The plugins of one agent, running.
pub struct PluginSet {
    plugins: Vec<Arc<Plugin>>,
    skills: Option<Arc<PluginSkills>>,
    policies: Vec<Arc<dyn TrustPolicy>>,
}

impl PluginSet {
    /// Starts the plugins that a manifest names for an agent. All of them, or none.
    pub async fn load(manifest: &Manifest, agent: &str, host: &HostCommand) -> Result<PluginSet, LoadError> {
        let mut parts = Vec::new();
        for entry in manifest.plugins.iter().filter(|entry| entry.is_for(agent)) {
            let (plugin, declaration) = start(entry, host).await?;
            parts.push((entry, plugin, declaration));
        }
        PluginSet::assemble(parts)
    }

    fn assemble(parts: Vec<(&Entry, Arc<Plugin>, Declaration)>) -> Result<PluginSet, LoadError> {
        let mut set = PluginSet { plugins: Vec::new(), skills: None, policies: Vec::new() };
        let mut skills = PluginSkills::default();
        let mut owners: BTreeMap<String, String> = BTreeMap::new();
        let mut default: Option<&Entry> = None;
        for (entry, plugin, declaration) in parts {
            for skill in used(entry, declaration) {
                if let Some(first) = owners.insert(skill.id.clone(), entry.name.clone()) {
                    return Err(LoadError::SkillTwice { id: skill.id, first, second: entry.name.clone() });
                }
                skills.add(skill, Arc::clone(&plugin));
            }
            if let Some(id) = &entry.default_skill {
                if let Some(first) = default.replace(entry) {
                    let (first, second) = (first.name.clone(), entry.name.clone());
                    return Err(LoadError::DefaultTwice { first, second });
                }
                skills.set_default(id);
            }
            if entry.uses_policy() {
                set.policies.push(Arc::new(PluginPolicy(Arc::clone(&plugin))));
            }
            set.plugins.push(plugin);
        }
        set.skills = (!skills.is_empty()).then(|| Arc::new(skills));
        Ok(set)
    }

    /// The skills of all plugins, `None` when there is none.
    pub fn skills(&self) -> Option<Arc<dyn Skills>> {
        self.skills.clone().map(|skills| skills as Arc<dyn Skills>)
    }

    /// The trust policies, in the order of the manifest.
    pub fn policies(&self) -> Vec<Arc<dyn TrustPolicy>> {
        self.policies.clone()
    }

    /// The names of the plugins.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.plugins.iter().map(|plugin| plugin.name.as_str())
    }

    /// Ends them all.
    pub async fn close(&self) {
        for plugin in &self.plugins {
            plugin.engine.close().await;
        }
    }
}

/// Checks one plugin as loading does: its pin, its declaration, whether it starts. It is ended again.
pub async fn check(entry: &Entry, host: &HostCommand) -> Result<Declaration, LoadError> {
    let (plugin, declaration) = start(entry, host).await?;
    plugin.engine.close().await;
    Ok(declaration)
}

async fn start(entry: &Entry, host: &HostCommand) -> Result<(Arc<Plugin>, Declaration), LoadError> {
    let file = PluginFile::pinned(entry)?;
    let failed = |fault| LoadError::Fault { name: entry.name.clone(), fault };
    let (kind, declaration) = inspect(&file, host).await.map_err(failed)?;
    if kind != entry.kind {
        let why = format!("it is {}, and plugins.toml says {}", kind.word(), entry.kind.word());
        return Err(failed(PluginFault::NotAPlugin(why)));
    }
    let declared = declaration.offers();
    if let Some(offer) = entry.offers.iter().find(|offer| !declared.contains(offer)) {
        return Err(LoadError::NotDeclared { name: entry.name.clone(), offer: offer.clone() });
    }
    let config = Value::Object(entry.config.clone());
    let engine = engine(kind, &file, &config, entry.limits, host, Stderr::Nowhere).await.map_err(failed)?;
    Ok((Arc::new(Plugin::new(&entry.name, engine, entry.limits)), declaration))
}

/// The declared skills that the owner lets it offer.
fn used(entry: &Entry, declaration: Declaration) -> impl Iterator<Item = SkillInfo> {
    declaration.skills.into_iter().filter(|skill| entry.skills().any(|id| id == skill.id))
}

impl Plugin {
    fn new(name: &str, engine: Arc<dyn Engine>, limits: Limits) -> Plugin {
        Plugin {
            name: name.to_owned(),
            engine,
            limits,
            places: Semaphore::new(limits.max_running),
            faults: FaultLog::default(),
        }
    }
}
