//! Turns what the HTTP library reports into situations that a caller can act on.
use std::{error::Error, io, time::Duration};

use super::resolver::ResolveError;
use crate::{ClientTimeouts, TransportError, guard::GuardError};

/// Sorts an error of the HTTP library. `url` is already printable.
pub(super) fn sort(error: reqwest::Error, url: String, timeouts: &ClientTimeouts) -> TransportError {
    if let Some(reason) = find::<GuardError>(&error) {
        return TransportError::Refused { url, source: reason.clone() };
    }
    if let Some(ResolveError(source)) = find::<ResolveError>(&error) {
        return TransportError::Unresolvable { url, source: copy_io(source) };
    }
    if error.is_connect() {
        return sort_connect(error, url, timeouts.connect);
    }
    if error.is_timeout() {
        return TransportError::Timeout { url, limit: timeouts.total };
    }
    if find::<hyper::Error>(&error).is_some_and(|error| error.is_parse() || error.is_parse_too_large()) {
        return TransportError::NotHttp { url, source: innermost(error) };
    }
    TransportError::Closed { url, source: innermost(error) }
}

fn sort_connect(error: reqwest::Error, url: String, limit: Duration) -> TransportError {
    if error.is_timeout() {
        return TransportError::ConnectTimeout { url, limit };
    }
    if let Some(reason) = find::<rustls::Error>(&error) {
        return TransportError::Tls { url, source: Box::new(reason.clone()) };
    }
    let source = match find::<io::Error>(&error) {
        Some(source) => copy_io(source),
        None => io::Error::other(innermost(error)),
    };
    TransportError::Connect { url, source }
}

/// The first error of this type among the causes.
fn find<'e, E: Error + 'static>(error: &'e (dyn Error + 'static)) -> Option<&'e E> {
    let mut at = Some(error);
    while let Some(error) = at {
        if let Some(found) = error.downcast_ref::<E>() {
            return Some(found);
        }
        at = below(error);
    }
    None
}

/// The cause of an error. `source` of an I/O error passes over the error inside it, where TLS hides.
fn below<'e>(error: &'e (dyn Error + 'static)) -> Option<&'e (dyn Error + 'static)> {
    let inside = error.downcast_ref::<io::Error>().and_then(io::Error::get_ref);
    match inside {
        Some(inside) => Some(inside),
        None => error.source(),
    }
}

/// The last cause says what happened; the ones above it say "error sending request" in three ways.
fn innermost(error: reqwest::Error) -> crate::Cause {
    let error = error.without_url();
    let mut at: &(dyn Error + 'static) = &error;
    while let Some(cause) = below(at) {
        at = cause;
    }
    at.to_string().into()
}

fn copy_io(error: &io::Error) -> io::Error {
    match error.raw_os_error() {
        Some(code) => io::Error::from_raw_os_error(code),
        None => io::Error::new(error.kind(), error.to_string()),
    }
}
