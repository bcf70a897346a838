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

/// KiB of all bodies together that are on their way into this process. Whoever sends slowly holds what has arrived, so
/// without a bound many connections would be much memory. What was announced and has not arrived takes no room: else a few
/// hundred who announce much and send nothing would keep everybody else out.
const ROOM_KIB: usize = 262_144;
static ROOM: Semaphore = Semaphore::const_new(ROOM_KIB);
/// Bodies up to this size need no room: there are only so many connections.
const SMALL: usize = 4_096;
/// Room is taken in steps of so many KiB.
const STEP_KIB: usize = 16;
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
    let mut room = Room::default();
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
        if !room.grow(&ROOM, whole.len() + piece.len()) {
            return Err(Plain::Busy);
        }
        whole.extend_from_slice(&piece);
        match next(&mut body).await? {
            Some(more) => piece = more,
            None => return Ok(whole.freeze()),
        }
    }
}

/// The room that a body has taken, given back when dropped.
#[derive(Debug, Default)]
struct Room<'a>(Option<SemaphorePermit<'a>>);

impl<'a> Room<'a> {
    /// Takes what is missing for so many bytes; `false` when there is no more now.
    fn grow(&mut self, of: &'a Semaphore, bytes: usize) -> bool {
        let held = self.0.as_ref().map_or(0, SemaphorePermit::num_permits);
        let needed = if bytes <= SMALL { 0 } else { bytes.div_ceil(1_024 * STEP_KIB) * STEP_KIB };
        let Some(missing) = needed.checked_sub(held).filter(|missing| *missing > 0) else { return true };
        let Ok(more) = of.try_acquire_many(u32::try_from(missing).unwrap_or(u32::MAX)) else { return false };
        match &mut self.0 {
            Some(held) => held.merge(more),
            None => self.0 = Some(more),
        }
        true
    }
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
    fn room_is_for_what_has_arrived() {
        let all = Semaphore::new(64);
        let (mut one, mut other, mut small) = (Room::default(), Room::default(), Room::default());
        assert!(one.grow(&all, 4_097) && one.grow(&all, 16_384), "one step");
        assert_eq!(all.available_permits(), 48);
        assert!(other.grow(&all, 48 * 1_024));
        assert!(!one.grow(&all, 16_385), "there is no more");
        assert!(small.grow(&all, SMALL));
        drop(other);
        assert!(one.grow(&all, 64 * 1_024) && one.grow(&all, 100));
        assert_eq!(all.available_permits(), 0);
        drop(one);
        assert_eq!(all.available_permits(), 64);
    }
}
