//! The C interface of `muretai_plugin.h`, version 1, member by member. A test compares the two with a C compiler.
use std::ffi::c_void;

/// The interface version.
pub const ABI: u32 = 1;
/// The exported symbol.
pub const ENTRY_SYMBOL: &str = "muretai_plugin_entry";

/// The buffer holds the answer.
pub const OK: i32 = 0;
/// The buffer may hold one line for the owner's log.
pub const ERR_FAILED: i32 = 1;
/// The owner's configuration is not what the plugin needs.
pub const ERR_CONFIG: i32 = 2;
/// A panic or an exception was caught.
pub const ERR_PANIC: i32 = 3;

/// Bytes that the plugin hands to the host, `muretai_buffer`.
#[repr(C)]
#[derive(Debug)]
pub struct Buffer {
    /// The bytes, or null.
    pub data: *mut u8,
    /// How many.
    pub len: usize,
    /// The plugin's own.
    pub owner: *mut c_void,
}

impl Buffer {
    /// What the host passes in.
    pub const fn empty() -> Buffer {
        Buffer { data: std::ptr::null_mut(), len: 0, owner: std::ptr::null_mut() }
    }
}

/// `describe`.
pub type Describe = unsafe extern "C-unwind" fn(answer: *mut Buffer) -> i32;
/// `open`.
pub type Open = unsafe extern "C-unwind" fn(
    config: *const u8,
    config_len: usize,
    instance: *mut *mut c_void,
    error: *mut Buffer,
) -> i32;
/// `call`.
pub type Call = unsafe extern "C-unwind" fn(
    instance: *mut c_void,
    request: *const u8,
    request_len: usize,
    answer: *mut Buffer,
) -> i32;
/// `release`.
pub type Release = unsafe extern "C-unwind" fn(buffer: *mut Buffer);
/// `close`.
pub type Close = unsafe extern "C-unwind" fn(instance: *mut c_void);
/// `muretai_plugin_entry`.
pub type Entry = unsafe extern "C-unwind" fn(abi_min: u32, abi_max: u32) -> *const Table;

/// All that a plugin does, `muretai_plugin`. A member that is null is `None`.
#[repr(C)]
#[derive(Debug, Clone, Copy)]
pub struct Table {
    /// Read before anything else.
    pub abi: u32,
    /// Bytes of this struct.
    pub size: u32,
    /// Says what the plugin offers.
    pub describe: Option<Describe>,
    /// Makes an instance.
    pub open: Option<Open>,
    /// Answers one request.
    pub call: Option<Call>,
    /// Takes a buffer back.
    pub release: Option<Release>,
    /// Ends an instance.
    pub close: Option<Close>,
}
