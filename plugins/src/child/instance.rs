//! Calls into the library.
#![allow(unsafe_code, reason = "calls through the C interface")]
use std::{ffi::c_void, ptr};

use muretai_plugin::abi::{self, Buffer};

use super::{Fault, library::Library};
use crate::{
    engine::MAX_DOCUMENT_BYTES,
    native::frame::{MAX_FAULT_BYTES, say},
};

/// A loaded library, and its instance when one is open.
pub(super) struct Instance {
    library: Library,
    handle: Option<*mut c_void>,
    config: Vec<u8>,
}

impl Instance {
    pub(super) fn of(library: &Library) -> Instance {
        Instance { library: *library, handle: None, config: Vec::new() }
    }

    /// What the plugin offers.
    pub(super) fn describe(&mut self) -> Result<Vec<u8>, Fault> {
        // SAFETY: the interface; the buffer is ours and empty.
        self.take(|library, out| unsafe { (library.describe)(out) })
    }

    /// Opens an instance, and remembers the config for the next one.
    pub(super) fn open(&mut self, config: &[u8]) -> Result<Vec<u8>, Fault> {
        self.close();
        let mut handle = ptr::null_mut();
        // SAFETY: the interface; `config` lives during the call, `handle` and the buffer are ours.
        self.take(|library, out| unsafe { (library.open)(config.as_ptr(), config.len(), &mut handle, out) })?;
        self.handle = Some(handle);
        self.config = config.to_vec();
        Ok(Vec::new())
    }

    /// One request. An instance that panicked is not asked again: it may be half changed.
    pub(super) fn call(&mut self, request: &[u8]) -> Result<Vec<u8>, Fault> {
        if self.handle.is_none() {
            let config = std::mem::take(&mut self.config);
            let opened = self.open(&config);
            self.config = config;
            opened?;
        }
        let handle = self.handle.unwrap_or(ptr::null_mut());
        let mut code = abi::OK;
        let answer = self.take(|library, out| {
            // SAFETY: the interface; `handle` is open, `request` lives during the call, the buffer is ours.
            code = unsafe { (library.call)(handle, request.as_ptr(), request.len(), out) };
            code
        });
        if code == abi::ERR_PANIC {
            self.close();
        }
        answer
    }

    /// Closes the instance, if one is open.
    pub(super) fn close(&mut self) {
        if let Some(handle) = self.handle.take() {
            // SAFETY: the interface; `handle` is open and is not used again.
            unsafe { (self.library.close)(handle) };
        }
    }

    /// Copies what the plugin hands out, and gives it back.
    fn take(&mut self, act: impl FnOnce(&Library, *mut Buffer) -> i32) -> Result<Vec<u8>, Fault> {
        let mut out = Buffer::empty();
        let code = act(&self.library, &mut out);
        let most = if code == abi::OK { MAX_DOCUMENT_BYTES } else { MAX_FAULT_BYTES };
        let copied = match (out.data.is_null(), out.len) {
            (_, 0) => Ok(Vec::new()),
            (true, _) => Err("a buffer without data has a length".to_owned()),
            (false, len) if code == abi::OK && len > most => {
                Err(format!("the answer is {len} bytes, the limit is {MAX_DOCUMENT_BYTES}"))
            }
            // SAFETY: the interface: `len` bytes are there until they are released.
            (false, len) => Ok(unsafe { std::slice::from_raw_parts(out.data, len.min(most)) }.to_vec()),
        };
        if !out.data.is_null() {
            // SAFETY: the interface; once for each buffer.
            unsafe { (self.library.release)(&mut out) };
        }
        match copied {
            Ok(answer) if code == abi::OK => Ok(answer),
            Ok(text) => Err((say::FAILED, text)),
            Err(text) => Err((say::BAD_ANSWER, text.into_bytes())),
        }
    }
}
