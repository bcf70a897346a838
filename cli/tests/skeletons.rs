//! What `muretai plugin new` writes builds, passes its own test, and can be added.
#![cfg(unix)]
#![allow(clippy::unwrap_used, clippy::print_stdout, missing_docs)]

use std::{
    path::Path,
    process::{Command, Output},
};

const MURETAI: &str = env!("CARGO_BIN_EXE_muretai");

fn muretai(home: &Path, words: &[&str]) -> Output {
    let mut command = Command::new(MURETAI);
    command.current_dir(home).env("MURETAI_HOME", home.join("home")).env_remove("MURETAI_AS");
    command.args(words).output().unwrap()
}

/// A folder with a home in it, where there is an agent.
fn home() -> tempfile::TempDir {
    let home = tempfile::tempdir().unwrap();
    good(muretai(home.path(), &["keygen", "north"]));
    home
}

fn good(output: Output) -> String {
    let (out, err) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success(), "{out}{err}");
    out.into_owned()
}

/// Whether the tools are there. In CI a tool that is missing is a fault; elsewhere the test says that it is skipped.
fn has(tools: &[&str]) -> bool {
    let missing = tools.iter().find(|tool| Command::new(tool).arg("--version").output().is_err());
    if let Some(tool) = missing {
        assert!(std::env::var_os("CI").is_none_or(|ci| ci != "true"), "{tool} is not installed");
        println!("SKIP: {tool} is not installed");
    }
    missing.is_none()
}

fn made(home: &Path, lang: &str) {
    good(muretai(home, &["plugin", "new", "--lang", lang, "word-count"]));
    let mut make = Command::new("make");
    make.current_dir(home.join("word-count")).args(["test", "CFLAGS=-O1 -Werror"]);
    let tested = good(make.arg(format!("MURETAI={MURETAI}")).env("MURETAI_HOME", home.join("home")).output().unwrap());
    assert!(tested.contains("ok: "), "{tested}");
}

#[test]
fn the_skeleton_in_c_builds_passes_its_test_and_can_be_added() {
    if !has(&["make", "cc"]) {
        return;
    }
    let home = home();
    made(home.path(), "c");
    let library = format!("word-count/libword-count{}", std::env::consts::DLL_SUFFIX);
    let added = good(muretai(home.path(), &["plugin", "add", &library, "--default-skill", "--json"]));
    let refused = muretai(home.path(), &["plugin", "add", &library]);
    let told = String::from_utf8_lossy(&refused.stderr).into_owned();
    assert!(refused.status.code() == Some(1) && told.contains("--replace"), "{told}");
    let replaced = good(muretai(home.path(), &["plugin", "add", "--replace", &library, "--json"]));
    assert!(replaced.contains(r#""replaced":true"#) && replaced.contains(r#""defaultSkill":"word-count""#));
    assert!(added.contains(r#""offers":["skill:word-count"]"#) && added.contains(r#""defaultSkill":"word-count""#));
}

#[cfg(feature = "wasm")]
#[test]
fn the_skeleton_in_webassembly_builds_passes_its_test_and_can_be_added() {
    if !has(&["make", "clang", "wasm-ld"]) {
        return;
    }
    let home = home();
    made(home.path(), "wasm");
    let module = "word-count/word-count.wasm";
    let refused = muretai(home.path(), &["plugin", "add", module]);
    assert_eq!(refused.status.code(), Some(1), "without its configuration it does not start");
    good(muretai(home.path(), &["plugin", "add", module, "--config", "word-count/config.json"]));
    // A flipped byte is refused with the exit code of what does not verify.
    let path = home.path().join(module);
    let mut bytes = std::fs::read(&path).unwrap();
    *bytes.last_mut().unwrap() ^= 1;
    std::fs::write(&path, bytes).unwrap();
    let inspected = muretai(home.path(), &["plugin", "inspect", "word-count"]);
    assert_eq!(inspected.status.code(), Some(5));
    let doctor = muretai(home.path(), &["doctor", "--json"]);
    assert!(String::from_utf8_lossy(&doctor.stdout).contains("its SHA-256 is"));
}

#[test]
fn the_skeleton_in_rust_builds_passes_its_test_and_can_be_added() {
    let home = home();
    good(muretai(home.path(), &["plugin", "new", "--lang", "rust", "word-count"]));
    let cargo = |words: &[&str]| {
        let mut cargo = Command::new(env!("CARGO"));
        cargo.current_dir(home.path().join("word-count")).args(words).env_remove("CARGO_TARGET_DIR");
        cargo.env("CARGO_INCREMENTAL", "0").output().unwrap()
    };
    // What it needs was fetched for this build; where that is not found again, the network is asked.
    if !cargo(&["test", "--quiet", "--offline"]).status.success() {
        good(cargo(&["test", "--quiet"]));
    }
    good(cargo(&["build", "--quiet"]));
    let library = format!("word-count/target/debug/libword_count{}", std::env::consts::DLL_SUFFIX);
    good(muretai(home.path(), &["plugin", "add", &library]));
    let request = r#"{"op":"skill","skill":"word-count","text":"a b","from":{"did":"did:key:z6Mk","contact":"direct"},
        "messageId":"m","contextId":null,"now":1784457000}"#;
    assert_eq!(good(muretai(home.path(), &["plugin", "call", "word-count", request])), "{\"text\":\"2 words\"}\n");
    let listed = good(muretai(home.path(), &["plugin", "list"]));
    assert!(listed.starts_with("word-count 0.1.0  native  skill:word-count  (all agents)"), "{listed}");
    good(muretai(home.path(), &["plugin", "remove", "word-count"]));
    assert_eq!(good(muretai(home.path(), &["plugin", "list"])), "");
}
