//! Reads request bodies within the limits, and reads away what is too large or not wanted, so that the sender gets to
//! see the answer.
use std::{error::Error, io, time::Duration};

use bytes::{Bytes, BytesMut};
use http::{HeaderValue, header};
use http_body_util::BodyExt;
use hyper::body::{Body, Incoming};
use tokio::sync::{Semaphore, SemaphorePermit};

use super::answers::{self, Answer, Plain};
use crate::http::ServerLimits;

/// Room that is made for a body before any of it has arrived: a promise of a megabyte costs nothing.
const FIRST_ROOM: u64 = 65_536;

/// KiB of all bodies together that are on their way into this process. Whoever sends slowly holds what it announced, so
/// without a bound many connections would be much memory.
const ROOM_KIB: usize = 262_144;
static ROOM: Semaphore = Semaphore::const_new(ROOM_KIB);
/// Bodies up to this size need no room: there are only so many connections.
const SMALL: usize = 4_096;
/// How long a body that is too large is read away before its sender is told.
const DRAIN_TIME: Duration = Duration::from_secs(5);

/// Limits that apply to one body.
#[derive(Debug, Clone, Copy)]
pub(super) struct BodyLimits {
    pub(super) max: usize,
    pub(super) drain: usize,
    /// The sender waits for leave to send (`Expect: 100-continue`), so that there is nothing to read away.
    pub(super) is_waiting: bool,
}

/// Reads a whole body.
///
/// # Errors
/// What to answer instead of serving the request; the connection ends then.
pub(super) async fn read(mut body: Incoming, limits: BodyLimits) -> Result<Bytes, Plain> {
    let promised = body.size_hint().exact();
    if promised.is_some_and(|length| length > limits.max as u64) {
        if !limits.is_waiting {
            let _ = tokio::time::timeout(DRAIN_TIME, drain(body, limits.drain)).await;
        }
        return Err(Plain::BodyTooLarge(Some(limits.max)));
    }
    let _room = match room_for(promised.map_or(limits.max, |length| length as usize)) {
        Some(room) => room,
        None => return Err(Plain::Busy),
    };
    let Some(first) = next(&mut body).await? else { return Ok(Bytes::new()) };
    // Most bodies arrive in one piece and are not copied.
    if first.len() <= limits.max && promised == Some(first.len() as u64) {
        return Ok(first);
    }
    let mut whole = BytesMut::with_capacity(promised.unwrap_or(0).min(FIRST_ROOM) as usize);
    let mut piece = first;
    loop {
        if whole.len() + piece.len() > limits.max {
            drain(body, limits.drain.saturating_sub(whole.len())).await;
            return Err(Plain::BodyTooLarge(Some(limits.max)));
        }
        whole.extend_from_slice(&piece);
        match next(&mut body).await? {
            Some(more) => piece = more,
            None => return Ok(whole.freeze()),
        }
    }
}

/// Room for a body of this size, held while it arrives; `None` when there is none now.
fn room_for(bytes: usize) -> Option<Option<SemaphorePermit<'static>>> {
    if bytes <= SMALL {
        return Some(None);
    }
    let kib = u32::try_from(bytes.div_ceil(1_024).min(ROOM_KIB)).ok()?;
    ROOM.try_acquire_many(kib).ok().map(Some)
}

/// Reads a body away, up to a limit. Says whether it came to its end, so that another request may follow.
pub(super) async fn drain(mut body: Incoming, limit: usize) -> bool {
    let mut left = limit;
    loop {
        match next(&mut body).await {
            Ok(None) => return true,
            Ok(Some(piece)) if piece.len() <= left => left -= piece.len(),
            Ok(Some(_)) | Err(_) => return false,
        }
    }
}

/// Reads away what there is of a body that nobody reads. Says whether another request may follow.
pub(super) async fn drain_unread(body: Incoming, limits: &ServerLimits) -> bool {
    body.is_end_stream() || drain(body, limits.drain_bytes).await
}

/// A refusal, given once the body is read away.
pub(super) async fn unwanted(body: Incoming, plain: &Plain, limits: &ServerLimits) -> Answer {
    let is_read = drain_unread(body, limits).await;
    closing_unless(is_read, answers::answer(plain))
}

/// Ends the connection with this answer when the rest of its request was not read.
pub(super) fn closing_unless(is_read: bool, mut answer: Answer) -> Answer {
    if !is_read {
        answer.headers_mut().insert(header::CONNECTION, HeaderValue::from_static("close"));
    }
    answer
}

/// The next piece of data; `None` at the end. Trailers are dropped.
async fn next(body: &mut Incoming) -> Result<Option<Bytes>, Plain> {
    loop {
        match body.frame().await {
            None => return Ok(None),
            Some(Ok(frame)) => {
                if let Ok(data) = frame.into_data() {
                    return Ok(Some(data));
                }
            }
            Some(Err(error)) => return Err(sort(&error)),
        }
    }
}

/// The framing layer reports a stalled body as timed out.
fn sort(error: &hyper::Error) -> Plain {
    let cause = error.source().and_then(|cause| cause.downcast_ref::<io::Error>());
    match cause.map(io::Error::kind) {
        Some(io::ErrorKind::TimedOut) => Plain::Timeout,
        _ => Plain::BadRequest("the request body is malformed or ends too early"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn there_is_room_for_so_many_bodies_and_for_small_ones_always() {
        let held: Vec<_> = (0..ROOM_KIB / 1_024).map(|_| room_for(1_048_576).unwrap()).collect();
        assert!(room_for(SMALL + 1).is_none());
        assert!(room_for(SMALL).is_some());
        drop(held);
        assert!(room_for(usize::MAX >> 11).is_some(), "more than all of it is all of it");
    }
}
