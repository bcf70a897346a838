//! The layer between the socket and the HTTP library. It watches every request go by, because the library folds
//! silently what section 12.3 refuses, and it owns the timeouts.
//!
//! Bytes are passed on once they are approved: a head when it is complete and judged, a body as far as its length or
//! its chunks say. So a pipelined request is judged like the first one. A bad head is never passed on: the library sees
//! the end of the stream, finishes the answers that it owes, and then the refusal is written here. A body that stalls or
//! breaks is reported to the library as an error, and the handler answers it. A request that a site takes over is not
//! passed on either: the library ends as with a bad head, and the socket is given away instead of closed.
use std::{
    io,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll, ready},
};

use bytes::{Buf, Bytes};
use hyper::rt::{Read, ReadBufCursor, Write};
use tokio::{io::AsyncWrite, net::TcpStream, time::Instant};

use super::{
    LINGER, LINGER_BYTES,
    answers::{self, Plain},
    chunked::ChunkScanner,
    deadline::Deadline,
    head::{self, BodyLength},
    sites::SiteConnection,
};
use crate::http::{
    ServerLimits,
    site::{Head, TakenOver},
};

mod buffer;

use buffer::Buffer;

/// Bodies from this size on are read in large pieces.
const LARGE_BODY: u64 = 16_384;

/// What the next byte from the peer belongs to.
#[derive(Debug)]
enum Stage {
    /// A request head, of which this much was searched for its end.
    Head { searched: usize },
    /// A body with this much to come.
    Fixed(u64),
    /// A chunked body.
    Chunked(ChunkScanner),
    /// A body that stalled or is malformed.
    Broken(io::ErrorKind),
    /// Nothing more is read.
    Ended,
}

/// What can be passed on after the buffer was looked at.
enum Verdict {
    /// Some bytes were approved.
    Approved,
    /// More bytes are needed.
    Incomplete,
}

/// A socket that passes well-framed requests only, and in time.
pub(super) struct FramedStream {
    stream: TcpStream,
    limits: Arc<ServerLimits>,
    buffer: Buffer,
    /// Leading bytes of the buffer that may be passed on.
    approved: usize,
    stage: Stage,
    /// When the first byte of the current request came.
    started: Option<Instant>,
    /// Since when nothing is under way.
    idle_since: Option<Instant>,
    is_first_request: bool,
    /// The last read found nothing.
    is_waiting: bool,
    /// When the answer that is being written must be out.
    write_by: Option<Instant>,
    deadline: Deadline,
    /// The task was woken for an expired deadline and has not come to read yet.
    is_woken: bool,
    has_ended: bool,
    refusal: Option<Plain>,
    closing: Closing,
    /// What a site has to say about requests.
    site: Option<Arc<SiteConnection>>,
    /// Requests that were approved to their ends.
    passed: u64,
    /// The request that a site takes over.
    taken: Option<Box<Head>>,
    /// The library was told to wait although there is something to say.
    is_held: bool,
    /// Since when an answer is made for a peer that has gone, or sends no more.
    gone_since: Option<Instant>,
}

/// The steps of closing a connection.
#[derive(Debug)]
enum Closing {
    NotYet,
    Refusing {
        rest: Bytes,
        by: Instant,
    },
    /// Both sides may still have bytes under way; closing now would make the kernel take the answer back.
    Lingering {
        left: usize,
        by: Instant,
    },
    Done,
}

impl FramedStream {
    pub(super) fn new(stream: TcpStream, limits: Arc<ServerLimits>, site: Option<Arc<SiteConnection>>) -> FramedStream {
        FramedStream {
            stream,
            limits,
            buffer: Buffer::new(),
            approved: 0,
            stage: Stage::Head { searched: 0 },
            started: None,
            idle_since: None,
            is_first_request: true,
            is_waiting: false,
            write_by: None,
            deadline: Deadline::default(),
            is_woken: false,
            has_ended: false,
            refusal: None,
            closing: Closing::NotYet,
            site,
            passed: 0,
            taken: None,
            is_held: false,
            gone_since: None,
        }
    }

    /// The socket and the request that a site takes over, once the library is through.
    pub(super) fn into_taken_over(self) -> Option<TakenOver> {
        let head = *self.taken?;
        Some(TakenOver { head, stream: self.stream })
    }

    /// Approves what can be approved of the buffered bytes.
    fn judge(&mut self) -> Result<Verdict, Plain> {
        if matches!(self.stage, Stage::Head { searched: 0 }) {
            self.buffer.skip_empty_lines();
        }
        let bytes = self.buffer.bytes();
        if bytes.is_empty() {
            return Ok(Verdict::Incomplete);
        }
        match &mut self.stage {
            Stage::Head { searched } => {
                if bytes == b"\r" {
                    return Ok(Verdict::Incomplete);
                }
                if !is_token_byte(bytes[0]) {
                    return Err(Plain::BadRequest("this is no HTTP request"));
                }
                let max = self.limits.max_head_bytes;
                match head::find_end(bytes, *searched) {
                    Some(len) if len <= max => self.approve_head(len),
                    None if bytes.len() < max => {
                        *searched = bytes.len();
                        Ok(Verdict::Incomplete)
                    }
                    _ => Err(Plain::HeadTooLarge(max)),
                }
            }
            Stage::Fixed(left) => {
                let taken = (bytes.len() as u64).min(*left);
                *left -= taken;
                self.approved = taken as usize;
                if *left == 0 {
                    self.end_request();
                }
                Ok(Verdict::Approved)
            }
            Stage::Chunked(scanner) => {
                match scanner.scan(bytes) {
                    Ok((used, is_end)) => {
                        self.approved = used;
                        if is_end {
                            self.end_request();
                        }
                    }
                    Err(_) => self.stage = Stage::Broken(io::ErrorKind::InvalidData),
                }
                Ok(Verdict::Approved)
            }
            Stage::Broken(_) | Stage::Ended => Ok(Verdict::Incomplete),
        }
    }

    fn approve_head(&mut self, len: usize) -> Result<Verdict, Plain> {
        let length = head::inspect(&self.buffer.bytes()[..len])?;
        if let (Some(site), BodyLength::None) = (&self.site, length)
            && let Some(head) = site.taken_over(&self.buffer.bytes()[..len])
        {
            return self.give_away(head, len);
        }
        self.approved = len;
        self.is_first_request = false;
        match length {
            BodyLength::None => self.end_request(),
            BodyLength::Fixed(length) => {
                self.stage = Stage::Fixed(length);
                self.buffer.expect_large(length > LARGE_BODY);
            }
            BodyLength::Chunked => self.stage = Stage::Chunked(ChunkScanner::new()),
        }
        Ok(Verdict::Approved)
    }

    /// The library sees the end of the stream, and finishes.
    fn give_away(&mut self, head: Head, len: usize) -> Result<Verdict, Plain> {
        if self.buffer.bytes().len() > len {
            return Err(Plain::BadRequest("nothing may follow this request"));
        }
        self.buffer.clear();
        self.stage = Stage::Ended;
        self.taken = Some(Box::new(head));
        Ok(Verdict::Incomplete)
    }

    /// While an answer is made or written, the library reads only to see whether the peer has gone. Whatever else there is
    /// to read or to say has to wait: the end of what is read would end the answer too.
    fn poll_gone(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.is_held = true;
        self.is_waiting = false;
        if !self.has_ended && self.buffer.is_empty() && matches!(self.stage, Stage::Head { .. }) {
            match self.buffer.poll_fill(Pin::new(&mut self.stream), cx, self.limits.max_head_bytes) {
                Poll::Ready(Ok(0)) => self.has_ended = true,
                Poll::Ready(Ok(_)) | Poll::Pending => return Poll::Pending,
                Poll::Ready(Err(error)) => return Poll::Ready(Err(error)),
            }
        }
        if !self.has_ended || !self.is_awaited() {
            return Poll::Pending;
        }
        // Who has only closed its sending side gets the answers that are made at once.
        let gone_since = *self.gone_since.get_or_insert_with(Instant::now);
        ready!(self.deadline.poll(gone_since + LINGER, cx));
        Poll::Ready(Ok(()))
    }

    /// Says whether a site has a request and no answer yet.
    fn is_awaited(&self) -> bool {
        self.site.as_ref().is_some_and(|site| site.answered() < self.passed)
    }

    /// Says whether an answer of a site is made or written.
    fn is_answering(&self) -> bool {
        self.site.is_some() && (self.write_by.is_some() || self.is_awaited())
    }

    fn end_request(&mut self) {
        self.passed += 1;
        self.stage = Stage::Head { searched: 0 };
        self.buffer.expect_large(false);
        self.started = None;
        self.idle_since = None;
    }

    /// No head is read any more; the refusal goes out when the answers before it have gone.
    fn refuse(&mut self, plain: Plain) {
        self.stage = Stage::Ended;
        self.refusal = Some(plain);
    }

    /// By when the peer must have sent what is expected now.
    fn read_by(&mut self) -> Option<Instant> {
        match self.stage {
            Stage::Head { .. } if self.buffer.is_empty() => {
                // What is not flushed yet is under way; the peer is not idle then.
                if self.write_by.is_some() {
                    return None;
                }
                let since = *self.idle_since.get_or_insert_with(Instant::now);
                Some(since + if self.is_first_request { self.limits.head_timeout } else { self.limits.keep_alive })
            }
            Stage::Head { .. } => self.started.map(|started| started + self.limits.head_timeout),
            Stage::Fixed(_) | Stage::Chunked(_) => self.started.map(|started| started + self.limits.request_timeout),
            Stage::Broken(_) | Stage::Ended => None,
        }
    }

    /// What an expired deadline means depends on what was expected.
    fn expire(&mut self) {
        match self.stage {
            Stage::Head { .. } if self.buffer.is_empty() && !self.is_first_request => self.stage = Stage::Ended,
            Stage::Head { .. } => self.refuse(Plain::Timeout),
            Stage::Fixed(_) | Stage::Chunked(_) => self.stage = Stage::Broken(io::ErrorKind::TimedOut),
            Stage::Broken(_) | Stage::Ended => {}
        }
    }

    /// Sets the timer to the next deadline; ready when that has passed.
    fn poll_deadline(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        let read_by = if self.is_waiting { self.read_by() } else { None };
        match (read_by, self.write_by) {
            (None, None) => Poll::Pending,
            (Some(at), None) | (None, Some(at)) => self.deadline.poll(at, cx),
            (Some(read_by), Some(write_by)) => self.deadline.poll(read_by.min(write_by), cx),
        }
    }

    /// Reads from the socket, or finds that the time is over.
    fn poll_fill(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let filled = self.buffer.poll_fill(Pin::new(&mut self.stream), cx, self.limits.max_head_bytes);
        self.is_waiting = filled.is_pending();
        match filled {
            Poll::Ready(Ok(0)) => {
                self.has_ended = true;
                Poll::Ready(Ok(()))
            }
            Poll::Ready(Ok(_)) => Poll::Ready(Ok(())),
            Poll::Ready(Err(error)) => Poll::Ready(Err(error)),
            Poll::Pending => {
                ready!(self.poll_deadline(cx));
                match self.read_by() {
                    Some(by) if by <= Instant::now() => {
                        self.expire();
                        Poll::Ready(Ok(()))
                    }
                    // The write is late; `poll_write` deals with that.
                    _ => Poll::Pending,
                }
            }
        }
    }

    /// Says whether the peer may have sent what nobody reads.
    fn must_linger(&self) -> bool {
        let is_between_requests = matches!(self.stage, Stage::Head { .. }) && self.buffer.is_empty();
        !self.has_ended && !is_between_requests
    }

    fn check_written(&mut self, written: Poll<io::Result<usize>>, cx: &mut Context<'_>) -> Poll<io::Result<usize>> {
        if written.is_pending() {
            let limit = self.limits.write_timeout;
            let by = *self.write_by.get_or_insert_with(|| Instant::now() + limit);
            if self.poll_deadline(cx).is_ready() && by <= Instant::now() {
                return Poll::Ready(Err(io::ErrorKind::TimedOut.into()));
            }
        }
        self.idle_since = None;
        written
    }
}

impl Read for FramedStream {
    fn poll_read(self: Pin<&mut Self>, cx: &mut Context<'_>, mut out: ReadBufCursor<'_>) -> Poll<io::Result<()>> {
        let this = self.get_mut();
        this.is_woken = false;
        loop {
            if this.approved > 0 {
                let len = this.approved.min(out.remaining());
                out.put_slice(&this.buffer.bytes()[..len]);
                this.buffer.consume(len);
                this.approved -= len;
                return Poll::Ready(Ok(()));
            }
            if this.is_answering() {
                return this.poll_gone(cx);
            }
            if !this.buffer.is_empty() && this.started.is_none() {
                this.started = Some(Instant::now());
            }
            match this.judge() {
                Ok(Verdict::Approved) => continue,
                Ok(Verdict::Incomplete) => {}
                Err(plain) => this.refuse(plain),
            }
            match this.stage {
                Stage::Ended => return Poll::Ready(Ok(())),
                Stage::Broken(kind) => return Poll::Ready(Err(kind.into())),
                _ if this.has_ended => return Poll::Ready(Ok(())),
                _ => ready!(this.poll_fill(cx))?,
            }
        }
    }
}

impl Write for FramedStream {
    fn poll_write(self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        let this = self.get_mut();
        let written = Pin::new(&mut this.stream).poll_write(cx, bytes);
        this.check_written(written, cx)
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        slices: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let this = self.get_mut();
        let written = Pin::new(&mut this.stream).poll_write_vectored(cx, slices);
        this.check_written(written, cx)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    /// Comes when everything is written, at the end of each turn of the library: the moment to set the idle timer.
    fn poll_flush(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let this = self.get_mut();
        this.write_by = None;
        if this.is_held && !this.is_answering() {
            this.is_held = false;
            cx.waker().wake_by_ref();
        }
        if this.is_waiting && this.poll_deadline(cx).is_ready() && !this.is_woken {
            this.is_woken = true;
            cx.waker().wake_by_ref();
        }
        Pin::new(&mut this.stream).poll_flush(cx)
    }

    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let this = self.get_mut();
        if this.taken.is_some() {
            return Poll::Ready(Ok(()));
        }
        loop {
            match &mut this.closing {
                Closing::NotYet => {
                    let rest = this.refusal.as_ref().map(answers::raw).unwrap_or_default();
                    this.closing = Closing::Refusing { rest, by: Instant::now() + LINGER };
                }
                Closing::Refusing { rest, by } if rest.has_remaining() => {
                    match Pin::new(&mut this.stream).poll_write(cx, rest) {
                        Poll::Ready(Ok(written)) => rest.advance(written),
                        Poll::Ready(Err(error)) => return Poll::Ready(Err(error)),
                        Poll::Pending => {
                            ready!(this.deadline.poll(*by, cx));
                            return Poll::Ready(Err(io::ErrorKind::TimedOut.into()));
                        }
                    }
                }
                Closing::Refusing { by, .. } => {
                    let by = *by;
                    ready!(Pin::new(&mut this.stream).poll_shutdown(cx))?;
                    this.closing =
                        if this.must_linger() { Closing::Lingering { left: LINGER_BYTES, by } } else { Closing::Done };
                }
                Closing::Lingering { left, by } => {
                    this.buffer.clear();
                    match this.buffer.poll_fill(Pin::new(&mut this.stream), cx, 0) {
                        Poll::Ready(Ok(n)) if n > 0 && n < *left => *left -= n,
                        Poll::Ready(_) => this.closing = Closing::Done,
                        Poll::Pending => {
                            ready!(this.deadline.poll(*by, cx));
                            this.closing = Closing::Done;
                        }
                    }
                }
                Closing::Done => return Poll::Ready(Ok(())),
            }
        }
    }
}

/// The first byte of a method name; a TLS handshake or line noise is told at once that this is HTTP.
fn is_token_byte(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&byte)
}
