//! One compiled module, and what happens in one instance of it. Everything here blocks.
use std::sync::{
    Arc,
    atomic::{AtomicBool, AtomicUsize, Ordering},
};

use wasmtime::{
    Config, Engine, Error, Instance, InstancePre, Linker, Memory, Module, ResourceLimiter, Store, Trap, TypedFunc,
    UpdateDeadline, WasmParams, WasmResults,
};

use super::bounds;
use crate::{
    contract::ABI_VERSION,
    engine::{MAX_DOCUMENT_BYTES, PluginFault},
};

/// Bytes of stack in the sandbox; the threads it runs on have four times as much.
const MAX_STACK_BYTES: usize = 524_288;
/// Entries of all tables.
const MAX_TABLE_ENTRIES: usize = 100_000;
/// Room that a memory gets beyond what it asked for when it outgrows its place, so that growing does not copy each time.
const GROWTH_BYTES: u64 = 16 * 1_048_576;
const MIB: usize = 1_048_576;

/// A module ready to be instantiated. Knows nothing of any call.
pub(super) struct Program {
    engine: Engine,
    ready: InstancePre<State>,
}

/// What one instance may use.
#[derive(Debug, Clone)]
pub(super) struct Budget {
    /// Of memory, together with all other instances that have a share in it.
    pub(super) memory: Arc<MemoryPool>,
    /// Of work, about one per instruction.
    pub(super) fuel: u64,
}

/// Memory that several instances share: what one has, the others cannot get.
#[derive(Debug)]
pub(super) struct MemoryPool {
    limit_bytes: usize,
    used_bytes: AtomicUsize,
}

impl MemoryPool {
    pub(super) fn new(mib: u32) -> MemoryPool {
        MemoryPool { limit_bytes: (mib as usize).saturating_mul(MIB), used_bytes: AtomicUsize::new(0) }
    }

    /// Takes so much, all or nothing.
    fn take(&self, bytes: usize) -> bool {
        let taken = |used: usize| used.checked_add(bytes).filter(|sum| *sum <= self.limit_bytes);
        self.used_bytes.fetch_update(Ordering::SeqCst, Ordering::SeqCst, taken).is_ok()
    }

    fn give_back(&self, bytes: usize) {
        self.used_bytes.fetch_sub(bytes, Ordering::SeqCst);
    }
}

/// Raised when a call is to end at once.
#[derive(Clone, Default)]
pub(super) struct Flag(Arc<AtomicBool>);

/// What lives as long as one instance.
struct State {
    pool: Arc<MemoryPool>,
    memory_bytes: usize,
    table_entries: usize,
}

impl Drop for State {
    fn drop(&mut self) {
        self.pool.give_back(self.memory_bytes);
    }
}

/// A limit that was met; travels through wasmtime as an error.
#[derive(Debug, thiserror::Error)]
enum OverLimit {
    #[error("its calls asked for more than {0} MiB of memory")]
    Memory(usize),
    #[error("it asked for more than {MAX_TABLE_ENTRIES} table entries")]
    Table,
}

impl ResourceLimiter for State {
    fn memory_growing(&mut self, current: usize, desired: usize, _: Option<usize>) -> wasmtime::Result<bool> {
        let more = desired.saturating_sub(current);
        if !self.pool.take(more) {
            return Err(Error::new(OverLimit::Memory(self.pool.limit_bytes / MIB)));
        }
        self.memory_bytes += more;
        Ok(true)
    }
    fn table_growing(&mut self, current: usize, desired: usize, _: Option<usize>) -> wasmtime::Result<bool> {
        // Counted over all tables; what one of them had is counted already.
        self.table_entries = self.table_entries.saturating_add(desired.saturating_sub(current));
        if self.table_entries > MAX_TABLE_ENTRIES {
            return Err(Error::new(OverLimit::Table));
        }
        Ok(true)
    }
    fn instances(&self) -> usize {
        1
    }
    fn memories(&self) -> usize {
        1
    }
}

fn config() -> Config {
    let mut config = Config::new();
    config.consume_fuel(true).epoch_interruption(true).max_wasm_stack(MAX_STACK_BYTES);
    // A trap is told by its kind; a backtrace would show names of the plugin's author to nobody.
    config.wasm_backtrace_max_frames(None).concurrency_support(false);
    // An instance lives for microseconds: small memories that are checked by code are made and thrown away faster than
    // 4 GiB of address space that are checked by faults, and a limit on address space does not stop them.
    config.memory_reservation(0).memory_guard_size(0).memory_init_cow(false);
    config.memory_reservation_for_growth(GROWTH_BYTES);
    // What compilers of today emit by default, and no more.
    config.wasm_memory64(false).wasm_multi_memory(false).wasm_relaxed_simd(false).wasm_tail_call(false);
    config
}

impl Program {
    /// Compiles a module. Takes its time, and cannot be interrupted.
    pub(super) fn compile(bytes: &[u8]) -> Result<Program, PluginFault> {
        bounds::check(bytes)?;
        let engine = Engine::new(&config()).map_err(|error| PluginFault::Unavailable(error.to_string()))?;
        let module = Module::new(&engine, bytes).map_err(|error| PluginFault::NotAPlugin(told(&error)))?;
        let ready = Linker::new(&engine).instantiate_pre(&module);
        let ready = ready.map_err(|error| PluginFault::NotAPlugin(told(&error)))?;
        Ok(Program { engine, ready })
    }

    /// Raises a flag and makes all calls look at theirs.
    pub(super) fn interrupt(&self, flag: &Flag) {
        flag.0.store(true, Ordering::SeqCst);
        self.engine.increment_epoch();
    }

    /// Asks for the declaration.
    pub(super) fn describe(&self, budget: &Budget, flag: &Flag) -> Result<Vec<u8>, PluginFault> {
        let mut run = Run::begin(self, budget, flag)?;
        let answer: i64 = run.invoke("muretai_describe", ())?;
        run.read(answer)
    }

    /// Hands over the configuration and returns what the module says to it; empty when it says nothing.
    pub(super) fn open(&self, config: &[u8], budget: &Budget, flag: &Flag) -> Result<Vec<u8>, PluginFault> {
        Run::begin(self, budget, flag)?.open(config)
    }

    /// Answers a request in an instance of its own.
    pub(super) fn call(
        &self,
        config: &[u8],
        request: &[u8],
        budget: &Budget,
        flag: &Flag,
    ) -> Result<Vec<u8>, PluginFault> {
        let mut run = Run::begin(self, budget, flag)?;
        run.open(config)?;
        let (at, len) = run.write(request)?;
        let answer: i64 = run.invoke("muretai_call", (at, len))?;
        run.read(answer)
    }
}

/// One instance at work.
struct Run {
    store: Store<State>,
    instance: Instance,
    memory: Memory,
}

impl Run {
    fn begin(program: &Program, budget: &Budget, flag: &Flag) -> Result<Run, PluginFault> {
        let state = State { pool: Arc::clone(&budget.memory), memory_bytes: 0, table_entries: 0 };
        let mut store = Store::new(&program.engine, state);
        store.limiter(|state| state);
        store.set_fuel(budget.fuel).map_err(|error| ended(&error))?;
        store.set_epoch_deadline(1);
        let watched = flag.clone();
        store.epoch_deadline_callback(move |_| {
            Ok(if watched.is_raised() { UpdateDeadline::Interrupt } else { UpdateDeadline::Continue(1) })
        });
        // Looked at after the deadline is set: a flag that is raised later moves the epoch past it.
        if flag.is_raised() {
            return Err(PluginFault::Ended("it was stopped".to_owned()));
        }
        let instance = program.ready.instantiate(&mut store).map_err(|error| ended(&error))?;
        let memory = instance.get_memory(&mut store, "memory");
        let memory = memory.ok_or_else(|| PluginFault::NotAPlugin("it exports no memory".to_owned()))?;
        let mut run = Run { store, instance, memory };
        let found: i32 = run.invoke("muretai_abi", ())?;
        if found as u32 != ABI_VERSION {
            return Err(PluginFault::WrongAbi { found: found as u32, ours: ABI_VERSION });
        }
        Ok(run)
    }

    fn open(&mut self, config: &[u8]) -> Result<Vec<u8>, PluginFault> {
        let (at, len) = self.write(config)?;
        match self.invoke("muretai_open", (at, len))? {
            0i64 => Ok(Vec::new()),
            answer => self.read(answer),
        }
    }

    fn invoke<P: WasmParams, R: WasmResults>(&mut self, name: &str, params: P) -> Result<R, PluginFault> {
        let function: TypedFunc<P, R> = match self.instance.get_func(&mut self.store, name) {
            None => return Err(PluginFault::NotAPlugin(format!("it exports no function {name}"))),
            Some(function) => function
                .typed(&self.store)
                .map_err(|_| PluginFault::NotAPlugin(format!("its function {name} is of another type")))?,
        };
        function.call(&mut self.store, params).map_err(|error| ended(&error))
    }

    /// Copies bytes to where the module makes room for them.
    fn write(&mut self, bytes: &[u8]) -> Result<(i32, i32), PluginFault> {
        let len =
            i32::try_from(bytes.len()).map_err(|_| PluginFault::BadAnswer("the request is too long".to_owned()))?;
        let at: i32 = self.invoke("muretai_alloc", len)?;
        if at == 0 {
            return Err(PluginFault::Failed(format!("it has no room for {len} bytes")));
        }
        let written = self.memory.write(&mut self.store, at as u32 as usize, bytes);
        written.map_err(|_| PluginFault::BadAnswer("muretai_alloc gave room outside its memory".to_owned()))?;
        Ok((at, len))
    }

    fn read(&self, answer: i64) -> Result<Vec<u8>, PluginFault> {
        let (at, len) = ((answer as u64 >> 32) as usize, (answer as u64 & 0xffff_ffff) as usize);
        if len > MAX_DOCUMENT_BYTES {
            return Err(PluginFault::BadAnswer(format!("{len} bytes, the limit is {MAX_DOCUMENT_BYTES}")));
        }
        // Neither sum can overflow: both halves are of 32 bits.
        let document = self.memory.data(&self.store).get(at..at + len);
        document.map(<[u8]>::to_vec).ok_or_else(|| PluginFault::BadAnswer("an answer outside its memory".to_owned()))
    }
}

impl Flag {
    fn is_raised(&self) -> bool {
        self.0.load(Ordering::SeqCst)
    }
}

/// What ended a call, told by its kind.
fn ended(error: &Error) -> PluginFault {
    if let Some(limit) = error.downcast_ref::<OverLimit>() {
        return PluginFault::Ended(limit.to_string());
    }
    let why = match error.downcast_ref::<Trap>() {
        Some(Trap::OutOfFuel) => "it did more work than its time allows".to_owned(),
        Some(Trap::Interrupt) => "it was stopped".to_owned(),
        Some(Trap::UnreachableCodeReached) => "it gave up (unreachable)".to_owned(),
        Some(trap) => trap.to_string().trim_start_matches("wasm trap: ").to_owned(),
        None => told(error),
    };
    PluginFault::Ended(why)
}

fn told(error: &Error) -> String {
    muretai_protocol::text::one_line(&format!("{error:#}"), 300)
}
