use std::{os::unix::fs::PermissionsExt, process::Command};

use super::*;
use crate::Home;

const SEED: [u8; 32] = *b"north's thirty-two secret bytes!";

struct Place {
    folder: tempfile::TempDir,
    dir: AgentDir,
}

fn place() -> Place {
    let folder = tempfile::tempdir().unwrap();
    let dir = Home::at(folder.path().join("home")).dir_for("north").unwrap();
    Place { folder, dir }
}

/// A folder with a file in the key's place.
fn occupied(content: &[u8]) -> Place {
    let place = place();
    fs::create_dir_all(&place.dir.path).unwrap();
    fs::write(place.dir.key_file(), content).unwrap();
    place
}

fn seed() -> Seed {
    Seed::from_bytes(SEED)
}

fn passphrase(text: &str) -> Zeroizing<String> {
    Zeroizing::new(text.to_owned())
}

fn mode(path: &Path) -> u32 {
    fs::symlink_metadata(path).unwrap().permissions().mode() & 0o7777
}

fn openssl(args: &[&str], input: &str) -> Option<String> {
    use std::{io::Write, process::Stdio};
    let mut child = Command::new("openssl")
        .args(args)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .ok()?;
    // A command that wants no input may be gone before it is written.
    let _ = child.stdin.take().unwrap().write_all(input.as_bytes());
    let output = child.wait_with_output().unwrap();
    assert!(output.status.success(), "openssl {args:?}: {}", String::from_utf8_lossy(&output.stderr));
    Some(String::from_utf8(output.stdout).unwrap())
}

/// The hex digits of OpenSSL's `priv:` block.
fn private_hex(text: &str) -> String {
    let block = text.split("priv:").nth(1).unwrap().split("pub:").next().unwrap();
    block.chars().filter(char::is_ascii_hexdigit).collect()
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|b| format!("{b:02x}")).collect()
}

#[test]
fn writes_and_reads_back_a_plain_key() {
    let p = place();
    create(&p.dir, &seed(), None).unwrap();
    assert!(!is_encrypted(&p.dir).unwrap());
    assert_eq!(read(&p.dir, None).unwrap().expose(), &SEED);
    assert_eq!(read(&p.dir, Some(&passphrase("not needed"))).unwrap().expose(), &SEED);
    let names: Vec<_> = fs::read_dir(&p.dir.path).unwrap().map(|e| e.unwrap().file_name()).collect();
    assert_eq!(names, ["key.pem"], "no temporary file stays");
}

#[test]
fn writes_and_reads_back_an_encrypted_key() {
    let p = place();
    create(&p.dir, &seed(), Some("correct horse")).unwrap();
    assert!(is_encrypted(&p.dir).unwrap());
    assert_eq!(read(&p.dir, Some(&passphrase("correct horse"))).unwrap().expose(), &SEED);
    assert!(matches!(read(&p.dir, None), Err(KeyFileError::NeedsPassphrase(_))));
    for wrong in ["", "correct hors", "correct horse "] {
        assert!(matches!(read(&p.dir, Some(&passphrase(wrong))), Err(KeyFileError::WrongPassphrase(_))), "{wrong:?}");
    }
    assert!(matches!(create(&place().dir, &seed(), Some("")), Err(KeyFileError::EmptyPassphrase)));
}

#[test]
fn openssl_reads_what_is_written() {
    let (plain, encrypted) = (place(), place());
    create(&plain.dir, &seed(), None).unwrap();
    create(&encrypted.dir, &seed(), Some("pa ss")).unwrap();
    let file = plain.dir.key_file();
    let Some(text) = openssl(&["pkey", "-in", file.to_str().unwrap(), "-noout", "-text"], "") else { return };
    assert!(text.starts_with("ED25519"), "{text}");
    assert_eq!(private_hex(&text), hex(&SEED));
    let file = encrypted.dir.key_file();
    let args = ["pkey", "-in", file.to_str().unwrap(), "-passin", "pass:pa ss", "-noout", "-text"];
    assert_eq!(private_hex(&openssl(&args, "").unwrap()), hex(&SEED));
}

#[test]
fn reads_what_openssl_writes() {
    let Some(pem) = openssl(&["genpkey", "-algorithm", "ed25519"], "") else { return };
    let text = openssl(&["pkey", "-noout", "-text"], &pem).unwrap();
    for content in [pem.clone(), pem.replace('\n', "\r\n"), format!("key attributes\n{pem}\n\n")] {
        let p = occupied(content.as_bytes());
        assert_eq!(hex(read(&p.dir, None).unwrap().expose()), private_hex(&text), "{content}");
    }
    for scheme in [&["-scrypt"][..], &["-v2", "aes-128-cbc", "-v2prf", "hmacWithSHA512"]] {
        let args = [&["pkcs8", "-topk8", "-passout", "pass:p"], scheme].concat();
        let p = occupied(openssl(&args, &pem).unwrap().as_bytes());
        assert!(is_encrypted(&p.dir).unwrap());
        assert_eq!(hex(read(&p.dir, Some(&passphrase("p"))).unwrap().expose()), private_hex(&text), "{scheme:?}");
    }
}

#[test]
fn other_pem_files_are_refused_by_kind_and_left_alone() {
    let Some(p256) = openssl(&["genpkey", "-algorithm", "EC", "-pkeyopt", "ec_paramgen_curve:P-256"], "") else {
        return;
    };
    let rsa = openssl(&["genpkey", "-algorithm", "RSA", "-pkeyopt", "rsa_keygen_bits:1024"], "").unwrap();
    let x25519 = openssl(&["genpkey", "-algorithm", "x25519"], "").unwrap();
    for (pem, name) in [(&p256, "elliptic"), (&rsa, "RSA"), (&x25519, "X25519")] {
        let p = occupied(pem.as_bytes());
        let error = read(&p.dir, None).unwrap_err();
        assert!(matches!(&error, KeyFileError::NotEd25519 { algorithm, .. } if algorithm.contains(name)), "{error}");
        assert!(matches!(create(&p.dir, &seed(), None), Err(KeyFileError::Exists(_))));
        assert_eq!(fs::read(p.dir.key_file()).unwrap(), pem.as_bytes());
    }
    let public = openssl(&["pkey", "-pubout"], &p256).unwrap();
    let traditional = openssl(&["pkey", "-traditional"], &p256).unwrap();
    let certificate = "-----BEGIN CERTIFICATE-----\nMAA=\n-----END CERTIFICATE-----\n".to_owned();
    for (pem, name) in [(public, "PUBLIC KEY"), (traditional, "EC P"), (certificate, "CERTIFICATE")] {
        let p = occupied(pem.as_bytes());
        let error = read(&p.dir, None).unwrap_err();
        assert!(matches!(&error, KeyFileError::OtherPem { label, .. } if label.starts_with(name)), "{error}");
        assert!(matches!(create(&p.dir, &seed(), None), Err(KeyFileError::Occupied { .. })));
        assert_eq!(fs::read(p.dir.key_file()).unwrap(), pem.as_bytes());
    }
}

#[test]
fn an_existing_key_is_never_replaced() {
    let p = place();
    create(&p.dir, &seed(), None).unwrap();
    let before = fs::read(p.dir.key_file()).unwrap();
    assert!(matches!(create(&p.dir, &Seed::from_bytes([7; 32]), None), Err(KeyFileError::Exists(_))));
    assert!(matches!(place::place(&p.dir.key_file(), b"x"), Err(e) if e.kind() == ErrorKind::AlreadyExists));
    assert_eq!(fs::read(p.dir.key_file()).unwrap(), before);
    assert_eq!(fs::read_dir(&p.dir.path).unwrap().count(), 1, "no temporary file stays");
}

#[test]
fn damaged_files_are_errors_that_name_them_and_stay_as_they_are() {
    let whole = place();
    create(&whole.dir, &seed(), None).unwrap();
    let pem = fs::read(whole.dir.key_file()).unwrap();
    type Case<'a> = (&'a str, Vec<u8>, fn(&KeyFileError) -> bool);
    let is_truncated: fn(&KeyFileError) -> bool = |e| matches!(e, KeyFileError::Truncated(_));
    let text = String::from_utf8(pem.clone()).unwrap();
    let cases: Vec<Case<'_>> = vec![
        ("empty", vec![], |e| matches!(e, KeyFileError::Empty(_))),
        ("ten bytes", pem[..10].to_vec(), is_truncated),
        ("in the label", pem[..20].to_vec(), is_truncated),
        ("in the body", pem[..60].to_vec(), is_truncated),
        ("in the end", pem[..pem.len() - 3].to_vec(), is_truncated),
        ("garbage", b"garbage".to_vec(), |e| matches!(e, KeyFileError::NotPem(_))),
        ("binary", vec![0xff; 100], |e| matches!(e, KeyFileError::NotPem(_))),
        ("huge", vec![b'-'; 20_000], |e| matches!(e, KeyFileError::TooLarge { bytes: 20_000, .. })),
        ("a line lost", text.replacen("MC4C", "", 1).into_bytes(), |e| matches!(e, KeyFileError::Damaged { .. })),
        ("not base64", text.replacen("MC4C", "MC_C", 1).into_bytes(), |e| matches!(e, KeyFileError::Damaged { .. })),
    ];
    for (name, content, expected) in cases {
        let p = occupied(&content);
        let error = read(&p.dir, None).unwrap_err();
        assert!(expected(&error), "{name}: {error:?}");
        assert!(error.to_string().contains("key.pem"), "{name}: {error}");
        assert!(is_encrypted(&p.dir).is_err() || name == "a line lost" || name == "not base64", "{name}");
        let refused = create(&p.dir, &seed(), None).unwrap_err();
        assert!(matches!(refused, KeyFileError::Occupied { .. } | KeyFileError::Exists(_)), "{name}: {refused:?}");
        assert_eq!(fs::read(p.dir.key_file()).unwrap(), content, "{name}");
    }
}

#[test]
fn every_truncation_of_an_encrypted_key_is_refused() {
    let p = place();
    create(&p.dir, &seed(), Some("p")).unwrap();
    let pem = fs::read(p.dir.key_file()).unwrap();
    let end = pem.len() - 1;
    for length in 0..end {
        let text = String::from_utf8(pem[..length].to_vec()).unwrap();
        assert!(codec::block(&p.dir.path, &text).is_err(), "{length}");
    }
}

#[test]
fn what_is_no_file_is_named() {
    let p = place();
    fs::create_dir_all(p.dir.key_file()).unwrap();
    assert!(matches!(read(&p.dir, None), Err(KeyFileError::NotAFile { what: "a folder", .. })));
    assert!(matches!(create(&p.dir, &seed(), None), Err(KeyFileError::Occupied { what: "a folder", .. })));
    let p = place();
    fs::create_dir_all(&p.dir.path).unwrap();
    std::os::unix::fs::symlink("/nowhere/at/all", p.dir.key_file()).unwrap();
    assert!(matches!(read(&p.dir, None), Err(KeyFileError::NotAFile { .. })));
    assert!(matches!(create(&p.dir, &seed(), None), Err(KeyFileError::Occupied { .. })));
    assert!(fs::symlink_metadata(p.dir.key_file()).unwrap().is_symlink());
    assert!(matches!(read(&place().dir, None), Err(KeyFileError::Missing(_))));
}

#[test]
fn an_unreadable_file_is_an_error_that_names_it() {
    let p = occupied(b"x");
    fs::set_permissions(p.dir.key_file(), fs::Permissions::from_mode(0o000)).unwrap();
    if fs::File::open(p.dir.key_file()).is_ok() {
        return; // The superuser reads everything.
    }
    assert!(matches!(read(&p.dir, None), Err(KeyFileError::Unreadable { .. })));
    assert!(matches!(create(&p.dir, &seed(), None), Err(KeyFileError::Occupied { .. })));
}

#[test]
fn a_failed_creation_leaves_no_folder_behind() {
    let p = place();
    fs::write(p.folder.path().join("home"), "a file where the home should be").unwrap();
    assert!(matches!(create(&p.dir, &seed(), None), Err(KeyFileError::Unwritable { .. })));
    assert_eq!(fs::read_dir(p.folder.path()).unwrap().count(), 1);
}

/// Run by the test below in a process of its own, because a umask belongs to the process.
#[test]
#[ignore = "a helper of modes_do_not_depend_on_the_umask"]
fn umask_helper() {
    let Some(home) = std::env::var_os("MURETAI_TEST_HOME") else { return };
    create(&Home::at(home).dir_for("north").unwrap(), &seed(), None).unwrap();
}

#[test]
fn modes_do_not_depend_on_the_umask() {
    for umask in ["0000", "0002", "0777"] {
        let p = place();
        let exe = std::env::current_exe().unwrap();
        let status = Command::new("sh")
            .args(["-c", &format!("umask {umask}; exec \"$0\" --exact --ignored keyfile::tests::umask_helper")])
            .arg(exe)
            .env("MURETAI_TEST_HOME", p.folder.path().join("home"))
            .stdout(std::process::Stdio::null())
            .status()
            .unwrap();
        assert!(status.success(), "umask {umask}");
        assert_eq!(mode(&p.dir.key_file()), 0o600, "umask {umask}");
        for folder in [p.dir.path.as_path(), p.dir.path.parent().unwrap(), &p.folder.path().join("home")] {
            assert_eq!(mode(folder), 0o700, "umask {umask}: {}", folder.display());
        }
        assert_eq!(permissions_warning(&p.dir), None);
    }
}

#[test]
fn an_open_key_file_earns_a_warning() {
    let p = place();
    create(&p.dir, &seed(), None).unwrap();
    fs::set_permissions(p.dir.key_file(), fs::Permissions::from_mode(0o640)).unwrap();
    let warning = permissions_warning(&p.dir).unwrap();
    assert!(warning.contains("key.pem") && warning.contains("0640"), "{warning}");
    fs::set_permissions(p.dir.key_file(), fs::Permissions::from_mode(0o600)).unwrap();
    fs::set_permissions(&p.dir.path, fs::Permissions::from_mode(0o755)).unwrap();
    assert!(permissions_warning(&p.dir).unwrap().contains("chmod 700"));
}

#[test]
fn outrageous_costs_are_refused_unpaid() {
    let p = place();
    create(&p.dir, &seed(), Some("p")).unwrap();
    let pem = fs::read_to_string(p.dir.key_file()).unwrap();
    let (_, der) = pkcs8::SecretDocument::from_pem(&pem).unwrap();
    // INTEGER 16384, followed by INTEGER 8: the cost, then the block size.
    let cost = [0x02, 0x02, 0x40, 0x00, 0x02, 0x01, 0x08];
    let at = der.as_bytes().windows(cost.len()).position(|w| w == cost).unwrap();
    for (high, r) in [(0x00, 8), (0x7f, 8), (0x40, 0)] {
        let mut bytes = der.as_bytes().to_vec();
        bytes[at + 2] = high;
        bytes[at + 3] = 0x01;
        bytes[at + 6] = r;
        let forged = pkcs8::SecretDocument::try_from(bytes).unwrap();
        let p = occupied(forged.to_pem("ENCRYPTED PRIVATE KEY", pkcs8::LineEnding::LF).unwrap().as_bytes());
        let error = read(&p.dir, Some(&passphrase("p"))).unwrap_err();
        assert!(
            matches!(error, KeyFileError::UnsupportedEncryption { .. } | KeyFileError::Damaged { .. }),
            "{error:?}"
        );
    }
}

#[test]
fn the_seed_is_not_shown() {
    let p = place();
    create(&p.dir, &seed(), None).unwrap();
    let shown = format!("{:?} {:?}", read(&p.dir, None), create(&p.dir, &seed(), None));
    assert!(!shown.contains("secret") && !shown.contains("110, 111"), "{shown}");
}
