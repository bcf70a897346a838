//! Native libraries, each in a child process of its own.
use std::{sync::Arc, time::Duration};

use async_trait::async_trait;

use crate::engine::{Engine, HostCommand, Limits, PluginFault};

/// One native plugin that runs.
pub struct NativeEngine {}

impl NativeEngine {
    /// Starts the plugin in a child process.
    pub async fn start(
        bytes: Arc<[u8]>,
        config: &[u8],
        limits: Limits,
        host: &HostCommand,
    ) -> Result<NativeEngine, PluginFault> {
        let _ = (bytes, config, limits, host);
        Err(unavailable())
    }
}

#[async_trait]
impl Engine for NativeEngine {
    async fn call(&self, _: &[u8], _: Duration) -> Result<Vec<u8>, PluginFault> {
        Err(unavailable())
    }
    async fn close(&self) {}
}

/// What a library declares about itself.
pub async fn describe(bytes: Arc<[u8]>, host: &HostCommand) -> Result<Vec<u8>, PluginFault> {
    let _ = (bytes, host);
    Err(unavailable())
}

fn unavailable() -> PluginFault {
    PluginFault::Unavailable("this build has no native plugins".to_owned())
}
