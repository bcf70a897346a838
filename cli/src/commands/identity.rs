//! `muretai identity`: which agents are here, who they are, and the words that restore one.

use muretai_node::{home::AgentDir, keyfile};
use muretai_protocol::{
    phrase,
    sealed::SealingKey,
    sign::{Seed, SigningKey},
};
use serde::Serialize;

use crate::{context::Context, exit::Exit, failure::Failure, output};

/// Show the identities that are here
///
/// Secrets are shown by `identity phrase` alone, and only after a confirmation.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:\n\
\x20 muretai identity list\n\
\x20 muretai --as north identity show --json")]
pub(crate) struct Args {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, clap::Subcommand)]
enum Command {
    /// List the agents of this home
    ///
    /// An encrypted key whose passphrase was not given is listed without its DID.
    #[command(after_help = "Examples:\n\
\x20 muretai identity list\n\
\x20 muretai identity list --json")]
    List,
    /// Show the name, the DID and the public keys of the agent that acts
    #[command(after_help = "Examples:\n\
\x20 muretai identity show\n\
\x20 muretai --as north identity show --json")]
    Show,
    /// Print the 24 words that restore this identity, after a confirmation
    ///
    /// Whoever has the words is this agent. Standard output gets the words and nothing else.
    #[command(after_help = "Examples:\n\
\x20 muretai --as north identity phrase\n\
\x20 muretai --as north identity phrase --yes > words.txt")]
    Phrase {
        /// Do not ask
        #[arg(short, long)]
        yes: bool,
    },
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Identity {
    name: String,
    /// `null` when the key is encrypted and no passphrase was given.
    did: Option<String>,
    path: String,
    encrypted: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    enc_pub: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    error: Option<String>,
}

pub(crate) fn run(context: &Context, args: &Args) -> Result<Exit, Failure> {
    match &args.command {
        Command::List => list(context),
        Command::Show => show(context),
        Command::Phrase { yes } => show_phrase(context, *yes),
    }
}

fn list(context: &Context) -> Result<Exit, Failure> {
    let home = context.home()?;
    let agents = home.agents().map_err(|error| Failure::of("cannot list the agents", &error))?;
    if agents.is_empty() {
        context.out.note(&format!("no agent in {}; `muretai keygen NAME` makes one", home.root().display()));
    }
    let width = agents.iter().map(|dir| dir.name.len()).max().unwrap_or_default();
    let mut exit = Exit::Done;
    for dir in &agents {
        let identity = look(context, dir);
        if identity.error.is_some() {
            exit = Exit::Failed;
        }
        context.out.either(&identity, || {
            let shown = match (&identity.did, &identity.error) {
                (Some(did), _) => did.clone(),
                (None, Some(error)) => format!("unusable: {error}"),
                (None, None) => "encrypted, no passphrase given".to_owned(),
            };
            format!("{:width$}  {shown}", identity.name)
        })?;
    }
    Ok(exit)
}

/// What can be said of an agent without asking anybody anything.
fn look(context: &Context, dir: &AgentDir) -> Identity {
    let encrypted = keyfile::is_encrypted(dir);
    let is_locked = matches!(encrypted, Ok(true)) && context.passphrase_source().is_none();
    let seed = match (&encrypted, is_locked) {
        (Err(error), _) => Err(error.to_string()),
        (_, true) => Ok(None),
        (_, false) => context.unlock(dir).map(Some).map_err(|failure| failure.message),
    };
    let (did, error) = match seed {
        Ok(seed) => (seed.map(|seed| SigningKey::from_seed(&seed).did().to_string()), None),
        Err(error) => (None, Some(error)),
    };
    Identity {
        name: dir.name.clone(),
        did,
        path: dir.path.display().to_string(),
        encrypted: encrypted.unwrap_or_default(),
        enc_pub: None,
        error,
    }
}

fn show(context: &Context) -> Result<Exit, Failure> {
    let dir = context.agent_dir()?;
    let encrypted = keyfile::is_encrypted(&dir).map_err(|error| Failure::of("cannot read the identity", &error))?;
    let seed = context.unlock(&dir)?;
    let did = SigningKey::from_seed(&seed).did().to_string();
    let enc_pub = SealingKey::from_seed(&seed).enc_pub();
    let path = dir.path.display().to_string();
    let identity = Identity {
        name: dir.name.clone(),
        did: Some(did.clone()),
        path: path.clone(),
        encrypted,
        enc_pub: Some(enc_pub.clone()),
        error: None,
    };
    context.out.either(&identity, || {
        let lock = if encrypted { "encrypted" } else { "not encrypted" };
        let name = output::paint(output::STRONG, &dir.name);
        format!("name     {name}\ndid      {did}\nencPub   {enc_pub}\nfolder   {path}\nkey      {lock}")
    })?;
    Ok(Exit::Done)
}

fn show_phrase(context: &Context, yes: bool) -> Result<Exit, Failure> {
    let dir = context.agent_dir()?;
    let question = format!("Whoever sees these words can be `{}` for ever. Show them?", dir.name);
    context.out.confirm(&question, yes)?;
    let seed = context.unlock(&dir)?;
    print_phrase(context, &dir, &seed)?;
    Ok(Exit::Done)
}

fn print_phrase(context: &Context, dir: &AgentDir, seed: &Seed) -> Result<(), Failure> {
    #[derive(Serialize)]
    struct Phrase<'a> {
        name: &'a str,
        did: String,
        phrase: &'a str,
    }
    let words = phrase::encode(seed);
    let did = SigningKey::from_seed(seed).did().to_string();
    context.out.either(&Phrase { name: &dir.name, did, phrase: &words }, || words.to_string())
}
