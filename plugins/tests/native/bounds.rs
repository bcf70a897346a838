use std::{fs, path::PathBuf};

use muretai_plugins::engine::{CallKind, Engine};

use crate::fixture::{LONG, SHORT, engine, host, library};

#[tokio::test]
async fn the_process_has_no_environment_and_no_descriptors_but_its_own() {
    let Some(engine) = engine("moody.c").await else { return };
    let report = String::from_utf8(engine.call(CallKind::Skill, b"x", LONG).await.unwrap()).unwrap();
    // Three standard streams, the socket twice: it is also watched.
    assert_eq!(report, "fds 5 env 0 core 0 leader 1 cwd / opened 1");
}

/// Whether any thread of a process is there, and not merely waiting to be reaped: the last one closes its descriptors.
pub(crate) fn lives(pid: &str) -> bool {
    let is_over = |stat: &str| stat.rsplit(')').next().is_some_and(|rest| rest.trim_start().starts_with(['Z', 'X']));
    let threads = fs::read_dir(PathBuf::from("/proc").join(pid).join("task"));
    let mut threads = threads.into_iter().flatten().flatten();
    threads.any(|thread| fs::read_to_string(thread.path().join("stat")).is_ok_and(|stat| !is_over(&stat)))
}

/// Returns when it is gone.
pub(crate) async fn gone(pid: &str) {
    while lives(pid) {
        tokio::task::yield_now().await;
    }
}

#[cfg(target_os = "linux")]
#[tokio::test]
async fn what_the_plugin_started_ends_with_it() {
    let Some(engine) = engine("moody.c").await else { return };
    let child = String::from_utf8(engine.call(CallKind::Skill, b"d", LONG).await.unwrap()).unwrap();
    assert!(lives(&child));
    engine.close().await;
    gone(&child).await;
    let Some(engine) = self::engine("moody.c").await else { return };
    let child = String::from_utf8(engine.call(CallKind::Skill, b"d", LONG).await.unwrap()).unwrap();
    // The process ends itself; what it started is ended with it.
    // What is left holds its end of the socket, so that the end is seen when time is up.
    engine.call(CallKind::Skill, b"e", SHORT).await.unwrap_err();
    gone(&child).await;
}

#[cfg(target_os = "linux")]
#[tokio::test]
async fn what_was_killed_is_reaped() {
    let Some(engine) = engine("moody.c").await else { return };
    let timed_out = String::from_utf8(engine.call(CallKind::Skill, b"i", LONG).await.unwrap()).unwrap();
    engine.call(CallKind::Skill, b"sleep", SHORT).await.unwrap_err();
    let dropped = String::from_utf8(engine.call(CallKind::Skill, b"i", LONG).await.unwrap()).unwrap();
    drop(engine);
    for pid in [timed_out, dropped] {
        while PathBuf::from("/proc").join(&pid).exists() {
            tokio::task::yield_now().await;
        }
    }
}

/// A frame to the child: kind, number, payload.
fn frame(kind: u32, number: u64, payload: &[u8]) -> Vec<u8> {
    let mut frame = (payload.len() as u32).to_ne_bytes().to_vec();
    frame.extend(kind.to_ne_bytes());
    frame.extend(number.to_ne_bytes());
    frame.extend(payload);
    frame
}

/// A host that was killed ends nothing any more: the child sees to it, even while the plugin loops.
#[test]
fn the_process_ends_with_its_host_in_the_middle_of_a_call() {
    use std::{
        io::{Read, Seek, Write},
        os::{
            fd::OwnedFd,
            unix::{net::UnixStream, process::ExitStatusExt},
        },
        process::{Command, Stdio},
    };
    let Some(library) = library("moody.c") else { return };
    let mut file = tempfile::tempfile().unwrap();
    file.write_all(&library).unwrap();
    file.rewind().unwrap();
    let (mut ours, theirs) = UnixStream::pair().unwrap();
    let mut child = Command::new(host().program)
        .stdin(Stdio::from(OwnedFd::from(theirs)))
        .stdout(Stdio::from(OwnedFd::from(file)))
        .spawn()
        .unwrap();
    for (kind, payload) in [(1, &64u32.to_ne_bytes()[..]), (3, b"")] {
        ours.write_all(&frame(kind, 7, payload)).unwrap();
        let mut answer = [0; 16];
        ours.read_exact(&mut answer).unwrap();
        assert_eq!(answer[..], frame(16, 7, b"")[..]);
    }
    ours.write_all(&frame(4, 8, b"busy")).unwrap();
    drop(ours);
    assert_eq!(child.wait().unwrap().signal(), Some(9));
}

#[test]
fn nobody_starts_the_child_program_by_hand() {
    use std::process::{Command, Stdio};
    let mut command = Command::new(host().program);
    assert_eq!(command.stdin(Stdio::null()).status().unwrap().code(), Some(2));
    assert_eq!(command.stdin(Stdio::piped()).status().unwrap().code(), Some(2));
}

#[cfg(target_os = "linux")]
#[tokio::test]
async fn dropping_the_engine_ends_the_process() {
    let Some(engine) = engine("moody.c").await else { return };
    let pid = String::from_utf8(engine.call(CallKind::Skill, b"i", LONG).await.unwrap()).unwrap();
    assert!(lives(&pid));
    drop(engine);
    gone(&pid).await;
}
