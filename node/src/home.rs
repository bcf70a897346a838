//! Where agents live on disk, and which one is meant.
use std::path::{Path, PathBuf};

/// `$MURETAI_HOME`.
#[derive(Debug, Clone)]
pub struct Home {
    root: PathBuf,
}

/// One agent's folder, `agents/NAME`.
#[derive(Debug, Clone)]
pub struct AgentDir {
    /// Its name.
    pub name: String,
    /// The folder.
    pub path: PathBuf,
}
impl AgentDir {
    /// `key.pem`
    pub fn key_file(&self) -> PathBuf {
        self.path.join("key.pem")
    }
    /// `agent.db`
    pub fn database(&self) -> PathBuf {
        self.path.join("agent.db")
    }
    /// `serve.lock`: held while a `serve` runs; says who.
    pub fn serve_lock(&self) -> PathBuf {
        self.path.join("serve.lock")
    }
}

/// Why no agent could be picked or made.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum HomeError {
    /// No home is known.
    #[error("there is no home folder: neither MURETAI_HOME nor HOME is set")]
    NoHome,
    /// There is no agent at all.
    #[error("there is no agent in {}", .0.display())]
    NoAgents(PathBuf),
    /// There is none of this name.
    #[error("there is no agent named {name} in {}", .home.display())]
    NoSuchAgent {
        /// The name.
        name: String,
        /// The home.
        home: PathBuf,
    },
    /// Several, and none was named.
    #[error("there are several agents: {}", .0.join(", "))]
    Several(Vec<String>),
    /// Not a name: 1 to 64 of `a-z A-Z 0-9 - _ .`, not starting with `-` or `.`.
    #[error("{0:?} is not an agent name")]
    BadName(String),
    /// The file system said no.
    #[error("cannot use {}", .path.display())]
    Io {
        /// Where.
        path: PathBuf,
        /// Why.
        #[source]
        source: std::io::Error,
    },
}

impl Home {
    /// The home at a path; nothing is created.
    pub fn at(root: impl Into<PathBuf>) -> Home {
        Home { root: root.into() }
    }
    /// The platform's data folder, from `MURETAI_HOME`, `XDG_DATA_HOME` and `HOME` as the caller read them.
    pub fn locate(
        _muretai_home: Option<PathBuf>,
        _xdg_data_home: Option<PathBuf>,
        _home: Option<PathBuf>,
    ) -> Result<Home, HomeError> {
        todo!()
    }
    /// The root.
    pub fn root(&self) -> &Path {
        &self.root
    }
    /// Agents that have a folder with a key file in it, by name.
    pub fn agents(&self) -> Result<Vec<AgentDir>, HomeError> {
        todo!()
    }
    /// The agent that is meant: the named one, else the only one.
    pub fn pick(&self, _name: Option<&str>) -> Result<AgentDir, HomeError> {
        todo!()
    }
    /// The folder of a new agent's name, checked; nothing is created.
    pub fn dir_for(&self, _name: &str) -> Result<AgentDir, HomeError> {
        todo!()
    }
}
