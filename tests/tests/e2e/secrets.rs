//! A known seed is looked for in everything that the program prints and writes.
use std::{fs, path::Path};

use muretai_tests::{
    Home, RelayProcess,
    home::Done,
    mail::{deposit, enc_pub_of, text_letter},
    rpc::{self, Fields, Key},
    trust::{befriend, call, connect},
    wait,
};
use serde_json::json;

/// Spellings of a secret that must not be met anywhere.
struct Secret {
    needles: Vec<String>,
    raw: [u8; 32],
}

impl Secret {
    fn of(key: &Key) -> Secret {
        let seed = key.seed();
        let hex: String = seed.iter().map(|byte| format!("{byte:02x}")).collect();
        let spaced: Vec<String> = seed.iter().map(|byte| byte.to_string()).collect();
        let phrase = key.phrase();
        let words: Vec<&str> = phrase.split(' ').collect();
        let mut needles: Vec<String> = words.windows(3).map(|three| three.join(" ")).collect();
        needles.extend([
            hex[..16].to_owned(),
            hex.to_uppercase()[..16].to_owned(),
            muretai_protocol::base64::encode(&seed)[..20].to_owned(),
            muretai_protocol::base64::encode_url(&seed)[..20].to_owned(),
            spaced[..8].join(", "),
        ]);
        Secret { needles, raw: seed }
    }

    #[track_caller]
    fn is_not_in(&self, what: &str, bytes: &[u8]) {
        let text = String::from_utf8_lossy(bytes);
        for needle in &self.needles {
            assert!(!text.contains(needle.as_str()), "{what} shows the secret");
        }
        assert!(!bytes.windows(32).any(|window| window == self.raw), "{what} holds the raw seed");
    }
}

/// A seed with no two equal bytes, so that no needle is met by chance.
fn key() -> Key {
    let mut seed = [0; 32];
    for (at, byte) in seed.iter_mut().enumerate() {
        *byte = (at as u8).wrapping_mul(37) ^ 0xa5;
    }
    Key::from_seed(seed)
}

#[test]
fn no_output_and_no_file_but_the_key_shows_the_seed_or_the_phrase() {
    let (key, secret) = (key(), Secret::of(&key()));
    let home = Home::new();
    let check = |what: &str, done: &Done| secret.is_not_in(what, format!("{}\n{}", done.out, done.err).as_bytes());
    let verbose = |line: &[&str]| {
        let mut command = home.command(line);
        command.arg("-vvv").env("RUST_LOG", "trace").env("RUST_BACKTRACE", "full").env("MURETAI_LOG", "trace");
        let done = muretai_tests::home::finish(command, b"");
        check(&line.join(" "), &done);
        done
    };
    let mut restore = home.command(["keygen", "north", "--restore", "-vvv"]);
    restore.stdin(std::process::Stdio::piped()).env("RUST_LOG", "trace");
    check("keygen --restore", &muretai_tests::home::finish(restore, key.phrase().as_bytes()).ok());
    // A second restore is refused after the words were typed, or before; they are not repeated either way.
    check("keygen again", &home.run_with(["keygen", "north", "--restore", "-vvv"], key.phrase().as_bytes()));
    let misspelt = key.phrase().replacen(' ', "x ", 1);
    check("a misspelt phrase", &home.run_with(["keygen", "east", "--restore", "-vvv"], misspelt.as_bytes()));
    home.run(["keygen", "south"]).ok();

    let serve = home.serve("north", &["--open-door", "--rate-limit", "off", "-vvv"]);
    for line in [
        &["--as", "north", "identity", "show"][..],
        &["--as", "north", "identity", "show", "--json"],
        &["identity", "list"],
        &["--as", "north", "identity", "phrase"],
        &["--as", "north", "card"],
        &["--as", "north", "invite", "create"],
        &["--as", "north", "invite", "list"],
        &["--as", "north", "inbox"],
        &["--as", "north", "contacts", "list"],
        &["--as", "north", "doctor"],
        &["--as", "south", "send", &serve.url, "hello"],
        &["--as", "north", "send", &serve.url, "hello"],
        &["--as", "north", "send", "nobody", "hello"],
        &["--as", "north", "serve", "--listen", "127.0.0.1:0"],
        &["--as", "north", "no-such-command"],
    ] {
        verbose(line);
    }
    let said = serve.err();
    secret.is_not_in("serve -vvv", said.as_bytes());
    let (_, err) = serve.stop("TERM");
    secret.is_not_in("serve -vvv", err.as_bytes());
    check_files(home.root(), &secret);

    let shown = home.run(["--as", "north", "identity", "phrase", "--yes"]).ok();
    assert_eq!(shown.out.trim(), key.phrase(), "the one place where it is shown");
}

/// The database, its journals and locks; the key file alone may hold the seed.
fn check_files(folder: &Path, secret: &Secret) {
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            check_files(&path, secret);
        } else if path.file_name().is_some_and(|name| name != "key.pem") {
            secret.is_not_in(&path.display().to_string(), &fs::read(&path).unwrap());
        }
    }
}

#[test]
fn a_log_says_of_a_did_no_more_than_its_end() {
    let relay = RelayProcess::start(&[]);
    let home = Home::with_agent("south");
    let (did, enc_pub) = (home.did("south"), enc_pub_of(&home, "south"));
    let (north, east, west) = (Key::of(1), Key::of(2), Key::of(3));
    let serve = home.serve("south", &["-vv", "--relay", &relay.url]);
    befriend(&home, &serve, "south", &north);
    serve.say(&north, "hello");
    serve.say(&east, "a stranger");
    let old = Fields { to: did.clone(), timestamp: json!(rpc::now() - 3_600), ..Fields::default() };
    serve.call(&rpc::send(&north.signed(&old)));
    connect(&serve, &west);
    home.run(["--as", "south", "requests", "accept", west.did()]);
    call(&serve, &east, "onboard/claim", "onboard/claim", json!({"nonce": "AAAA"}));
    relay.keep(&deposit(&north, &did, "AAAA"));
    relay.keep(&text_letter(&north, &did, &enc_pub, "by the relay"));
    relay.keep(&text_letter(&east, &did, &enc_pub, "a stranger by the relay"));
    wait::until("the letters", || (relay.letters_for(&did) == 0).then_some(()));
    let (code, log) = serve.stop("TERM");
    assert_eq!(code, 0, "{log}");
    let end = &north.did()[north.did().len() - 8..];
    assert!(log.contains(end), "somebody is in it: {log}");
    // Its own, on the line that greets whoever started it, is for people to copy.
    let mut others = log.lines().filter(|line| !line.starts_with("south is "));
    let told = others.find(|line| line.contains("did:key:z6Mk") || line.contains(&did[8..30]));
    assert_eq!(told, None);
}
