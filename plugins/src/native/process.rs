//! One child process: started, asked one thing at a time, ended with all that it started.
use std::{
    io::{self, ErrorKind},
    os::{fd::OwnedFd, unix::process::ExitStatusExt},
    process::{ExitStatus, Stdio},
    time::{Duration, Instant},
};

use rustix::{
    io::Errno,
    process::{Pid, Signal, kill_process_group},
};
use tokio::{
    net::UnixStream,
    process::{Child, Command},
    time::timeout_at,
};

use super::{
    Stderr,
    frame::{self, Frame, Inbox, ask, say},
    image::Image,
};
use crate::engine::{HostCommand, PluginFault};

/// How long an answer is waited for awake. A child that is awake too answers within a few microseconds, while being
/// woken costs each side tens of them.
const AWAKE: Duration = Duration::from_micros(30);
/// How long a process that has closed its end may take to be gone.
const REAP: Duration = Duration::from_secs(1);

/// What a child said: its answer, or a fault after which it is still fit for use.
pub(super) type Answer = Result<Vec<u8>, PluginFault>;

/// A running child. Killed with its whole group when dropped.
pub(super) struct Process {
    socket: UnixStream,
    child: Child,
    group: Pid,
    inbox: Inbox,
    outbox: Vec<u8>,
    number: u64,
    /// An instance is open.
    pub(super) is_open: bool,
}

impl Process {
    /// Starts the program; nothing is loaded yet.
    pub(super) fn spawn(image: &Image, host: &HostCommand, stderr: Stderr) -> Result<Process, PluginFault> {
        let unavailable = |error: io::Error| PluginFault::Unavailable(format!("{}: {error}", host.program.display()));
        let (ours, theirs) = std::os::unix::net::UnixStream::pair().map_err(unavailable)?;
        ours.set_nonblocking(true).map_err(unavailable)?;
        theirs.set_nonblocking(true).map_err(unavailable)?;
        // The two descriptors travel as standard input and output, which the child puts elsewhere at once.
        let child = Command::new(&host.program)
            .args(&host.args)
            .env_clear()
            .current_dir("/")
            .stdin(Stdio::from(OwnedFd::from(theirs)))
            .stdout(Stdio::from(image.share().map_err(unavailable)?))
            .stderr(match stderr {
                Stderr::Ours => Stdio::inherit(),
                Stderr::Nowhere => Stdio::null(),
            })
            .process_group(0)
            .kill_on_drop(true)
            .spawn()
            .map_err(unavailable)?;
        let group = child.id().and_then(|id| i32::try_from(id).ok()).and_then(Pid::from_raw);
        Ok(Process {
            socket: UnixStream::from_std(ours).map_err(unavailable)?,
            group: group.ok_or_else(|| PluginFault::Unavailable("the child has no number".to_owned()))?,
            child,
            inbox: Inbox::new(),
            outbox: Vec::new(),
            number: 0,
            is_open: false,
        })
    }

    /// Has the library loaded, within its bounds.
    pub(super) async fn load(&mut self, memory_mib: u32, timeout: Duration) -> Result<(), PluginFault> {
        self.ask(ask::START, &memory_mib.to_ne_bytes(), timeout).await?.map(|_| ())
    }

    /// Asks one thing. An error means that the process is of no more use: drop it. So does dropping the future, since a
    /// late answer would be taken for the next one's.
    pub(super) async fn ask(&mut self, kind: u32, payload: &[u8], timeout: Duration) -> Result<Answer, PluginFault> {
        let begun = Instant::now();
        self.number += 1;
        self.outbox.clear();
        self.outbox.reserve(frame::HEADER_BYTES + payload.len());
        frame::write(&mut self.outbox, kind, self.number, payload);
        match self.exchange(begun, timeout).await {
            Ok(frame) if frame.number == self.number => answer(frame),
            Ok(_) => Err(PluginFault::BadAnswer("it answers what was not asked".to_owned())),
            Err(Broken::Late) => Err(PluginFault::TimedOut(timeout)),
            Err(Broken::Breach) => Err(PluginFault::BadAnswer("it breaks the frames".to_owned())),
            Err(Broken::Gone) => Err(PluginFault::Ended(self.ending().await)),
        }
    }

    /// Nothing came from it unasked, not even its end.
    pub(super) fn is_well(&mut self) -> bool {
        self.inbox.is_empty() && rustix::io::read(&self.socket, self.inbox.room()) == Err(Errno::AGAIN)
    }

    /// Lets the plugin close its instance, and ends the process.
    pub(super) async fn close(mut self, timeout: Duration) {
        // Whether it answered or not: it is killed now.
        let _ = self.ask(ask::CLOSE, b"", timeout).await;
        self.kill();
        let _ = tokio::time::timeout(REAP, self.child.wait()).await;
    }

    async fn exchange(&mut self, begun: Instant, timeout: Duration) -> Result<Frame, Broken> {
        let mut sent = 0;
        let deadline = begun + timeout;
        // Awake: no timer, no sleep.
        while sent < self.outbox.len() && self.send_some(&mut sent)? {}
        while sent == self.outbox.len() {
            if let Some(frame) = self.receive_some()? {
                return Ok(frame);
            }
            if begun.elapsed() >= AWAKE {
                break;
            }
            std::thread::yield_now();
        }
        timeout_at(deadline.into(), self.exchange_asleep(sent)).await.map_err(|_| Broken::Late)?
    }

    async fn exchange_asleep(&mut self, mut sent: usize) -> Result<Frame, Broken> {
        while sent < self.outbox.len() {
            if !self.send_some(&mut sent)? {
                self.socket.writable().await.map_err(|_| Broken::Gone)?;
            }
        }
        loop {
            self.socket.readable().await.map_err(|_| Broken::Gone)?;
            // Clears the mark of readiness when there is nothing, which reading past it does not.
            match self.socket.try_read(self.inbox.room()) {
                Ok(0) => return Err(Broken::Gone),
                Ok(n) => {
                    if let Some(frame) = self.inbox.filled(n).map_err(|_| Broken::Breach)? {
                        return Ok(frame);
                    }
                }
                Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted) => {}
                Err(_) => return Err(Broken::Gone),
            }
        }
    }

    /// Sends what goes at once. `false` when the socket is full.
    fn send_some(&mut self, sent: &mut usize) -> Result<bool, Broken> {
        match self.socket.try_write(&self.outbox[*sent..]) {
            Ok(n) => *sent += n,
            Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(false),
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            Err(_) => return Err(Broken::Gone),
        }
        Ok(true)
    }

    /// Takes what is there, past the runtime, which would look only after it was told. `None` when that is no whole
    /// frame.
    fn receive_some(&mut self) -> Result<Option<Frame>, Broken> {
        match rustix::io::read(&self.socket, self.inbox.room()) {
            Ok(0) => Err(Broken::Gone),
            Ok(n) => self.inbox.filled(n).map_err(|_| Broken::Breach),
            Err(Errno::AGAIN | Errno::INTR) => Ok(None),
            Err(_) => Err(Broken::Gone),
        }
    }

    /// Reaps a process that has closed its end, and says how it ended.
    async fn ending(&mut self) -> String {
        self.kill();
        match tokio::time::timeout(REAP, self.child.wait()).await {
            Ok(Ok(status)) => describe(status),
            _ => "it cannot be waited for".to_owned(),
        }
    }

    /// The whole group. Only before the leader is reaped: then its number may be somebody else's.
    fn kill(&mut self) {
        if self.child.id().is_some() {
            // There may be nothing left to kill.
            let _ = kill_process_group(self.group, Signal::KILL);
        }
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        // The runtime reaps it.
        self.kill();
    }
}

/// Why an exchange came to nothing.
enum Broken {
    Late,
    Gone,
    Breach,
}

/// What a frame says; an error when the process ends after it.
fn answer(frame: Frame) -> Result<Answer, PluginFault> {
    match frame.kind {
        say::ANSWER => Ok(Ok(frame.payload)),
        say::FAILED => Ok(Err(PluginFault::Failed(one_line(&frame.payload)))),
        say::BAD_ANSWER => Ok(Err(PluginFault::BadAnswer(one_line(&frame.payload)))),
        say::NOT_A_PLUGIN => Err(PluginFault::NotAPlugin(one_line(&frame.payload))),
        say::UNAVAILABLE => Err(PluginFault::Unavailable(one_line(&frame.payload))),
        say::WRONG_ABI => {
            let found = frame.payload.first_chunk().map_or(0, |bytes| u32::from_ne_bytes(*bytes));
            Err(PluginFault::WrongAbi { found, ours: muretai_plugin::abi::ABI })
        }
        _ => Err(PluginFault::BadAnswer("it breaks the frames".to_owned())),
    }
}

/// A text of the plugin's as it may stand in a log: one line, no control characters, not too long.
fn one_line(text: &[u8]) -> String {
    let text = String::from_utf8_lossy(&text[..text.len().min(frame::MAX_FAULT_BYTES)]);
    let line: String = text.chars().map(|c| if c.is_control() { ' ' } else { c }).collect();
    match line.trim() {
        "" => "it gave no reason".to_owned(),
        line => line.to_owned(),
    }
}

fn describe(status: ExitStatus) -> String {
    match (status.code(), status.signal()) {
        (Some(code), _) => format!("exit code {code}"),
        (None, Some(signal)) => match Signal::from_named_raw(signal) {
            Some(Signal::ABORT) => "it aborted".to_owned(),
            Some(Signal::SEGV | Signal::BUS) => format!("it used memory that it does not have (signal {signal})"),
            _ => format!("signal {signal}"),
        },
        _ => status.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_of_plugins_are_one_tame_line() {
        assert_eq!(one_line(b"bad\nthing\x1b[31m"), "bad thing [31m");
        assert_eq!(one_line(b" \n"), "it gave no reason");
        assert_eq!(one_line(&[0xff; 4096]).chars().count(), frame::MAX_FAULT_BYTES);
    }

    #[test]
    fn kinds_that_the_child_does_not_have_are_refused() {
        for kind in [0, ask::CALL, 99] {
            let frame = Frame { kind, number: 1, payload: Vec::new() };
            assert!(matches!(answer(frame), Err(PluginFault::BadAnswer(_))));
        }
    }
}
