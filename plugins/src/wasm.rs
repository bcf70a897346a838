//! WebAssembly plugins, in a sandbox without any import: no files, no network, no clock, no randomness.
//!
//! A module is bounded before it is compiled, compiled once, and instantiated afresh for each call: a trap, a leak or
//! a secret of one call never reaches the next. A call runs on a thread that may block, within a memory limit, a fuel
//! limit (work) and a time limit; when it is late or nobody waits for it any more, it is interrupted where it stands.
//!
//! A module exports its `memory` and
//!
//! | export | does |
//! | --- | --- |
//! | `muretai_abi() -> i32` | tells its interface version |
//! | `muretai_alloc(i32) -> i32` | gives room for so many bytes, 0 when there is none |
//! | `muretai_describe() -> i64` | gives its declaration |
//! | `muretai_open(ptr, len) -> i64` | takes its configuration; 0, or a document that may hold an `error` |
//! | `muretai_call(ptr, len) -> i64` | answers a request |
//!
//! where an `i64` is a document in the module's memory: its address in the upper half, its length in the lower.
#[cfg(feature = "wasm")]
mod bounds;
#[cfg(feature = "wasm")]
mod runner;
#[cfg(feature = "wasm")]
mod sandbox;

#[cfg(feature = "wasm")]
pub use runner::{WasmEngine, describe};
#[cfg(not(feature = "wasm"))]
pub use without::{WasmEngine, describe};

/// Bytes of a module.
pub const MAX_MODULE_BYTES: usize = 16 * 1_048_576;

/// Whether a file begins as a WebAssembly module does.
pub fn is_module(bytes: &[u8]) -> bool {
    bytes.starts_with(b"\0asm")
}

/// What stands in for the sandbox in a build without it.
#[cfg(not(feature = "wasm"))]
mod without {
    use std::time::Duration;

    use async_trait::async_trait;

    use crate::engine::{CallKind, Engine, Limits, PluginFault};

    /// A plugin in WebAssembly; never made in this build.
    pub struct WasmEngine {}

    impl WasmEngine {
        /// Always fails: this build has no WebAssembly.
        pub async fn start(_: &[u8], _: &[u8], _: Limits) -> Result<WasmEngine, PluginFault> {
            Err(unavailable())
        }
    }

    #[async_trait]
    impl Engine for WasmEngine {
        async fn call(&self, _: CallKind, _: &[u8], _: Duration) -> Result<Vec<u8>, PluginFault> {
            Err(unavailable())
        }
        async fn close(&self) {}
    }

    /// Always fails: this build has no WebAssembly.
    pub async fn describe(_: &[u8]) -> Result<Vec<u8>, PluginFault> {
        Err(unavailable())
    }

    fn unavailable() -> PluginFault {
        PluginFault::Unavailable("this program was built without the feature wasm".to_owned())
    }
}
