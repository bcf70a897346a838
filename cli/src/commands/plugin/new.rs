//! `muretai plugin new`: a skeleton to begin with.

use std::path::PathBuf;

use muretai_plugins::new::{self, Language};
use serde::Serialize;

use crate::{context::Context, failure::Failure, people, shell};

/// Write the skeleton of a plugin: it builds, and it has a test
///
/// All that it needs of muretai is written beside it. `rust` makes a native skill and is built with cargo (it fetches
/// serde_json), `c` a native skill built with make and a C compiler, `wasm` a trust policy in C built with make, clang
/// and wasm-ld.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:\n\
\x20 muretai plugin new --lang rust weather\n\
\x20 muretai plugin new --lang wasm partners ~/src/partners")]
pub(crate) struct Args {
    /// What it is written in
    #[arg(long, value_name = "LANG")]
    lang: Lang,
    /// Its name, 1 to 32 of a-z 0-9 -
    name: String,
    /// Folder to make; one that is there must be empty [default: NAME]
    dir: Option<PathBuf>,
}

#[derive(Debug, Clone, Copy, clap::ValueEnum)]
enum Lang {
    Rust,
    C,
    Wasm,
}

#[derive(Serialize)]
struct NewJson<'a> {
    name: &'a str,
    folder: String,
    files: &'a [String],
}

pub(super) fn run(context: &Context, args: &Args) -> Result<(), Failure> {
    let language = match args.lang {
        Lang::Rust => Language::Rust,
        Lang::C => Language::C,
        Lang::Wasm => Language::Wasm,
    };
    let folder = args.dir.clone().unwrap_or_else(|| PathBuf::from(&args.name));
    let shown = people::shown(&folder.display().to_string());
    let files = new::write(language, &args.name, &folder)
        .map_err(|error| Failure::of(format!("cannot write {shown}"), &error))?;
    let json = NewJson { name: &args.name, folder: folder.display().to_string(), files: &files };
    context.out.either(&json, || files.iter().map(|file| format!("{shown}/{file}")).collect::<Vec<_>>().join("\n"))?;
    let enter = shell::quoted(&folder.display().to_string());
    let test = if matches!(args.lang, Lang::Rust) { "cargo test" } else { "make test" };
    context.next(&format!("`cd {enter} && {test}` builds and tests it; README.md there tells the rest"));
    Ok(())
}
