//! The cost of a call of a native policy: the allow-list in C, in its child process, under both kinds of runtime.
#![cfg(unix)]
#![allow(missing_docs)]

use std::{
    path::{Path, PathBuf},
    process::Command,
    sync::Arc,
    time::Duration,
};

use criterion::{Criterion, criterion_group, criterion_main};
use muretai_plugins::{
    engine::{CallKind, Engine, HostCommand, Limits},
    native::NativeEngine,
};
use tokio::runtime::{Builder, Runtime};

const TIMEOUT: Duration = Duration::from_secs(5);
const CONFIG: &[u8] = br#"{"dids":["did:key:z6MkWest","did:key:z6MkNorth"],"domains":["example.com"]}"#;
const REQUEST: &[u8] = br#"{"op":"policy","method":"message/send","from":"did:key:z6MkNorth","contact":"none",
    "introduction":null,"domain":null,"now":1750000000}"#;

fn allowlist() -> Arc<[u8]> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR"));
    let out = PathBuf::from(env!("CARGO_TARGET_TMPDIR"));
    let make = Command::new("make")
        .arg("-s")
        .arg("-C")
        .arg(folder.join("examples/allowlist"))
        .arg(format!("OUT={}", out.display()))
        .status();
    assert!(make.is_ok_and(|status| status.success()), "the example needs make and a C compiler");
    std::fs::read(out.join("liballowlist.so")).expect("make wrote it").into()
}

fn start(runtime: &Runtime, library: &Arc<[u8]>) -> NativeEngine {
    let host = HostCommand { program: env!("CARGO_BIN_EXE_muretai-plugin-host").into(), args: Vec::new() };
    runtime
        .block_on(NativeEngine::start(library.clone(), CONFIG, Limits::default(), &host))
        .expect("the example starts")
}

fn policy(c: &mut Criterion) {
    let library = allowlist();
    let current = Builder::new_current_thread().enable_all().build().expect("a runtime");
    let engine = start(&current, &library);
    c.bench_function("native policy, one thread", |b| {
        b.iter(|| current.block_on(engine.call(CallKind::Skill, REQUEST, TIMEOUT)).expect("it answers"));
    });
    drop(engine);
    // As a node has it: the caller is a task among others.
    let several = Builder::new_multi_thread().worker_threads(2).enable_all().build().expect("a runtime");
    let engine = Arc::new(start(&several, &library));
    c.bench_function("native policy, in a task", |b| {
        b.iter_custom(|calls| {
            let engine = engine.clone();
            let task = several.spawn(async move {
                let begun = std::time::Instant::now();
                for _ in 0..calls {
                    engine.call(CallKind::Skill, REQUEST, TIMEOUT).await.expect("it answers");
                }
                begun.elapsed()
            });
            several.block_on(task).expect("it ends")
        });
    });
    // After a pause both sides have to be woken.
    c.bench_function("native policy, after a pause of 1 ms", |b| {
        b.iter_custom(|calls| {
            let engine = engine.clone();
            let task = several.spawn(async move {
                let mut spent = Duration::ZERO;
                for _ in 0..calls {
                    tokio::time::sleep(Duration::from_millis(1)).await;
                    let begun = std::time::Instant::now();
                    engine.call(CallKind::Skill, REQUEST, TIMEOUT).await.expect("it answers");
                    spent += begun.elapsed();
                }
                spent
            });
            several.block_on(task).expect("it ends")
        });
    });
}

criterion_group! {
    name = benches;
    config = Criterion::default().measurement_time(Duration::from_secs(3)).warm_up_time(Duration::from_secs(1));
    targets = policy
}
criterion_main!(benches);
