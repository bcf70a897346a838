//! What lies in `contrib/` says nothing that the program does not know.
#![allow(clippy::unwrap_used, clippy::print_stderr)]
use std::{fs, process::Command};

use muretai_tests::{Home, binary};

fn read(name: &str) -> String {
    fs::read_to_string(binary::workspace().join("contrib").join(name)).unwrap()
}

/// The words of the commands in `text` that begin with `muretai relay`, continued lines joined.
fn commands(text: &str) -> Vec<Vec<String>> {
    let plain = text.replace("\\\n", " ").replace(['"', '[', ']', ','], " ");
    let lines = plain.lines().map(|line| line.split_whitespace().collect::<Vec<_>>().join(" "));
    let calls = lines.filter_map(|line| line.find("muretai relay ").map(|at| line[at..].to_owned()));
    calls.map(|call| call.split_whitespace().map(str::to_owned).collect()).collect()
}

/// Every flag of these commands is in the help of its command, and the command parses as far as flags go.
fn check(text: &str) {
    let home = Home::new();
    let commands = commands(text);
    assert!(!commands.is_empty());
    for words in &commands {
        let help = home.run([words[1].as_str(), words[2].as_str(), "--help"]).ok().out;
        for flag in words.iter().filter(|word| word.starts_with("--")) {
            let flag = flag.split('=').next().unwrap();
            let is_known = help.split_whitespace().any(|word| word.trim_end_matches(',') == flag);
            assert!(is_known, "{words:?}: {flag} is no flag of it");
        }
    }
}

/// Variables of ours are all known to the program.
fn check_variables(text: &str) {
    let known = fs::read_to_string(binary::workspace().join("cli/src/env.rs")).unwrap();
    for piece in text.split(|c: char| !c.is_ascii_uppercase() && c != '_').filter(|word| word.starts_with("MURETAI_")) {
        assert!(known.contains(&format!("\"{piece}\"")), "{piece}");
    }
}

#[test]
fn the_unit_starts_a_relay_with_flags_that_exist() {
    let unit = read("muretai-relay.service");
    let start = unit.lines().find(|line| line.starts_with("ExecStart=")).unwrap();
    check(start);
    check_variables(&unit);
    // The example is one that the program takes, but for the port.
    let words: Vec<&str> = start.trim_start_matches("ExecStart=").split_whitespace().skip(1).collect();
    let args: Vec<&str> =
        words.iter().map(|word| if *word == "127.0.0.1:8421" { "127.0.0.1:0" } else { word }).collect();
    let home = Home::new();
    let mut command = home.command(&args);
    command.env("MURETAI_HOME", home.root());
    let mut relay = muretai_tests::resident::Resident::spawn("the relay", command);
    assert_eq!(relay.first_line().unwrap(), "https://relay.example");
    assert_eq!(relay.stop("TERM").0, 0);
}

#[test]
fn systemd_understands_the_unit() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("muretai-relay.service");
    let program = binary::path().to_str().unwrap();
    fs::write(&path, read("muretai-relay.service").replace("/usr/local/bin/muretai", program)).unwrap();
    let Ok(done) = Command::new("systemd-analyze").arg("verify").arg(&path).output() else {
        eprintln!("SKIP systemd-analyze is not there");
        return;
    };
    let said = String::from_utf8_lossy(&done.stderr);
    assert!(done.status.success() && !said.contains("muretai-relay"), "{said}");
}

#[test]
fn the_container_starts_a_relay_with_flags_that_exist() {
    let file = read("Dockerfile");
    let start = file.lines().find(|line| line.starts_with("ENTRYPOINT")).unwrap();
    let check_line = file.lines().find(|line| line.starts_with("HEALTHCHECK")).unwrap();
    check(&format!("{}\n{}", start.replace(", ", " "), check_line.replace(", ", " ")));
    check_variables(&file);
    // Whatever is copied is there.
    for line in file.lines().filter(|line| line.starts_with("COPY ") && !line.contains("--from")) {
        let source = line.split_whitespace().nth(1).unwrap();
        assert!(binary::workspace().join(source).exists(), "{line}");
    }
    let toolchain = fs::read_to_string(binary::workspace().join("Cargo.toml")).unwrap();
    let needed =
        toolchain.lines().find_map(|line| line.strip_prefix("rust-version = \"")).unwrap().trim_end_matches('"');
    assert!(file.contains(&format!("FROM rust:{needed}-")), "the image's compiler is {needed}");
}
