//! Keys on disk: never replaced, never readable by others, never damaged further (issue: identity).
use std::{
    fs,
    os::unix::fs::{MetadataExt, PermissionsExt},
    path::Path,
    process::Command,
};

use muretai_tests::{Home, home, rpc::Key};

fn mode(path: &Path) -> u32 {
    fs::symlink_metadata(path).unwrap().permissions().mode() & 0o777
}

#[test]
fn openssl_reads_the_key_file() {
    let home = Home::new();
    let key = Key::of(3);
    home.restore("north", &key).ok();
    let path = home.agent("north").join("key.pem");
    let Ok(shown) = Command::new("openssl").args(["pkey", "-noout", "-text", "-in"]).arg(&path).output() else {
        eprintln!("SKIP openssl is not installed");
        return;
    };
    let text = String::from_utf8_lossy(&shown.stdout).to_lowercase();
    assert!(shown.status.success() && text.contains("ed25519"), "{shown:?}");
    assert!(text.contains("03:03:03"), "the seed itself: {text}");
}

#[test]
fn whatever_the_umask_only_the_owner_can_read() {
    let home = Home::new();
    for umask in ["0000", "0777", "0022"] {
        let name = format!("agent-{umask}");
        let script = format!("umask {umask}; \"$0\" keygen {name} && exec \"$0\" --as {name} inbox");
        let mut command = home.command([""]);
        let program = command.get_program().to_owned();
        command = {
            let mut shell = Command::new("sh");
            shell.arg("-c").arg(script).arg(program).env_clear();
            shell.env("PATH", std::env::var_os("PATH").unwrap());
            shell.env("MURETAI_HOME", home.root()).env("HOME", home.scratch());
            shell.stdout(std::process::Stdio::piped()).stderr(std::process::Stdio::piped());
            shell
        };
        home::finish(command, b"").ok();
        let folder = home.agent(&name);
        assert_eq!(mode(&folder), 0o700, "umask {umask}");
        assert_eq!(mode(&folder.join("key.pem")), 0o600, "umask {umask}");
        assert_eq!(mode(&folder.join("agent.db")), 0o600, "umask {umask}");
    }
    let script = "umask 0000; exec \"$0\" --as agent-0000 serve --listen 127.0.0.1:0";
    let mut shell = Command::new("sh");
    shell.arg("-c").arg(script).arg(muretai_tests::binary::path()).env_clear();
    shell.env("PATH", std::env::var_os("PATH").unwrap());
    shell.env("MURETAI_HOME", home.root()).env("HOME", home.scratch());
    shell.stdout(std::process::Stdio::piped()).stderr(std::process::Stdio::piped());
    let _serve = muretai_tests::Serve::spawn(shell).unwrap();
    for entry in fs::read_dir(home.agent("agent-0000")).unwrap() {
        let path = entry.unwrap().path();
        assert_eq!(mode(&path) & 0o077, 0, "{}", path.display());
    }
}

#[test]
fn a_key_is_never_replaced() {
    let home = Home::new();
    home.restore("north", &Key::of(3)).ok();
    let path = home.agent("north").join("key.pem");
    let before = (fs::read(&path).unwrap(), fs::metadata(&path).unwrap().ino());
    assert!(home.run(["keygen", "north"]).exits(1).err.contains("key.pem"));
    home.restore("north", &Key::of(4)).exits(1);
    assert_eq!(before, (fs::read(&path).unwrap(), fs::metadata(&path).unwrap().ino()));
}

#[test]
fn twenty_keygens_at_once_make_one_key() {
    let home = Home::new();
    let codes: Vec<i32> = std::thread::scope(|scope| {
        let runs: Vec<_> = (0..20).map(|_| scope.spawn(|| home.run(["keygen", "north"]).code)).collect();
        runs.into_iter().map(|run| run.join().unwrap()).collect()
    });
    assert_eq!(codes.iter().filter(|code| **code == 0).count(), 1, "{codes:?}");
    assert!(codes.iter().all(|code| [0, 1].contains(code)), "{codes:?}");
    let left: Vec<_> = fs::read_dir(home.agent("north")).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    assert_eq!(left, ["key.pem"]);
}

#[test]
fn a_damaged_key_file_is_named_and_left_alone() {
    let good = Home::with_agent("north");
    let pem = fs::read(good.agent("north").join("key.pem")).unwrap();
    let rsa =
        b"-----BEGIN PRIVATE KEY-----\nMIIBVAIBADANBgkqhkiG9w0BAQEFAASCAT4wggE6AgEAAkEA\n-----END PRIVATE KEY-----\n";
    let broken: [&[u8]; 8] = [
        b"",
        &pem[..10],
        &pem[..pem.len() / 2],
        &pem[..pem.len() - 30],
        b"not a key at all\n",
        &[0xff; 300],
        rsa,
        &vec![b'x'; 200_000],
    ];
    for bytes in broken {
        let home = Home::with_agent("north");
        let path = home.agent("north").join("key.pem");
        fs::write(&path, bytes).unwrap();
        for line in [
            &["identity", "show"][..],
            &["identity", "phrase", "--yes"],
            &["serve", "--listen", "127.0.0.1:0"],
            &["inbox"],
            &["send", "did:key:z6MkhaXgBZDvotDkL5257faiztiGiC2QtKLGpbnnEGta2doK", "x"],
            &["invite", "create", "--url", "http://127.0.0.1:1"],
            &["keygen", "north"],
        ] {
            let done = home.run(line);
            assert_ne!(done.code, 0, "{line:?} with {} bytes", bytes.len());
            assert!(!done.err.contains("panicked") && done.err.contains("key.pem"), "{line:?}: {}", done.err);
            assert_eq!(fs::read(&path).unwrap(), bytes, "{line:?}");
        }
    }
}

#[test]
fn a_folder_or_a_foreign_file_in_its_place_is_left_alone() {
    let home = Home::new();
    let folder = home.agent("north");
    fs::create_dir_all(folder.join("key.pem")).unwrap();
    fs::write(folder.join("key.pem").join("inside"), "x").unwrap();
    for line in [&["keygen", "north"][..], &["--as", "north", "identity", "show"], &["--as", "north", "inbox"]] {
        let done = home.run(line);
        assert_ne!(done.code, 0);
        assert!(done.err.contains("key.pem"), "{line:?}: {}", done.err);
    }
    assert!(folder.join("key.pem").join("inside").exists());

    let home = Home::new();
    let folder = home.agent("north");
    fs::create_dir_all(&folder).unwrap();
    std::os::unix::fs::symlink(home.scratch().join("nowhere"), folder.join("key.pem")).unwrap();
    assert_ne!(home.run(["keygen", "north"]).code, 0);
    assert!(!home.scratch().join("nowhere").exists(), "nothing was written through the link");
}

#[test]
fn an_unreadable_key_is_an_error_that_names_it() {
    let Some(user) = muretai_tests::unprivileged::User::new() else { return };
    let home = user.home();
    user.run(&home, &["keygen", "north"]).ok();
    let path = home.agent("north").join("key.pem");
    fs::set_permissions(&path, fs::Permissions::from_mode(0o000)).unwrap();
    for line in [&["identity", "show"][..], &["inbox"], &["keygen", "north"]] {
        let done = user.run(&home, line).exits(1);
        assert!(done.err.contains("key.pem"), "{}", done.err);
    }
    assert_eq!(mode(&path), 0);
}

#[test]
fn no_command_but_keygen_makes_a_key() {
    let home = Home::new();
    for line in [
        &["identity", "show"][..],
        &["inbox"],
        &["serve", "--listen", "127.0.0.1:0"],
        &["send", "south", "x"],
        &["contacts", "list"],
        &["invite", "create"],
        &["--as", "nobody", "inbox"],
        &["card"],
        &["doctor"],
    ] {
        let done = home.run(line);
        if line != ["doctor"] {
            assert_eq!(done.code, 1, "{line:?}: {done:?}");
            assert!(done.err.contains("muretai keygen"), "{line:?}: {}", done.err);
        }
        assert!(!home.root().exists(), "{line:?} made something");
    }
}

#[test]
fn a_wrong_phrase_says_what_is_wrong_and_writes_nothing() {
    let home = Home::new();
    let good = Key::of(3).phrase();
    let words: Vec<&str> = good.split(' ').collect();
    let mut misspelt = words.clone();
    misspelt[6] = "wirless";
    let mut swapped = words.clone();
    swapped.swap(0, 1);
    if swapped == words {
        swapped.swap(0, 23);
    }
    for (phrase, says) in [
        (misspelt.join(" "), "7"),
        (swapped.join(" "), "checksum"),
        (words[..23].join(" "), "23"),
        (String::new(), ""),
        ("   \n".to_owned(), ""),
        (format!("{good} zoo"), "25"),
    ] {
        let done = home.run_with(["keygen", "north", "--restore"], phrase.as_bytes()).exits(1);
        assert!(done.err.contains(says), "{says}: {}", done.err);
        assert!(!done.err.contains(&words[1..4].join(" ")), "the words are not repeated");
        assert!(!home.agent("north").join("key.pem").exists());
    }
    assert_eq!(home.run_with(["keygen", "north", "--restore"], &[0xff, 0xfe, 0]).code, 1);
}

#[test]
fn an_encrypted_key_opens_with_its_passphrase_alone() {
    let home = Home::new();
    let right = home.file("right", b"correct horse\n");
    let wrong = home.file("wrong", b"battery staple\n");
    let (right, wrong) = (right.to_str().unwrap(), wrong.to_str().unwrap());
    home.run(["keygen", "north", "--passphrase", "--passphrase-file", right]).ok();
    let pem = fs::read_to_string(home.agent("north").join("key.pem")).unwrap();
    assert!(pem.starts_with("-----BEGIN ENCRYPTED PRIVATE KEY-----"), "{pem}");
    home.run(["--passphrase-file", right, "identity", "show"]).ok();
    home.run(["--passphrase-file", wrong, "identity", "show"]).exits(1);
    // Nobody can be asked: an error that names the flag, not a hang.
    let asked = home.run(["identity", "phrase", "--yes"]);
    assert!([1, 2].contains(&asked.code) && asked.err.contains("--passphrase-file"), "{asked:?}");
}

#[test]
fn another_key_does_not_take_over_the_database_of_a_lost_one() {
    let home = Home::new();
    home.restore("north", &Key::of(4)).ok();
    let did = home.did("north");
    home.run(["--as", "north", "inbox"]).ok();
    let folder = home.agent("north");
    fs::remove_file(folder.join("key.pem")).unwrap();
    for args in [&["keygen", "north"][..], &["inbox"], &["--as", "north", "inbox"]] {
        let refused = home.run(args).exits(1);
        assert!(refused.err.contains("--restore"), "{}", refused.err);
    }
    let refused = home.restore("north", &Key::of(3)).exits(1);
    assert!(refused.err.contains(&did), "{}", refused.err);
    assert!(!folder.join("key.pem").exists());
    home.restore("north", &Key::of(4)).ok();
    assert_eq!(home.did("north"), did);
    // A key that was swapped behind our back.
    home.restore("south", &Key::of(3)).ok();
    fs::copy(home.agent("south").join("key.pem"), folder.join("key.pem")).unwrap();
    let refused = home.run(["--as", "north", "inbox"]).exits(5);
    assert!(refused.err.contains(&did) && refused.err.contains(&home.did("south")), "{}", refused.err);
}
