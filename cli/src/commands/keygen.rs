//! `muretai keygen`: the one command that makes a key.

use muretai_node::{agent, home::AgentDir, keyfile};
use muretai_protocol::{
    Did, phrase,
    sign::{Seed, SigningKey},
};
use serde::Serialize;
use zeroize::Zeroizing;

use crate::{
    context::{self, Context},
    exit::Exit,
    failure::Failure,
    secret,
};

const DEFAULT_NAME: &str = "default";

/// Make a new identity, or restore one from its 24 words
///
/// The identity is a key of its own; its public half is the address (a did:key). An existing key is never replaced.
/// NAME is how this agent is called here and on its card; without it, --as or `default` is taken.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:\n\
\x20 muretai keygen north\n\
\x20 muretai keygen north --restore < words.txt")]
pub(crate) struct Args {
    /// Name of the new agent: 1 to 64 letters, digits, `-`, `_` and `.`
    name: Option<String>,
    /// Restore from 24 words on standard input, numbered or not, or from a hidden prompt on a terminal
    #[arg(long)]
    restore: bool,
    /// Encrypt the key file with a passphrase that is asked for twice; --passphrase-file and --passphrase-fd encrypt too
    #[arg(long)]
    passphrase: bool,
    /// `-`: the words come from standard input
    #[arg(hide = true)]
    dash: Option<String>,
}

#[derive(Serialize)]
struct Made<'a> {
    name: &'a str,
    did: &'a str,
    path: String,
    encrypted: bool,
    restored: bool,
}

pub(crate) fn run(context: &Context, args: &Args) -> Result<Exit, Failure> {
    let dir = context
        .home()?
        .dir_for(&name(context, args)?)
        .map_err(|error| Failure::of("cannot make an identity", &error))?;
    // Asked before anything is typed: a phrase should not be entered in vain.
    keyfile::check_free(&dir).map_err(|error| Failure::of(attempt(&dir), &error))?;
    if !args.restore {
        check_database(&dir, None)?;
    }
    let seed = if args.restore { restored(context)? } else { Seed::from_bytes(agent::random()) };
    if args.restore {
        check_database(&dir, Some(SigningKey::from_seed(&seed).did()))?;
    }
    let passphrase = new_passphrase(context, args)?;
    keyfile::create(&dir, &seed, passphrase.as_deref().map(String::as_str))
        .map_err(|error| Failure::of(attempt(&dir), &error))?;
    report(context, args, &dir, &seed, passphrase.is_some())?;
    Ok(Exit::Done)
}

/// A key beside another agent's database would take over its contacts.
fn check_database(dir: &AgentDir, did: Option<&Did>) -> Result<(), Failure> {
    context::block_on(async {
        keyfile::check_database(dir, did).await.map_err(|error| Failure::of(attempt(dir), &error))
    })
}

fn attempt(dir: &AgentDir) -> String {
    format!("cannot make the identity `{}`", dir.name)
}

/// The positional name, where `-` beside `--restore` only says where the words come from.
fn name(context: &Context, args: &Args) -> Result<String, Failure> {
    let mut words: Vec<&String> = args.name.iter().chain(&args.dash).collect();
    if args.restore {
        words.retain(|word| *word != "-");
    }
    match words.as_slice() {
        [] => Ok(context.agent_name()?.unwrap_or_else(|| DEFAULT_NAME.to_owned())),
        [name] => Ok((*name).clone()),
        [_, more, ..] => Err(Failure::usage(format!("unexpected argument `{more}`")).hint("keygen makes one identity")),
    }
}

fn restored(context: &Context) -> Result<Seed, Failure> {
    let words = secret::read_phrase(&context.out)?;
    phrase::decode(&words).map_err(|error| {
        Failure::io("cannot restore from these words", &error)
            .hint("nothing was written; check the words and their order")
    })
}

fn new_passphrase(context: &Context, args: &Args) -> Result<Option<Zeroizing<String>>, Failure> {
    match context.passphrase_source() {
        Some(source) => source.read().map(Some),
        None if args.passphrase => secret::ask_new_passphrase(&context.out).map(Some),
        None => Ok(None),
    }
}

fn report(context: &Context, args: &Args, dir: &AgentDir, seed: &Seed, encrypted: bool) -> Result<(), Failure> {
    let key = SigningKey::from_seed(seed);
    let path = dir.key_file().display().to_string();
    let did = key.did().as_str();
    let made = Made { name: &dir.name, did, path: path.clone(), encrypted, restored: args.restore };
    let lock = if encrypted { " (encrypted)" } else { "" };
    context.out.either(&made, || format!("name  {}\ndid   {did}\nkey   {path}{lock}", dir.name))?;
    if let Some(twin) = twin(context, dir, did) {
        context
            .out
            .warn(&format!("`{twin}` in this home is the same identity: what one receives, the other does not see"));
    }
    let serve = context.command_of(&dir.name, "serve");
    context.out.note(&format!("\nnext: {serve} makes it reachable"));
    if !args.restore {
        let words = context.command_of(&dir.name, "identity phrase");
        context.out.note(&format!("      {words} shows the 24 words that restore it: write them down"));
    }
    Ok(())
}

/// Another agent of this home that has the same key, as far as keys can be read without a passphrase.
fn twin(context: &Context, dir: &AgentDir, did: &str) -> Option<String> {
    let agents = context.home().ok()?.agents().ok()?;
    let others = agents.into_iter().filter(|other| other.name != dir.name);
    let is_same = |other: &AgentDir| {
        keyfile::read(other, None).is_ok_and(|seed| SigningKey::from_seed(&seed).did().as_str() == did)
    };
    others.into_iter().find(is_same).map(|other| other.name)
}
