//! `muretai plugin`: skills and trust policies that are added without touching muretai.

use std::path::PathBuf;

use muretai_plugins::{
    engine::HostCommand,
    manifest::{Entry, Kind, Manifest, PluginFile},
    set::PluginSet,
};
use serde::Serialize;

use crate::{
    context::{self, Context},
    exit::Exit,
    failure::Failure,
    output::{self, DIM, paint},
    people, shell,
};

mod add;
mod call;
mod inspect;
mod new;

/// The words that make this program the keeper of one native plugin.
const HOST_WORDS: [&str; 2] = ["plugin", "host"];

/// Add, list, remove and write plugins: skills and trust policies
///
/// A skill answers messages whose first word is its id; it appears on the agent card. A trust policy is asked about each
/// sender before the built-in gate is. Plugins are named in `plugins.toml` in the home, each pinned by the SHA-256 of
/// its file, and `muretai serve` starts them. What a plugin is written with: plugins/README.md in the sources.
///
/// A native plugin runs in a process of its own, but with your rights: add only what you trust. A WebAssembly plugin
/// sees no files, no network and no more than it is asked.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:\n\
\x20 muretai plugin add ./office-hours.wasm --config hours.json\n\
\x20 muretai plugin new --lang rust weather")]
pub(crate) struct Args {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, clap::Subcommand)]
enum Command {
    /// List the plugins, in the order in which their policies run, and whether their files are as they were
    #[command(after_help = "Examples:\n\
\x20 muretai plugin list\n\
\x20 muretai plugin list --json")]
    List,
    Add(add::Args),
    /// Take a plugin out of `plugins.toml`; its file stays where it is
    ///
    /// A running `muretai serve` keeps using it until it is started again.
    #[command(
        visible_alias = "rm",
        after_help = "Examples:\n\
\x20 muretai plugin remove office-hours\n\
\x20 muretai plugin rm units --json"
    )]
    Remove {
        /// What `muretai plugin list` calls it
        name: String,
    },
    Inspect(inspect::Args),
    Call(call::Args),
    New(new::Args),
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct EntryJson<'a> {
    name: &'a str,
    version: &'a str,
    kind: &'static str,
    path: String,
    sha256: &'a str,
    offers: &'a [String],
    agents: Option<&'a [String]>,
    default_skill: Option<&'a str>,
    /// `ok`, `changed` or `unreadable`.
    file: &'static str,
}

pub(crate) fn run(context: &Context, args: &Args) -> Result<Exit, Failure> {
    context::block_on(async {
        match &args.command {
            Command::List => list(context),
            Command::Add(args) => add::run(context, args).await,
            Command::Remove { name } => remove(context, name),
            Command::Inspect(args) => inspect::run(context, args).await,
            Command::Call(args) => call::run(context, args).await,
            Command::New(args) => new::run(context, args),
        }
        .map(|()| Exit::Done)
    })
}

/// Whether these are the words of [`host`]. Looked at before anything else of the program.
pub(crate) fn is_host(words: &[std::ffi::OsString]) -> bool {
    words.len() == 1 + HOST_WORDS.len() && words[1..].iter().zip(HOST_WORDS).all(|(word, ours)| word == ours)
}

/// How a native plugin is kept: by this program, in a process of its own.
pub(crate) fn host() -> Result<HostCommand, Failure> {
    let program =
        std::env::current_exe().map_err(|error| Failure::io("cannot find this program's own file", &error))?;
    Ok(HostCommand { program, args: HOST_WORDS.map(str::to_owned).to_vec() })
}

/// Warns before native code runs.
fn warn_of(context: &Context, kind: Kind) {
    if kind == Kind::Native {
        context.out.warn("this is native code: it runs with your rights, and can read and change what you can");
    }
}

/// The manifest of the home.
pub(crate) fn manifest(context: &Context) -> Result<Manifest, Failure> {
    Manifest::read(context.home()?.root()).map_err(|error| Failure::of("cannot tell which plugins there are", &error))
}

/// Starts the plugins of an agent. One that does not start ends the command: a policy that is missing would let in whom
/// it keeps out.
pub(crate) async fn start(context: &Context, agent: &str, attempt: &str) -> Result<PluginSet, Failure> {
    let manifest = manifest(context)?;
    let started = PluginSet::load(&manifest, agent, &host()?).await;
    let plugins = started.map_err(|error| Failure::of(attempt, &error))?;
    for name in plugins.names() {
        tracing::info!(plugin = name, "a plugin runs");
    }
    Ok(plugins)
}

/// A plugin that PATH or NAME means: a name of `plugins.toml`, else a file.
enum Meant {
    Added(Box<Entry>, PluginFile),
    File(PluginFile),
}

fn meant(context: &Context, word: &str) -> Result<Meant, Failure> {
    let manifest = manifest(context)?;
    if let Ok(entry) = manifest.find(word) {
        let file = PluginFile::pinned(entry).map_err(|error| Failure::of(format!("cannot use {word}"), &error))?;
        return Ok(Meant::Added(Box::new(entry.clone()), file));
    }
    let path = PathBuf::from(word);
    match PluginFile::read(&path) {
        Ok(file) => Ok(Meant::File(file)),
        Err(_) if !path.exists() => {
            let message = format!("there is neither a plugin nor a file named {}", people::shown(word));
            Err(Failure::failed(message).hint("`muretai plugin list` shows the plugins that were added"))
        }
        Err(error) => Err(Failure::of("cannot read the plugin", &error)),
    }
}

fn list(context: &Context) -> Result<(), Failure> {
    let manifest = manifest(context)?;
    if manifest.plugins.is_empty() && !context.out.is_json {
        context.next("there are none; `muretai plugin add FILE` adds one, `muretai plugin new` begins one");
    }
    for entry in &manifest.plugins {
        context.out.either(&json(entry), || {
            let agents = entry.agents.as_ref().map_or("all agents".to_owned(), |agents| agents.join(", "));
            let head = format!("{} {}", output::paint(output::STRONG, &entry.name), people::shown(&entry.version));
            let state = match state(entry) {
                "ok" => String::new(),
                bad => format!("  {}", paint(output::ERROR, bad)),
            };
            let offers = entry.offers.join(" ");
            let path = paint(DIM, &shell::quoted(&entry.path.display().to_string()));
            format!("{head}  {}  {offers}  ({agents})  {path}{state}", entry.kind.word())
        })?;
    }
    Ok(())
}

fn remove(context: &Context, name: &str) -> Result<(), Failure> {
    let removed = Manifest::remove(context.home()?.root(), name);
    let entry = removed.map_err(|error| Failure::of(format!("cannot remove {}", people::shown(name)), &error))?;
    context.out.either(&json(&entry), || format!("removed {name}; its file stays at {}", entry.path.display()))?;
    context.out.note("a running `muretai serve` uses it until it is started again");
    Ok(())
}

fn json(entry: &Entry) -> EntryJson<'_> {
    EntryJson {
        name: &entry.name,
        version: &entry.version,
        kind: entry.kind.word(),
        path: entry.path.display().to_string(),
        sha256: &entry.sha256,
        offers: &entry.offers,
        agents: entry.agents.as_deref(),
        default_skill: entry.default_skill.as_deref(),
        file: state(entry),
    }
}

fn state(entry: &Entry) -> &'static str {
    match PluginFile::pinned(entry) {
        Ok(_) => "ok",
        Err(error) if error.is_unverified() => "changed",
        Err(_) => "unreadable",
    }
}
