//! What stands between Rust and the C interface: bytes in, bytes out, and no panic leaves.
#![allow(unsafe_code, reason = "the C interface passes pointers")]
use std::{
    any::Any,
    ffi::c_void,
    panic::{AssertUnwindSafe, catch_unwind},
    ptr,
};

use crate::{
    Error, Plugin,
    abi::{self, Buffer, Table},
    decode::{self, Request},
    encode,
};

/// The table of a plugin, for [`crate::export_plugin!`].
pub fn entry<P: Plugin>(_abi_min: u32, _abi_max: u32) -> *const Table {
    // There is one version. A host of another one reads `abi` and says so.
    ptr::from_ref(Exports::<P>::TABLE)
}

struct Exports<P>(P);

impl<P: Plugin> Exports<P> {
    const TABLE: &'static Table = &Table {
        abi: abi::ABI,
        size: size_of::<Table>() as u32,
        describe: Some(describe::<P>),
        open: Some(open::<P>),
        call: Some(call::<P>),
        release: Some(release),
        close: Some(close::<P>),
    };
}

/// A failure of the border: the code and the text.
type Failure = (i32, String);

/// Answers one request.
pub(crate) fn answer<P: Plugin>(plugin: &mut P, request: &[u8]) -> Result<Vec<u8>, Error> {
    match decode::request(request)? {
        Request::Skill(request) => {
            let Some(skill) = plugin.skill(&request.skill) else {
                return Err(Error(format!("there is no skill `{}` here", request.skill)));
            };
            Ok(encode::reply(&skill.answer(&request)))
        }
        Request::Policy(applicant) => {
            let policy = plugin.policy().ok_or("there is no policy here")?;
            Ok(encode::decision(&policy.decide(&applicant)?))
        }
    }
}

/// Runs `act`, puts its answer or the text of its failure into the buffer, and returns the code.
fn guarded(out: *mut Buffer, act: impl FnOnce() -> Result<Vec<u8>, Failure>) -> i32 {
    let (code, bytes) = match catch_unwind(AssertUnwindSafe(act)) {
        Ok(Ok(bytes)) => (abi::OK, bytes),
        Ok(Err((code, text))) => (code, text.into_bytes()),
        Err(panic) => (abi::ERR_PANIC, text_of(panic).into_bytes()),
    };
    let bytes = bytes.into_boxed_slice();
    if !out.is_null() && !bytes.is_empty() {
        let len = bytes.len();
        // SAFETY: the host passes a buffer of its own that nobody else uses during the call.
        unsafe { out.write(Buffer { data: Box::into_raw(bytes).cast(), len, owner: ptr::null_mut() }) };
    }
    code
}

fn text_of(panic: Box<dyn Any + Send>) -> String {
    let text = panic
        .downcast_ref::<&str>()
        .map(|text| (*text).to_owned())
        .or_else(|| panic.downcast_ref::<String>().cloned())
        .unwrap_or_else(|| "panicked".to_owned());
    // A payload may panic when it is dropped; nothing more is to be had from it.
    std::mem::forget(panic);
    text
}

/// # Safety
/// `data` points at `len` bytes that live for as long as the result is used, or `len` is zero.
unsafe fn bytes<'a>(data: *const u8, len: usize) -> &'a [u8] {
    if data.is_null() || len == 0 {
        return &[];
    }
    // SAFETY: the caller's promise.
    unsafe { std::slice::from_raw_parts(data, len) }
}

unsafe extern "C-unwind" fn describe<P: Plugin>(out: *mut Buffer) -> i32 {
    guarded(out, || Ok(encode::about(&P::about())))
}

unsafe extern "C-unwind" fn open<P: Plugin>(
    config: *const u8,
    config_len: usize,
    instance: *mut *mut c_void,
    out: *mut Buffer,
) -> i32 {
    guarded(out, || {
        // SAFETY: the interface says that the config is valid during the call.
        let config = unsafe { bytes(config, config_len) };
        let config = decode::object(config).map_err(|error| (abi::ERR_CONFIG, error.0))?;
        let plugin = P::open(&config).map_err(|error| (abi::ERR_CONFIG, error.0))?;
        // SAFETY: the interface says that `instance` is there to be written.
        unsafe { instance.write(Box::into_raw(Box::new(plugin)).cast()) };
        Ok(Vec::new())
    })
}

unsafe extern "C-unwind" fn call<P: Plugin>(
    instance: *mut c_void,
    request: *const u8,
    request_len: usize,
    out: *mut Buffer,
) -> i32 {
    guarded(out, || {
        // SAFETY: `instance` is what `open` made, not closed, and no other call uses it; the request is valid.
        let (plugin, request) = unsafe { (&mut *instance.cast::<P>(), bytes(request, request_len)) };
        answer(plugin, request).map_err(|error| (abi::ERR_FAILED, error.0))
    })
}

unsafe extern "C-unwind" fn release(buffer: *mut Buffer) {
    if buffer.is_null() {
        return;
    }
    // SAFETY: the host gives back a buffer that `guarded` filled, once.
    unsafe {
        let given = buffer.replace(Buffer::empty());
        if !given.data.is_null() {
            drop(Box::from_raw(ptr::slice_from_raw_parts_mut(given.data, given.len)));
        }
    }
}

unsafe extern "C-unwind" fn close<P: Plugin>(instance: *mut c_void) {
    guarded(ptr::null_mut(), || {
        if !instance.is_null() {
            // SAFETY: `instance` is what `open` made, and this is its last use.
            drop(unsafe { Box::from_raw(instance.cast::<P>()) });
        }
        Ok(Vec::new())
    });
}

#[cfg(test)]
mod tests;
