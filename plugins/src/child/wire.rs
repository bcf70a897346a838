//! The child's end of the socket.
use std::{
    io::{ErrorKind, Read, Write},
    os::{fd::OwnedFd, unix::net::UnixStream},
    thread,
    time::{Duration, Instant},
};

use rustix::event::{PollFd, PollFlags, poll};

use super::leave;
use crate::native::frame::{self, Frame, Inbox};

/// How long the next request is awaited awake after an answer. A gate asks for one message after the other.
const AWAKE: Duration = Duration::from_micros(50);
/// The thread that watches needs next to nothing, and its stack counts against the plugin's memory.
const WATCH_STACK: usize = 65_536;

/// Frames in and out.
pub(super) struct Wire {
    socket: UnixStream,
    inbox: Inbox,
    outbox: Vec<u8>,
    answered: Option<Instant>,
}

impl Wire {
    /// Watches over the host's end from now on: when it is closed, this process and what it started is killed, even in
    /// the middle of a call.
    pub(super) fn new(socket: OwnedFd) -> std::io::Result<Wire> {
        let socket = UnixStream::from(socket);
        socket.set_nonblocking(true)?;
        let watched = socket.try_clone()?;
        // Not the death signal of Linux: that comes when the thread ends that started us, which a runtime may let go
        // long before the program ends.
        thread::Builder::new().stack_size(WATCH_STACK).spawn(move || watch(&watched))?;
        Ok(Wire { socket, inbox: Inbox::new(), outbox: Vec::new(), answered: None })
    }

    /// The next frame. `None` when there will be none.
    pub(super) fn receive(&mut self) -> Option<Frame> {
        loop {
            match self.socket.read(self.inbox.room()) {
                Ok(0) => return None,
                Ok(n) => {
                    if let Some(frame) = self.inbox.filled(n).ok()? {
                        return Some(frame);
                    }
                }
                Err(error) if error.kind() == ErrorKind::WouldBlock => self.wait(PollFlags::IN),
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(_) => return None,
            }
        }
    }

    /// Sends a frame whole. When that cannot be, the host is gone, and so is this process.
    pub(super) fn send(&mut self, kind: u32, number: u64, payload: &[u8]) {
        self.outbox.clear();
        frame::write(&mut self.outbox, kind, number, payload);
        let mut sent = 0;
        while sent < self.outbox.len() {
            match self.socket.write(&self.outbox[sent..]) {
                Ok(n) => sent += n,
                Err(error) if error.kind() == ErrorKind::WouldBlock => self.wait(PollFlags::OUT),
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(_) => leave(0),
            }
        }
        self.answered = Some(Instant::now());
    }

    /// Lets others run shortly after an answer, and sleeps when nothing came for a while.
    fn wait(&mut self, flags: PollFlags) {
        if self.answered.is_some_and(|answered| answered.elapsed() < AWAKE) {
            thread::yield_now();
            return;
        }
        self.answered = None;
        // An interruption is another look at the socket.
        let _ = poll(&mut [PollFd::new(&self.socket, flags)], None);
    }
}

fn watch(socket: &UnixStream) {
    loop {
        let mut polled = [PollFd::new(socket, PollFlags::empty())];
        match poll(&mut polled, None) {
            Err(rustix::io::Errno::INTR) => {}
            // Nothing asked for, so what is reported is that the other end is closed.
            _ => break,
        }
    }
    // This process is the leader of its group.
    let _ = rustix::process::kill_current_process_group(rustix::process::Signal::KILL);
    leave(0)
}
