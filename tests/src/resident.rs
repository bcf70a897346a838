//! A process that stays: its first line on stdout, what it says on stderr, its end.
use std::{
    io::{BufRead, BufReader, Read},
    process::{Child, ChildStdout, Command},
    sync::{Arc, Mutex},
    thread::JoinHandle,
    time::Duration,
};

use crate::{home, wait};

/// A resident process; killed by its id when dropped.
pub struct Resident {
    child: Child,
    name: &'static str,
    err: Arc<Mutex<Vec<u8>>>,
    reader: Option<JoinHandle<()>>,
    out: BufReader<ChildStdout>,
}

impl Resident {
    /// Starts a prepared command, of which stdout and stderr are piped.
    pub fn spawn(name: &'static str, mut command: Command) -> Resident {
        let mut child = command.spawn().unwrap_or_else(|error| panic!("cannot start {command:?}: {error}"));
        let err = Arc::new(Mutex::new(Vec::new()));
        let reader = drain(child.stderr.take().unwrap(), Arc::clone(&err));
        let out = BufReader::new(child.stdout.take().unwrap());
        Resident { child, name, err, reader: Some(reader), out }
    }

    /// Waits for its first line; what it said on stderr when it ended instead.
    pub fn first_line(&mut self) -> Result<String, String> {
        let mut line = String::new();
        self.out.read_line(&mut line).unwrap();
        if line.trim_end().is_empty() {
            return Err(self.ended().1);
        }
        Ok(line.trim_end().to_owned())
    }

    /// Its process id.
    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// What it has written to stderr so far.
    pub fn err(&self) -> String {
        String::from_utf8_lossy(&self.err.lock().unwrap()).into_owned()
    }

    /// Resident memory in KiB (Linux).
    pub fn resident_kib(&self) -> u64 {
        let status = std::fs::read_to_string(format!("/proc/{}/status", self.pid())).unwrap();
        let line = status.lines().find(|line| line.starts_with("VmRSS:")).unwrap();
        line.split_whitespace().nth(1).unwrap().parse().unwrap()
    }

    /// Processor time that it has used so far, in user mode and in the kernel (Linux).
    pub fn cpu_time(&self) -> [Duration; 2] {
        cpu_time(self.pid())
    }

    /// Asks it to stop, waits, gives its exit code and stderr.
    pub fn stop(mut self, signal: &str) -> (i32, String) {
        home::kill(self.pid(), signal);
        self.ended()
    }

    /// Waits for its end; its exit code and stderr.
    pub fn ended(&mut self) -> (i32, String) {
        let what = format!("{} to end", self.name);
        let status = wait::until(&what, || self.child.try_wait().unwrap());
        if let Some(reader) = self.reader.take() {
            reader.join().unwrap();
        }
        (status.code().unwrap_or(-1), self.err())
    }

    /// Ends it without a chance to clean up.
    pub fn kill(mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }

    /// Whether it still runs.
    pub fn is_running(&mut self) -> bool {
        self.child.try_wait().unwrap().is_none()
    }
}

impl Drop for Resident {
    fn drop(&mut self) {
        _ = self.child.kill();
        _ = self.child.wait();
        if std::thread::panicking() {
            let err = self.err();
            if !err.is_empty() {
                eprintln!("{} said:\n{err}", self.name);
            }
        }
    }
}

fn drain(mut pipe: impl Read + Send + 'static, into: Arc<Mutex<Vec<u8>>>) -> JoinHandle<()> {
    std::thread::spawn(move || {
        let mut buffer = [0; 4096];
        while let Ok(read) = pipe.read(&mut buffer) {
            if read == 0 {
                break;
            }
            into.lock().unwrap().extend_from_slice(&buffer[..read]);
        }
    })
}

/// Processor time that a process has used so far, in user mode and in the kernel.
pub fn cpu_time(pid: u32) -> [Duration; 2] {
    try_cpu_time(pid).expect("the process runs")
}

/// The same; `None` when there is no such process any more.
pub fn try_cpu_time(pid: u32) -> Option<[Duration; 2]> {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    let fields: Vec<&str> = stat.rsplit(')').next()?.split_whitespace().collect();
    // In ticks of 10 ms, the unit of this file on every Linux of today.
    let ticks = |at: usize| Some(Duration::from_millis(10 * fields.get(at)?.parse::<u64>().ok()?));
    Some([ticks(11)?, ticks(12)?])
}
