//! The example policy in WebAssembly: built with clang, loaded as an owner loads it, asked at several times of a week.
#![cfg(feature = "wasm")]
#![allow(clippy::unwrap_used, clippy::print_stdout, missing_docs)]

use std::{fs, path::Path, process::Command};

use muretai_plugins::{
    Applicant, ContactState, Decision,
    engine::{CallKind, HostCommand, PluginFault},
    manifest::{Entry, Kind, Manifest, PluginFile},
    native::Stderr,
    set::{self, LoadError, PluginSet},
};
use muretai_protocol::{Did, UnixSeconds, json, rpc::Code};
use tempfile::TempDir;

/// 2026-07-20 00:00 UTC, a Monday.
const MONDAY: i64 = 1_784_505_600;
const HOUR: i64 = 3_600;

/// A home with the built policy in it. `None`, said aloud, without clang and wasm-ld; in CI that is a fault.
fn home_with_policy() -> Option<TempDir> {
    let example = Path::new(env!("CARGO_MANIFEST_DIR")).join("examples/office-hours");
    let home = tempfile::tempdir().unwrap();
    let clang = Command::new("clang")
        .args(["--target=wasm32", "-O2", "-std=c99", "-Wall", "-Wextra", "-Werror", "-ffreestanding", "-nostdlib"])
        .args(["-Wl,--no-entry", "-I"])
        .arg(Path::new(env!("CARGO_MANIFEST_DIR")))
        .arg("-o")
        .arg(home.path().join("office-hours.wasm"))
        .arg(example.join("office_hours.c"))
        .output();
    let has_linker = Command::new("wasm-ld").arg("--version").output().is_ok();
    match clang {
        Ok(built) if has_linker => {
            assert!(built.status.success(), "{}", String::from_utf8_lossy(&built.stderr));
            Some(home)
        }
        _ if std::env::var_os("CI").is_some_and(|ci| ci == "true") => panic!("clang and wasm-ld are not installed"),
        _ => {
            println!("SKIP: clang and wasm-ld are not installed");
            None
        }
    }
}

fn entry(home: &Path, config: &str) -> Entry {
    let path = home.join("office-hours.wasm");
    Entry {
        name: "office-hours".to_owned(),
        sha256: PluginFile::read(&path).unwrap().sha256,
        path,
        kind: Kind::Wasm,
        version: "1.0.0".to_owned(),
        offers: vec!["policy".to_owned()],
        agents: None,
        default_skill: None,
        config: json::parse(config.as_bytes()).unwrap().as_object().unwrap().clone(),
        limits: Default::default(),
    }
}

fn host() -> HostCommand {
    HostCommand { program: "/nowhere".into(), args: Vec::new() }
}

async fn load(home: &Path, config: &str) -> Result<PluginSet, LoadError> {
    // Through the file, as `plugin add` and `serve` do it.
    let _ = fs::remove_file(home.join(muretai_plugins::manifest::FILE_NAME));
    Manifest::add(home, &entry(home, config)).unwrap();
    PluginSet::load(&Manifest::read(home).unwrap(), "south", &host()).await
}

async fn ask(set: &PluginSet, contact: ContactState, now: i64) -> Decision {
    let applicant = Applicant {
        did: "did:key:z6MkhaXgBZDvotDkL5257faiztiGiC2QtKLGpbnnEGta2doK".parse::<Did>().unwrap(),
        contact,
        introduction: None,
        domain: None,
        method: "message/send",
        now: UnixSeconds(now),
    };
    set.policies()[0].decide(&applicant).await
}

/// The seconds until the office opens, `None` when the policy has no opinion.
async fn wait(set: &PluginSet, now: i64) -> Option<i64> {
    match ask(set, ContactState::None, now).await {
        Decision::Pass => None,
        Decision::Refuse(refusal) => {
            assert_eq!(refusal.code, Code::RateLimited);
            assert_eq!(refusal.detail(), Some("outside office hours; send this again later"));
            refusal.data.unwrap().member("retryAfter").unwrap().as_i64()
        }
        other => panic!("{other:?}"),
    }
}

#[tokio::test]
async fn strangers_are_heard_in_office_hours_and_contacts_always() {
    let Some(home) = home_with_policy() else { return };
    let set = load(home.path(), r#"{"from":"09:00","to":"17:00"}"#).await.unwrap();
    for (now, expected) in [
        (MONDAY, Some(9 * HOUR)),
        (MONDAY + 9 * HOUR - 1, Some(1)),
        (MONDAY + 9 * HOUR, None),
        (MONDAY + 17 * HOUR - 1, None),
        (MONDAY + 17 * HOUR, Some(16 * HOUR)),
        (MONDAY + 4 * 24 * HOUR + 18 * HOUR, Some((6 + 48 + 9) * HOUR)),
        (MONDAY - HOUR, Some(10 * HOUR)),
    ] {
        assert_eq!(wait(&set, now).await, expected, "{now}");
    }
    for contact in [ContactState::Direct, ContactState::Introduced] {
        assert_eq!(ask(&set, contact, MONDAY).await, Decision::Pass);
    }
    assert!(set.skills().is_none());
    set.close().await;
}

#[tokio::test]
async fn hours_follow_the_offset_the_days_and_midnight() {
    let Some(home) = home_with_policy() else { return };
    let night = r#"{"utcOffsetMinutes":-60,"days":[7],"from":"22:00","to":"02:00","outside":"refuse"}"#;
    let set = load(home.path(), night).await.unwrap();
    // Sunday 22:00 there is Sunday 23:00 UTC, and it lasts until Monday 03:00 UTC.
    assert_eq!(wait(&set, MONDAY - HOUR).await, None);
    assert_eq!(wait(&set, MONDAY + 3 * HOUR - 1).await, None);
    assert_eq!(wait(&set, MONDAY + 3 * HOUR).await, Some((7 * 24 - 4) * HOUR));
    let holding = load(home.path(), r#"{"from":"09:00","to":"17:00","outside":"hold"}"#).await.unwrap();
    assert_eq!(ask(&holding, ContactState::None, MONDAY).await, Decision::Hold);
}

#[tokio::test]
async fn a_configuration_that_makes_no_sense_keeps_it_from_starting() {
    let Some(home) = home_with_policy() else { return };
    for (config, word) in [
        ("{}", "from and to"),
        (r#"{"from":"9:00","to":"17:00"}"#, "from is a time"),
        (r#"{"from":"09:00","to":"24:00"}"#, "to is a time"),
        (r#"{"from":"09:00","to":"09:00"}"#, "from and to"),
        (r#"{"from":"09:00","to":"17:00","form":1}"#, "there are only"),
        (r#"{"from":"09:00","to":"17:00","days":[0]}"#, "days"),
        (r#"{"from":"09:00","to":"17:00","days":[]}"#, "days"),
        (r#"{"from":"09:00","to":"17:00","outside":"sleep"}"#, "outside"),
        (r#"{"from":"09:00","to":"17:00","utcOffsetMinutes":900}"#, "utcOffsetMinutes"),
    ] {
        match load(home.path(), config).await.err() {
            Some(LoadError::Fault { fault: PluginFault::Failed(why), .. }) if why.contains(word) => {}
            other => panic!("{config}: {other:?}"),
        }
    }
}

#[tokio::test]
async fn a_flipped_byte_is_refused_before_anything_runs() {
    let Some(home) = home_with_policy() else { return };
    let entry = entry(home.path(), r#"{"from":"09:00","to":"17:00"}"#);
    assert_eq!(set::check(&entry, &host()).await.unwrap().offers(), ["policy"]);
    let mut bytes = fs::read(&entry.path).unwrap();
    let at = bytes.len() / 2;
    bytes[at] ^= 1;
    fs::write(&entry.path, bytes).unwrap();
    let refused = set::check(&entry, &host()).await.unwrap_err();
    assert!(refused.is_unverified() && refused.to_string().contains(&entry.sha256), "{refused}");
}

#[tokio::test]
async fn what_it_cannot_read_it_fails_on_and_the_sender_is_refused() {
    let Some(home) = home_with_policy() else { return };
    let file = PluginFile::read(&home.path().join("office-hours.wasm")).unwrap();
    let config = json::parse(br#"{"from":"09:00","to":"17:00"}"#).unwrap();
    let engine = set::engine(Kind::Wasm, &file, &config, Default::default(), &host(), Stderr::Nowhere).await.unwrap();
    let second = std::time::Duration::from_secs(5);
    for request in ["", "{", "[]", r#"{"op":"skill"}"#, r#"{"op":"policy","contact":"none","now":"soon"}"#, "\"\\"] {
        let answer = engine.call(CallKind::Policy, request.as_bytes(), second).await.unwrap();
        assert!(answer.starts_with(b"{\"error\":"), "{request}: {}", String::from_utf8_lossy(&answer));
    }
}
