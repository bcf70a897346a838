//! What every command starts from: where the home is, which agent is meant, how to speak.

use std::{
    cell::{OnceCell, RefCell},
    collections::BTreeSet,
    time::Duration,
};

use muretai_node::{
    Agent, Home,
    home::AgentDir,
    keyfile::{self, KeyFileError},
};
use muretai_protocol::sign::Seed;
use muretai_transports::{ClientTimeouts, http::HttpTransport};
use zeroize::Zeroizing;

use crate::{
    args::Globals,
    config::{self, Config},
    env,
    failure::Failure,
    output::Output,
    secret::{self, PassphraseSource},
    shell,
};

/// How long a TCP connection may take; the rest of `--timeout` is for the answer.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);
/// Default of `--timeout`: a peer has 20 s for a request, and the way there and back needs some more.
const DEFAULT_TIMEOUT: Duration = Duration::from_secs(30);

/// The global flags, with the environment and the file behind them. Nothing is read before it is asked for.
pub(crate) struct Context {
    /// How to speak.
    pub(crate) out: Output,
    globals: Globals,
    home: OnceCell<(Home, Config)>,
    /// Agents about whose open key file the user knows.
    warned: RefCell<BTreeSet<String>>,
}

impl Context {
    /// A context that has read nothing yet.
    pub(crate) fn new(out: Output, globals: Globals) -> Context {
        Context { out, globals, home: OnceCell::new(), warned: RefCell::default() }
    }
    /// A sentence whose commands can be typed as they are: with the `--home` and `--as` that this command was given.
    pub(crate) fn typed(&self, text: &str) -> String {
        let home = self.globals.home.as_ref().map(|home| home.display().to_string());
        shell::with_flags(text, home.as_deref(), self.globals.agent.as_deref())
    }
    /// Tells a person what to do next: a note whose commands can be typed as they are.
    pub(crate) fn next(&self, text: &str) {
        self.out.note(&self.typed(text));
    }
    /// The home: `--home`, `MURETAI_HOME`, the platform's data folder. Nothing is created.
    pub(crate) fn home(&self) -> Result<&Home, Failure> {
        Ok(&self.located()?.0)
    }
    /// What `config.toml` says.
    pub(crate) fn config(&self) -> Result<&Config, Failure> {
        Ok(&self.located()?.1)
    }
    /// The home without its file, for a command that reports on the file.
    pub(crate) fn bare_home(&self) -> Result<Home, Failure> {
        if let Some(path) = &self.globals.home {
            return Ok(Home::at(path));
        }
        Home::locate(env::path(env::MURETAI_HOME), env::path(env::XDG_DATA_HOME), env::path(env::HOME))
            .map_err(|error| Failure::of("cannot find the agents", &error))
    }
    fn located(&self) -> Result<&(Home, Config), Failure> {
        if self.home.get().is_none() {
            let home = self.bare_home()?;
            if home.root().is_file() {
                let message = format!("the home is no folder: {} is a file", home.root().display());
                return Err(Failure::failed(message).hint("check `--home` or MURETAI_HOME"));
            }
            let config = config::read(home.root())?;
            let _ = self.home.set((home, config));
        }
        Ok(self.home.get().expect("it was set just now"))
    }
    /// The agent's name as it was asked for: `--as`, `MURETAI_AS`, `config.toml`.
    pub(crate) fn agent_name(&self) -> Result<Option<String>, Failure> {
        if let Some(name) = &self.globals.agent {
            return Ok(Some(name.clone()));
        }
        if let Some(name) = env::value(env::MURETAI_AS) {
            return Ok(Some(name.to_string_lossy().into_owned()));
        }
        Ok(self.config()?.agent.clone())
    }
    /// The folder of the agent that acts.
    pub(crate) fn agent_dir(&self) -> Result<AgentDir, Failure> {
        let name = self.agent_name()?;
        self.home()?.pick(name.as_deref()).map_err(|error| Failure::of("cannot tell which agent acts", &error))
    }
    /// The folder of the agent that a positional NAME means, else of the one that acts.
    pub(crate) fn agent_dir_named(&self, name: Option<&str>) -> Result<AgentDir, Failure> {
        let Some(name) = name else { return self.agent_dir() };
        if let Some(other) = self.globals.agent.as_deref().filter(|other| *other != name) {
            return Err(Failure::usage(format!("two agents are named: {name}, and {other} with --as")));
        }
        self.home()?.pick(Some(name)).map_err(|error| Failure::of("cannot tell which agent is meant", &error))
    }
    /// A command of one agent, as it has to be typed here: with `--as` unless it is this agent that acts without it.
    pub(crate) fn command_of(&self, name: &str, command: &str) -> String {
        let acting = match self.globals.agent {
            Some(_) => None,
            None => self.agent_dir().ok(),
        };
        let flag = if acting.is_some_and(|dir| dir.name == name) { "" } else { "--as " };
        let name = if flag.is_empty() { String::new() } else { format!("{} ", shell::quoted(name)) };
        self.typed(&format!("`muretai {flag}{name}{command}`"))
    }
    /// Where a passphrase would come from, when it was said.
    pub(crate) fn passphrase_source(&self) -> Option<PassphraseSource> {
        let globals = &self.globals;
        globals
            .passphrase_fd
            .map(PassphraseSource::descriptor)
            .or_else(|| globals.passphrase_file.clone().map(PassphraseSource::file))
            .or_else(|| env::path(env::MURETAI_PASSPHRASE_FILE).map(PassphraseSource::file))
    }
    /// Reads an agent's key, asking for its passphrase when there is one and nobody said where it is. Warns when other
    /// users of the machine can read it too.
    pub(crate) fn unlock(&self, dir: &AgentDir) -> Result<Seed, Failure> {
        let attempt = format!("cannot read the key of `{}`", dir.name);
        let failed = |error: KeyFileError| Failure::of(attempt.as_str(), &error);
        let passphrase: Option<Zeroizing<String>> = match keyfile::is_encrypted(dir).map_err(failed)? {
            false => None,
            true => Some(match self.passphrase_source() {
                Some(source) => source.read()?,
                None => secret::ask_passphrase(&self.out, &dir.name)?,
            }),
        };
        let seed = keyfile::read(dir, passphrase.as_ref()).map_err(failed)?;
        if let Some(warning) = self.permissions(dir) {
            self.out.warn(&warning);
        }
        Ok(seed)
    }
    /// What is wrong with who may read an agent's key, told once.
    pub(crate) fn permissions(&self, dir: &AgentDir) -> Option<String> {
        keyfile::permissions_warning(dir).filter(|_| self.warned.borrow_mut().insert(dir.name.clone()))
    }
    /// Opens the agent that acts, with the key that is there. Never makes one.
    pub(crate) async fn open(&self, timeout: Duration) -> Result<Agent, Failure> {
        let dir = self.agent_dir()?;
        let seed = self.unlock(&dir)?;
        let attempt = format!("cannot open {}", dir.database().display());
        let http = HttpTransport::client(ClientTimeouts { connect: CONNECT_TIMEOUT.min(timeout), total: timeout });
        let agent = Agent::open(dir, &seed, http).await.map_err(|error| Failure::of(attempt, &error))?;
        agent.configure_relays(self.config()?.relay.clone());
        Ok(agent)
    }
    /// The time that a call may take: the flag, the file, the default.
    pub(crate) fn timeout(&self, flag: Option<Duration>) -> Result<Duration, Failure> {
        Ok(match flag {
            Some(timeout) => timeout,
            None => self.config()?.timeout.unwrap_or(DEFAULT_TIMEOUT),
        })
    }
    /// Whether private addresses may be dialled: the flag, or the file.
    pub(crate) fn allow_private(&self, flag: bool) -> Result<bool, Failure> {
        Ok(flag || self.config()?.allow_private)
    }
}

/// Runs a command's future on this thread alone: starting threads would cost more than most commands do.
pub(crate) fn block_on<T>(future: impl Future<Output = Result<T, Failure>>) -> Result<T, Failure> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    runtime.map_err(|error| Failure::io("cannot start", &error))?.block_on(future)
}
