//! A reply that comes by itself: by way of the own service, or as a letter that is fetched meanwhile.

use std::time::Duration;

use muretai_node::{
    Agent,
    send::{Sent, SentReply, SentStatus, Word},
};
use muretai_protocol::{Did, json};
use muretai_store::messages::{MessageRow, OutStatus};

use super::report;
use crate::{
    context::Context,
    exit::Exit,
    failure::{Failure, PeerRefusal},
    mail::Reception,
    people, progress,
};

/// Whether a reply may still come: there is none, or only a machine's word that it may.
pub(super) fn may_reply(sent: &Sent) -> bool {
    match sent.status {
        SentStatus::AtRelay | SentStatus::Duplicate => true,
        SentStatus::Accepted => {
            let word = sent.reply.as_ref().and_then(|reply| reply.status.as_deref());
            word.is_none_or(|word| word != "no-answer")
        }
        SentStatus::Held => true,
        SentStatus::Answered => false,
    }
}

/// Waits for the peer's word about a message, and puts its reply into `sent`.
pub(super) async fn reply(context: &Context, agent: &Agent, sent: &mut Sent, time: Duration) -> Result<(), Failure> {
    let to = people::shown(sent.to_name.as_deref().unwrap_or("the peer"));
    let attempt = format!("cannot wait for the reply of {to}");
    let reception = Reception::open(context, agent, &attempt).await.map_err(|failure| of(sent, failure))?;
    let waiting = agent.mail_until(time, &reception.options, || agent.answer_of(&sent.message_id));
    let waiting = progress::watch(&context.out, format!("waiting for the reply of {to}"), waiting);
    let word = tokio::select! {
        word = waiting => word.map_err(|error| Failure::of(attempt.as_str(), &error)),
        _ = tokio::signal::ctrl_c() => Err(Failure::failed(format!("{attempt}: interrupted")).hint(LATER)),
    };
    reception.close().await;
    match word.map_err(|failure| of(sent, failure))? {
        Some(Word::Answered(row)) => {
            sent.reply = Some(reply_of(*row));
            sent.status = SentStatus::Answered;
            Ok(())
        }
        Some(Word::Refused(code)) => Err(of(sent, refused(&to, code))),
        Some(Word::Expired) => {
            let message = format!("{to} did not get the message in time: it has expired");
            Err(of(sent, Failure::new(Exit::Unreachable, message)))
        }
        None => {
            if sent.status == SentStatus::AtRelay && is_delivered(agent, &sent.message_id).await? {
                sent.status = SentStatus::Accepted;
            }
            // With --json the message is printed in any case.
            if !context.out.is_json {
                report::print(context, sent)?;
            }
            Err(of(sent, silence(&to, sent.status, time)))
        }
    }
}

const LATER: &str = "the message was sent; a reply that comes later is in `muretai inbox`";

/// Whether a letter has said meanwhile that the peer has it.
async fn is_delivered(agent: &Agent, message_id: &str) -> Result<bool, Failure> {
    let row = agent.store().outgoing(message_id).await;
    let row = row.map_err(|error| Failure::of("cannot tell what became of the message", &error))?;
    Ok(row.is_some_and(|row| row.status == Some(OutStatus::Delivered)))
}

/// Nothing came in time: the message may be with the peer all the same.
fn silence(to: &str, status: SentStatus, time: Duration) -> Failure {
    let secs = time.as_secs_f32();
    let message = match status {
        SentStatus::AtRelay => format!("no word of {to} within {secs} s: it has not fetched the message yet"),
        _ => format!("{to} has the message, and did not reply within {secs} s"),
    };
    Failure::new(Exit::Unreachable, message).hint(LATER)
}

/// A failure that names the message.
fn of(sent: &Sent, failure: Failure) -> Failure {
    Failure { message_id: Some(sent.message_id.clone()), ..failure }
}

fn refused(to: &str, code: Option<i64>) -> Failure {
    let Some(code) = code else { return Failure::new(Exit::PeerRefused, format!("{to} refused the message")) };
    let refusal = PeerRefusal { code, message: "refused".to_owned(), data: None };
    let failure = Failure::new(Exit::PeerRefused, format!("{to} refused the message: {code}"));
    Failure { refusal: Some(Box::new(refusal)), ..failure }
}

/// A message of the inbox as the reply that it is.
fn reply_of(row: MessageRow) -> SentReply {
    let status = row.extra.as_ref().and_then(|extra| json::parse(extra.as_bytes()).ok()).and_then(|extra| {
        let word = extra.member("metadata")?.member("status")?.as_str()?;
        Some(people::shown(word))
    });
    SentReply {
        message_id: row.message_id,
        text: row.text,
        from: row.peer.parse::<Did>().ok(),
        timestamp: Some(row.timestamp),
        is_verified: row.is_verified,
        is_auto: row.is_auto,
        status: status.filter(|_| row.is_auto),
        context_id: row.context_id,
        commands: Vec::new(),
    }
}

#[cfg(test)]
mod tests {
    use muretai_protocol::UnixSeconds;
    use muretai_store::messages::Direction;
    use muretai_transports::TransportName;

    use super::*;

    fn sent(status: SentStatus, word: Option<&str>) -> Sent {
        let reply = word.map(|word| SentReply {
            message_id: "r".to_owned(),
            text: String::new(),
            from: None,
            timestamp: None,
            is_verified: true,
            is_auto: true,
            status: Some(word.to_owned()),
            context_id: None,
            commands: Vec::new(),
        });
        Sent {
            message_id: "m".to_owned(),
            to: None,
            to_name: Some("south".to_owned()),
            is_blocked: false,
            via: TransportName::Relay,
            url: "https://relay.example".to_owned(),
            context_id: None,
            status,
            reply,
            attempts: 1,
        }
    }

    #[test]
    fn what_may_still_be_answered_is_waited_for() {
        for (status, word) in [
            (SentStatus::AtRelay, None),
            (SentStatus::Accepted, Some("accepted")),
            (SentStatus::Held, Some("held")),
            (SentStatus::Duplicate, None),
        ] {
            assert!(may_reply(&sent(status, word)), "{status:?}");
        }
        assert!(!may_reply(&sent(SentStatus::Answered, None)));
        assert!(!may_reply(&sent(SentStatus::Accepted, Some("no-answer"))));
    }

    #[test]
    fn a_refusal_that_came_later_has_its_code_and_names_the_message() {
        let failure = of(&sent(SentStatus::AtRelay, None), refused("south", Some(-32010)));
        assert_eq!((failure.exit, failure.message_id.as_deref()), (Exit::PeerRefused, Some("m")));
        assert_eq!(failure.refusal.unwrap().code, -32010);
    }

    #[test]
    fn a_peer_that_has_the_message_and_one_that_has_not_are_told_apart() {
        let after = |status| silence("south", status, Duration::from_secs(10));
        for status in [SentStatus::Accepted, SentStatus::Held, SentStatus::Duplicate] {
            assert_eq!(after(status).message, "south has the message, and did not reply within 10 s");
        }
        assert!(after(SentStatus::AtRelay).message.contains("has not fetched the message yet"));
        assert_eq!(
            (after(SentStatus::AtRelay).exit, after(SentStatus::Accepted).exit),
            (Exit::Unreachable, Exit::Unreachable)
        );
    }

    #[test]
    fn a_message_of_the_inbox_is_a_reply() {
        let row = MessageRow {
            seq: 7,
            direction: Direction::In,
            peer: "did:key:z6MkhaXgBZDvotDkL5257faiztiGiC2QtKLGpbnnEGta2doK".to_owned(),
            name: None,
            message_id: "r".to_owned(),
            context_id: None,
            reply_to: Some("m".to_owned()),
            text: "hello".to_owned(),
            timestamp: UnixSeconds(1),
            received: UnixSeconds(2),
            is_unread: true,
            is_auto: true,
            is_verified: true,
            status: None,
            code: None,
            extra: Some(r#"{"metadata":{"auto":true,"status":"no-answer"}}"#.to_owned()),
        };
        let reply = reply_of(row);
        assert_eq!((reply.status.as_deref(), reply.text.as_str()), (Some("no-answer"), "hello"));
        assert!(reply.from.is_some() && reply.is_verified);
    }
}
