use super::*;

const HASH: &str = "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef";

fn entry(name: &str) -> Entry {
    Entry {
        name: name.to_owned(),
        path: PathBuf::from("/plugins/units.so"),
        sha256: HASH.to_owned(),
        kind: Kind::Native,
        version: "1.0.0".to_owned(),
        offers: vec!["skill:units".to_owned(), "policy".to_owned()],
        agents: None,
        default_skill: None,
        config: Object::new(),
        limits: Limits::default(),
    }
}

fn text(extra: &str) -> String {
    format!(
        "# mine\n[[plugin]]\nname = \"units\"\npath = \"/p/u.so\"\nsha256 = \"{HASH}\"\nkind = \"wasm\"\nversion = \"1\"\n\
         offers = [\"skill:units\", \"policy\"]\n{extra}"
    )
}

fn parse(text: &str) -> Result<Manifest, ManifestError> {
    Manifest::parse(text, Path::new("plugins.toml"))
}

fn refusal(extra: &str) -> String {
    parse(&text(extra)).unwrap_err().to_string()
}

#[test]
fn reads_what_the_owner_wrote() {
    let manifest = parse(&text(
        "agents = [\"north\"]\ndefault_skill = true\n[plugin.config]\nallow = [\"a\"]\nrate = 1.5\nnested.on = true\n\
         [plugin.limits]\npolicy_timeout_ms = 50\nmemory_mib = 8\n",
    ))
    .unwrap();
    let entry = manifest.find("units").unwrap();
    assert!(entry.is_for("north") && !entry.is_for("south") && entry.uses_policy());
    assert_eq!(entry.default_skill.as_deref(), Some("units"));
    assert_eq!(entry.limits.memory_mib, 8);
    assert_eq!(entry.limits.skill_timeout, Limits::default().skill_timeout);
    let config = muretai_protocol::json::Value::Object(entry.config.clone()).to_json();
    assert_eq!(config, r#"{"allow":["a"],"nested":{"on":true},"rate":1.5}"#);
    assert_eq!(parse("").unwrap(), Manifest::default());
    assert_eq!(parse("# nothing\n").unwrap(), Manifest::default());
}

#[test]
fn refuses_what_it_does_not_know_with_its_line() {
    for (extra, line, word) in [
        ("sha265 = \"x\"\n", 9, "no key sha265"),
        ("default_skill = \"other\"\n", 9, "among the offers"),
        ("agents = \"north\"\n", 9, "list"),
        ("[plugin.limits]\ntimeout = 5\n", 10, "no key timeout"),
        ("[plugin.limits]\nmax_running = 0\n", 10, "1 to 64"),
        ("[plugin.config]\nwhen = 2026-01-01\n", 10, "string"),
        ("[plugin.config]\nbig = 9007199254740993\n", 10, "integer"),
        ("[plugin.config]\nx = inf\n", 10, "inf"),
        ("[[plugin]]\n", 9, "has no"),
        ("[other]\n", 9, "no key other"),
        ("kind = \"wasm\"\n", 9, "duplicate"),
        ("x = \n", 9, ""),
    ] {
        let told = refusal(extra);
        assert!(told.contains(&format!("line {line}: ")) && told.contains(word), "{extra}: {told}");
    }
    let double = format!("{}\n{}", text(""), text(""));
    assert!(parse(&double).unwrap_err().to_string().contains("a second plugin named units"));
    for (from, to) in [
        ("\"/p/u.so\"", "\"u.so\""),
        ("\"wasm\"", "\"elf\""),
        ("0123", "XYZW"),
        ("skill:units", "skill: units"),
        ("\"units\"", "\"Units\""),
        ("version = \"1\"", "version = 1"),
    ] {
        assert!(parse(&text("").replacen(from, to, 1)).is_err(), "{to}");
    }
}

#[test]
fn adding_and_removing_keep_the_owners_comments_and_order() {
    let home = tempfile::tempdir().unwrap();
    let path = home.path().join(FILE_NAME);
    Manifest::add(home.path(), &entry("first")).unwrap();
    let made = fs::read_to_string(&path).unwrap();
    assert!(made.starts_with("# Plugins of the agents of this home."), "{made}");
    let owners = format!("{made}# the stricter one\n\n# below: second\n");
    fs::write(&path, &owners).unwrap();
    let mut second = entry("second");
    second.agents = Some(vec!["north".to_owned()]);
    second.default_skill = Some("units".to_owned());
    let config = br#"{"allow":["a",{"b":null,"c":2.5}],"deep":{"er":{"x":1}},"none":null}"#;
    second.config = muretai_protocol::json::parse(config).unwrap().as_object().unwrap().clone();
    Manifest::add(home.path(), &second).unwrap();
    let both = fs::read_to_string(&path).unwrap();
    assert!(both.starts_with(&owners), "{both}");
    let read = Manifest::read(home.path()).unwrap();
    assert_eq!(read.plugins.iter().map(|entry| entry.name.as_str()).collect::<Vec<_>>(), ["first", "second"]);
    let config = muretai_protocol::json::Value::Object(read.plugins[1].config.clone()).to_json();
    assert_eq!(config, r#"{"allow":["a",{"c":2.5}],"deep":{"er":{"x":1}}}"#);
    assert!(matches!(Manifest::add(home.path(), &second), Err(ManifestError::NameTaken(_))));

    assert_eq!(Manifest::remove(home.path(), "first").unwrap().name, "first");
    let one = fs::read_to_string(&path).unwrap();
    assert!(
        one.starts_with("# Plugins of the agents") && one.contains("# the stricter one\n\n# below: second"),
        "{one}"
    );
    assert!(matches!(Manifest::remove(home.path(), "first"), Err(ManifestError::NoSuchPlugin { .. })));
    Manifest::remove(home.path(), "second").unwrap();
    let none = fs::read_to_string(&path).unwrap();
    assert!(none.contains("# the stricter one") && !none.contains("[[plugin]]"), "{none}");
    Manifest::add(home.path(), &second).unwrap();
    assert_eq!(Manifest::read(home.path()).unwrap().plugins.len(), 1);
}

#[test]
fn replacing_keeps_the_place_the_configuration_and_what_the_owner_wrote() {
    let home = tempfile::tempdir().unwrap();
    let path = home.path().join(FILE_NAME);
    let owners = format!(
        "{}\n[[plugin]]\n# the last\nname = \"z\"\npath = \"/z\"\nsha256 = \"{HASH}\"\nkind = \"native\"\nversion = \"1\"\n\
         offers = [\"policy\"]\n",
        text(
            "agents = [\"north\"] # hers\n[plugin.config]\nallow = [\"a\"] # friends\n[plugin.limits]\nmemory_mib = 8\n"
        )
    );
    fs::write(&path, &owners).unwrap();
    let old = Manifest::read(home.path()).unwrap().plugins[0].clone();
    let new = Entry { sha256: HASH.replace('0', "f"), version: "2".to_owned(), ..old.clone() };
    Manifest::replace(home.path(), &new).unwrap();
    let told = fs::read_to_string(&path).unwrap();
    let expected = owners.replacen(HASH, &new.sha256, 1).replacen("version = \"1\"", "version = \"2\"", 1);
    assert_eq!(told, expected);
    let changed = Entry { agents: None, config: Object::new(), ..new };
    Manifest::replace(home.path(), &changed).unwrap();
    assert_eq!(Manifest::read(home.path()).unwrap().plugins[0], changed);
    assert!(matches!(Manifest::replace(home.path(), &entry("other")), Err(ManifestError::NoSuchPlugin { .. })));
}

#[test]
fn a_home_that_is_not_there_is_not_made() {
    let folder = tempfile::tempdir().unwrap();
    let home = folder.path().join("home");
    assert!(matches!(Manifest::add(&home, &entry("first")), Err(ManifestError::Io { .. })));
    assert!(matches!(Manifest::remove(&home, "first"), Err(ManifestError::NoSuchPlugin { .. })));
    assert!(!home.exists());
}

#[test]
fn a_file_that_is_gone_says_whose_it_was() {
    let gone = Entry { path: PathBuf::from("/absent/p.wasm"), ..entry("p") };
    let error = PluginFile::pinned(&gone).unwrap_err();
    assert!(matches!(&error, ManifestError::Missing { name, .. } if name == "p"), "{error}");
    assert!(error.hint().unwrap().contains("plugin remove p"));
}

#[test]
fn a_failed_change_leaves_the_file_as_it_was() {
    let home = tempfile::tempdir().unwrap();
    let path = home.path().join(FILE_NAME);
    fs::write(&path, "nonsense = 1\n").unwrap();
    assert!(Manifest::add(home.path(), &entry("first")).is_err());
    assert_eq!(fs::read_to_string(&path).unwrap(), "nonsense = 1\n");
    assert_eq!(fs::read_dir(home.path()).unwrap().count(), 1);
}

#[cfg(unix)]
#[test]
fn the_file_is_the_owners_alone() {
    use std::os::unix::fs::PermissionsExt;
    let home = tempfile::tempdir().unwrap();
    let path = home.path().join(FILE_NAME);
    Manifest::add(home.path(), &entry("first")).unwrap();
    assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
    fs::set_permissions(&path, fs::Permissions::from_mode(0o664)).unwrap();
    let error = Manifest::read(home.path()).unwrap_err();
    assert!(error.to_string().contains("0664") && error.hint().unwrap().contains("chmod go-w"), "{error}");
}

#[cfg(unix)]
#[test]
fn a_folder_that_others_can_write_is_refused_unless_it_is_sticky() {
    use std::os::unix::fs::PermissionsExt;
    let home = tempfile::tempdir().unwrap();
    Manifest::add(home.path(), &entry("first")).unwrap();
    let with = |mode| {
        fs::set_permissions(home.path(), fs::Permissions::from_mode(mode)).unwrap();
        Manifest::read(home.path())
    };
    for mode in [0o777, 0o770, 0o702] {
        assert!(matches!(with(mode), Err(ManifestError::OpenToOthers { .. })), "{mode:o}");
    }
    assert!(with(0o1777).is_ok() && with(0o755).is_ok());
    // A link from a good folder into a bad one.
    let other = tempfile::tempdir().unwrap();
    std::os::unix::fs::symlink(home.path().join(FILE_NAME), other.path().join(FILE_NAME)).unwrap();
    assert!(Manifest::read(other.path()).is_ok());
    with(0o777).unwrap_err();
    assert!(matches!(Manifest::read(other.path()), Err(ManifestError::OpenToOthers { .. })));
}

#[cfg(unix)]
#[test]
fn what_belongs_to_another_user_is_refused() {
    let path = Path::new("/home/north/plugins.toml");
    for (owner, user, is_good) in [(7, 7, true), (0, 7, true), (8, 7, false), (8, 0, false), (0, 0, true)] {
        let judged = judge(path, false, owner, 0o600, user);
        assert_eq!(judged.is_ok(), is_good, "{owner} {user}");
        if let Err(error) = judged {
            assert!(error.to_string().contains("another user (number 8)") && error.hint().unwrap().contains("chown"));
        }
    }
    assert!(judge(path, false, 7, 0o1622, 7).is_err(), "the sticky bit means nothing on a file");
}

#[test]
fn a_file_that_changed_is_refused_with_both_hashes() {
    let home = tempfile::tempdir().unwrap();
    let path = home.path().join("p.wasm");
    fs::write(&path, b"\0asm1").unwrap();
    let file = PluginFile::read(&path).unwrap();
    let pinned = Entry { path: path.clone(), sha256: file.sha256.clone(), ..entry("p") };
    assert_eq!(PluginFile::pinned(&pinned).unwrap().bytes[..], *b"\0asm1");
    fs::write(&path, b"\0asm2").unwrap();
    let error = PluginFile::pinned(&pinned).unwrap_err();
    let found = PluginFile::read(&path).unwrap().sha256;
    assert!(error.is_unverified());
    assert!(error.to_string().contains(&found) && error.to_string().contains(&file.sha256), "{error}");
    assert!(matches!(PluginFile::read(home.path()), Err(ManifestError::NoFile(_))));
}

#[test]
fn a_configuration_reads_the_same_from_json_and_toml() {
    let json = config("{\"a\":[1,2.5],\"b\":{\"c\":true}}", false).unwrap();
    assert_eq!(config("a = [1, 2.5]\nb.c = true\n", true).unwrap(), json);
    assert!(config("[1]", false).is_err());
    assert!(config("{\"a\":[9007199254740993]}", false).unwrap_err().contains("string"));
    assert!(config("a = 1\na = 2\n", true).unwrap_err().starts_with("line 2: "));
}

#[test]
fn a_hash_is_what_other_tools_print() {
    assert_eq!(sha256(b"abc"), "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
}
