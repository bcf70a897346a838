//! The child process that holds a native plugin: it puts itself in bounds, loads the library from the descriptor that
//! it was given, and answers what the host asks until the host is gone.
//!
//! What is in bounds: time (the host kills), memory, descriptors, environment, output. The plugin runs with the rights
//! of the user all the same, and can read and write what the user can: the owner chose it and pinned its bytes.
mod confine;
mod instance;
mod library;
mod wire;

use std::process::ExitCode;

use self::{instance::Instance, library::Library, wire::Wire};
use crate::native::frame::{Frame, ask, say};

/// Runs the child. Returns only when this process was not started by a host; else the process ends here.
///
/// Must be called before anything else of the program, in its first thread: descriptors beyond the first three are
/// closed, and whatever memory is in use by then counts as the program's own.
pub fn run() -> ExitCode {
    if !confine::is_started_by_host() {
        return ExitCode::from(2);
    }
    let Ok((socket, library)) = confine::take_descriptors() else { leave(3) };
    let Ok(mut wire) = Wire::new(socket) else { leave(3) };
    let Some(start) = wire.receive() else { leave(0) };
    let library = match begin(&start, library) {
        Ok(library) => library,
        Err((kind, text)) => {
            wire.send(kind, start.number, &text);
            leave(0);
        }
    };
    wire.send(say::ANSWER, start.number, b"");
    serve(&mut wire, Instance::of(&library))
}

/// A kind of frame, and its payload.
type Fault = (u32, Vec<u8>);

fn begin(start: &Frame, library: std::os::fd::OwnedFd) -> Result<Library, Fault> {
    let memory_mib = match (start.kind, start.payload.first_chunk()) {
        (ask::START, Some(bytes)) => u32::from_ne_bytes(*bytes),
        _ => return Err((say::UNAVAILABLE, b"the host speaks otherwise".to_vec())),
    };
    confine::limit(memory_mib).map_err(|error| (say::UNAVAILABLE, error.to_string().into_bytes()))?;
    Library::load(library)
}

fn serve(wire: &mut Wire, mut instance: Instance) -> ! {
    while let Some(frame) = wire.receive() {
        let (kind, payload) = match frame.kind {
            ask::DESCRIBE => instance.describe(),
            ask::OPEN => instance.open(&frame.payload),
            ask::CALL => instance.call(&frame.payload),
            ask::CLOSE => {
                instance.close();
                wire.send(say::ANSWER, frame.number, b"");
                leave(0);
            }
            _ => leave(3),
        }
        .map_or_else(|fault| fault, |answer| (say::ANSWER, answer));
        wire.send(kind, frame.number, &payload);
    }
    // The host is gone or has no more use for this.
    leave(0)
}

/// Ends the process without running destructors or what the library registered for the end: code that nobody bounds.
#[allow(unsafe_code, reason = "std has only the exit that runs them")]
fn leave(code: i32) -> ! {
    // SAFETY: `_exit` has no preconditions.
    unsafe { libc::_exit(code) }
}

/// Loads a library into this process and takes it through describe, open, calls and close, without limits and without
/// another process: for memory checkers. Returns one line for each step.
///
/// # Errors
/// The text of the first step that failed; a call that fails is no error but a line.
#[doc(hidden)]
pub fn rehearse(library: std::fs::File, config: &[u8], requests: &[&[u8]]) -> Result<Vec<String>, String> {
    let shown = |fault: Fault| format!("fault {}: {}", fault.0, String::from_utf8_lossy(&fault.1));
    let text = |answer: Vec<u8>| String::from_utf8_lossy(&answer).into_owned();
    let library = Library::load(library.into()).map_err(shown)?;
    let mut instance = Instance::of(&library);
    let mut lines = vec![text(instance.describe().map_err(shown)?)];
    instance.open(config).map_err(shown)?;
    for request in requests {
        lines.push(instance.call(request).map_or_else(shown, text));
    }
    instance.close();
    Ok(lines)
}
