//! What one call of a trust policy in WebAssembly costs, as the gate makes it: request written, sandbox made, called and
//! thrown away, answer read.
//!
//!     cargo bench -p muretai-plugins --bench wasm
//!
//! The example policy is used where clang can build it, and a fixed answer besides. `BENCH_SECONDS` sets how long.
#![allow(missing_docs, clippy::unwrap_used, clippy::print_stdout)]
use std::{
    path::Path,
    process::Command,
    time::{Duration, Instant},
};

use muretai_plugins::{
    Applicant, ContactState,
    contract::{self, PolicyAnswer},
    engine::{CallKind, Engine, Limits},
    wasm::WasmEngine,
};
use muretai_protocol::{Did, UnixSeconds};

const FIXED: &str = r#"(module
    (memory (export "memory") 2)
    (data (i32.const 16) "{\"decision\":\"pass\"}")
    (func (export "muretai_abi") (result i32) (i32.const 1))
    (func (export "muretai_alloc") (param i32) (result i32) (i32.const 1024))
    (func (export "muretai_describe") (result i64) (i64.const 0))
    (func (export "muretai_open") (param i32 i32) (result i64) (i64.const 0))
    (func (export "muretai_call") (param i32 i32) (result i64) (i64.const 0x1000000013)))"#;

fn main() {
    let seconds = std::env::var("BENCH_SECONDS").ok().and_then(|text| text.parse().ok()).unwrap_or(2.0);
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    let length = Duration::from_secs_f64(seconds);
    runtime.block_on(measure("a fixed answer", &wat::parse_str(FIXED).unwrap(), "{}", length));
    match example() {
        Some(module) => {
            let config = r#"{"utcOffsetMinutes":120,"days":[1,2,3,4,5],"from":"09:00","to":"17:00"}"#;
            runtime.block_on(measure("office hours", &module, config, length));
        }
        None => println!("SKIP office hours: clang and wasm-ld are not installed"),
    }
}

fn example() -> Option<Vec<u8>> {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    let folder = tempfile::tempdir().unwrap();
    let module = folder.path().join("office-hours.wasm");
    let built = Command::new("clang")
        .args(["--target=wasm32", "-O2", "-ffreestanding", "-nostdlib", "-Wl,--no-entry", "-I"])
        .arg(here)
        .arg("-o")
        .arg(&module)
        .arg(here.join("examples/office-hours/office_hours.c"))
        .status();
    built.ok().filter(std::process::ExitStatus::success)?;
    std::fs::read(module).ok()
}

async fn measure(what: &str, module: &[u8], config: &str, length: Duration) {
    let applicant = Applicant {
        did: "did:key:z6MkhaXgBZDvotDkL5257faiztiGiC2QtKLGpbnnEGta2doK".parse::<Did>().unwrap(),
        contact: ContactState::None,
        introduction: None,
        domain: None,
        method: "message/send",
        now: UnixSeconds(1_784_457_000),
    };
    let starting = Instant::now();
    let engine = WasmEngine::start(module, config.as_bytes(), Limits::default()).await.unwrap();
    println!("{what:>16}: {:.1} ms to compile and open", starting.elapsed().as_secs_f64() * 1e3);
    let mut times = Vec::new();
    let end = Instant::now() + length;
    while Instant::now() < end {
        let begun = Instant::now();
        let request = contract::policy_request(&applicant);
        let answer = engine.call(CallKind::Policy, &request, Limits::default().policy_timeout).await.unwrap();
        PolicyAnswer::parse(&answer).unwrap();
        times.push(begun.elapsed());
    }
    times.sort_unstable();
    let at = |part: usize| times[(times.len() * part / 100).min(times.len() - 1)].as_secs_f64() * 1e6;
    println!("{what:>16}: median {:.1} µs, 99 of 100 within {:.1} µs, {} calls", at(50), at(99), times.len());
}
