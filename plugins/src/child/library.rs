//! Loads a library and finds its table.
#![allow(unsafe_code, reason = "a library is loaded and its symbol is called")]
use std::{
    mem::ManuallyDrop,
    os::fd::{AsRawFd, OwnedFd},
};

use libloading::os::unix::{Library as Loaded, RTLD_LOCAL, RTLD_NOW};
use muretai_plugin::abi::{self, Call, Close, Describe, Entry, Open, Release, Table};

use super::Fault;
use crate::native::frame::say;

/// What a plugin does, all of it there. The library stays loaded for as long as the process lives: destructors of its
/// threads may run at any later time.
#[derive(Clone, Copy)]
pub(super) struct Library {
    pub(super) describe: Describe,
    pub(super) open: Open,
    pub(super) call: Call,
    pub(super) release: Release,
    pub(super) close: Close,
}

impl Library {
    /// Loads what the descriptor holds.
    pub(super) fn load(library: OwnedFd) -> Result<Library, Fault> {
        let folder = if cfg!(target_os = "linux") { "/proc/self/fd" } else { "/dev/fd" };
        let path = format!("{folder}/{}", library.as_raw_fd());
        let refused = |error: libloading::Error| {
            use std::error::Error as _;
            // The cause is the loader's own text, which begins with a path that means nothing to anybody.
            let text = error.source().map_or_else(|| error.to_string(), ToString::to_string);
            not_a_plugin(&text.replace(&format!("{path}: "), ""))
        };
        // SAFETY: its initialisers run, which is what the owner asked for; nothing of this process relies on their
        // being harmless.
        let loaded = unsafe { Loaded::open(Some(&path), RTLD_NOW | RTLD_LOCAL) }.map_err(refused)?;
        let loaded = ManuallyDrop::new(loaded);
        // SAFETY: a function of that name has this type by the interface.
        let entry = unsafe { loaded.get::<Entry>(abi::ENTRY_SYMBOL.as_bytes()) };
        let entry = *entry.map_err(|_| not_a_plugin(&format!("it has no symbol {}", abi::ENTRY_SYMBOL)))?;
        // SAFETY: as above.
        Library::from_table(unsafe { entry(abi::ABI, abi::ABI) })
    }

    fn from_table(table: *const Table) -> Result<Library, Fault> {
        let wrong_abi = |found: u32| (say::WRONG_ABI, found.to_ne_bytes().to_vec());
        if table.is_null() {
            return Err(wrong_abi(0));
        }
        // The version alone: with another one the rest may be anything.
        // SAFETY: a table of any version begins with its version.
        let found = unsafe { table.cast::<u32>().read() };
        if found != abi::ABI {
            return Err(wrong_abi(found));
        }
        // SAFETY: the second member of version 1.
        let size = unsafe { table.cast::<u32>().add(1).read() } as usize;
        if size < size_of::<Table>() {
            return Err(not_a_plugin(&format!("its table has {size} bytes, {} are needed", size_of::<Table>())));
        }
        // SAFETY: a table of version 1 that is at least this large.
        let table = unsafe { table.read() };
        let Table { describe: Some(describe), open: Some(open), call: Some(call), .. } = table else {
            return Err(not_a_plugin("its table lacks describe, open or call"));
        };
        let (Some(release), Some(close)) = (table.release, table.close) else {
            return Err(not_a_plugin("its table lacks release or close"));
        };
        Ok(Library { describe, open, call, release, close })
    }
}

fn not_a_plugin(text: &str) -> Fault {
    (say::NOT_A_PLUGIN, text.as_bytes().to_vec())
}
