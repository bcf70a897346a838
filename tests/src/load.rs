//! Senders that deposit letters for one agent until they are told to stop, whatever happens to the relay meanwhile.
use std::{
    collections::HashSet,
    net::SocketAddr,
    sync::{
        Mutex,
        atomic::{AtomicBool, AtomicUsize, Ordering},
    },
    thread,
    time::{Duration, Instant},
};

use crate::{Connection, Key, mail::message_letter, wait::PATIENCE};

/// What the senders of a test share.
pub struct Load {
    to: String,
    to_enc: String,
    taken: Mutex<HashSet<String>>,
    count: AtomicUsize,
    repeated: AtomicUsize,
    is_over: AtomicBool,
}

impl Load {
    /// Letters for this agent.
    pub fn new(to: &str, to_enc: &str) -> Load {
        Load {
            to: to.to_owned(),
            to_enc: to_enc.to_owned(),
            taken: Mutex::default(),
            count: AtomicUsize::new(0),
            repeated: AtomicUsize::new(0),
            is_over: AtomicBool::new(false),
        }
    }

    /// Deposits one letter after the other at whichever address `relay` gives, each until it is taken; the same deposit
    /// in every attempt.
    pub fn send(&self, key: &Key, mut relay: impl FnMut() -> SocketAddr) {
        let mut connection: Option<Connection> = None;
        while !self.is_over.load(Ordering::SeqCst) {
            let message = key.message(&self.to, "under load");
            let body = message_letter(key, &self.to, &self.to_enc, &message).to_string();
            let (mut attempts, start) = (0, Instant::now());
            loop {
                attempts += 1;
                assert!(start.elapsed() < PATIENCE, "no relay takes the letter");
                if connection.is_none() {
                    connection = Connection::try_open(relay());
                }
                let Some(open) = &mut connection else {
                    thread::sleep(Duration::from_millis(5));
                    continue;
                };
                let request = crate::http::encode("relay", "POST", "/send", &[], body.as_bytes());
                let answer = if open.write(&request) { open.try_read(false) } else { None };
                match answer {
                    Some(answer) if answer.status == 200 => break,
                    // Its store is gone for the moment, or it is about to end.
                    Some(answer) if answer.status == 503 => connection = None,
                    Some(answer) => panic!("HTTP {}: {}", answer.status, answer.text()),
                    None => connection = None,
                }
            }
            if attempts > 1 {
                self.repeated.fetch_add(1, Ordering::SeqCst);
            }
            self.taken.lock().unwrap().insert(message["messageId"].as_str().unwrap().to_owned());
            self.count.fetch_add(1, Ordering::SeqCst);
        }
    }

    /// How many letters a relay took so far.
    pub fn count(&self) -> usize {
        self.count.load(Ordering::SeqCst)
    }

    /// Waits for so many more.
    pub fn wait_for_more(&self, letters: usize) {
        let target = self.count() + letters;
        crate::wait::until("letters to be taken", || (self.count() >= target).then_some(()));
    }

    /// Lets the senders end.
    pub fn stop(&self) {
        self.is_over.store(true, Ordering::SeqCst);
    }

    /// The message ids of all letters that a relay took.
    pub fn taken(&self) -> HashSet<String> {
        self.taken.lock().unwrap().clone()
    }

    /// Letters of which an earlier attempt had no answer.
    pub fn repeated(&self) -> usize {
        self.repeated.load(Ordering::SeqCst)
    }
}

/// Lets the senders go when something fails, so that the failure is seen instead of a hang.
pub struct LetGo<'a>(pub &'a Load);

impl Drop for LetGo<'_> {
    fn drop(&mut self) {
        self.0.stop();
    }
}
