//! Bounds that the process sets itself before it loads anything.
#![allow(unsafe_code, reason = "descriptors are closed by number")]
use std::{
    fs::{self, File},
    io,
    os::fd::OwnedFd,
};

use rustix::{
    fs::FileType,
    process::{Resource, Rlimit, setrlimit},
};

/// Standard input is a socket, which no shell and no pipe gives.
pub(super) fn is_started_by_host() -> bool {
    rustix::fs::fstat(rustix::stdio::stdin())
        .is_ok_and(|stat| FileType::from_raw_mode(stat.st_mode) == FileType::Socket)
}

/// The socket and the library, which came as standard input and output. Both streams are `/dev/null` afterwards, and no
/// other descriptor is open but standard error.
pub(super) fn take_descriptors() -> io::Result<(OwnedFd, OwnedFd)> {
    close_from(3);
    // The host has done this; whoever did not must not be killed with the group at the end.
    rustix::process::setpgid(None, None)?;
    let socket = rustix::io::fcntl_dupfd_cloexec(rustix::stdio::stdin(), 3)?;
    let library = rustix::io::fcntl_dupfd_cloexec(rustix::stdio::stdout(), 3)?;
    let null = File::options().read(true).write(true).open("/dev/null")?;
    rustix::stdio::dup2_stdin(&null)?;
    rustix::stdio::dup2_stdout(&null)?;
    Ok((socket, library))
}

/// What the parent of our parent left open by mistake is none of the plugin's business.
#[cfg(target_os = "linux")]
fn close_from(first: libc::c_uint) {
    // SAFETY: this is the first thing that the process does; nothing owns a descriptor beyond the standard three yet.
    let closed = unsafe { libc::close_range(first, libc::c_uint::MAX, 0) };
    if closed != 0 {
        // Before Linux 5.9.
        close_each(first as i32);
    }
}

#[cfg(not(target_os = "linux"))]
fn close_from(first: libc::c_uint) {
    close_each(first as i32);
}

fn close_each(first: i32) {
    let limit = rustix::process::getrlimit(Resource::Nofile).current.unwrap_or(4096).min(65_536);
    for number in first..limit as i32 {
        // SAFETY: as above; closing a number that is not open does nothing.
        unsafe { libc::close(number) };
    }
}

/// No core file, no new rights, and so much more memory than is in use now.
pub(super) fn limit(memory_mib: u32) -> io::Result<()> {
    let none = Rlimit { current: Some(0), maximum: Some(0) };
    setrlimit(Resource::Core, none)?;
    #[cfg(target_os = "linux")]
    rustix::thread::set_no_new_privs(true)?;
    let bytes = address_space()? + u64::from(memory_mib) * 1_048_576;
    let most = Rlimit { current: Some(bytes), maximum: Some(bytes) };
    setrlimit(Resource::As, most)?;
    Ok(())
}

/// Bytes of address space in use.
fn address_space() -> io::Result<u64> {
    if !cfg!(target_os = "linux") {
        // Systems that do not say reserve a lot and use little of it.
        return Ok(1 << 36);
    }
    let status = fs::read_to_string("/proc/self/status")?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmSize:"));
    let kib = line.and_then(|rest| rest.trim().strip_suffix(" kB")).and_then(|kib| kib.trim().parse::<u64>().ok());
    kib.map(|kib| kib * 1024).ok_or_else(|| io::Error::other("/proc/self/status does not say VmSize"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_address_space_in_use_is_known() {
        assert!(address_space().unwrap() > 1_000_000);
    }
}
