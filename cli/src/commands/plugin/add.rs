//! `muretai plugin add`: name a plugin, and pin its file.

use std::path::{Path, PathBuf};

use muretai_plugins::{
    contract,
    engine::HostCommand,
    manifest::{self, Entry, Kind, Manifest, PluginFile},
    native::Stderr,
    set,
};
use muretai_protocol::json::{Object, Value};
use serde::Serialize;

use super::{host, inspect};
use crate::{context::Context, failure::Failure, people, stdin};

/// Bytes of a configuration.
const MAX_CONFIG_BYTES: usize = 262_144;

/// Show what a plugin declares and its SHA-256, and write both to `plugins.toml`
///
/// It is started once with its configuration, to see that it can be. `muretai serve` uses it from its next start. A file
/// that changes later is refused; when it was you who changed it, add it again with --replace.
///
/// A native library runs in a process of its own, but with your rights, already to be looked at: add only what you
/// trust. A WebAssembly module sees no files, no network and no more than it is asked.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:\n\
\x20 muretai plugin add ./office-hours.wasm --config hours.json --agent south\n\
\x20 muretai plugin add target/release/libunits.so --default-skill")]
pub(crate) struct Args {
    /// The library or module
    path: PathBuf,
    /// What to call it here [default: what it calls itself]
    #[arg(long, value_name = "NAME")]
    name: Option<String>,
    /// Its configuration: a file that ends in .json or .toml, or `-` for JSON on standard input
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
    /// Its skill also answers what is addressed to no skill; =ID says which, when it has several
    #[arg(long, value_name = "ID", num_args = 0..=1, require_equals = true)]
    default_skill: Option<Option<String>>,
    /// Take the place of the plugin of this name: what is not given again stays, such as its configuration
    #[arg(long)]
    replace: bool,
    /// Agent that uses it; may be repeated [default: all]
    #[arg(long = "agent", value_name = "NAME")]
    agents: Vec<String>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct AddedJson<'a> {
    name: &'a str,
    path: String,
    agents: Option<&'a [String]>,
    default_skill: Option<&'a str>,
    replaced: bool,
    #[serde(flatten)]
    declaration: inspect::DeclarationJson<'a>,
}

pub(super) async fn run(context: &Context, args: &Args) -> Result<(), Failure> {
    let host = host()?;
    let shown = people::shown(&args.path.display().to_string());
    let attempt = format!("cannot add {shown}");
    let failed = |error| Failure::of(attempt.as_str(), &error);
    let path = args.path.canonicalize().map_err(|error| Failure::io(attempt.as_str(), &error))?;
    if path.to_str().is_none() {
        return Err(Failure::failed(format!("{attempt}: its path is not UTF-8")));
    }
    let config = args.config.as_deref().map(config).transpose()?;
    check_home(context, &attempt)?;
    check_agents(context, &args.agents)?;
    let file = PluginFile::read(&path).map_err(failed)?;
    super::warn_of(context, Kind::of(&file.bytes));
    let (kind, declaration) = inspect::declared(&file, &host, &attempt).await?;
    let name = args.name.as_deref().unwrap_or(&declaration.name);
    if !contract::is_name(name) {
        return Err(Failure::usage(format!("{attempt}: a plugin's name is 1 to 32 of a-z 0-9 -")));
    }
    let old = super::manifest(context)?.plugins.into_iter().find(|entry| args.replace && entry.name == name);
    let entry = Entry {
        name: name.to_owned(),
        path,
        sha256: file.sha256.clone(),
        kind,
        version: declaration.version.clone(),
        offers: declaration.offers(),
        agents: match (args.agents.is_empty(), &old) {
            (true, Some(old)) => old.agents.clone(),
            (true, None) => None,
            (false, _) => Some(args.agents.clone()),
        },
        default_skill: default_skill(args, old.as_ref(), &declaration, &attempt)?,
        config: config.or_else(|| old.as_ref().map(|old| old.config.clone())).unwrap_or_default(),
        limits: old.as_ref().map_or_else(|| kind.default_limits(), |old| old.limits),
    };
    starts(&entry, &file, &host, &attempt).await?;
    clashes(context, &entry, &attempt)?;
    let home = context.home()?.root();
    let written = if old.is_some() { Manifest::replace(home, &entry) } else { Manifest::add(home, &entry) };
    written.map_err(failed)?;
    let json = AddedJson {
        name,
        path: entry.path.display().to_string(),
        agents: entry.agents.as_deref(),
        default_skill: entry.default_skill.as_deref(),
        replaced: old.is_some(),
        declaration: inspect::json(kind, &declaration, &file),
    };
    context.out.either(&json, || inspect::text(kind, &declaration, &file))?;
    let done = if old.is_some() { "replaced" } else { "added as" };
    context.next(&format!("{done} {name}; `muretai serve` uses it from its next start"));
    Ok(())
}

fn default_skill(
    args: &Args,
    old: Option<&Entry>,
    declaration: &contract::Declaration,
    attempt: &str,
) -> Result<Option<String>, Failure> {
    let ids: Vec<_> = declaration.skills.iter().map(|skill| skill.id.as_str()).collect();
    let why = match &args.default_skill {
        None => match old.and_then(|old| old.default_skill.as_deref()) {
            None => return Ok(None),
            Some(id) if ids.contains(&id) => return Ok(Some(id.to_owned())),
            Some(id) => format!("it no longer has {id}, its default skill; --default-skill=ID says which it is"),
        },
        Some(Some(id)) if ids.contains(&id.as_str()) => return Ok(Some(id.clone())),
        Some(None) if ids.len() == 1 => return Ok(Some(ids[0].to_owned())),
        _ if ids.is_empty() => "it has no skill".to_owned(),
        _ => format!("--default-skill=ID takes one of {}", ids.join(", ")),
    };
    Err(Failure::usage(format!("{attempt}: {why}")))
}

/// A plugin that refuses its configuration is better told so now than when the agent is to be served.
async fn starts(entry: &Entry, file: &PluginFile, host: &HostCommand, attempt: &str) -> Result<(), Failure> {
    let config = Value::Object(entry.config.clone());
    let engine = set::engine(entry.kind, file, &config, entry.limits, host, Stderr::Nowhere).await;
    let engine = engine.map_err(|fault| {
        Failure::of(format!("{attempt}: it does not start with this configuration"), &fault)
            .hint("--config FILE gives it a configuration")
    })?;
    engine.close().await;
    Ok(())
}

/// What would keep `serve` from starting is told before it is written.
fn clashes(context: &Context, entry: &Entry, attempt: &str) -> Result<(), Failure> {
    for other in super::manifest(context)?.plugins {
        let is_shared = match (&entry.agents, &other.agents) {
            (Some(ours), Some(theirs)) => ours.iter().any(|agent| theirs.contains(agent)),
            _ => true,
        };
        if !is_shared || other.name == entry.name {
            continue;
        }
        if let Some(id) = entry.skills().find(|id| other.skills().any(|theirs| theirs == *id)) {
            let hint = format!("--agent NAME keeps them apart, and so does `muretai plugin remove {}`", other.name);
            return Err(
                Failure::failed(format!("{attempt}: the plugin {} has a skill {id} already", other.name)).hint(hint)
            );
        }
        if entry.default_skill.is_some() && other.default_skill.is_some() {
            let message = format!("{attempt}: the plugin {} has the default skill already", other.name);
            return Err(Failure::failed(message).hint("leave --default-skill out"));
        }
    }
    Ok(())
}

/// A plugin is for agents: where there is no home there are none.
fn check_home(context: &Context, attempt: &str) -> Result<(), Failure> {
    let home = context.home()?.root();
    if home.is_dir() {
        return Ok(());
    }
    let shown = people::shown(&home.display().to_string());
    Err(Failure::failed(format!("{attempt}: there is no home at {shown}"))
        .hint("`muretai keygen NAME` makes an identity, and with it the home"))
}

fn check_agents(context: &Context, names: &[String]) -> Result<(), Failure> {
    for name in names {
        let found = context.home()?.pick(Some(name));
        found.map_err(|error| Failure::of("cannot tell which agents use it", &error))?;
    }
    Ok(())
}

/// Reads a configuration: JSON, or TOML when the file's name says so.
pub(super) fn config(path: &Path) -> Result<Object, Failure> {
    let attempt = format!("cannot read the configuration {}", people::shown(&path.display().to_string()));
    let text = if path == Path::new("-") {
        stdin::text(stdin::take("the configuration")?, MAX_CONFIG_BYTES, &attempt)?
    } else {
        let file = std::fs::File::open(path).map_err(|error| Failure::io(attempt.as_str(), &error))?;
        stdin::text(file, MAX_CONFIG_BYTES, &attempt)?
    };
    let is_toml = path.extension().is_some_and(|extension| extension == "toml");
    manifest::config(&text, is_toml).map_err(|reason| Failure::failed(format!("{attempt}: {reason}")))
}
