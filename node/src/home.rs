//! Where agents live on disk, and which one is meant.
//!
//! Nothing here creates or changes anything: a name that does not exist is an error, never a new identity.
use std::{
    fs,
    io::{self, ErrorKind},
    path::{Path, PathBuf},
};

use crate::Fault;

/// Characters of an agent's name; it becomes a folder name and is typed at a shell.
const MAX_NAME_CHARS: usize = 64;

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
    #[error("there is no agent named {name} in {}{}", .home.display(), listed(.existing))]
    NoSuchAgent {
        /// The name.
        name: String,
        /// The home.
        home: PathBuf,
        /// The agents that are there, by name.
        existing: Vec<String>,
    },
    /// Its database is there, and its key is not.
    #[error("the key of {name} is gone from {}; its database is there", .path.display())]
    KeyLost {
        /// The name.
        name: String,
        /// Its folder.
        path: PathBuf,
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
        source: io::Error,
    },
}

fn listed(names: &[String]) -> String {
    if names.is_empty() { String::new() } else { format!(", only {}", names.join(", ")) }
}

impl HomeError {
    /// Whose fault.
    pub fn fault(&self) -> Fault {
        match self {
            HomeError::Several(_) | HomeError::BadName(_) => Fault::Usage,
            _ => Fault::Failed,
        }
    }

    /// What to do next.
    pub fn hint(&self) -> Option<String> {
        match self {
            HomeError::NoHome => Some("set MURETAI_HOME to a folder that is yours".to_owned()),
            HomeError::NoAgents(_) => {
                Some("`muretai keygen NAME` makes an identity; is MURETAI_HOME right?".to_owned())
            }
            HomeError::NoSuchAgent { existing, .. } if existing.is_empty() => {
                Some("`muretai keygen NAME` makes an identity; is MURETAI_HOME right?".to_owned())
            }
            HomeError::NoSuchAgent { .. } => {
                Some("check `--as` or MURETAI_AS, or make a new identity with `muretai keygen NAME`".to_owned())
            }
            HomeError::KeyLost { name, .. } => {
                Some(format!("`muretai keygen {name} --restore` brings the key back from its 24 words"))
            }
            HomeError::Several(_) => Some("say which with `--as NAME` or MURETAI_AS".to_owned()),
            HomeError::BadName(_) => {
                Some(format!("a name is 1 to {MAX_NAME_CHARS} of a-z A-Z 0-9 - _ . and does not start with - or ."))
            }
            HomeError::Io { .. } => None,
        }
    }
}

impl Home {
    /// The home at a path; nothing is created.
    pub fn at(root: impl Into<PathBuf>) -> Home {
        Home { root: root.into() }
    }

    /// The platform's data folder, from `MURETAI_HOME`, `XDG_DATA_HOME` and `HOME` as the caller read them. Empty
    /// values count as unset, and so does a relative `XDG_DATA_HOME`, as its specification says.
    pub fn locate(
        muretai_home: Option<PathBuf>,
        xdg_data_home: Option<PathBuf>,
        home: Option<PathBuf>,
    ) -> Result<Home, HomeError> {
        let set = |path: Option<PathBuf>| path.filter(|p| !p.as_os_str().is_empty());
        if let Some(root) = set(muretai_home) {
            return Ok(Home::at(root));
        }
        if let Some(data) = set(xdg_data_home).filter(|p| p.is_absolute()) {
            return Ok(Home::at(data.join("muretai")));
        }
        let home = set(home).ok_or(HomeError::NoHome)?;
        let data = if cfg!(target_os = "macos") { "Library/Application Support" } else { ".local/share" };
        Ok(Home::at(home.join(data).join("muretai")))
    }

    /// The root.
    pub fn root(&self) -> &Path {
        &self.root
    }

    /// Agents that have a folder with a key file in it, by name. Whatever stands in a key file's place counts, so
    /// that a damaged identity is reported by whoever reads it and never passed over.
    pub fn agents(&self) -> Result<Vec<AgentDir>, HomeError> {
        self.folders(|dir| is_there(dir, &dir.key_file()))
    }

    /// Folders with a database and no key file, by name: agents whose key was lost.
    pub fn keyless(&self) -> Result<Vec<AgentDir>, HomeError> {
        self.folders(|dir| Ok(is_there(dir, &dir.database())? && !is_there(dir, &dir.key_file())?))
    }

    fn folders(&self, is_wanted: impl Fn(&AgentDir) -> Result<bool, HomeError>) -> Result<Vec<AgentDir>, HomeError> {
        let folder = self.root.join("agents");
        let entries = match fs::read_dir(&folder) {
            Ok(entries) => entries,
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(Vec::new()),
            Err(source) => return Err(HomeError::Io { path: folder, source }),
        };
        let mut agents = Vec::new();
        for entry in entries {
            let entry = entry.map_err(|source| HomeError::Io { path: folder.clone(), source })?;
            let Some(name) = entry.file_name().to_str().filter(|n| is_name(n)).map(str::to_owned) else { continue };
            let dir = AgentDir { name, path: entry.path() };
            if is_wanted(&dir)? {
                agents.push(dir);
            }
        }
        agents.sort_by(|a, b| a.name.cmp(&b.name));
        Ok(agents)
    }

    /// The agent that is meant: the named one, else the only one.
    pub fn pick(&self, name: Option<&str>) -> Result<AgentDir, HomeError> {
        if let Some(name) = name {
            let dir = self.dir_for(name)?;
            if is_there(&dir, &dir.key_file())? {
                return Ok(dir);
            }
            if is_there(&dir, &dir.database())? {
                return Err(HomeError::KeyLost { name: dir.name, path: dir.path });
            }
            let existing = self.agents()?.into_iter().map(|a| a.name).collect();
            return Err(HomeError::NoSuchAgent { name: name.to_owned(), home: self.root.clone(), existing });
        }
        let mut agents = self.agents()?;
        match agents.len() {
            0 => Err(match self.keyless()?.into_iter().next() {
                Some(AgentDir { name, path }) => HomeError::KeyLost { name, path },
                None => HomeError::NoAgents(self.root.clone()),
            }),
            1 => Ok(agents.remove(0)),
            _ => Err(HomeError::Several(agents.into_iter().map(|a| a.name).collect())),
        }
    }

    /// The folder of a new agent's name, checked; nothing is created.
    pub fn dir_for(&self, name: &str) -> Result<AgentDir, HomeError> {
        if !is_name(name) {
            return Err(HomeError::BadName(name.chars().take(2 * MAX_NAME_CHARS).collect()));
        }
        Ok(AgentDir { name: name.to_owned(), path: self.root.join("agents").join(name) })
    }
}

fn is_name(text: &str) -> bool {
    (1..=MAX_NAME_CHARS).contains(&text.len())
        && !text.starts_with(['-', '.'])
        && text.bytes().all(|b| b.is_ascii_alphanumeric() || matches!(b, b'-' | b'_' | b'.'))
}

/// Whether anything is in the place of a file of this agent.
fn is_there(dir: &AgentDir, file: &Path) -> Result<bool, HomeError> {
    match fs::symlink_metadata(file) {
        Ok(_) => Ok(true),
        Err(error) if matches!(error.kind(), ErrorKind::NotFound | ErrorKind::NotADirectory) => Ok(false),
        Err(source) => Err(HomeError::Io { path: dir.path.clone(), source }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn home_with(names: &[&str]) -> (tempfile::TempDir, Home) {
        let folder = tempfile::tempdir().unwrap();
        let home = Home::at(folder.path());
        for name in names {
            let dir = home.dir_for(name).unwrap();
            fs::create_dir_all(&dir.path).unwrap();
            fs::write(dir.key_file(), "x").unwrap();
        }
        (folder, home)
    }

    #[test]
    fn lists_agents_by_name_and_only_folders_with_a_key_file() {
        let (folder, home) = home_with(&["south", "north"]);
        fs::create_dir_all(folder.path().join("agents/west")).unwrap();
        fs::write(folder.path().join("agents/east"), "a file").unwrap();
        let names: Vec<_> = home.agents().unwrap().into_iter().map(|a| a.name).collect();
        assert_eq!(names, ["north", "south"]);
    }

    #[test]
    fn an_agent_without_its_key_is_offered_as_one_whose_key_is_lost() {
        let (folder, home) = home_with(&["south"]);
        fs::write(folder.path().join("agents/south/agent.db"), "").unwrap();
        fs::create_dir_all(folder.path().join("agents/north")).unwrap();
        fs::write(folder.path().join("agents/north/agent.db"), "").unwrap();
        let names: Vec<_> = home.keyless().unwrap().into_iter().map(|a| a.name).collect();
        assert_eq!(names, ["north"]);
        let error = home.pick(Some("north")).unwrap_err();
        assert!(error.hint().unwrap().contains("keygen north --restore"), "{error:?}");
        assert_eq!(home.pick(None).unwrap().name, "south");
        fs::remove_file(folder.path().join("agents/south/key.pem")).unwrap();
        assert!(matches!(home.pick(None), Err(HomeError::KeyLost { name, .. }) if name == "north"));
    }

    #[test]
    fn an_empty_or_missing_home_has_no_agents_and_stays_as_it_is() {
        let folder = tempfile::tempdir().unwrap();
        let home = Home::at(folder.path().join("absent"));
        assert!(home.agents().unwrap().is_empty());
        assert!(matches!(home.pick(None), Err(HomeError::NoAgents(_))));
        assert!(!folder.path().join("absent").exists());
    }

    #[test]
    fn a_mistyped_name_lists_what_exists_and_creates_nothing() {
        let (folder, home) = home_with(&["north", "south"]);
        let error = home.pick(Some("nort")).unwrap_err();
        assert!(error.to_string().ends_with("only north, south"), "{error}");
        assert!(!folder.path().join("agents/nort").exists());
    }

    #[test]
    fn picks_the_named_one_or_the_only_one() {
        let (_folder, home) = home_with(&["north"]);
        assert_eq!(home.pick(None).unwrap().name, "north");
        let (_folder, home) = home_with(&["north", "south"]);
        assert_eq!(home.pick(Some("south")).unwrap().name, "south");
        assert!(matches!(home.pick(None), Err(HomeError::Several(names)) if names == ["north", "south"]));
    }

    #[test]
    fn names_are_checked() {
        let home = Home::at("/nowhere");
        for good in ["a", "north-2", "A_b.c", &"n".repeat(64)] {
            assert!(home.dir_for(good).is_ok(), "{good}");
        }
        for bad in ["", "-a", ".a", "..", "a/b", "a b", "ä", "a\0", "a\n", &"n".repeat(65)] {
            assert!(matches!(home.dir_for(bad), Err(HomeError::BadName(_))), "{bad:?}");
        }
    }

    #[test]
    fn a_file_in_place_of_the_agents_folder_is_an_error_that_names_it() {
        let folder = tempfile::tempdir().unwrap();
        fs::write(folder.path().join("agents"), "").unwrap();
        let error = Home::at(folder.path()).agents().unwrap_err();
        assert!(matches!(&error, HomeError::Io { path, .. } if path.ends_with("agents")), "{error:?}");
    }

    #[test]
    fn a_folder_in_place_of_the_key_file_still_counts_as_the_agent() {
        let folder = tempfile::tempdir().unwrap();
        fs::create_dir_all(folder.path().join("agents/north/key.pem")).unwrap();
        assert_eq!(Home::at(folder.path()).pick(None).unwrap().name, "north");
    }

    #[test]
    fn locates_the_home() {
        let path = |p: &str| Some(PathBuf::from(p));
        let root = |a, b, c| Home::locate(a, b, c).map(|h| h.root().to_owned());
        assert_eq!(root(path("/m"), path("/x"), path("/h")).unwrap(), Path::new("/m"));
        assert_eq!(root(path(""), path("/x"), path("/h")).unwrap(), Path::new("/x/muretai"));
        let from_home = root(None, path("relative"), path("/h")).unwrap();
        assert!(from_home.starts_with("/h") && from_home.ends_with("muretai"));
        assert!(matches!(root(None, None, path("")), Err(HomeError::NoHome)));
    }
}
