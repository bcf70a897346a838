//! How a listener proves that a mailbox is its own, and how the newest of several listeners wins (9.3).
use std::fmt;

use crate::{
    Did, UnixSeconds,
    sign::{self, SigningKey},
};

/// Minutes that the clocks of a listener and its relay may be apart.
pub const MINUTE_TOLERANCE: u64 = 5;
/// Characters of an epoch; ours have 24.
const MAX_EPOCH_CHARS: usize = 64;

/// The minute that a token names.
pub fn minute_of(now: UnixSeconds) -> i64 {
    now.0.div_euclid(60)
}

/// What a token signs. `origin` is as [`crate::urls::origin`] gives it.
pub fn listen_payload(did: &str, minute: i64, origin: &str) -> String {
    format!("listen:{did}:{minute}:{origin}")
}

/// The token of a listener at a relay of this origin.
pub fn listen_token(key: &SigningKey, minute: i64, origin: &str) -> String {
    key.sign_base64(listen_payload(key.did().as_str(), minute, origin).as_bytes())
}

/// Whether a token is good now at a relay of this origin; an empty origin matches nothing.
pub fn verify_token(did: &Did, minute: i64, origin: &str, token: &str, now: UnixSeconds) -> bool {
    !origin.is_empty()
        && minute.abs_diff(minute_of(now)) <= MINUTE_TOLERANCE
        && sign::verify_base64(did, listen_payload(did.as_str(), minute, origin).as_bytes(), token)
}

/// Names a listener for as long as it lives; of two listeners of one DID the greater wins.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Epoch(Box<str>);

impl Epoch {
    /// A listener that begins now. Made once, never for each poll.
    pub fn new(unix_millis: u64, pid: u32) -> Epoch {
        Epoch(format!("{unix_millis:013}-{pid:010}").into())
    }

    /// Reads an epoch of any format: 1 to 64 printable ASCII characters without space. Compared as text.
    pub fn parse(text: &str) -> Option<Epoch> {
        let is_plain = (1..=MAX_EPOCH_CHARS).contains(&text.len()) && text.bytes().all(|byte| byte.is_ascii_graphic());
        is_plain.then(|| Epoch(text.into()))
    }

    /// As text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for Epoch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::sign::Seed;

    #[test]
    fn a_token_is_good_at_one_origin_for_some_minutes() {
        let key = SigningKey::from_seed(&Seed::from_bytes([7; 32]));
        let other = SigningKey::from_seed(&Seed::from_bytes([8; 32]));
        let now = UnixSeconds(1_784_273_700);
        let minute = minute_of(now);
        let good = |minute, origin: &str, now| {
            verify_token(key.did(), minute, origin, &listen_token(&key, minute, "https://relay.example"), now)
        };
        assert!(good(minute, "https://relay.example", now));
        for shift in [-5, 5] {
            assert!(good(minute + shift, "https://relay.example", now));
            assert!(!good(minute + shift + shift.signum(), "https://relay.example", now));
        }
        assert!(!good(minute, "https://other.example", now));
        assert!(!good(i64::MIN, "https://relay.example", now) && !good(i64::MAX, "https://relay.example", now));
        let token = listen_token(&key, minute, "");
        assert!(!verify_token(key.did(), minute, "", &token, now), "no origin matches nothing");
        assert!(!verify_token(
            other.did(),
            minute,
            "https://relay.example",
            &listen_token(&key, minute, "https://relay.example"),
            now
        ));
    }

    #[test]
    fn a_later_listener_has_the_greater_epoch() {
        assert!(Epoch::new(1_784_273_700_000, 9) < Epoch::new(1_784_273_700_001, 1));
        assert!(Epoch::new(1_784_273_700_000, 9) < Epoch::new(1_784_273_700_000, 10));
        assert_eq!(Epoch::new(1_784_273_700_000, 9).as_str(), "1784273700000-0000000009");
        for bad in ["", "a b", "é", "a\n", &"9".repeat(65)] {
            assert_eq!(Epoch::parse(bad), None, "{bad:?}");
        }
    }
    proptest! {
        #[test]
        fn epochs_are_ordered_as_their_times(a in 0_u64..9_999_999_999_999, b in 0_u64..9_999_999_999_999, pid: u32) {
            let (first, second) = (Epoch::new(a, pid), Epoch::new(b, pid));
            prop_assert_eq!(a.cmp(&b), first.cmp(&second));
            prop_assert_eq!(Epoch::parse(first.as_str()), Some(first));
        }

        #[test]
        fn no_token_makes_it_panic(token: String, minute: i64, now: i64, origin: String) {
            let did = SigningKey::from_seed(&Seed::from_bytes([7; 32])).did().clone();
            prop_assert!(!verify_token(&did, minute, &origin, &token, UnixSeconds(now)));
        }
    }
}
