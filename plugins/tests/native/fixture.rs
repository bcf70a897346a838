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

/// The bytes of a fixture as a library; `None`, with a printed skip, without a compiler.
///
/// # Panics
/// In CI a compiler must be there.
pub(crate) fn library(source: &str) -> Option<Arc<[u8]>> {
    let (name, default) = if source.ends_with(".c") { ("CC", "cc") } else { ("CXX", "c++") };
    let compiler = std::env::var_os(name).unwrap_or_else(|| default.into());
    let folder = folder();
    let out = tempfile::tempdir().unwrap();
    let library: PathBuf = out.path().join("fixture.so");
    let mut command = Command::new(&compiler);
    command.args(["-shared", "-fPIC", "-O0", "-w", "-pthread"]).arg("-I").arg(folder).arg("-o").arg(&library);
    let done = match command.arg(folder.join("tests/fixtures").join(source)).output() {
        Ok(done) => done,
        Err(error) => {
            assert!(std::env::var("CI").as_deref() != Ok("true"), "no {compiler:?}: {error}");
            eprintln!("SKIP no compiler {compiler:?}: {error}");
            return None;
        }
    };
    assert!(done.status.success(), "{source}: {}", String::from_utf8_lossy(&done.stderr));
    Some(fs::read(library).unwrap().into())
}

/// Starts a library without limits that matter.
pub(crate) async fn start(library: &Arc<[u8]>) -> Result<NativeEngine, PluginFault> {
    NativeEngine::start(library.clone(), b"", Limits::default(), &host()).await
}

/// A fixture that is started.
pub(crate) async fn engine(source: &str) -> Option<NativeEngine> {
    Some(start(&library(source)?).await.unwrap())
}
