//! `muretai plugin inspect`: what a plugin says about itself.

use muretai_plugins::{
    contract::Declaration,
    manifest::{Kind, PluginFile},
    set,
};
use serde::Serialize;

use super::{Meant, host, meant};
use crate::{
    context::Context,
    failure::Failure,
    output::{self, paint},
    people,
};

/// Show what a plugin declares, and its SHA-256
///
/// A native library runs for that, in a process of its own with your rights. A plugin that was added is also started
/// with its configuration, as `muretai serve` does it.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:\n\
\x20 muretai plugin inspect ./libunits.so\n\
\x20 muretai plugin inspect office-hours --json")]
pub(crate) struct Args {
    /// A file, or the name of a plugin that was added
    #[arg(value_name = "PATH|NAME")]
    plugin: String,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct DeclarationJson<'a> {
    declared_name: &'a str,
    version: &'a str,
    description: &'a str,
    kind: &'static str,
    sha256: &'a str,
    offers: Vec<String>,
    skills: Vec<SkillJson<'a>>,
    policy: bool,
}

#[derive(Serialize)]
struct SkillJson<'a> {
    id: &'a str,
    name: &'a str,
    description: &'a str,
    tags: &'a [String],
    examples: &'a [String],
}

pub(super) async fn run(context: &Context, args: &Args) -> Result<(), Failure> {
    let host = host()?;
    let attempt = format!("cannot inspect {}", people::shown(&args.plugin));
    let (kind, declaration, file) = match meant(context, &args.plugin)? {
        Meant::Added(entry, file) => {
            super::warn_of(context, entry.kind);
            let declaration = set::check(&entry, &host).await.map_err(|error| Failure::of(attempt, &error))?;
            (entry.kind, declaration, file)
        }
        Meant::File(file) => {
            super::warn_of(context, Kind::of(&file.bytes));
            let (kind, declaration) = declared(&file, &host, &attempt).await?;
            (kind, declaration, file)
        }
    };
    context.out.either(&json(kind, &declaration, &file), || text(kind, &declaration, &file))
}

/// Asks a file what it declares.
pub(super) async fn declared(
    file: &PluginFile,
    host: &muretai_plugins::engine::HostCommand,
    attempt: &str,
) -> Result<(Kind, Declaration), Failure> {
    set::inspect(file, host).await.map_err(|fault| Failure::of(attempt, &fault))
}

pub(super) fn json<'a>(kind: Kind, declaration: &'a Declaration, file: &'a PluginFile) -> DeclarationJson<'a> {
    let skills = declaration.skills.iter().map(|skill| SkillJson {
        id: &skill.id,
        name: &skill.name,
        description: &skill.description,
        tags: &skill.tags,
        examples: &skill.examples,
    });
    DeclarationJson {
        declared_name: &declaration.name,
        version: &declaration.version,
        description: &declaration.description,
        kind: kind.word(),
        sha256: &file.sha256,
        offers: declaration.offers(),
        skills: skills.collect(),
        policy: declaration.has_policy,
    }
}

pub(super) fn text(kind: Kind, declaration: &Declaration, file: &PluginFile) -> String {
    let mut lines = vec![
        format!("name         {}", paint(output::STRONG, &declaration.name)),
        format!("version      {}", declaration.version),
        format!("description  {}", declaration.description),
        format!("kind         {}", kind.word()),
        format!("sha256       {}", file.sha256),
    ];
    if declaration.has_policy {
        lines.push("policy       yes".to_owned());
    }
    for skill in &declaration.skills {
        lines.push(format!("skill        {}: {}. {}", skill.id, skill.name, skill.description));
        lines.extend(skill.examples.iter().map(|example| format!("               {} {example}", skill.id)));
    }
    lines.join("\n")
}
