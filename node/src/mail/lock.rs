//! Keeps two processes of one agent from fetching mail side by side: the relay would give the mailbox to the later one,
//! and the earlier would fail.
use std::{
    fs::{File, OpenOptions, TryLockError},
    io,
    path::Path,
    time::Duration,
};

use tokio::time::Instant;

use crate::serve::lock::{make_private, open};

/// How often a lock that another process holds is tried.
const BETWEEN_TRIES: Duration = Duration::from_millis(50);

/// The lock, held until dropped; the operating system frees it when its process ends.
pub(super) struct MailLock {
    _file: File,
}

impl MailLock {
    /// Waits for whoever fetches; `None` when that takes longer than until `deadline`.
    pub(super) async fn take(path: &Path, deadline: Instant) -> io::Result<Option<MailLock>> {
        loop {
            if let Some(lock) = MailLock::try_take(path)? {
                return Ok(Some(lock));
            }
            if Instant::now() + BETWEEN_TRIES >= deadline {
                return Ok(None);
            }
            tokio::time::sleep(BETWEEN_TRIES).await;
        }
    }

    /// Takes it when nobody has it.
    pub(super) fn try_take(path: &Path) -> io::Result<Option<MailLock>> {
        let mut options = OpenOptions::new();
        options.read(true).write(true).create(true).truncate(false);
        #[cfg(unix)]
        std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
        let file = open(&mut options, path)?;
        make_private(&file)?;
        match file.try_lock() {
            Ok(()) => Ok(Some(MailLock { _file: file })),
            Err(TryLockError::WouldBlock) => Ok(None),
            Err(TryLockError::Error(error)) => Err(error),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn the_second_one_waits_for_the_first() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("mail.lock");
        let first = MailLock::try_take(&path).unwrap().unwrap();
        assert!(MailLock::try_take(&path).unwrap().is_none());
        assert!(MailLock::take(&path, Instant::now()).await.unwrap().is_none(), "its time is over");
        let waits = tokio::spawn(async move { MailLock::take(&path, Instant::now() + Duration::from_secs(60)).await });
        tokio::task::yield_now().await;
        assert!(!waits.is_finished());
        drop(first);
        assert!(waits.await.unwrap().unwrap().is_some());
    }
}
