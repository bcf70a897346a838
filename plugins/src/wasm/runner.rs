//! Calls into the sandbox from asynchronous code.
use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use async_trait::async_trait;
use tokio::sync::{OwnedSemaphorePermit, Semaphore, oneshot};

use super::sandbox::{Budget, Flag, MemoryPool, Program};
use crate::{
    contract,
    engine::{CallKind, Engine, Limits, PluginFault},
};

/// How long a module may take to compile.
const COMPILE_TIMEOUT: Duration = Duration::from_secs(30);
/// How long its declaration, or taking its configuration, may take.
const START_TIMEOUT: Duration = Duration::from_secs(5);
/// Memory for a declaration, before anybody said how much the plugin may have.
const DESCRIBE_MEMORY_MIB: u32 = 64;
/// Calls of policies, beside those of skills and never in their places: they are short, and messages wait for them.
const POLICY_PLACES: usize = 8;
/// Work per millisecond. A second limit beside the clock, for when a timer is late.
const FUEL_PER_MS: u64 = 4_000_000;

/// A plugin in WebAssembly. Calls run at the same time, each in an instance of its own.
pub struct WasmEngine {
    program: Arc<Program>,
    config: Arc<[u8]>,
    policies: Side,
    skills: Side,
}

/// What calls of one kind have among them, and the other kind cannot take from them.
struct Side {
    places: Arc<Semaphore>,
    memory: Arc<MemoryPool>,
}

impl Side {
    fn new(places: usize, memory_mib: u32) -> Side {
        Side { places: Arc::new(Semaphore::new(places)), memory: Arc::new(MemoryPool::new(memory_mib)) }
    }
}

impl WasmEngine {
    /// Compiles a module and shows it its configuration, a JSON object.
    pub async fn start(bytes: &[u8], config: &[u8], limits: Limits) -> Result<WasmEngine, PluginFault> {
        // A quarter of the memory, and a mebibyte at least, is the policy's.
        let policy_mib = (limits.memory_mib / 4).max(1);
        let engine = WasmEngine {
            program: compile(bytes).await?,
            config: config.into(),
            policies: Side::new(POLICY_PLACES, policy_mib),
            skills: Side::new(limits.max_running.clamp(1, 1024), limits.memory_mib.saturating_sub(policy_mib).max(1)),
        };
        let config = Arc::clone(&engine.config);
        let work = move |program: &Program, budget: &Budget, flag: &Flag| program.open(&config, budget, flag);
        let answer = engine.run(CallKind::Skill, START_TIMEOUT, work).await?;
        if !answer.is_empty() {
            contract::check_opened(&answer)?;
        }
        Ok(engine)
    }

    /// Runs work on a thread that may block, and interrupts it when it is late or this future is dropped.
    async fn run(
        &self,
        kind: CallKind,
        timeout: Duration,
        work: impl FnOnce(&Program, &Budget, &Flag) -> Result<Vec<u8>, PluginFault> + Send + 'static,
    ) -> Result<Vec<u8>, PluginFault> {
        let deadline = tokio::time::Instant::from_std(Instant::now() + timeout);
        let late = |_| PluginFault::TimedOut(timeout);
        let side = match kind {
            CallKind::Policy => &self.policies,
            CallKind::Skill => &self.skills,
        };
        let place = tokio::time::timeout_at(deadline, Arc::clone(&side.places).acquire_owned()).await.map_err(late)?;
        let place = place.map_err(|_| PluginFault::Ended("it was closed".to_owned()))?;
        let budget = Budget { memory: Arc::clone(&side.memory), fuel: fuel(timeout) };
        let running = Running::begin(&self.program, place, budget, work);
        tokio::time::timeout_at(deadline, running.end()).await.map_err(late)?
    }
}

#[async_trait]
impl Engine for WasmEngine {
    async fn call(&self, kind: CallKind, request: &[u8], timeout: Duration) -> Result<Vec<u8>, PluginFault> {
        let (config, request) = (Arc::clone(&self.config), request.to_vec());
        self.run(kind, timeout, move |program, budget, flag| program.call(&config, &request, budget, flag)).await
    }

    async fn close(&self) {
        self.policies.places.close();
        self.skills.places.close();
    }
}

/// Asks a module for its declaration, as it gives it.
pub async fn describe(bytes: &[u8]) -> Result<Vec<u8>, PluginFault> {
    let engine = WasmEngine {
        program: compile(bytes).await?,
        config: Arc::new([]),
        policies: Side::new(1, 0),
        skills: Side::new(1, DESCRIBE_MEMORY_MIB),
    };
    engine.run(CallKind::Skill, START_TIMEOUT, |program, budget, flag| program.describe(budget, flag)).await
}

/// Compiles on a thread of its own: one that is late is left behind, and delays neither this program's work nor its end.
async fn compile(bytes: &[u8]) -> Result<Arc<Program>, PluginFault> {
    let (told, done) = oneshot::channel();
    let bytes = bytes.to_vec();
    let thread = std::thread::Builder::new().name("compile".to_owned());
    let spawned = thread.spawn(move || told.send(Program::compile(&bytes)).map_err(drop));
    spawned.map_err(|error| PluginFault::Unavailable(error.to_string()))?;
    match tokio::time::timeout(COMPILE_TIMEOUT, done).await {
        Err(_) => Err(PluginFault::TimedOut(COMPILE_TIMEOUT)),
        Ok(Err(_)) => Err(PluginFault::NotAPlugin("its code cannot be compiled".to_owned())),
        Ok(Ok(program)) => program.map(Arc::new),
    }
}

fn fuel(timeout: Duration) -> u64 {
    u64::try_from(timeout.as_millis()).unwrap_or(u64::MAX).max(1).saturating_mul(FUEL_PER_MS)
}

/// A call on its thread. Dropping it interrupts the call.
struct Running {
    program: Arc<Program>,
    flag: Flag,
    task: tokio::task::JoinHandle<Result<Vec<u8>, PluginFault>>,
}

impl Running {
    fn begin(
        program: &Arc<Program>,
        place: OwnedSemaphorePermit,
        budget: Budget,
        work: impl FnOnce(&Program, &Budget, &Flag) -> Result<Vec<u8>, PluginFault> + Send + 'static,
    ) -> Running {
        let flag = Flag::default();
        let (its_program, its_flag) = (Arc::clone(program), flag.clone());
        let task = tokio::task::spawn_blocking(move || {
            // Held until the thread is free again, not only until nobody waits.
            let _place = place;
            work(&its_program, &budget, &its_flag)
        });
        Running { program: Arc::clone(program), flag, task }
    }

    async fn end(mut self) -> Result<Vec<u8>, PluginFault> {
        (&mut self.task).await.unwrap_or_else(|_| Err(PluginFault::Ended("the sandbox failed".to_owned())))
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        if !self.task.is_finished() {
            self.program.interrupt(&self.flag);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::contract::ABI_VERSION;

    const LONG: Duration = Duration::from_secs(60);
    const DECLARATION: &str = r#"{"name":"fixture","version":"1","policy":true}"#;

    /// A module in which single functions are replaced: `body` of `call`, `open`, `describe`, `alloc`, `abi`.
    fn module(replaced: &[(&str, &str)], extra: &str) -> Vec<u8> {
        let escaped = DECLARATION.replace('"', "\\\"");
        let body = |name: &str, usual: &str| {
            replaced.iter().find(|(other, _)| *other == name).map_or(usual.to_owned(), |(_, body)| (*body).to_owned())
        };
        let text = format!(
            r#"(module
              (memory (export "memory") 2)
              (data (i32.const 16) "{escaped}")
              (global $next (mut i32) (i32.const 1024))
              (func (export "muretai_abi") (result i32) {abi})
              (func (export "muretai_alloc") (param i32) (result i32) {alloc})
              (func (export "muretai_describe") (result i64) {describe})
              (func (export "muretai_open") (param i32 i32) (result i64) {open})
              (func $call (export "muretai_call") (param i32 i32) (result i64) {call})
              {extra})"#,
            abi = body("abi", &format!("i32.const {ABI_VERSION}")),
            alloc = body("alloc", "global.get $next (global.set $next (i32.add (global.get $next) (local.get 0)))"),
            describe = body("describe", &answer(16, DECLARATION.len())),
            open = body("open", "i64.const 0"),
            // Gives the request back.
            call = body(
                "call",
                "(i64.or (i64.shl (i64.extend_i32_u (local.get 0)) (i64.const 32)) \
                 (i64.extend_i32_u (local.get 1)))"
            ),
        );
        wat::parse_str(&text).unwrap_or_else(|error| panic!("{error}\n{text}"))
    }

    fn answer(at: u64, len: usize) -> String {
        format!("i64.const {}", (at << 32) | len as u64)
    }

    async fn start(module: &[u8]) -> Result<WasmEngine, PluginFault> {
        WasmEngine::start(module, b"{}", Limits { memory_mib: 4, ..Limits::default() }).await
    }

    /// What one call of a fixture ends in; afterwards the same engine still answers, and so does another.
    async fn fault_of_call(body: &str, extra: &str, timeout: Duration) -> PluginFault {
        // Misbehaves only when the request begins with `!`.
        let body = format!(
            "(if (i32.eq (i32.load8_u (local.get 0)) (i32.const 33)) (then {body})) \
             (i64.or (i64.shl (i64.extend_i32_u (local.get 0)) (i64.const 32)) (i64.extend_i32_u (local.get 1)))"
        );
        let engine = start(&module(&[("call", &body)], extra)).await.unwrap();
        let fault = engine.call(CallKind::Skill, b"!", timeout).await.unwrap_err();
        assert_eq!(engine.call(CallKind::Skill, b"still here", LONG).await.unwrap(), b"still here");
        fault
    }

    #[tokio::test]
    async fn answers_and_keeps_nothing_between_calls() {
        let counting = "(i32.store8 (i32.const 0) (i32.add (i32.load8_u (i32.const 0)) (i32.const 49))) \
                        (i64.const 1)";
        let engine = start(&module(&[("call", counting)], "")).await.unwrap();
        for _ in 0..3 {
            assert_eq!(engine.call(CallKind::Skill, b"x", LONG).await.unwrap(), b"1");
        }
        let describing = describe(&module(&[], "")).await.unwrap();
        assert_eq!(describing, DECLARATION.as_bytes());
    }

    #[tokio::test]
    async fn the_configuration_is_taken_or_refused_at_the_start() {
        let refused = r#"(data (i32.const 256) "{\"error\":\"no hours\"}")"#;
        let module = module(&[("open", &answer(256, 20))], refused);
        assert_eq!(start(&module).await.err(), Some(PluginFault::Failed("no hours".to_owned())));
    }

    #[tokio::test]
    async fn a_loop_ends_by_the_clock_and_by_its_work() {
        let fault = fault_of_call("(loop $l br $l)", "", Duration::from_millis(20)).await;
        // Whichever comes first on this machine.
        let by_work = PluginFault::Ended("it did more work than its time allows".to_owned());
        assert!(fault == by_work || matches!(fault, PluginFault::TimedOut(_)), "{fault:?}");
        let program = Program::compile(&module(&[("call", "(loop $l br $l) unreachable")], "")).unwrap();
        let budget = Budget { memory: Arc::new(MemoryPool::new(4)), fuel: 10_000 };
        assert_eq!(program.call(b"{}", b"x", &budget, &Flag::default()), Err(by_work));
    }

    #[tokio::test]
    async fn a_call_that_nobody_waits_for_is_interrupted() {
        let program = Arc::new(Program::compile(&module(&[("call", "(loop $l br $l) unreachable")], "")).unwrap());
        let place = Arc::new(Semaphore::new(1));
        let held = Arc::clone(&place).acquire_owned().await.unwrap();
        let budget = Budget { memory: Arc::new(MemoryPool::new(4)), fuel: u64::MAX };
        let work = |program: &Program, budget: &Budget, flag: &Flag| program.call(b"{}", b"x", budget, flag);
        let running = Running::begin(&program, held, budget, work);
        drop(running);
        // Comes back only when the endless loop has ended.
        let _back = place.acquire().await.unwrap();
    }

    #[tokio::test]
    async fn memory_without_end_is_a_fault_and_not_the_hosts() {
        let ended =
            |fault| matches!(fault, PluginFault::Ended(why) if why == "its calls asked for more than 3 MiB of memory");
        assert!(ended(fault_of_call("(loop $l (drop (memory.grow (i32.const 1))) br $l)", "", LONG).await));
        let greedy = wat::parse_str(r#"(module (memory (export "memory") 65536))"#).unwrap();
        assert!(ended(start(&greedy).await.err().unwrap()));
        let table = "(drop (table.grow $t (ref.null func) (i32.const 2000000)))";
        let fault = fault_of_call(table, "(table $t 1 funcref)", LONG).await;
        assert!(matches!(&fault, PluginFault::Ended(why) if why.contains("table entries")), "{fault:?}");
    }

    #[tokio::test]
    async fn calls_share_the_memory_and_give_it_back() {
        let program = Program::compile(&module(&[("call", "(drop (memory.grow (i32.const 30))) i64.const 1")], ""));
        let program = program.unwrap();
        // Of two instances of 32 pages only one has room in three MiB at a time; one after the other both do.
        let budget = Budget { memory: Arc::new(MemoryPool::new(3)), fuel: 1_000_000 };
        for _ in 0..10 {
            assert_eq!(program.call(b"{}", b"x", &budget, &Flag::default()).unwrap(), [0]);
        }
        let small = Budget { memory: Arc::new(MemoryPool::new(1)), ..budget };
        assert!(program.call(b"{}", b"x", &small, &Flag::default()).is_err());
    }

    #[tokio::test(flavor = "multi_thread", worker_threads = 4)]
    async fn skills_that_run_for_ever_keep_no_policy_waiting() {
        // A call that begins with `!` takes a MiB and stays.
        let body = "(if (i32.eq (i32.load8_u (local.get 0)) (i32.const 33)) (then \
                    (drop (memory.grow (i32.const 8))) (loop $l br $l))) i64.const 1";
        let engine = Arc::new(start(&module(&[("call", body)], "")).await.unwrap());
        let spinning: Vec<_> = (0..4)
            .map(|_| {
                let engine = Arc::clone(&engine);
                tokio::spawn(async move { engine.call(CallKind::Skill, b"!", LONG).await })
            })
            .collect();
        while engine.skills.places.available_permits() > 0 {
            tokio::task::yield_now().await;
        }
        for _ in 0..20 {
            assert_eq!(engine.call(CallKind::Policy, b"x", LONG).await.unwrap(), [0]);
        }
        for call in spinning {
            call.abort();
        }
    }

    #[tokio::test]
    async fn traps_are_faults_of_the_call_alone() {
        for (body, word) in [
            ("unreachable", "gave up"),
            ("(drop (i32.load (i32.const -1)))", "out of bounds memory access"),
            ("(drop (i32.div_u (i32.const 1) (i32.const 0)))", "divide by zero"),
            ("(drop (call $deep (i32.const 0)))", "call stack exhausted"),
        ] {
            let deep = "(func $deep (param i32) (result i32) (i32.add (call $deep (local.get 0)) (i32.const 1)))";
            let fault = fault_of_call(body, deep, LONG).await;
            assert!(matches!(&fault, PluginFault::Ended(why) if why.contains(word)), "{body}: {fault:?}");
        }
    }

    #[tokio::test]
    async fn answers_outside_the_memory_are_refused() {
        let huge = format!("(return ({}))", answer(0, u32::MAX as usize));
        for (body, word) in [
            (format!("(return ({}))", answer(131_072, 1)), "outside its memory"),
            (format!("(return ({}))", answer(u64::from(u32::MAX), 9)), "outside its memory"),
            (huge, "the limit is 1048576"),
            ("(return (i64.const -1))".to_owned(), "the limit is 1048576"),
        ] {
            let fault = fault_of_call(&body, "", LONG).await;
            assert!(matches!(&fault, PluginFault::BadAnswer(why) if why.contains(word)), "{body}: {fault:?}");
        }
        for (alloc, word) in [("i32.const -8", "outside its memory"), ("i32.const 0", "no room for 2 bytes")] {
            let fault = start(&module(&[("alloc", alloc)], "")).await.err().unwrap();
            assert!(fault.to_string().contains(word), "{alloc}: {fault:?}");
        }
    }

    #[tokio::test]
    async fn a_module_of_another_shape_is_no_plugin() {
        let wrong = start(&module(&[("abi", "i32.const 9")], "")).await.err();
        assert_eq!(wrong, Some(PluginFault::WrongAbi { found: 9, ours: ABI_VERSION }));
        for (text, word) in [
            ("(module)", "no memory"),
            (r#"(module (memory (export "memory") 1))"#, "no function muretai_abi"),
            (r#"(module (memory (export "memory") 1) (func (export "muretai_abi")))"#, "of another type"),
            (
                r#"(module (memory (export "memory") 1) (global (export "muretai_abi") i32 (i32.const 1)))"#,
                "no function",
            ),
            (r#"(module (import "env" "f" (func)) (memory (export "memory") 1))"#, "it imports env.f"),
            (r#"(module (memory i64 1))"#, "memory64"),
        ] {
            let fault = start(&wat::parse_str(text).unwrap()).await.err().unwrap();
            assert!(matches!(&fault, PluginFault::NotAPlugin(why) if why.contains(word)), "{text}: {fault:?}");
        }
        for bytes in [&b"\x7fELF"[..], b"\0asm\x01\0\0\0\x01\x02", b""] {
            assert!(matches!(start(bytes).await.err(), Some(PluginFault::NotAPlugin(_))), "{bytes:?}");
        }
    }

    #[tokio::test]
    async fn a_start_function_that_loops_is_stopped() {
        let bytes = module(&[], "(start $spin) (func $spin (loop $l br $l))");
        let program = Program::compile(&bytes).unwrap();
        let fault = program.describe(&Budget { memory: Arc::new(MemoryPool::new(4)), fuel: 10_000 }, &Flag::default());
        assert_eq!(fault, Err(PluginFault::Ended("it did more work than its time allows".to_owned())));
    }

    #[tokio::test]
    async fn calls_run_side_by_side_and_none_after_the_end() {
        let engine = Arc::new(start(&module(&[], "")).await.unwrap());
        let calls: Vec<_> = (0..64u8)
            .map(|n| {
                let engine = Arc::clone(&engine);
                tokio::spawn(async move { (n, engine.call(CallKind::Skill, &[n], LONG).await.unwrap()) })
            })
            .collect();
        for call in calls {
            let (n, answer) = call.await.unwrap();
            assert_eq!(answer, [n]);
        }
        engine.close().await;
        assert!(matches!(engine.call(CallKind::Skill, b"x", LONG).await, Err(PluginFault::Ended(_))));
    }
}
