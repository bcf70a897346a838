//! Transcripts of commands that need no peer. `TRYCMD=overwrite cargo test -p muretai --test cmd` writes what changed;
//! read the difference line by line.

#[test]
fn transcripts() {
    trycmd::TestCases::new()
        // Each sandbox is a home of its own, and empty variables count as absent.
        .env("HOME", ".")
        .env("MURETAI_HOME", "home")
        .env("MURETAI_AS", "")
        .env("MURETAI_PASSPHRASE_FILE", "")
        .env("COLUMNS", "100")
        .env("TZ", "UTC")
        .case("tests/cmd/*.trycmd")
        .case("tests/cmd/*.toml");
}
