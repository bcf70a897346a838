//! What runs a plugin: a child process for a native library, a sandbox for WebAssembly. JSON bytes in, JSON bytes out.
use std::{path::PathBuf, time::Duration};

use async_trait::async_trait;

/// How a plugin is kept in bounds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// For one call of a trust policy.
    pub policy_timeout: Duration,
    /// For one call of a skill.
    pub skill_timeout: Duration,
    /// Memory that it may have, in MiB.
    pub memory_mib: u32,
    /// Calls of a skill at the same time.
    pub max_running: usize,
}

impl Default for Limits {
    fn default() -> Limits {
        Limits {
            policy_timeout: Duration::from_millis(500),
            skill_timeout: Duration::from_secs(30),
            memory_mib: 256,
            max_running: 4,
        }
    }
}

/// Largest document that crosses in either direction, in bytes.
pub const MAX_DOCUMENT_BYTES: usize = 1_048_576;

/// How a child process that holds a native plugin is started: this program and the words that make it one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HostCommand {
    /// Usually the running program itself.
    pub program: PathBuf,
    /// Usually `plugin host`.
    pub args: Vec<String>,
}

/// Why a call gave no answer. None of it reaches a peer.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum PluginFault {
    /// Not a library or module that can be loaded.
    #[error("the file is no plugin: {0}")]
    NotAPlugin(String),
    /// Its interface is of another version.
    #[error("the plugin speaks interface version {found}, this program speaks {ours}")]
    WrongAbi {
        /// What it says.
        found: u32,
        /// What is spoken here.
        ours: u32,
    },
    /// It took too long and was stopped.
    #[error("the plugin did not answer within {0:?}")]
    TimedOut(Duration),
    /// It ended, crashed or was ended by its memory limit.
    #[error("the plugin ended: {0}")]
    Ended(String),
    /// It panicked or threw; the text is its own, one line.
    #[error("the plugin failed: {0}")]
    Failed(String),
    /// What it gave is no JSON, too large, or not what the contract says.
    #[error("the plugin answered what it must not: {0}")]
    BadAnswer(String),
    /// It ended too often lately and is left alone for a while.
    #[error("the plugin ended too often and rests")]
    Resting,
    /// The program cannot run such a plugin, for want of a feature or of the system's help.
    #[error("plugins of this kind cannot be run: {0}")]
    Unavailable(String),
}

/// Whose call it is. Decides which room it takes; the plugin is not told.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CallKind {
    /// A trust policy's: every message waits for it, so that nothing that skills do may keep it waiting.
    Policy,
    /// A skill's.
    Skill,
}

/// Something that answers one plugin's calls. Calls may come at the same time; dropping one stops its work.
#[async_trait]
pub trait Engine: Send + Sync {
    /// One call: `request` and the answer are JSON of the contract. The answer is at most [`MAX_DOCUMENT_BYTES`] and
    /// otherwise unchecked.
    async fn call(&self, kind: CallKind, request: &[u8], timeout: Duration) -> Result<Vec<u8>, PluginFault>;
    /// Ends the plugin; later calls fail.
    async fn close(&self);
}
