//! The binary under test.
use std::{
    fs,
    path::{Path, PathBuf},
    process::Command,
    sync::OnceLock,
    time::SystemTime,
};

/// Crates and files whose change makes a built binary stale.
const SOURCES: [&str; 10] =
    ["cli", "node", "relay", "transports", "plugins", "store", "protocol", "mcp", "Cargo.toml", "Cargo.lock"];

/// The binary: `$MURETAI_BIN`, else the one of this profile in the target folder, built when it is absent or older
/// than its sources.
pub fn path() -> &'static Path {
    static PATH: OnceLock<PathBuf> = OnceLock::new();
    PATH.get_or_init(|| match std::env::var_os("MURETAI_BIN") {
        Some(path) => fs::canonicalize(&path).unwrap_or_else(|error| panic!("MURETAI_BIN {path:?}: {error}")),
        None => built(),
    })
}

/// The root of the workspace.
pub fn workspace() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("the tests crate lies in the workspace").to_owned()
}

fn built() -> PathBuf {
    // The test program is target/PROFILE/deps/NAME-HASH.
    let exe = std::env::current_exe().unwrap();
    let folder = exe.ancestors().nth(2).expect("tests run from target/PROFILE/deps").to_owned();
    let binary = folder.join(format!("muretai{}", std::env::consts::EXE_SUFFIX));
    if is_fresh(&binary) {
        return binary;
    }
    let profile = folder.file_name().and_then(|name| name.to_str()).unwrap_or("debug");
    let mut cargo = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    cargo.args(["build", "--quiet", "-p", "muretai", "--target-dir"]).arg(folder.parent().unwrap());
    match profile {
        "debug" => {}
        "release" => _ = cargo.arg("--release"),
        other => _ = cargo.args(["--profile", other]),
    }
    let status = cargo.current_dir(workspace()).status().expect("cargo runs");
    assert!(status.success(), "building muretai failed");
    binary
}

/// Newer than every source. `cargo test --workspace` has just built it, so that no second build (with another set of
/// dependency features) is needed.
fn is_fresh(binary: &Path) -> bool {
    let Ok(built) = fs::metadata(binary).and_then(|meta| meta.modified()) else { return false };
    SOURCES.iter().all(|name| newest(&workspace().join(name)) <= built)
}

fn newest(path: &Path) -> SystemTime {
    let Ok(meta) = fs::metadata(path) else { return SystemTime::UNIX_EPOCH };
    if !meta.is_dir() {
        return meta.modified().unwrap_or(SystemTime::UNIX_EPOCH);
    }
    let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
    if matches!(name, "tests" | "benches" | "target") {
        return SystemTime::UNIX_EPOCH;
    }
    let entries = fs::read_dir(path).into_iter().flatten().flatten();
    entries.map(|entry| newest(&entry.path())).max().unwrap_or(SystemTime::UNIX_EPOCH)
}
