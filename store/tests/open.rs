//! The file: made private, opened by path, checked before it is touched.
#![allow(clippy::unwrap_used)]
mod common;
use std::path::Path;

use common::*;
use muretai_store::{Store, StoreError, messages::Query, recorded_did};

fn files(folder: &Path) -> Vec<String> {
    let entries = std::fs::read_dir(folder).unwrap();
    let mut names: Vec<_> = entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    names.sort();
    names
}

async fn refused(path: &Path) -> StoreError {
    Store::open(path).await.expect_err("must be refused")
}

#[tokio::test]
async fn a_new_file_and_its_folder_are_private() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("agents/north/agent.db");
    let store = Store::open(&path).await.unwrap();
    store.commit_received(received(&did(1), "a")).await.unwrap();
    let home = path.parent().unwrap();
    assert_eq!(files(home), ["agent.db", "agent.db-shm", "agent.db-wal"]);
    #[cfg(unix)]
    {
        use std::os::unix::fs::PermissionsExt;
        let mode = |path: &Path| std::fs::metadata(path).unwrap().permissions().mode() & 0o777;
        assert_eq!(mode(home), 0o700);
        for name in files(home) {
            assert_eq!(mode(&home.join(&name)), 0o600, "{name}");
        }
    }
    store.close().await;
    assert_eq!(files(home), ["agent.db"]);
}

#[tokio::test]
async fn any_name_is_a_path_and_nothing_else() {
    let folder = tempfile::tempdir().unwrap();
    for name in ["a b", "ü%20?x#y", "file:x?mode=memory", ":memory:", "q'uote\"s", "日本"] {
        let home = folder.path().join(name);
        let store = Store::open(&home.join(name)).await.unwrap();
        store.set_setting("name", Some(name)).await.unwrap();
        store.close().await;
        assert_eq!(files(&home), [name]);
        let store = Store::open(&home.join(name)).await.unwrap();
        assert_eq!(store.setting("name").await.unwrap().as_deref(), Some(name));
        store.close().await;
    }
    assert_eq!(files(folder.path()).len(), 6);
}

#[tokio::test]
async fn a_database_is_its_first_agents_alone() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("north/agent.db");
    assert_eq!(recorded_did(&path).await.unwrap(), None);
    assert!(!folder.path().join("north").exists(), "looking makes nothing");
    let store = Store::open_of(&path, &did(1)).await.unwrap();
    connect(&store, &did(3), "south").await;
    store.close().await;
    assert_eq!(recorded_did(&path).await.unwrap().as_deref(), Some(did(1).as_str()));
    let before = std::fs::read(&path).unwrap();
    match Store::open_of(&path, &did(2)).await {
        Err(StoreError::OtherAgent { recorded, key }) => {
            assert_eq!((recorded, key), (did(1).to_string(), did(2).to_string()));
        }
        other => panic!("{other:?}"),
    }
    assert_eq!(std::fs::read(&path).unwrap(), before);
    assert_eq!(files(path.parent().unwrap()), ["agent.db"]);
    let store = Store::open_of(&path, &did(1)).await.unwrap();
    assert!(store.contact(&did(3)).await.unwrap().is_some());
}

#[tokio::test]
async fn two_that_open_a_new_file_together_agree_whose_it_is() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("agent.db");
    let (me, other) = (did(1), did(2));
    let (first, second) = tokio::join!(Store::open_of(&path, &me), Store::open_of(&path, &other));
    assert!(first.is_ok() != second.is_ok());
}

#[tokio::test]
async fn an_empty_file_is_a_fresh_database() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("agent.db");
    std::fs::write(&path, "").unwrap();
    let store = Store::open(&path).await.unwrap();
    store.commit_received(received(&did(1), "a")).await.unwrap();
    assert_eq!(store.last_seq().await.unwrap(), 2);
    #[cfg(unix)]
    {
        use std::os::unix::fs::PermissionsExt;
        assert_eq!(std::fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
    }
}

#[cfg(target_os = "linux")]
#[tokio::test]
async fn a_path_that_is_not_unicode_is_refused() {
    use std::os::unix::ffi::OsStrExt;
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join(std::ffi::OsStr::from_bytes(b"\xff.db"));
    assert!(matches!(refused(&path).await, StoreError::CannotOpen(_)));
    assert!(files(folder.path()).is_empty());
}

#[tokio::test]
async fn what_is_no_database_is_left_alone() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("agent.db");
    for content in [b"hello".to_vec(), b"-----BEGIN PRIVATE KEY-----\n".repeat(40), vec![0; 5000], vec![0xff; 70_000]] {
        std::fs::write(&path, &content).unwrap();
        assert!(matches!(refused(&path).await, StoreError::Damaged), "{} bytes", content.len());
        assert_eq!(std::fs::read(&path).unwrap(), content);
        assert_eq!(files(folder.path()), ["agent.db"]);
    }
    assert!(matches!(refused(folder.path()).await, StoreError::CannotOpen(_)));
    assert!(matches!(refused(&path.join("below")).await, StoreError::CannotOpen(_)));
}

#[tokio::test]
async fn a_truncated_database_is_damaged_and_left_alone() {
    let (folder, store) = fresh().await;
    let path = folder.path().join("agent.db");
    for n in 0..100 {
        store.commit_received(received(&did(n), "a")).await.unwrap();
    }
    store.close().await;
    let whole = std::fs::read(&path).unwrap();
    for len in [50, 512, 4096, 4097, whole.len() - 4096] {
        std::fs::write(&path, &whole[..len]).unwrap();
        let outcome = Store::open(&path).await;
        assert!(matches!(outcome, Err(StoreError::Damaged)), "{len} of {}", whole.len());
        assert_eq!(std::fs::read(&path).unwrap(), whole[..len]);
    }
    std::fs::write(&path, &whole).unwrap();
    let store = Store::open(&path).await.unwrap();
    assert_eq!(store.messages(&Query::default()).await.unwrap().len(), 100);
}

#[tokio::test]
async fn many_may_open_a_new_file_at_once() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("agent.db");
    let opening: Vec<_> = (0..12_u32)
        .map(|n| {
            let path = path.clone();
            tokio::spawn(async move {
                let store = Store::open(&path).await?;
                store.commit_received(received(&did(n), "a")).await?;
                store.set_setting(&n.to_string(), Some("x")).await?;
                store.close().await;
                Ok::<_, StoreError>(())
            })
        })
        .collect();
    for one in opening {
        one.await.unwrap().unwrap();
    }
    let store = Store::open(&path).await.unwrap();
    assert_eq!(store.messages(&Query::default()).await.unwrap().len(), 12);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn two_stores_write_one_file() {
    let (folder, store) = fresh().await;
    let other = Store::open(&folder.path().join("agent.db")).await.unwrap();
    // Both are sent the same ids; every id is stored by exactly one.
    let calls: Vec<_> = (0..300)
        .map(|n| {
            let store = if n % 2 == 0 { store.clone() } else { other.clone() };
            tokio::spawn(
                async move { store.commit_received(received(&did(n / 2 % 7), &format!("id-{}", n / 2))).await },
            )
        })
        .collect();
    let mut stored = 0;
    for call in calls {
        let committed = call.await.unwrap().unwrap();
        stored += usize::from(matches!(committed, muretai_store::messages::Committed::Stored { .. }));
    }
    assert_eq!(stored, 150);
    assert_eq!(store.messages(&Query::default()).await.unwrap().len(), 150);
    // What one handled, the other knows, whoever is asked first.
    store.commit_received(received(&did(1), "late")).await.unwrap();
    assert!(other.standing(did(1).as_str(), "late").await.unwrap().handled.is_some());
    other.close().await;
    assert!(store.standing(did(1).as_str(), "late").await.unwrap().handled.is_some());
}

#[tokio::test]
async fn dropping_the_last_handle_closes_the_file() {
    let (folder, store) = fresh().await;
    store.commit_received(received(&did(1), "a")).await.unwrap();
    store.last_seq().await.unwrap();
    drop(store);
    // The tasks end by themselves; the next opening does not need them to have ended.
    let store = Store::open(&folder.path().join("agent.db")).await.unwrap();
    assert_eq!(store.last_seq().await.unwrap(), 2);
}

#[cfg(unix)]
#[tokio::test]
async fn nothing_is_acknowledged_once_the_file_is_not_where_it_was() {
    let away = |path: &Path| std::fs::rename(path, path.with_file_name("away")).unwrap();
    let gone = |path: &Path| std::fs::remove_file(path).unwrap();
    let other = |path: &Path| {
        away(path);
        std::fs::copy(path.with_file_name("away"), path).unwrap();
    };
    let folder_away = |path: &Path| {
        let home = path.parent().unwrap();
        std::fs::rename(home, home.with_file_name("elsewhere")).unwrap();
    };
    let log_gone = |path: &Path| std::fs::remove_file(path.with_file_name("agent.db-wal")).unwrap();
    let changes: [&dyn Fn(&Path); 5] = [&away, &gone, &other, &folder_away, &log_gone];
    for (n, change) in changes.into_iter().enumerate() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("north/agent.db");
        let store = Store::open(&path).await.unwrap();
        for id in ["a", "b"] {
            store.commit_received(received(&did(1), id)).await.unwrap();
        }
        change(&path);
        for id in ["c", "d"] {
            let error = store.commit_received(received(&did(1), id)).await.unwrap_err();
            assert!(matches!(error, StoreError::Replaced), "{n}: {error:?}");
        }
        let error = store.set_setting("name", Some("x")).await.unwrap_err();
        assert!(matches!(error, StoreError::Replaced), "{n}: {error:?}");
        store.close().await;
    }
}
