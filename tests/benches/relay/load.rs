//! Deposits that were signed beforehand, by many senders at once, and what they cost whom.
use std::{
    net::SocketAddr,
    ops::{Add, AddAssign, Sub},
    time::{Duration, Instant},
};

use muretai_tests::{
    Connection, Key, RelayProcess,
    http::encode,
    mail::{deposit, seal_bytes},
};

use crate::machine::{busy, database_time, own_time};

/// Deposits of one connection that are signed beforehand and sent in one go.
const BURST: usize = 250;
/// The size of a sealed box before base64.
const LETTER_BYTES: usize = 1_024;

/// Who deposits how.
#[derive(Clone, Copy)]
pub(crate) struct Load {
    pub(crate) senders: usize,
    /// A thread has connections to one relay only, one request of each in flight.
    pub(crate) threads: usize,
}

/// What deposits took.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Took {
    pub(crate) letters: usize,
    pub(crate) time: Duration,
    pub(crate) used: Used,
}

/// Processor time, by who had it.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Used {
    pub(crate) relays: Duration,
    pub(crate) database: Duration,
    pub(crate) load: Duration,
    /// Everybody's, the rest of the machine included.
    pub(crate) machine: Duration,
}

impl Used {
    fn so_far(relays: &[&RelayProcess]) -> Used {
        Used {
            relays: relays.iter().flat_map(|relay| relay.cpu_time()).sum(),
            database: database_time(),
            load: own_time(),
            machine: busy(),
        }
    }
}

impl Sub for Used {
    type Output = Used;

    fn sub(self, earlier: Used) -> Used {
        Used {
            relays: self.relays.saturating_sub(earlier.relays),
            database: self.database.saturating_sub(earlier.database),
            load: self.load.saturating_sub(earlier.load),
            machine: self.machine.saturating_sub(earlier.machine),
        }
    }
}

impl Add for Took {
    type Output = Took;

    fn add(self, other: Took) -> Took {
        Took {
            letters: self.letters + other.letters,
            time: self.time + other.time,
            used: Used {
                relays: self.used.relays + other.used.relays,
                database: self.used.database + other.used.database,
                load: self.used.load + other.used.load,
                machine: self.used.machine + other.used.machine,
            },
        }
    }
}

impl AddAssign for Took {
    fn add_assign(&mut self, other: Took) {
        *self = *self + other;
    }
}

impl Took {
    pub(crate) fn rate(&self) -> f64 {
        self.letters as f64 / self.time.as_secs_f64()
    }

    /// Microseconds of a letter.
    pub(crate) fn each(&self, used: Duration) -> f64 {
        used.as_secs_f64() * 1e6 / self.letters as f64
    }

    /// Percent of one core.
    pub(crate) fn percent(&self, used: Duration) -> f64 {
        used.as_secs_f64() * 100.0 / self.time.as_secs_f64()
    }
}

/// Deposits so many letters, about; signing them is not counted.
pub(crate) fn fill(relays: &[&RelayProcess], recipients: &[Key], load: Load, total: usize) -> Took {
    let addrs: Vec<SocketAddr> = relays.iter().map(|relay| relay.addr).collect();
    let mut took = Took::default();
    while took.letters < total {
        let requests = signed_deposits("relay", recipients, load.senders);
        let before = Used::so_far(relays);
        let time = burst(&addrs, &requests, load.threads);
        took += Took { letters: load.senders * BURST, time, used: Used::so_far(relays) - before };
    }
    took
}

/// Requests that deposit a letter each, by connection.
fn signed_deposits(host: &str, recipients: &[Key], senders: usize) -> Vec<Vec<Vec<u8>>> {
    (0..senders)
        .map(|n| {
            let (key, to) = (Key::nth(n as u32), &recipients[n % recipients.len()]);
            let blob = seal_bytes(&key, &to.enc_pub(), &[b'x'; LETTER_BYTES]);
            let request = || {
                let body = deposit(&key, to.did(), &blob).to_string();
                encode(host, "POST", "/send", &[("Content-Type", "application/json")], body.as_bytes())
            };
            (0..BURST).map(|_| request()).collect()
        })
        .collect()
}

/// Sends a burst over keep-alive connections, one request of each in flight; how long it took.
fn burst(relays: &[SocketAddr], requests: &[Vec<Vec<u8>>], threads: usize) -> Duration {
    let start = Instant::now();
    std::thread::scope(|scope| {
        for (thread, share) in requests.chunks(requests.len().div_ceil(threads)).enumerate() {
            // One relay that is slower than the other does not hold up the other's senders.
            let relay = relays[thread % relays.len()];
            scope.spawn(move || {
                let mut connections: Vec<Connection> = share.iter().map(|_| Connection::open(relay)).collect();
                for n in 0..BURST {
                    for (connection, requests) in connections.iter_mut().zip(share) {
                        assert!(connection.write(&requests[n]));
                    }
                    for connection in &mut connections {
                        let answer = connection.read(false);
                        assert_eq!(answer.status, 200, "{}", answer.text());
                    }
                }
            });
        }
    });
    start.elapsed()
}
