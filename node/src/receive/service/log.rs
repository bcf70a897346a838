//! The owner's log: one line per request, who says it is from whom and what became of it, never what it says.
use std::net::SocketAddr;

use muretai_protocol::{json::Value, message::Message, rpc::Refusal, text};

/// Characters of a DID or a message id that a line has room for; both are a stranger's words until they verify.
const MAX_SHOWN_CHARS: usize = 80;

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
        let from = message.meta("from").and_then(Value::as_str).unwrap_or("nobody");
        Line(Some(Told {
            from: text::one_line(from, MAX_SHOWN_CHARS),
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

/// Writes the line of a request that is not even a message.
pub(super) fn rejected(remote: Option<SocketAddr>, refusal: &Refusal) {
    let remote = remote.map(tracing::field::display);
    tracing::info!(remote, code = refusal.code.number(), why = refusal.code.message(), "refused");
}
