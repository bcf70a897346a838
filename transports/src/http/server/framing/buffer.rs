//! A read buffer that is small while a connection is idle.
use std::{
    io,
    pin::Pin,
    task::{Context, Poll, ready},
};

use tokio::{io::AsyncRead, io::ReadBuf, net::TcpStream};

/// Holds a usual request; what a connection costs while it is idle.
const SMALL: usize = 8_192;
/// For large bodies, so that a megabyte is not read in hundreds of pieces.
const LARGE: usize = 65_536;

/// Bytes that were read and not yet passed on.
#[derive(Debug)]
pub(super) struct Buffer {
    data: Box<[u8]>,
    start: usize,
    end: usize,
    is_large_wanted: bool,
}

impl Buffer {
    /// Takes no memory before the first byte is awaited.
    pub(super) fn new() -> Buffer {
        Buffer { data: Box::default(), start: 0, end: 0, is_large_wanted: false }
    }

    pub(super) fn bytes(&self) -> &[u8] {
        &self.data[self.start..self.end]
    }

    pub(super) fn is_empty(&self) -> bool {
        self.start == self.end
    }

    pub(super) fn consume(&mut self, len: usize) {
        self.start += len;
        if self.is_empty() {
            self.clear();
        }
    }

    pub(super) fn clear(&mut self) {
        self.start = 0;
        self.end = 0;
    }

    /// Says whether a large body comes next.
    pub(super) fn expect_large(&mut self, is_large_wanted: bool) {
        self.is_large_wanted = is_large_wanted;
    }

    /// Drops the empty lines that some clients send between requests.
    pub(super) fn skip_empty_lines(&mut self) {
        while self.bytes().starts_with(b"\r\n") {
            self.consume(2);
        }
    }

    /// Reads once into the free room, of which there is always some: `max_head` bounds what the caller leaves unread.
    pub(super) fn poll_fill(
        &mut self,
        stream: Pin<&mut TcpStream>,
        cx: &mut Context<'_>,
        max_head: usize,
    ) -> Poll<io::Result<usize>> {
        self.make_room(max_head);
        let mut room = ReadBuf::new(&mut self.data[self.end..]);
        ready!(stream.poll_read(cx, &mut room))?;
        let len = room.filled().len();
        self.end += len;
        Poll::Ready(Ok(len))
    }

    fn make_room(&mut self, max_head: usize) {
        if self.is_empty() {
            let size = if self.is_large_wanted { LARGE } else { SMALL };
            if self.data.len() != size {
                self.data = vec![0; size].into();
            }
        } else if self.end == self.data.len() {
            if self.start == 0 {
                let size = (self.data.len() * 2).min(max_head).max(self.data.len() + 1);
                let mut larger = vec![0; size];
                larger[..self.end].copy_from_slice(&self.data);
                self.data = larger.into();
            } else {
                self.data.copy_within(self.start.., 0);
                self.end -= self.start;
                self.start = 0;
            }
        }
    }
}
