//! Native plugins: shared libraries with the interface of `muretai_plugin.h`, each in child processes of its own, so
//! that no abort, endless loop, crash or hunger for memory hurts the agent. What a child does is in [`crate::child`].
//!
//! A call costs a few microseconds, because after a call both sides stay awake for some tens of microseconds instead of
//! being put to sleep and woken. While nothing is asked nobody is awake.
mod budget;
pub(crate) mod frame;
mod image;
mod lanes;
mod process;

use std::{
    pin::pin,
    sync::{Arc, Mutex, MutexGuard, PoisonError, Weak},
    time::{Duration, Instant},
};

use async_trait::async_trait;
use tokio::{sync::Notify, task::AbortHandle};

use self::{budget::Budget, frame::ask, image::Image, lanes::Lanes, process::Process};
use crate::engine::{CallKind, Engine, HostCommand, Limits, MAX_DOCUMENT_BYTES, PluginFault};

/// For starting a process, loading the library, and each of `describe` and `open`.
const START_TIMEOUT: Duration = Duration::from_secs(5);
/// For a plugin's own `close`.
const CLOSE_TIMEOUT: Duration = Duration::from_secs(1);
/// When all processes are busy, one that comes back this soon is better than a new one.
const COMES_BACK: Duration = Duration::from_millis(2);
/// Processes beyond the first are ended when they had nothing to do for so long.
const IDLE: Duration = Duration::from_secs(30);

/// A native plugin. Lives on the runtime that first calls it. Dropping it kills its processes; [`Engine::close`] lets
/// the plugin close its instances before.
pub struct NativeEngine {
    inner: Arc<Inner>,
    trimmer: Mutex<Option<AbortHandle>>,
}

struct Inner {
    image: Image,
    config: Vec<u8>,
    limits: Limits,
    host: HostCommand,
    stderr: Stderr,
    lanes: Lanes,
    state: Mutex<State>,
    returned: Notify,
}

/// Where what a plugin writes to its standard error goes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Stderr {
    /// To `/dev/null`.
    Nowhere,
    /// Where ours goes: for a plugin's author.
    Ours,
}

#[derive(Default)]
struct State {
    idle: Vec<Idle>,
    policy: Side,
    skill: Side,
    is_closed: bool,
}

/// What is counted for policies and skills apart: a skill that ends its process, whoever made it do so, must not put the
/// policy to rest.
#[derive(Default)]
struct Side {
    running: usize,
    budget: Budget,
}

impl State {
    fn side(&mut self, kind: CallKind) -> &mut Side {
        match kind {
            CallKind::Policy => &mut self.policy,
            CallKind::Skill => &mut self.skill,
        }
    }
}

struct Idle {
    process: Process,
    /// A process that served one kind never serves the other: what a message did to it stays on its side. `None` before
    /// the first call.
    served: Option<CallKind>,
    since: Instant,
}

impl Idle {
    fn is_for(&self, kind: CallKind) -> bool {
        self.served.is_none_or(|served| served == kind)
    }
}

impl NativeEngine {
    /// Starts a plugin whose library is these bytes, which the caller has compared with what the owner pinned. `config`
    /// is the JSON object that its instances get; one is opened now, so that the owner learns what is wrong with it and
    /// the first call does not wait.
    ///
    /// # Errors
    /// Any: what the plugin makes of being loaded and opened.
    pub async fn start(
        bytes: Arc<[u8]>,
        config: &[u8],
        limits: Limits,
        host: &HostCommand,
    ) -> Result<NativeEngine, PluginFault> {
        NativeEngine::start_with(bytes, config, limits, host, Stderr::Nowhere).await
    }

    /// The same, with a choice of where the plugin's standard error goes.
    pub async fn start_with(
        bytes: Arc<[u8]>,
        config: &[u8],
        limits: Limits,
        host: &HostCommand,
        stderr: Stderr,
    ) -> Result<NativeEngine, PluginFault> {
        if config.len() > MAX_DOCUMENT_BYTES {
            let len = config.len();
            return Err(PluginFault::Unavailable(format!("config is {len} bytes, the limit is {MAX_DOCUMENT_BYTES}")));
        }
        let image = Image::new(&bytes).map_err(|error| PluginFault::Unavailable(error.to_string()))?;
        let inner = Inner {
            image,
            config: config.to_vec(),
            lanes: Lanes::new(limits.max_running),
            limits,
            host: host.clone(),
            stderr,
            state: Mutex::default(),
            returned: Notify::new(),
        };
        let engine = NativeEngine { inner: Arc::new(inner), trimmer: Mutex::default() };
        let process = engine.inner.take_open(CallKind::Skill).await?;
        engine.inner.put_back(process, None);
        Ok(engine)
    }

    fn put_back(&self, busy: Busy) {
        let kind = busy.kind;
        if self.inner.put_back(busy, Some(kind)) > 1 {
            let mut trimmer = self.trimmer.lock().unwrap_or_else(PoisonError::into_inner);
            if trimmer.as_ref().is_none_or(AbortHandle::is_finished) {
                *trimmer = Some(tokio::spawn(trim(Arc::downgrade(&self.inner))).abort_handle());
            }
        }
    }
}

impl Drop for NativeEngine {
    fn drop(&mut self) {
        if let Some(trimmer) = self.trimmer.lock().unwrap_or_else(PoisonError::into_inner).take() {
            trimmer.abort();
        }
    }
}

#[async_trait]
impl Engine for NativeEngine {
    /// Starting a process, when none is ready, has a limit of its own and is not counted.
    async fn call(&self, kind: CallKind, request: &[u8], timeout: Duration) -> Result<Vec<u8>, PluginFault> {
        if request.len() > MAX_DOCUMENT_BYTES {
            let len = request.len();
            return Err(PluginFault::Failed(format!("the request is {len} bytes, the limit is {MAX_DOCUMENT_BYTES}")));
        }
        let _lane = self.inner.lanes.enter(kind, timeout).await?;
        let mut process = self.inner.take_open(kind).await?;
        let answer = self.inner.ask(&mut process, ask::CALL, request, timeout).await?;
        self.put_back(process);
        answer
    }

    async fn close(&self) {
        let idle = {
            let mut state = self.inner.state();
            state.is_closed = true;
            std::mem::take(&mut state.idle)
        };
        for Idle { process, .. } in idle {
            process.close(CLOSE_TIMEOUT).await;
        }
    }
}

impl Inner {
    fn state(&self) -> MutexGuard<'_, State> {
        // Nothing panics while it is held; a state is whole between any two of its changes.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A process with an open instance.
    async fn take_open(self: &Arc<Inner>, kind: CallKind) -> Result<Busy, PluginFault> {
        let mut process = self.take(kind).await?;
        if !process.get().is_open {
            match self.ask(&mut process, ask::OPEN, &self.config, START_TIMEOUT).await? {
                Ok(_) => process.get().is_open = true,
                Err(fault) => {
                    self.put_back(process, Some(kind));
                    return Err(fault);
                }
            }
        }
        Ok(process)
    }

    /// A process whose library is loaded: one that is idle, else one that comes back at once, else a new one.
    async fn take(self: &Arc<Inner>, kind: CallKind) -> Result<Busy, PluginFault> {
        if let Some(busy) = self.take_idle(kind)? {
            return Ok(busy);
        }
        let back = tokio::time::timeout(COMES_BACK, self.comes_back(kind)).await;
        if let Some(busy) = back.unwrap_or(Ok(None))? {
            return Ok(busy);
        }
        let process = Process::spawn(&self.image, &self.host, self.stderr)?;
        let mut busy = {
            let mut state = self.state();
            self.make_room(&mut state);
            self.busy(&mut state, process, kind)
        };
        if let Err(fault) = busy.get().load(self.limits.memory_mib, START_TIMEOUT).await {
            self.state().side(kind).budget.ended(Instant::now());
            return Err(fault);
        }
        Ok(busy)
    }

    /// Waits for a process that another call gives back. `None` when none is at work.
    async fn comes_back(self: &Arc<Inner>, kind: CallKind) -> Result<Option<Busy>, PluginFault> {
        loop {
            let mut returned = pin!(self.returned.notified());
            // Listening begins before the look: what is given back in between is not missed.
            returned.as_mut().enable();
            if let Some(busy) = self.take_idle(kind)? {
                return Ok(Some(busy));
            }
            if self.state().side(kind).running == 0 {
                return Ok(None);
            }
            returned.await;
        }
    }

    fn take_idle(self: &Arc<Inner>, kind: CallKind) -> Result<Option<Busy>, PluginFault> {
        let mut state = self.state();
        if state.is_closed {
            return Err(PluginFault::Unavailable("it was closed".to_owned()));
        }
        while let Some(at) = state.idle.iter().rposition(|idle| idle.is_for(kind)) {
            let mut process = state.idle.remove(at).process;
            if process.is_well() {
                return Ok(Some(self.busy(&mut state, process, kind)));
            }
            state.side(kind).budget.ended(Instant::now());
        }
        if state.side(kind).budget.is_resting(Instant::now()) {
            return Err(PluginFault::Resting);
        }
        Ok(None)
    }

    /// There are never more processes than calls that may run: one more ends that which has been idle longest.
    fn make_room(&self, state: &mut State) {
        let running = state.policy.running + state.skill.running;
        if !state.idle.is_empty() && running + state.idle.len() > self.limits.max_running {
            state.idle.remove(0);
        }
    }

    fn busy(self: &Arc<Inner>, state: &mut State, process: Process, kind: CallKind) -> Busy {
        state.side(kind).running += 1;
        Busy { process: Some(process), kind, inner: self.clone() }
    }

    /// Asks, and takes note of a process that ended over it.
    async fn ask(
        &self,
        busy: &mut Busy,
        kind: u32,
        payload: &[u8],
        timeout: Duration,
    ) -> Result<process::Answer, PluginFault> {
        let asked = busy.get().ask(kind, payload, timeout).await;
        if asked.is_err() {
            self.state().side(busy.kind).budget.ended(Instant::now());
        }
        asked
    }

    /// Returns how many are idle now.
    fn put_back(&self, mut busy: Busy, served: Option<CallKind>) -> usize {
        let mut state = self.state();
        let idle = match busy.process.take() {
            Some(process) if !state.is_closed => {
                state.idle.push(Idle { process, served, since: Instant::now() });
                state.idle.len()
            }
            _ => 0,
        };
        drop(state);
        drop(busy);
        self.returned.notify_waiters();
        idle
    }

    /// Ends processes beyond the first that were idle for long. `false` when no more than one is left.
    fn trim(&self) -> bool {
        let mut state = self.state();
        let now = Instant::now();
        // The last is the one that is taken next.
        while state.idle.len() > 1 && now.duration_since(state.idle[0].since) >= IDLE {
            state.idle.remove(0);
        }
        state.idle.len() > 1
    }
}

/// A process at work. Dropped before it is put back, which is what dropping a call comes to, it is killed.
struct Busy {
    process: Option<Process>,
    kind: CallKind,
    inner: Arc<Inner>,
}

impl Busy {
    fn get(&mut self) -> &mut Process {
        self.process.as_mut().expect("only `put_back` takes it, which ends this")
    }
}

impl Drop for Busy {
    fn drop(&mut self) {
        self.inner.state().side(self.kind).running -= 1;
    }
}

/// What a library says that it is and offers: JSON of the contract, at most [`MAX_DOCUMENT_BYTES`], otherwise
/// unchecked. The process that says so is ended afterwards; no instance is made.
///
/// # Errors
/// Any: what the library makes of being loaded and asked.
pub async fn describe(bytes: Arc<[u8]>, host: &HostCommand) -> Result<Vec<u8>, PluginFault> {
    let image = Image::new(&bytes).map_err(|error| PluginFault::Unavailable(error.to_string()))?;
    let mut process = Process::spawn(&image, host, Stderr::Nowhere)?;
    process.load(Limits::default().memory_mib, START_TIMEOUT).await?;
    let described = process.ask(ask::DESCRIBE, b"", START_TIMEOUT).await?;
    process.close(CLOSE_TIMEOUT).await;
    described
}

async fn trim(inner: Weak<Inner>) {
    loop {
        tokio::time::sleep(IDLE).await;
        let Some(inner) = inner.upgrade() else { return };
        if !inner.trim() {
            return;
        }
    }
}
