//! Numbers for tests that try many moments.

/// A small generator, so that a failing run can be had again by its seed.
pub struct Random(u64);

impl Random {
    /// The generator of a seed, which is printed; `variable` chooses it.
    pub fn of(variable: &str) -> Random {
        let nanos = std::time::UNIX_EPOCH.elapsed().unwrap().as_nanos() as u64;
        let seed = number(variable, nanos ^ u64::from(std::process::id()) << 40) | 1;
        eprintln!("{variable}={seed}");
        Random(seed)
    }

    /// A number below `limit`.
    pub fn below(&mut self, limit: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % limit.max(1)
    }
}

/// The number in an environment variable.
pub fn number(variable: &str, default: u64) -> u64 {
    std::env::var(variable).ok().and_then(|text| text.parse().ok()).unwrap_or(default)
}
