use std::{fs, path::PathBuf};

use muretai_plugins::engine::Engine;

use crate::fixture::{LONG, SHORT, engine};

#[tokio::test]
async fn the_process_has_no_environment_and_no_descriptors_but_its_own() {
    let Some(engine) = engine("moody.c").await else { return };
    let report = String::from_utf8(engine.call(b"x", LONG).await.unwrap()).unwrap();
    // Three standard streams, the socket twice: it is also watched.
    assert_eq!(report, "fds 5 env 0 core 0 leader 1 cwd / opened 1");
}

/// Whether a process is there, and not merely waiting to be reaped.
pub(crate) fn lives(pid: &str) -> bool {
    fs::read_to_string(PathBuf::from("/proc").join(pid).join("stat"))
        .is_ok_and(|stat| !stat.rsplit(')').next().is_some_and(|rest| rest.trim_start().starts_with(['Z', 'X'])))
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
    let child = String::from_utf8(engine.call(b"d", LONG).await.unwrap()).unwrap();
    assert!(lives(&child));
    engine.close().await;
    gone(&child).await;
    let Some(engine) = self::engine("moody.c").await else { return };
    let child = String::from_utf8(engine.call(b"d", LONG).await.unwrap()).unwrap();
    // The process ends itself; what it started is ended with it.
    // What is left holds its end of the socket, so that the end is seen when time is up.
    engine.call(b"e", SHORT).await.unwrap_err();
    gone(&child).await;
}

#[cfg(target_os = "linux")]
#[tokio::test]
async fn dropping_the_engine_ends_the_process() {
    let Some(engine) = engine("moody.c").await else { return };
    let pid = String::from_utf8(engine.call(b"i", LONG).await.unwrap()).unwrap();
    assert!(lives(&pid));
    drop(engine);
    gone(&pid).await;
}
