//! Random changes to seeds, repeatable from one number.

/// Longest input that is made.
const MAX_LEN: usize = 8192;

/// Tokens that matter to the formats under test.
const DICTIONARY: &[&[u8]] = &[
    b"{}",
    b"[]",
    b"null",
    b"true",
    b"0",
    b"-0",
    b"1.0",
    b"1e400",
    b"9007199254740992",
    b"\\ud83d",
    b"\\udc26",
    b"\\u0000",
    b"\xef\xbb\xbf",
    b"\xc0\x80",
    b"\xed\xa0\x80",
    b"\xff",
    b"\0",
    b"\"",
    b"\\",
    b"did:key:z",
    b"z6Mk",
    b"zDn",
    b"d=",
    b"/i/",
    b"agent://invite?d=",
    b"http://",
    b"[::1]",
    b"%2e",
    b"@",
    b"#",
    b"==",
    b"a2b2",
    b"[[[[[[[[[[[[[[[[",
    b"\"sig\":",
    b"\"from\":",
    b"\"to\":",
    b"\"timestamp\":",
    b"\"metadata\":",
    b"\"parts\":",
    b"\"text\":",
    b"\"url\":",
    b"\"card\":",
    b"\"proof\":",
    b"\"provenance\":",
    b"\"keystate\":",
    b"introduce-me-to:",
    b"T00:00:00Z",
    b"event: letter\n",
    b"data: ",
    b"\r\n",
    b"\n\n",
    b"\"qid\":",
    b"\"blob\":",
    b"\"waits\":true",
];

/// Makes inputs out of seeds; the same number gives the same inputs.
pub struct Mutator(u64);

impl Mutator {
    /// Starts from a number.
    pub fn new(seed: u64) -> Mutator {
        Mutator(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1)
    }

    /// A seed with one to eight changes.
    pub fn next(&mut self, seeds: &[Vec<u8>]) -> Vec<u8> {
        let mut data = self.pick(seeds).cloned().unwrap_or_default();
        for _ in 0..=self.below(8) {
            self.change(&mut data, seeds);
        }
        data.truncate(MAX_LEN);
        data
    }

    fn change(&mut self, data: &mut Vec<u8>, seeds: &[Vec<u8>]) {
        let at = self.below(data.len() + 1);
        match self.below(8) {
            0 if at < data.len() => data[at] ^= 1 << self.below(8),
            1 if at < data.len() => data[at] = self.byte(),
            2 => data.insert(at, self.byte()),
            3 => {
                let end = (at + 1 + self.below(16)).min(data.len());
                data.drain(at.min(end)..end);
            }
            4 => {
                let token = DICTIONARY[self.below(DICTIONARY.len())];
                data.splice(at..at, token.iter().copied());
            }
            5 => {
                let end = (at + self.below(64)).min(data.len());
                let piece = data[at.min(end)..end].to_vec();
                data.splice(at..at, piece);
            }
            6 => {
                let other = self.pick(seeds).cloned().unwrap_or_default();
                let from = self.below(other.len() + 1);
                data.truncate(at);
                data.extend_from_slice(&other[from..]);
            }
            _ => data.truncate(at),
        }
    }

    fn pick<'a>(&mut self, seeds: &'a [Vec<u8>]) -> Option<&'a Vec<u8>> {
        seeds.get(self.below(seeds.len().max(1)))
    }

    fn byte(&mut self) -> u8 {
        self.step().to_le_bytes()[3]
    }

    fn below(&mut self, bound: usize) -> usize {
        usize::try_from(self.step() >> 11).unwrap_or(0) % bound
    }

    /// xorshift64*.
    fn step(&mut self) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        self.0.wrapping_mul(0x2545_f491_4f6c_dd1d)
    }
}
