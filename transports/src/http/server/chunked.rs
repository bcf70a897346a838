//! Follows a chunked body (RFC 9112, section 7.1) to its end, so that the framing layer knows where the next request
//! begins. What passes both here and in the HTTP library behind it ends at the same byte in both.

/// Longest line of a chunk size with its extensions.
const MAX_SIZE_LINE: usize = 1_024;
/// Most bytes of the trailer section.
const MAX_TRAILER: usize = 8_192;

/// Where in a chunked body the next byte belongs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum At {
    /// The first digit of a size.
    Start,
    Size,
    Extension,
    SizeLf,
    Data,
    DataCr,
    DataLf,
    /// The first byte of a trailer line, or the CR that ends the body.
    TrailerStart,
    Trailer,
    TrailerLf,
    EndLf,
}

/// A chunked body is not well-formed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct BadChunk;

/// The state between two reads.
#[derive(Debug, Clone)]
pub(super) struct ChunkScanner {
    at: At,
    /// Bytes of the current chunk that are still to come.
    size: u64,
    /// Bytes of the current size line.
    line: usize,
    trailer: usize,
}

impl ChunkScanner {
    pub(super) fn new() -> ChunkScanner {
        ChunkScanner { at: At::Start, size: 0, line: 0, trailer: 0 }
    }

    /// Takes what belongs to the body; gives back how many bytes that are, and whether the body ends there.
    pub(super) fn scan(&mut self, input: &[u8]) -> Result<(usize, bool), BadChunk> {
        let mut used = 0;
        while used < input.len() {
            if self.at == At::Data {
                let rest = (input.len() - used) as u64;
                let taken = rest.min(self.size);
                self.size -= taken;
                used += taken as usize;
                if self.size == 0 {
                    self.at = At::DataCr;
                }
                continue;
            }
            let is_end = self.step(input[used])?;
            used += 1;
            if is_end {
                return Ok((used, true));
            }
        }
        Ok((used, false))
    }

    /// One byte that is not data.
    fn step(&mut self, byte: u8) -> Result<bool, BadChunk> {
        self.at = match (self.at, byte) {
            (At::Start, _) => {
                self.size = u64::from(digit(byte)?);
                self.line = 1;
                At::Size
            }
            (At::Size, b'\r') | (At::Extension, b'\r') => At::SizeLf,
            (At::Size, b';' | b' ' | b'\t') => self.count_line(At::Extension)?,
            (At::Size, _) => {
                // Sixteen digits are a size of 2^64; nobody sends that.
                let digit = u64::from(digit(byte)?);
                self.size = self.size.checked_mul(16).and_then(|size| size.checked_add(digit)).ok_or(BadChunk)?;
                self.count_line(At::Size)?
            }
            (At::Extension, b'\n') => return Err(BadChunk),
            (At::Extension, _) => self.count_line(At::Extension)?,
            (At::SizeLf, b'\n') => {
                if self.size == 0 {
                    At::TrailerStart
                } else {
                    At::Data
                }
            }
            (At::DataCr, b'\r') => At::DataLf,
            (At::DataLf, b'\n') => At::Start,
            (At::TrailerStart, b'\r') => At::EndLf,
            (At::TrailerStart | At::Trailer, b'\n') => return Err(BadChunk),
            (At::Trailer, b'\r') => At::TrailerLf,
            (At::TrailerStart | At::Trailer, _) => {
                self.trailer += 1;
                if self.trailer > MAX_TRAILER {
                    return Err(BadChunk);
                }
                At::Trailer
            }
            (At::TrailerLf, b'\n') => At::TrailerStart,
            (At::EndLf, b'\n') => return Ok(true),
            _ => return Err(BadChunk),
        };
        Ok(false)
    }

    fn count_line(&mut self, next: At) -> Result<At, BadChunk> {
        self.line += 1;
        if self.line > MAX_SIZE_LINE { Err(BadChunk) } else { Ok(next) }
    }
}

fn digit(byte: u8) -> Result<u8, BadChunk> {
    match byte {
        b'0'..=b'9' => Ok(byte - b'0'),
        b'a'..=b'f' => Ok(byte - b'a' + 10),
        b'A'..=b'F' => Ok(byte - b'A' + 10),
        _ => Err(BadChunk),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn scan_all(input: &[u8]) -> Result<(usize, bool), BadChunk> {
        ChunkScanner::new().scan(input)
    }

    #[test]
    fn finds_the_end_of_well_formed_bodies() {
        for body in [
            "0\r\n\r\n",
            "5\r\nhello\r\n0\r\n\r\n",
            "1\r\na\r\nA\r\n0123456789\r\n000\r\n\r\n",
            "5;name=value\r\nhello\r\n0\r\nTrailer: x\r\n\r\n",
            "5 \r\nhello\r\n0\r\n\r\n",
        ] {
            let with_next = format!("{body}POST / HTTP/1.1\r\n");
            assert_eq!(scan_all(with_next.as_bytes()), Ok((body.len(), true)), "{body:?}");
        }
    }

    #[test]
    fn refuses_what_parsers_disagree_about() {
        let long_line = format!("5;{}\r\n", "x".repeat(MAX_SIZE_LINE));
        let long_trailer = format!("0\r\nA: {}\r\n", "x".repeat(MAX_TRAILER));
        for body in [
            "\r\n",
            "x\r\n",
            "-5\r\nhello",
            "+5\r\nhello",
            "0x5\r\nhello",
            "5\nhello",
            "5\r\nhello0\r\n\r\n",
            "5\r\nhello\n0\r\n\r\n",
            "5;a\nb\r\nhello",
            "5\rhello",
            "10000000000000000\r\n",
            "0\r\nA: b\n\r\n",
            "0\r\n\r0",
            &long_line,
            &long_trailer,
        ] {
            assert_eq!(scan_all(body.as_bytes()), Err(BadChunk), "{body:?}");
        }
    }

    proptest! {
        #[test]
        fn never_panics_and_never_takes_more_than_there_is(input in prop::collection::vec(any::<u8>(), 0..300)) {
            if let Ok((used, _)) = scan_all(&input) {
                prop_assert!(used <= input.len());
            }
        }

        #[test]
        fn reads_the_same_in_pieces_as_in_one(
            chunks in prop::collection::vec(prop::collection::vec(any::<u8>(), 1..40), 0..6),
            cut in 1usize..17,
        ) {
            let mut body = Vec::new();
            for chunk in &chunks {
                body.extend_from_slice(format!("{:x}\r\n", chunk.len()).as_bytes());
                body.extend_from_slice(chunk);
                body.extend_from_slice(b"\r\n");
            }
            body.extend_from_slice(b"0\r\n\r\n");
            let mut scanner = ChunkScanner::new();
            let mut ended = false;
            for piece in body.chunks(cut) {
                prop_assert!(!ended);
                let (used, is_end) = scanner.scan(piece).unwrap();
                prop_assert_eq!(used, piece.len());
                ended = is_end;
            }
            prop_assert!(ended);
        }
    }
}
