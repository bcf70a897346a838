use std::sync::Arc;

use muretai_plugins::{
    engine::{CallKind, Engine, HostCommand, Limits, PluginFault},
    native::{NativeEngine, describe},
};

use crate::fixture::{LONG, compiler, folder, host, library, start};

async fn refused(library: Arc<[u8]>) -> PluginFault {
    let fault = start(&library).await.err().unwrap();
    assert_eq!(describe(library, &host()).await.err().as_ref(), Some(&fault), "describe says the same");
    fault
}

#[tokio::test]
async fn a_good_plugin_is_described_and_answers() {
    let Some(library) = library("echo.c") else { return };
    let described = describe(library.clone(), &host()).await.unwrap();
    assert!(described.starts_with(br#"{"name":"fixture""#));
    let engine = start(&library).await.unwrap();
    for i in 0..100 {
        let request = format!("{{\"op\":\"skill\",\"i\":{i}}}");
        assert_eq!(engine.call(CallKind::Skill, request.as_bytes(), LONG).await.unwrap(), request.as_bytes());
    }
    engine.close().await;
    assert!(matches!(engine.call(CallKind::Skill, b"{}", LONG).await, Err(PluginFault::Unavailable(_))));
}

#[tokio::test]
async fn what_is_no_library_is_no_plugin() {
    for bytes in [&b""[..], b"not a library", b"\x7fELF", &[0; 100_000]] {
        let fault = refused(bytes.into()).await;
        let PluginFault::NotAPlugin(text) = fault else { panic!("{fault}") };
        assert!(!text.contains("/proc"), "{text}");
    }
}

#[tokio::test]
async fn a_library_that_was_cut_short_is_no_plugin() {
    let Some(library) = library("echo.c") else { return };
    for len in [64, 1000, library.len() / 2] {
        let fault = refused(library[..len].into()).await;
        // The loader may believe the headers and read where nothing is.
        assert!(matches!(fault, PluginFault::NotAPlugin(_) | PluginFault::Ended(_)), "{fault}");
    }
}

#[tokio::test]
async fn a_library_without_the_symbol_is_no_plugin() {
    let Some(library) = library("no_symbol.c") else { return };
    assert_eq!(refused(library).await, PluginFault::NotAPlugin("it has no symbol muretai_plugin_entry".into()));
}

#[tokio::test]
async fn another_version_is_refused_before_anything_else_is_read() {
    let Some(old) = library("old_abi.c") else { return };
    assert_eq!(refused(old).await, PluginFault::WrongAbi { found: 7, ours: 1 });
    let none = library("no_table.c").unwrap();
    assert_eq!(refused(none).await, PluginFault::WrongAbi { found: 0, ours: 1 });
}

#[tokio::test]
async fn a_table_with_holes_is_no_plugin() {
    let Some(short) = library("short_table.c") else { return };
    assert!(matches!(refused(short).await, PluginFault::NotAPlugin(text) if text.contains("8 bytes")));
    let holes = library("null_call.c").unwrap();
    assert!(matches!(refused(holes).await, PluginFault::NotAPlugin(text) if text.contains("lacks")));
}

#[tokio::test]
async fn a_library_that_aborts_while_it_is_loaded_ended() {
    let Some(library) = library("bad_start.c") else { return };
    assert_eq!(refused(library).await, PluginFault::Ended("it aborted".into()));
}

#[tokio::test]
async fn a_config_that_the_plugin_does_not_want_is_told_at_once() {
    let Some(library) = library("moody.c") else { return };
    let started = NativeEngine::start(library, b"!", Limits::default(), &host()).await;
    assert_eq!(started.err(), Some(PluginFault::Failed("the config is not good".into())));
}

#[tokio::test]
async fn a_host_that_is_not_there_or_is_something_else_is_unavailable() {
    let Some(library) = library("echo.c") else { return };
    let absent = HostCommand { program: "/does/not/exist".into(), args: Vec::new() };
    let fault = describe(library.clone(), &absent).await.err().unwrap();
    assert!(matches!(&fault, PluginFault::Unavailable(text) if text.contains("/does/not/exist")), "{fault}");
    let other = HostCommand { program: "/bin/false".into(), args: Vec::new() };
    assert!(matches!(describe(library, &other).await, Err(PluginFault::Ended(_))));
}

/// What `muretai_plugin.h` says is what the Rust side has.
#[test]
fn the_header_and_the_rust_definitions_agree() {
    use muretai_plugin::abi::{self, Buffer, Table};
    use std::mem::offset_of;
    let checks = format!(
        "#include \"muretai_plugin.h\"\n\
         #define SAME(a, b) _Static_assert((a) == (b), #a)\n\
         SAME(MURETAI_PLUGIN_ABI, {}); SAME(MURETAI_MAX_DOCUMENT, {});\n\
         SAME(MURETAI_OK, {}); SAME(MURETAI_ERR_FAILED, {}); SAME(MURETAI_ERR_CONFIG, {});\n\
         SAME(MURETAI_ERR_PANIC, {});\n\
         SAME(sizeof(muretai_buffer), {}); SAME(offsetof(muretai_buffer, len), {});\n\
         SAME(offsetof(muretai_buffer, owner), {});\n\
         SAME(sizeof(muretai_plugin), {}); SAME(offsetof(muretai_plugin, size), {});\n\
         SAME(offsetof(muretai_plugin, describe), {});\n\
         SAME(offsetof(muretai_plugin, open), {}); SAME(offsetof(muretai_plugin, call), {});\n\
         SAME(offsetof(muretai_plugin, release), {}); SAME(offsetof(muretai_plugin, close), {});\n",
        abi::ABI,
        muretai_plugins::engine::MAX_DOCUMENT_BYTES,
        abi::OK,
        abi::ERR_FAILED,
        abi::ERR_CONFIG,
        abi::ERR_PANIC,
        size_of::<Buffer>(),
        offset_of!(Buffer, len),
        offset_of!(Buffer, owner),
        size_of::<Table>(),
        offset_of!(Table, size),
        offset_of!(Table, describe),
        offset_of!(Table, open),
        offset_of!(Table, call),
        offset_of!(Table, release),
        offset_of!(Table, close),
    );
    compiles("checks.c", &checks, &["-std=c11"]);
}

#[test]
fn the_headers_compile_as_c99_and_as_cpp_without_a_warning() {
    const USED: &str = "int used(void);\nint used(void) { return 0; }\n";
    let json = format!("#include \"muretai_json.h\"\n{USED}");
    let both = format!("#include \"muretai_plugin.h\"\n{json}");
    compiles("c.c", &both, &["-std=c99"]);
    compiles("cpp.cc", &both, &["-std=c++11"]);
    compiles("free.c", &json, &["-std=c99", "-ffreestanding"]);
}

fn compiles(name: &str, source: &str, flags: &[&str]) {
    let out = tempfile::tempdir().unwrap();
    let path = out.path().join(name);
    std::fs::write(&path, source).unwrap();
    let Some(mut command) = compiler(name) else { return };
    command.args(["-Wall", "-Wextra", "-Werror", "-pedantic", "-Wconversion", "-fsyntax-only", "-I"]).arg(folder());
    let done = command.args(flags).arg(&path).output().unwrap();
    assert!(done.status.success(), "{name}: {}", String::from_utf8_lossy(&done.stderr));
}
