//! `message/send`: from a message that passed gate and limits to a signed reply. Commit first, answer second: the
//! message, its id and the reply are on disk before the sender hears of it.
use muretai_plugins::{Command, Response};
use muretai_protocol::{
    MessageId, UnixSeconds,
    json::{Object, Value},
    limits::MAX_TEXT_BYTES,
    message::{self, Draft, Message, Role, Verified},
    rpc::Refusal,
    text,
};
use muretai_store::messages::{Committed, Received, Reply, Settles};

use crate::{
    Agent,
    receive::{ladder::Passed, refusals as say, return_address::ReturnAddress},
};

/// Commands that travel with one reply, characters of a keyword, which somebody types, and of what is said about it.
const MAX_COMMANDS: usize = 32;
const MAX_KEYWORD_CHARS: usize = 64;
const MAX_WORDS_CHARS: usize = 200;

/// A message that was let in, with what is kept of it.
pub(crate) struct Admitted {
    /// The message.
    pub(crate) passed: Passed,
    /// What it carries beyond what has a column of its own.
    pub(crate) extra: Option<String>,
    /// What it says about a message of ours.
    pub(crate) settles: Option<Settles>,
    /// It answers something.
    pub(crate) is_answer: bool,
    /// It is a notice that the owner is to see like a message.
    pub(crate) is_for_owner: bool,
    /// It is a letter; the reply is one, too.
    pub(crate) back: Option<ReturnAddress>,
    /// It came out of a mailbox, as a letter or as a call.
    pub(crate) is_by_relay: bool,
    /// Our clock on arrival.
    pub(crate) received: UnixSeconds,
}

impl Admitted {
    /// Machines do not answer each other's notices, and answers are not answered.
    pub(crate) fn needs_no_responder(&self) -> bool {
        self.is_answer || is_notice(self.passed.verified.message())
    }

    /// Whether such a response is sent: whoever waits for it gets it in any case. Of letters, notices and answers have
    /// none, and what a machine wrote gets nothing that a machine wrote without thought (9.5).
    fn has_reply(&self, response: &Response) -> bool {
        let is_auto = self.passed.verified.message().meta("auto").and_then(Value::as_bool) == Some(true);
        self.back.is_none() || !(self.needs_no_responder() || (is_auto && response.is_auto))
    }
}

/// Signs the response, stores message and reply in one transaction, and gives the reply; the one to a letter is put into
/// the outbox in that transaction. On any failure the id is released, because nothing is stored.
pub(crate) async fn store_and_reply(agent: &Agent, admitted: Admitted, response: Response) -> Result<Value, Refusal> {
    let response = fitting(response);
    let has_reply = admitted.has_reply(&response);
    let Admitted { passed, extra, settles, is_for_owner, back, received, .. } = admitted;
    let SignedReply { reply, stored, extra: reply_extra } = sign_reply(agent, &passed.verified, &response);
    let reply_by = back.filter(|_| has_reply).map(|back| back.reply_by(&reply_extra, received));
    let is_posted = reply_by.is_some();
    let record = record(&passed.verified, passed.digest, extra, received);
    let record = Received {
        is_auto: record.is_auto && !is_for_owner,
        reply: Some(stored).filter(|_| has_reply),
        reply_by,
        settles,
        ..record
    };
    match agent.store().commit_received(record).await {
        Ok(Committed::Stored { .. }) => {
            passed.done();
            if is_posted {
                agent.outbox_written().notify_one();
            }
            Ok(reply)
        }
        // Another process was faster, or this one in an earlier life: its reply stands, ours is thrown away.
        Ok(Committed::Duplicate { same_content }) => Err(passed.duplicate(same_content)),
        Err(error) => {
            tracing::error!(error = &error as &dyn std::error::Error, "a message could not be stored");
            Err(say::internal())
        }
    }
}

/// A reply that no peer would accept is not sent.
fn fitting(response: Response) -> Response {
    if response.text.len() > MAX_TEXT_BYTES {
        return Response::no_answer("the agent's answer was too long");
    }
    response
}

/// What a client may offer its user, as far as anybody can show and type it.
fn commands(commands: &[Command]) -> Option<Value> {
    let is_typable = |command: &&Command| {
        let keyword = command.keyword.as_str();
        !keyword.is_empty()
            && !keyword.contains(char::is_whitespace)
            && text::one_line(keyword, MAX_KEYWORD_CHARS) == keyword
            && command.label.chars().count() <= MAX_WORDS_CHARS
    };
    let shown: Vec<Value> = commands.iter().filter(is_typable).take(MAX_COMMANDS).map(command).collect();
    if shown.is_empty() { None } else { Some(shown.into()) }
}

fn command(command: &Command) -> Value {
    let mut object = Object::new();
    object.insert("keyword".to_owned(), command.keyword.as_str().into());
    object.insert("label".to_owned(), command.label.as_str().into());
    if let Some(params) = command.params.as_ref().filter(|params| params.chars().count() <= MAX_WORDS_CHARS) {
        object.insert("params".to_owned(), params.into());
    }
    object.into()
}

/// A reply and what is kept of it.
pub(crate) struct SignedReply {
    /// The message.
    pub(crate) reply: Value,
    /// Its row.
    pub(crate) stored: Reply,
    /// Its unsigned metadata.
    pub(crate) extra: Object,
}

/// The reply of 3.5.
pub(super) fn sign_reply(agent: &Agent, asked: &Verified, response: &Response) -> SignedReply {
    let message_id = MessageId::from_random(crate::agent::random());
    let timestamp = crate::agent::now();
    let mut extra = Object::new();
    extra.insert("replyTo".to_owned(), asked.message().message_id.as_str().into());
    if response.is_auto {
        extra.insert("auto".to_owned(), true.into());
    }
    if let Some(status) = response.status {
        extra.insert("status".to_owned(), status.into());
    }
    if let Some(commands) = commands(&response.commands) {
        extra.insert("commands".to_owned(), commands);
    }
    let draft = Draft {
        role: Role::Agent,
        to: asked.from().as_str(),
        message_id: &message_id,
        context_id: asked.message().context_id.as_deref(),
        text: &response.text,
        timestamp,
        extra: extra.clone(),
    };
    let reply = message::sign(agent.key(), &draft);
    let sig = reply.member("metadata").and_then(|metadata| metadata.member("sig")).and_then(Value::as_str);
    let stored = Reply {
        message_id: message_id.as_str().to_owned(),
        text: response.text.clone(),
        timestamp,
        sig: sig.unwrap_or_default().to_owned(),
        is_auto: response.is_auto,
    };
    SignedReply { reply, stored, extra }
}

/// What is kept of a message, without a reply.
pub(super) fn record(verified: &Verified, digest: [u8; 32], extra: Option<String>, received: UnixSeconds) -> Received {
    let message = verified.message();
    Received {
        from: verified.from().clone(),
        message_id: message.message_id.as_str().to_owned(),
        context_id: message.context_id.clone(),
        reply_to: message.meta("replyTo").and_then(Value::as_str).map(str::to_owned),
        text: message.text.clone(),
        timestamp: verified.timestamp(),
        received,
        digest,
        sig: verified.sig().to_owned(),
        extra,
        is_auto: is_notice(message),
        reply: None,
        reply_by: None,
        settles: None,
    }
}

/// Tells a machine's notice, such as the greeting after a claim, from what somebody says: `auto` with a `status` beside
/// it. `auto` alone is not enough, because whole agents mark all that they say with it (3.3).
pub(crate) fn is_notice(message: &Message) -> bool {
    let is_auto = message.meta("auto").and_then(Value::as_bool) == Some(true);
    is_auto && message.meta("status").and_then(Value::as_str).is_some()
}
