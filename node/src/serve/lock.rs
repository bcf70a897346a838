//! The lock that makes `serve` the only one of its agent. The operating system holds it, so it is free again when its
//! process ends, however it ends; what the file says is only for the second `serve` to tell its user.
use std::{
    fs::{File, OpenOptions, TryLockError},
    io::{self, Read, Seek, Write},
    path::Path,
    time::Duration,
};

/// Who holds the lock, as the file says. A process that is just starting has not written its address yet.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Holder {
    /// Its process id; 0 when the file does not say.
    pub pid: u32,
    /// Where it serves; empty when the file does not say.
    pub url: String,
    /// The relays that it is connected to.
    pub relays: Vec<String>,
    /// The relays where it listens for mail, connected or trying to be: nobody else has to.
    pub mailboxes: Vec<String>,
}

/// Why the lock was not taken.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum LockError {
    /// Another process has it.
    #[error("process {} holds the lock", .0.pid)]
    Held(Holder),
    /// The file could not be used.
    #[error(transparent)]
    Io(#[from] io::Error),
}

/// The lock, held until dropped.
pub(super) struct ServeLock {
    file: File,
}

/// A look at the lock holds it for an instant, so one failed try is no proof that somebody serves.
const TRIES: u32 = 5;
const BETWEEN_TRIES: Duration = Duration::from_millis(20);
/// As much of the file as is read.
const MAX_FILE_BYTES: u64 = 65_536;

impl ServeLock {
    /// Takes the lock and writes the process id into the file, or says who has it.
    pub(super) async fn take(path: &Path) -> Result<ServeLock, LockError> {
        let mut options = OpenOptions::new();
        options.read(true).write(true).create(true).truncate(false);
        #[cfg(unix)]
        std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
        let file = open(&mut options, path)?;
        make_private(&file)?;
        for attempt in 1.. {
            match file.try_lock() {
                Ok(()) => break,
                Err(TryLockError::WouldBlock) if attempt < TRIES => tokio::time::sleep(BETWEEN_TRIES).await,
                Err(TryLockError::WouldBlock) => return Err(LockError::Held(read(&file))),
                Err(TryLockError::Error(error)) => return Err(error.into()),
            }
        }
        let mut lock = ServeLock { file };
        lock.write("", &[], &[])?;
        Ok(lock)
    }

    /// Writes who serves, where, the relays that it is connected to, and those where it listens. Whoever reads meanwhile
    /// sees the old lines, the new ones, or fewer.
    pub(super) fn write(&mut self, url: &str, relays: &[String], mailboxes: &[String]) -> io::Result<()> {
        let lines = [std::process::id().to_string(), url.to_owned(), relays.join(" "), mailboxes.join(" ")];
        let text = lines.join("\n") + "\n";
        self.file.rewind()?;
        self.file.write_all(text.as_bytes())?;
        self.file.set_len(text.len() as u64)
    }
}

/// A umask can take even the owner's bits from a new file.
pub(crate) fn make_private(file: &File) -> io::Result<()> {
    #[cfg(unix)]
    {
        use std::os::unix::fs::PermissionsExt;
        if file.metadata()?.permissions().mode() & 0o777 != 0o600 {
            file.set_permissions(std::fs::Permissions::from_mode(0o600))?;
        }
    }
    Ok(())
}

/// Who holds the lock now, if anybody does.
pub(super) fn holder(path: &Path) -> Option<Holder> {
    let file = open(OpenOptions::new().read(true), path).ok()?;
    match file.try_lock_shared() {
        Err(TryLockError::WouldBlock) => Some(read(&file)),
        _ => None,
    }
}

/// Opens without waiting, and a file alone: a FIFO in its place would hold us up for ever.
pub(crate) fn open(options: &mut OpenOptions, path: &Path) -> io::Result<File> {
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::custom_flags(options, rustix::fs::OFlags::NONBLOCK.bits().cast_signed());
    let file = options.open(path)?;
    if !file.metadata()?.is_file() {
        return Err(io::Error::new(io::ErrorKind::InvalidInput, "it is not a regular file"));
    }
    Ok(file)
}

/// What the file says, read with care: it may be half written, or nothing of ours.
fn read(mut file: &File) -> Holder {
    let mut text = String::new();
    let _ = file.rewind();
    let _ = file.take(MAX_FILE_BYTES).read_to_string(&mut text);
    let mut lines = text.lines();
    let pid = lines.next().and_then(|pid| pid.parse().ok()).unwrap_or(0);
    let url = lines.next().unwrap_or_default().to_owned();
    let mut list = || lines.next().unwrap_or_default().split_ascii_whitespace().map(str::to_owned).collect();
    Holder { pid, url, relays: list(), mailboxes: list() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn the_second_one_hears_who_holds_the_lock() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("serve.lock");
        assert_eq!(holder(&path), None, "there is no file");
        let mut first = ServeLock::take(&path).await.unwrap();
        let relays = ["https://relay.example".to_owned(), "https://relay.example/2".to_owned()];
        first.write("http://127.0.0.1:1", &relays, &relays).unwrap();
        first.write("http://127.0.0.1:1", &relays[..1], &relays).unwrap();
        let us = Holder {
            pid: std::process::id(),
            url: "http://127.0.0.1:1".to_owned(),
            relays: relays[..1].to_vec(),
            mailboxes: relays.to_vec(),
        };
        assert_eq!(holder(&path), Some(us.clone()));
        match ServeLock::take(&path).await {
            Err(LockError::Held(holder)) => assert_eq!(holder, us),
            _ => panic!("the lock was taken twice"),
        }
        drop(first);
        assert_eq!(holder(&path), None, "a stale file means nothing");
        ServeLock::take(&path).await.unwrap();
    }

    #[cfg(unix)]
    #[tokio::test]
    async fn what_is_no_file_is_refused_at_once() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("serve.lock");
        assert!(std::process::Command::new("mkfifo").arg(&path).status().unwrap().success());
        assert_eq!(holder(&path), None);
        match ServeLock::take(&path).await {
            Err(LockError::Io(error)) => assert_eq!(error.to_string(), "it is not a regular file"),
            _ => panic!("it was taken"),
        }
        std::fs::remove_file(&path).unwrap();
        std::fs::create_dir(&path).unwrap();
        assert_eq!(holder(&path), None);
        assert!(ServeLock::take(&path).await.is_err());
    }

    #[tokio::test]
    async fn a_file_full_of_rubbish_is_no_obstacle() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("serve.lock");
        std::fs::write(&path, [0xff; 100_000]).unwrap();
        let lock = ServeLock::take(&path).await.unwrap();
        assert_eq!(holder(&path).unwrap().pid, std::process::id());
        drop(lock);
    }
}
