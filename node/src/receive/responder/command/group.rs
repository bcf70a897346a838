//! The process group of a command.
use std::io;

use tokio::process::Child;

/// Killed on drop, whatever became of the command.
pub(super) struct Group {
    #[cfg(unix)]
    leader: Option<rustix::process::Pid>,
}

#[cfg(unix)]
impl Group {
    /// The group that this child leads. The caller reaps the child after the group is killed, so that its number cannot
    /// be anybody else's by then.
    pub(super) fn led_by(child: &Child) -> Group {
        let leader = child.id().and_then(|id| i32::try_from(id).ok()).and_then(rustix::process::Pid::from_raw);
        Group { leader }
    }

    /// Waits until the leader has ended, and does not reap it.
    pub(super) async fn ended(&self) -> io::Result<()> {
        use rustix::process::{WaitId, WaitIdOptions, waitid};
        use tokio::signal::unix::{SignalKind, signal};
        let Some(leader) = self.leader else { return Ok(()) };
        // Listening begins before the first look: an end in between is not missed.
        let mut children = signal(SignalKind::child())?;
        let options = WaitIdOptions::EXITED | WaitIdOptions::NOHANG | WaitIdOptions::NOWAIT;
        while waitid(WaitId::Pid(leader), options)?.is_none() {
            children.recv().await;
        }
        Ok(())
    }

    /// Kills all that is left of it.
    pub(super) fn kill(&mut self) {
        if let Some(leader) = self.leader.take() {
            // When all have ended by themselves there is nothing to kill.
            let _ = rustix::process::kill_process_group(leader, rustix::process::Signal::KILL);
        }
    }
}

/// Elsewhere the child alone is killed, by `kill_on_drop`.
#[cfg(not(unix))]
impl Group {
    pub(super) fn led_by(_: &Child) -> Group {
        Group {}
    }
    pub(super) async fn ended(&self) -> io::Result<()> {
        Ok(())
    }
    pub(super) fn kill(&mut self) {}
}

impl Drop for Group {
    fn drop(&mut self) {
        self.kill();
    }
}
