//! Commands of a user who may not do everything: root can read and write every file, so that tests about permissions
//! run as somebody else.
use std::{
    fs,
    os::unix::{
        fs::{MetadataExt, PermissionsExt, chown},
        process::CommandExt,
    },
    path::PathBuf,
    process::Command,
};

use crate::{Home, binary, home};

/// `nobody`.
const NOBODY: u32 = 65_534;

/// Whoever runs the commands: nobody when the tests run as root, else the same user.
pub struct User {
    folder: tempfile::TempDir,
    binary: PathBuf,
    is_root: bool,
}

impl User {
    /// `None`, with a printed skip, where the program cannot be run as somebody else.
    pub fn new() -> Option<User> {
        let folder = tempfile::tempdir().unwrap();
        let is_root = fs::metadata("/proc/self").is_ok_and(|meta| meta.uid() == 0);
        // The build folder may lie where only root can go.
        let copy = folder.path().join("muretai");
        fs::copy(binary::path(), &copy).unwrap();
        fs::set_permissions(folder.path(), fs::Permissions::from_mode(0o755)).unwrap();
        let user = User { folder, binary: copy, is_root };
        let mut probe = Command::new(&user.binary);
        probe.arg("--version").stdout(std::process::Stdio::null());
        user.become_nobody(&mut probe);
        if probe.status().is_ok_and(|status| status.success()) {
            return Some(user);
        }
        eprintln!("SKIP cannot run the program as another user");
        None
    }

    /// A home that this user owns.
    pub fn home(&self) -> Home {
        let root = self.folder.path().join("home");
        fs::create_dir(&root).unwrap();
        if self.is_root {
            chown(&root, Some(NOBODY), Some(NOBODY)).unwrap();
        }
        Home::at(&root)
    }

    /// A command of this user in a home.
    pub fn command(&self, home: &Home, args: &[&str]) -> Command {
        let template = home.command(args);
        let mut command = Command::new(&self.binary);
        command.args(args).env_clear().current_dir("/");
        for (key, value) in template.get_envs() {
            if let Some(value) = value {
                command.env(key, value);
            }
        }
        command.stdin(std::process::Stdio::null());
        command.stdout(std::process::Stdio::piped()).stderr(std::process::Stdio::piped());
        self.become_nobody(&mut command);
        command
    }

    /// Runs a command of this user to its end.
    pub fn run(&self, home: &Home, args: &[&str]) -> home::Done {
        home::finish(self.command(home, args), b"")
    }

    fn become_nobody(&self, command: &mut Command) {
        if self.is_root {
            command.uid(NOBODY).gid(NOBODY);
        }
    }
}
