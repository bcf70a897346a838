//! Compiles fixtures, and starts them.
use std::{
    fs,
    path::{Path, PathBuf},
    process::Command,
    sync::Arc,
    time::Duration,
};

use muretai_plugins::{
    engine::{HostCommand, Limits, PluginFault},
    native::NativeEngine,
};

/// Far beyond what any call takes that is meant to end.
pub(crate) const LONG: Duration = Duration::from_secs(60);
/// For calls that are meant to run out of time.
pub(crate) const SHORT: Duration = Duration::from_millis(200);

/// The crate's folder.
pub(crate) fn folder() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

/// The child program.
pub(crate) fn host() -> HostCommand {
    HostCommand { program: env!("CARGO_BIN_EXE_muretai-plugin-host").into(), args: Vec::new() }
}

/// The compiler for a source by its ending; `None`, with a printed skip, when there is none.
///
/// # Panics
/// In CI a compiler must be there.
pub(crate) fn compiler(source: &str) -> Option<Command> {
    let (name, default) = if source.ends_with(".c") { ("CC", "cc") } else { ("CXX", "c++") };
    let compiler = std::env::var_os(name).unwrap_or_else(|| default.into());
    if let Err(error) = Command::new(&compiler).arg("--version").output() {
        assert!(std::env::var("CI").as_deref() != Ok("true"), "no {compiler:?}: {error}");
        eprintln!("SKIP no compiler {compiler:?}: {error}");
        return None;
    }
    Some(Command::new(compiler))
}

/// The bytes of a source in this crate as a library; `None`, with a printed skip, without a compiler.
pub(crate) fn compiled(source: &str) -> Option<Arc<[u8]>> {
    let out = tempfile::tempdir().unwrap();
    let library: PathBuf = out.path().join("fixture.so");
    let mut command = compiler(source)?;
    command.args(["-shared", "-fPIC", "-O1", "-w", "-pthread"]).arg("-I").arg(folder()).arg("-o").arg(&library);
    let done = command.arg(folder().join(source)).output().unwrap();
    assert!(done.status.success(), "{source}: {}", String::from_utf8_lossy(&done.stderr));
    Some(fs::read(library).unwrap().into())
}

/// The bytes of a fixture as a library.
pub(crate) fn library(fixture: &str) -> Option<Arc<[u8]>> {
    compiled(&format!("tests/fixtures/{fixture}"))
}

/// Starts a library without limits that matter.
pub(crate) async fn start(library: &Arc<[u8]>) -> Result<NativeEngine, PluginFault> {
    NativeEngine::start(library.clone(), b"", Limits::default(), &host()).await
}

/// A fixture that is started.
pub(crate) async fn engine(source: &str) -> Option<NativeEngine> {
    Some(start(&library(source)?).await.unwrap())
}

/// The example in Rust, built as its author would.
pub(crate) fn rust_example() -> Arc<[u8]> {
    // The test program is target/PROFILE/deps/NAME-HASH.
    let exe = std::env::current_exe().unwrap();
    let profile = exe.ancestors().nth(2).unwrap();
    let mut cargo = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    cargo.args(["build", "--quiet", "-p", "muretai-example-units", "--target-dir"]).arg(profile.parent().unwrap());
    if profile.ends_with("release") {
        cargo.arg("--release");
    }
    let done = cargo.current_dir(folder()).output().unwrap();
    assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
    let name = format!("{}units{}", std::env::consts::DLL_PREFIX, std::env::consts::DLL_SUFFIX);
    fs::read(profile.join(name)).unwrap().into()
}
