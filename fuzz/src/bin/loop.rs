//! `loop SECONDS [SEED]`: drives every target with mutated seeds, one after the other, on a stable toolchain.
//!
//! Prints how many inputs each target took. An input that panics, or takes more than five seconds, is written to
//! `fuzz/artifacts/<target>/` and ends the run with exit code 1.
use std::{
    env, fs, io,
    panic::{self, AssertUnwindSafe},
    path::PathBuf,
    process::ExitCode,
    time::{Duration, Instant},
};

use muretai_fuzz::{TARGETS, Target, mutate::Mutator, seeds};

/// No input here is longer than a few kilobytes, so this is a hang.
const SLOW: Duration = Duration::from_secs(5);

fn main() -> ExitCode {
    let numbers: Option<Vec<u64>> = env::args().skip(1).map(|arg| arg.parse().ok()).collect();
    let (seconds, seed) = match numbers.as_deref() {
        Some([seconds]) => (*seconds, 1),
        Some([seconds, seed]) => (*seconds, *seed),
        _ => {
            eprintln!("usage: loop SECONDS [SEED]");
            return ExitCode::from(2);
        }
    };
    let each = Duration::from_secs(seconds) / u32::try_from(TARGETS.len()).unwrap_or(u32::MAX);
    for target in TARGETS {
        match drive(target, each, seed) {
            Ok(count) => println!("{}: {count} inputs", target.name),
            Err(error) => {
                eprintln!("{}: {error}", target.name);
                return ExitCode::FAILURE;
            }
        }
    }
    ExitCode::SUCCESS
}

/// Runs the seeds, then mutations of them, until the time is up.
fn drive(target: &Target, time: Duration, seed: u64) -> io::Result<u64> {
    let seeds = seeds(target.name)?;
    let (start, mut mutator) = (Instant::now(), Mutator::new(seed));
    for seed in &seeds {
        check(target, seed)?;
    }
    let mut count = seeds.len() as u64;
    while start.elapsed() < time {
        check(target, &mutator.next(&seeds))?;
        count += 1;
    }
    Ok(count)
}

fn check(target: &Target, data: &[u8]) -> io::Result<()> {
    let start = Instant::now();
    let outcome = panic::catch_unwind(AssertUnwindSafe(|| (target.run)(data)));
    let what = match outcome {
        Err(_) => "panic",
        Ok(()) if start.elapsed() > SLOW => "slow",
        Ok(()) => return Ok(()),
    };
    let folder: PathBuf = [env!("CARGO_MANIFEST_DIR"), "artifacts", target.name].iter().collect();
    fs::create_dir_all(&folder)?;
    let path = folder.join(format!("{what}-{:016x}", fingerprint(data)));
    fs::write(&path, data)?;
    Err(io::Error::other(format!("{what} on the input in {}", path.display())))
}

/// FNV-1a, to name the file.
fn fingerprint(data: &[u8]) -> u64 {
    data.iter().fold(0xcbf2_9ce4_8422_2325, |hash, byte| (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3))
}
