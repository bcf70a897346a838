//! What strangers may send, mutated at random.
//!
//! Each target is a plain function in [`targets`] that must not panic. libFuzzer drives them through `fuzz_targets/`,
//! and the `loop` program drives all of them on a stable toolchain, over the seeds in `seeds/<target>/`.
pub mod mutate;
pub mod targets;

use std::{fs, io, path::PathBuf};

/// A body to fuzz.
#[derive(Clone, Copy)]
pub struct Target {
    /// The name of its folders.
    pub name: &'static str,
    /// The body: panics when something is wrong.
    pub run: fn(&[u8]),
}

/// All targets.
pub const TARGETS: &[Target] = &[
    Target { name: "parse", run: targets::parse::run },
    Target { name: "did", run: targets::did::run },
    Target { name: "envelope", run: targets::envelope::run },
    Target { name: "invite_link", run: targets::invite_link::run },
    Target { name: "card", run: targets::card::run },
    Target { name: "introduction", run: targets::introduction::run },
    Target { name: "linkage", run: targets::linkage::run },
    Target { name: "relay", run: targets::relay::run },
    Target { name: "http_body", run: targets::http_body::run },
];

/// The committed seeds of a target, in the order of their names.
///
/// # Errors
/// When the folder cannot be read.
pub fn seeds(target: &str) -> io::Result<Vec<Vec<u8>>> {
    let folder: PathBuf = [env!("CARGO_MANIFEST_DIR"), "seeds", target].iter().collect();
    let mut paths = fs::read_dir(folder)?.map(|entry| Ok(entry?.path())).collect::<io::Result<Vec<_>>>()?;
    paths.sort();
    paths.into_iter().map(fs::read).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::mutate::Mutator;

    #[test]
    fn every_target_survives_its_seeds_and_a_few_mutations() {
        for target in TARGETS {
            let seeds = seeds(target.name).unwrap();
            assert!(seeds.len() >= 3, "{} has {} seeds", target.name, seeds.len());
            seeds.iter().for_each(|seed| (target.run)(seed));
            let mut mutator = Mutator::new(1);
            (0..500).for_each(|_| (target.run)(&mutator.next(&seeds)));
        }
    }
}
