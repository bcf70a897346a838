//! The owner's log: one line per request, who says it is from whom and what became of it, never what it says.
use std::net::SocketAddr;

use muretai_protocol::{json::Value, message::Message, rpc::Refusal, text};

/// Characters of a message id that a line has room for; it is a stranger's words until it verifies.
const MAX_SHOWN_CHARS: usize = 80;
/// Characters of a sender, which is as little proven: the last ones, as of every DID in a log.
const SENDER_CHARS: usize = 8;

/// What is known of a message before it is judged. Costs nothing when nobody listens.
pub(super) struct Line(Option<Told>);

struct Told {
    from: String,
    message_id: String,
    remote: Option<SocketAddr>,
}

impl Line {
    /// Keeps what the line will need.
    pub(super) fn begin(message: &Message, remote: Option<SocketAddr>) -> Line {
        if !tracing::enabled!(tracing::Level::INFO) {
            return Line(None);
        }
        Line(Some(Told {
            from: sender(message.meta("from").and_then(Value::as_str).unwrap_or("nobody")),
            message_id: text::one_line(message.message_id.as_str(), MAX_SHOWN_CHARS),
            remote,
        }))
    }

    /// Writes the line. A refusal by a plugin's policy names it.
    pub(super) fn end(self, refusal: Option<&Refusal>, policy: Option<&str>) {
        let Some(Told { from, message_id, remote }) = self.0 else { return };
        let remote = remote.map(tracing::field::display);
        match refusal {
            None => tracing::info!(from, message_id, remote, "accepted"),
            Some(refusal) => {
                let (code, why) = (refusal.code.number(), refusal.code.message());
                tracing::info!(from, message_id, remote, code, why, policy, "refused");
            }
        }
    }
}

/// The end of what a message says about its sender, on one line.
fn sender(from: &str) -> String {
    let start = from.char_indices().rev().nth(SENDER_CHARS - 1).map_or(0, |(at, _)| at);
    text::one_line(&from[start..], SENDER_CHARS)
}

/// Writes the line of a request that is not even a message.
pub(super) fn rejected(remote: Option<SocketAddr>, refusal: &Refusal) {
    let remote = remote.map(tracing::field::display);
    tracing::info!(remote, code = refusal.code.number(), why = refusal.code.message(), "refused");
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn senders_are_shown_by_their_end_whatever_they_say_they_are() {
        let did = crate::testing::key(1).did().clone();
        assert_eq!(sender(did.as_str()), crate::mail::tail(&did));
        assert_eq!(sender("nobody"), "nobody");
        assert_eq!(sender(""), "");
        let forged = sender("did:key:z6Mk\n\u{1b}[2Kéé");
        assert!(forged.chars().count() <= SENDER_CHARS && !forged.contains(['\n', '\u{1b}']), "{forged:?}");
    }
}
