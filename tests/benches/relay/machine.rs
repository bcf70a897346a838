//! The machine that is measured on: what it is, who runs on which core, and what all of it did meanwhile.
use std::{
    process::{Command, Stdio},
    time::Duration,
};

use muretai_tests::resident;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

const RELAY_CORE: &str = "0";
const LOAD_CORE: &str = "1";
/// Open files that are no connections of idle listeners.
const OTHER_FILES: u64 = 512;

/// As it was before anything was pinned.
pub(crate) struct Machine {
    pub(crate) cores: usize,
    model: String,
    has_pins: bool,
}

impl Machine {
    pub(crate) fn read() -> Machine {
        let info = std::fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
        let model = info.lines().find_map(|line| line.strip_prefix("model name")?.split(':').nth(1));
        let cores = std::thread::available_parallelism().map_or(1, usize::from);
        let has_pins = cores >= 2 && Command::new("taskset").arg("-V").output().is_ok_and(|out| out.status.success());
        Machine { cores, model: model.unwrap_or("unknown processor").trim().to_owned(), has_pins }
    }

    pub(crate) fn describe(&self) -> String {
        let pins = if self.has_pins { "relay and load on a core each" } else { "nothing pinned" };
        format!("{} cores, {}, {pins}", self.cores, self.model)
    }

    /// Puts this process, and what it starts from now on, on the load's core. Gives whether relays are to be on theirs.
    pub(crate) fn pin_load(&self) -> bool {
        self.has_pins && set_cores(LOAD_CORE)
    }

    /// Lets this process, and what it starts from now on, have all cores again.
    pub(crate) fn unpin_load(&self) {
        if self.has_pins {
            assert!(set_cores(&format!("0-{}", self.cores - 1)), "this process cannot be unpinned");
        }
    }
}

/// Threads come and go meanwhile, so that it may take more than once.
fn set_cores(cores: &str) -> bool {
    let pid = std::process::id().to_string();
    let mut taskset = Command::new("taskset");
    taskset.args(["-a", "-c", "-p", cores, &pid]).stdout(Stdio::null()).stderr(Stdio::null());
    (0..10).any(|_| taskset.status().is_ok_and(|status| status.success()))
}

/// The same command under `taskset`, on the relay's core.
pub(crate) fn on_relay_core(command: &Command) -> Command {
    let mut pinned = Command::new("taskset");
    pinned.args(["-c", RELAY_CORE]).arg(command.get_program()).args(command.get_args()).env_clear();
    for (key, value) in command.get_envs() {
        if let Some(value) = value {
            pinned.env(key, value);
        }
    }
    pinned.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    pinned
}

/// As many open files as this process may have, and so whatever it starts.
pub(crate) fn raise_open_files() {
    let limit = getrlimit(Resource::Nofile);
    let most = limit.maximum.map_or(1 << 20, |most| most.min(1 << 20));
    _ = setrlimit(Resource::Nofile, Rlimit { current: Some(most), maximum: limit.maximum });
}

/// How many connections a process may have beside what else it needs.
pub(crate) fn most_connections() -> u64 {
    getrlimit(Resource::Nofile).current.map_or(u64::MAX, |most| most.saturating_sub(OTHER_FILES))
}

/// Time that all cores together were busy since the machine started.
pub(crate) fn busy() -> Duration {
    let stat = std::fs::read_to_string("/proc/stat").unwrap_or_default();
    let fields = stat.lines().next().unwrap_or_default().split_whitespace().skip(1);
    // user nice system idle iowait irq softirq steal; what a guest has is part of user.
    let ticks = fields.take(8).enumerate().filter(|(n, _)| ![3, 4].contains(n));
    Duration::from_millis(10 * ticks.filter_map(|(_, field)| field.parse::<u64>().ok()).sum::<u64>())
}

/// Processor time of this process.
pub(crate) fn own_time() -> Duration {
    resident::cpu_time(std::process::id()).iter().sum()
}

/// Processor time of all processes of PostgreSQL on this machine.
pub(crate) fn database_time() -> Duration {
    let pids =
        std::fs::read_dir("/proc").unwrap().filter_map(|entry| entry.unwrap().file_name().to_str()?.parse().ok());
    let is_postgres =
        |pid: &u32| std::fs::read_to_string(format!("/proc/{pid}/comm")).is_ok_and(|name| name.starts_with("postgres"));
    // One that ends meanwhile counts with the one that started it.
    pids.filter(is_postgres).filter_map(resident::try_cpu_time).flatten().sum()
}
