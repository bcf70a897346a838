//! `muretai identity`: which agents are here, who they are, and the words that restore one.

use muretai_node::{home::AgentDir, keyfile};
use muretai_protocol::{
    phrase,
    sealed::SealingKey,
    sign::{Seed, SigningKey},
    text::one_line,
};
use serde::Serialize;

use crate::{context::Context, exit::Exit, failure::Failure, output};

/// Characters of what is wrong with a key that a terminal shows.
const MAX_SHOWN_CHARS: usize = 500;

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
    /// An encrypted key whose passphrase was not given is listed without its DID. It ends with 1 when a key cannot be
    /// used, after listing the others.
    #[command(after_help = "Examples:\n\
\x20 muretai identity list\n\
\x20 muretai identity list --json")]
    List,
    /// Show the name, the DID and the public keys of an agent
    #[command(after_help = "Examples:\n\
\x20 muretai identity show\n\
\x20 muretai identity show north --json")]
    Show {
        /// Name of the agent [default: the one that acts]
        name: Option<String>,
    },
    /// Print the 24 words that restore this identity, after a confirmation
    ///
    /// Whoever has the words is this agent. Standard output gets the words and nothing else.
    #[command(after_help = "Examples:\n\
\x20 muretai identity phrase north\n\
\x20 muretai identity phrase north --yes > words.txt")]
    Phrase {
        /// Name of the agent [default: the one that acts]
        name: Option<String>,
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
    enc_pub: Option<String>,
    error: Option<String>,
}

pub(crate) fn run(context: &Context, args: &Args) -> Result<Exit, Failure> {
    match &args.command {
        Command::List => list(context),
        Command::Show { name } => show(context, name.as_deref()),
        Command::Phrase { name, yes } => show_phrase(context, name.as_deref(), *yes),
    }
}

fn list(context: &Context) -> Result<Exit, Failure> {
    let home = context.home()?;
    let failed = |error| Failure::of("cannot list the agents", &error);
    let mut found: Vec<Identity> = home.agents().map_err(failed)?.iter().map(|dir| look(context, dir)).collect();
    found.extend(home.keyless().map_err(failed)?.iter().map(keyless));
    found.sort_by(|a, b| a.name.cmp(&b.name));
    if found.is_empty() {
        context.next(&format!("no agent in {}; `muretai keygen NAME` makes one", home.root().display()));
    }
    let width = found.iter().map(|identity| identity.name.len()).max().unwrap_or_default();
    for identity in &found {
        context.out.either(identity, || {
            let shown = match (&identity.did, &identity.error) {
                (Some(did), _) => did.clone(),
                (None, Some(error)) => format!("unusable: {}", one_line(error, MAX_SHOWN_CHARS)),
                (None, None) => "encrypted, no passphrase given".to_owned(),
            };
            format!("{:width$}  {shown}", identity.name)
        })?;
    }
    let unusable: Vec<&str> = found.iter().filter(|one| one.error.is_some()).map(|one| one.name.as_str()).collect();
    if unusable.is_empty() {
        return Ok(Exit::Done);
    }
    Err(Failure::failed(format!("the key of {} cannot be used", unusable.join(", ")))
        .hint("`muretai doctor` says what to do about it"))
}

/// An agent whose key is gone.
fn keyless(dir: &AgentDir) -> Identity {
    Identity {
        name: dir.name.clone(),
        did: None,
        path: dir.path.display().to_string(),
        encrypted: false,
        enc_pub: None,
        error: Some("there is a database and no key".to_owned()),
    }
}

/// What can be said of an agent without asking anybody anything.
fn look(context: &Context, dir: &AgentDir) -> Identity {
    let encrypted = keyfile::is_encrypted(dir);
    let is_locked = matches!(encrypted, Ok(true)) && context.passphrase_source().is_none();
    let seed = match (&encrypted, is_locked) {
        (Err(error), _) => Err(output::in_one_line(&Failure::of("the key file cannot be used", error))),
        (_, true) => Ok(None),
        (_, false) => context.unlock(dir).map(Some).map_err(|failure| output::in_one_line(&failure)),
    };
    let (seed, error) = match seed {
        Ok(seed) => (seed, None),
        Err(error) => (None, Some(error)),
    };
    Identity {
        name: dir.name.clone(),
        did: seed.as_ref().map(|seed| SigningKey::from_seed(seed).did().to_string()),
        path: dir.path.display().to_string(),
        encrypted: encrypted.unwrap_or_default(),
        enc_pub: seed.as_ref().map(|seed| SealingKey::from_seed(seed).enc_pub()),
        error,
    }
}

fn show(context: &Context, name: Option<&str>) -> Result<Exit, Failure> {
    let dir = context.agent_dir_named(name)?;
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

fn show_phrase(context: &Context, name: Option<&str>, yes: bool) -> Result<Exit, Failure> {
    let dir = context.agent_dir_named(name)?;
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
