//! What passes between the host and the child process: a header of 16 bytes, then a payload. Both ends are this
//! program, but a plugin can write whatever it likes into its end, so that the host believes none of it.
use crate::engine::MAX_DOCUMENT_BYTES;

/// Length, kind and number, in the machine's byte order: both ends are on one machine.
pub(crate) const HEADER_BYTES: usize = 16;
/// Texts of faults are cut to this by the child.
pub(crate) const MAX_FAULT_BYTES: usize = 1024;
/// Room for small frames, kept; larger ones get room for their time.
const KEPT_BYTES: usize = 65_536;

/// What the host asks.
pub(crate) mod ask {
    /// First: the payload is the memory limit in MiB. The library is loaded.
    pub(crate) const START: u32 = 1;
    /// What the plugin offers.
    pub(crate) const DESCRIBE: u32 = 2;
    /// An instance is made; the payload is its configuration.
    pub(crate) const OPEN: u32 = 3;
    /// One request.
    pub(crate) const CALL: u32 = 4;
    /// The instance is closed and the process ends.
    pub(crate) const CLOSE: u32 = 5;
}

/// What the child says.
pub(crate) mod say {
    /// Done; the payload is the answer.
    pub(crate) const ANSWER: u32 = 16;
    /// The library cannot be loaded or is no plugin. The process ends.
    pub(crate) const NOT_A_PLUGIN: u32 = 17;
    /// Of another version, which is the payload. The process ends.
    pub(crate) const WRONG_ABI: u32 = 18;
    /// The plugin returned a code.
    pub(crate) const FAILED: u32 = 19;
    /// It gave a buffer that it must not.
    pub(crate) const BAD_ANSWER: u32 = 20;
    /// The system refused something. The process ends.
    pub(crate) const UNAVAILABLE: u32 = 21;
}

/// One frame.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Frame {
    pub(crate) kind: u32,
    pub(crate) number: u64,
    pub(crate) payload: Vec<u8>,
}

/// Appends a frame. The payload is at most [`MAX_DOCUMENT_BYTES`], which callers see to.
pub(crate) fn write(out: &mut Vec<u8>, kind: u32, number: u64, payload: &[u8]) {
    let len = u32::try_from(payload.len()).expect("documents are at most a MiB");
    out.extend_from_slice(&len.to_ne_bytes());
    out.extend_from_slice(&kind.to_ne_bytes());
    out.extend_from_slice(&number.to_ne_bytes());
    out.extend_from_slice(payload);
}

/// The other end does not keep to the format.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Breach;

/// Bytes as they come, until they are a frame.
#[derive(Debug)]
pub(crate) struct Inbox {
    bytes: Vec<u8>,
    filled: usize,
}

impl Inbox {
    pub(crate) fn new() -> Inbox {
        Inbox { bytes: vec![0; KEPT_BYTES], filled: 0 }
    }

    /// Where the next bytes go. Never empty.
    pub(crate) fn room(&mut self) -> &mut [u8] {
        &mut self.bytes[self.filled..]
    }

    /// Takes note of bytes that were put into [`Inbox::room`]. `Some` once a frame is whole.
    ///
    /// # Errors
    /// More than one frame, or one that is too large: neither end sends before the other has answered.
    pub(crate) fn filled(&mut self, more: usize) -> Result<Option<Frame>, Breach> {
        self.filled += more;
        let Some(header) = self.bytes[..self.filled].first_chunk::<HEADER_BYTES>() else { return Ok(None) };
        let [l0, l1, l2, l3, k0, k1, k2, k3, number @ ..] = *header;
        let len = u32::from_ne_bytes([l0, l1, l2, l3]) as usize;
        if len > MAX_DOCUMENT_BYTES {
            return Err(Breach);
        }
        let whole = HEADER_BYTES + len;
        if self.filled > whole {
            return Err(Breach);
        }
        if self.filled < whole {
            // One more than needed, so that there is room to see a byte too many.
            if self.bytes.len() <= whole {
                self.bytes.resize(whole + 1, 0);
            }
            return Ok(None);
        }
        let payload = self.bytes[HEADER_BYTES..whole].to_vec();
        self.filled = 0;
        if self.bytes.len() > KEPT_BYTES {
            self.bytes = vec![0; KEPT_BYTES];
        }
        Ok(Some(Frame { kind: u32::from_ne_bytes([k0, k1, k2, k3]), number: u64::from_ne_bytes(number), payload }))
    }

    /// No byte of a next frame is here.
    pub(crate) fn is_empty(&self) -> bool {
        self.filled == 0
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// Feeds bytes in pieces of at most `step`.
    fn feed(inbox: &mut Inbox, mut bytes: &[u8], step: usize) -> Result<Option<Frame>, Breach> {
        while !bytes.is_empty() {
            let room = inbox.room();
            let n = bytes.len().min(step).min(room.len());
            room[..n].copy_from_slice(&bytes[..n]);
            bytes = &bytes[n..];
            if let Some(frame) = inbox.filled(n)? {
                return if bytes.is_empty() { Ok(Some(frame)) } else { Err(Breach) };
            }
        }
        Ok(None)
    }

    #[test]
    fn the_largest_document_passes_and_one_byte_more_does_not() {
        let mut inbox = Inbox::new();
        let mut bytes = Vec::new();
        write(&mut bytes, ask::CALL, 7, &vec![b'x'; MAX_DOCUMENT_BYTES]);
        let frame = feed(&mut inbox, &bytes, 1 << 16).unwrap().unwrap();
        assert_eq!((frame.kind, frame.number, frame.payload.len()), (ask::CALL, 7, MAX_DOCUMENT_BYTES));
        assert!(inbox.is_empty() && inbox.bytes.len() == KEPT_BYTES, "the room is given back");
        let mut bytes = Vec::new();
        write(&mut bytes, ask::CALL, 7, &vec![b'x'; MAX_DOCUMENT_BYTES + 1]);
        assert_eq!(feed(&mut inbox, &bytes, 1 << 16), Err(Breach));
    }

    #[test]
    fn what_follows_a_frame_unasked_is_a_breach() {
        let mut bytes = Vec::new();
        write(&mut bytes, say::ANSWER, 1, b"{}");
        bytes.push(0);
        assert_eq!(feed(&mut Inbox::new(), &bytes, 1 << 16), Err(Breach));
    }

    proptest! {
        #[test]
        fn frames_come_back_however_they_are_cut(
            kind: u32, number: u64, payload in prop::collection::vec(any::<u8>(), 0..200), step in 1usize..64,
        ) {
            let mut bytes = Vec::new();
            write(&mut bytes, kind, number, &payload);
            prop_assert_eq!(feed(&mut Inbox::new(), &bytes[..bytes.len() - 1], step), Ok(None));
            prop_assert_eq!(feed(&mut Inbox::new(), &bytes, step), Ok(Some(Frame { kind, number, payload })));
        }

        #[test]
        fn noise_never_panics(noise in prop::collection::vec(any::<u8>(), 0..200), step in 1usize..64) {
            let _ = feed(&mut Inbox::new(), &noise, step);
        }
    }
}
