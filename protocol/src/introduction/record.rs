//! The signed question that a `requested` introduction carries (8.2).
use super::{INTRODUCE_ME_TO, REQUEST_SKEW_SECS, REQUEST_TTL_SECS};
use crate::{
    Did, UnixSeconds,
    json::{CanonicalError, Number, Object, Value, canonical_as_received},
    keystate,
    message::{Verified, signing_payload},
    sign::verify_base64,
};

/// A signed question as it is embedded (8.2), byte-faithful.
///
/// Whether it verifies is asked with [`RequestRecord::verify`]; a record in a verified introduction did.
#[derive(Debug, Clone, PartialEq)]
pub struct RequestRecord {
    /// The record. It is kept as [`Value::to_json`] writes it, and comes back with [`RequestRecord::from_value`].
    pub raw: Value,
}

/// Why a record does not bear an introduction out.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum RecordError {
    /// A member is missing or of another type.
    #[error("the request's {0} is missing or malformed")]
    Malformed(&'static str),
    /// Somebody else asked.
    #[error("the request is not by the subject of the introduction")]
    OtherAsker,
    /// Somebody else was asked.
    #[error("the request is not to the issuer of the introduction")]
    OtherIntroducer,
    /// It asks for an introduction to somebody else.
    #[error("the request is for an introduction to somebody else")]
    OtherTarget,
    /// It was asked too long before.
    #[error("the request was {age_secs} s old, the limit is {REQUEST_TTL_SECS} s")]
    TooOld {
        /// Seconds between the question and the introduction.
        age_secs: i64,
    },
    /// It was asked after it was answered.
    #[error("the request is dated {ahead_secs} s after the introduction, the limit is {REQUEST_SKEW_SECS} s")]
    FromFuture {
        /// Seconds between the introduction and the question.
        ahead_secs: i64,
    },
    /// Its time has no agreed canonical form, so nothing can be said about the signature (1.3).
    #[error("the request's signature cannot be judged")]
    Unverifiable(#[source] CanonicalError),
    /// Not signed by who asked, nor by a key that acted for it.
    #[error("the request's signature does not verify")]
    Forged,
}

impl RequestRecord {
    /// The record of a verified question.
    ///
    /// A key state goes in only where the asker's root did not sign itself, and only what the root signed of it. A
    /// question under a key that only a pin of ours names makes a record that nobody else can verify.
    pub fn of(question: &Verified) -> RequestRecord {
        let message = question.message();
        let mut record = Object::from([
            ("from".to_owned(), Value::from(question.from())),
            ("to".to_owned(), Value::from(question.to())),
            ("messageId".to_owned(), Value::from(message.message_id.as_str())),
            ("contextId".to_owned(), Value::from(message.context_id.as_ref())),
            ("timestamp".to_owned(), message.meta("timestamp").cloned().unwrap_or(Value::Null)),
            ("text".to_owned(), Value::from(&message.text)),
            ("sig".to_owned(), Value::from(question.sig())),
        ]);
        let is_by_root = Fields::of(&Value::Object(record.clone())).is_ok_and(|fields| fields.is_by(question.from()));
        if let Some(state) = message.meta("keystate").filter(|_| !is_by_root) {
            record.insert("keystate".to_owned(), keystate::without_unsigned(state));
        }
        RequestRecord { raw: Value::Object(record) }
    }

    /// Takes a record that was kept or received; its members must be there and of their types, nothing is proven.
    ///
    /// # Errors
    /// [`RecordError::Malformed`], and no other.
    pub fn from_value(raw: Value) -> Result<RequestRecord, RecordError> {
        Fields::of(&raw)?;
        Ok(RequestRecord { raw })
    }

    /// Whom it asks to be introduced to, as text; `None` for a question in words.
    pub fn named_target(&self) -> Option<&str> {
        self.text().strip_prefix(INTRODUCE_ME_TO)
    }

    /// What was asked; empty when there is no text.
    pub fn text(&self) -> &str {
        self.raw.member("text").and_then(Value::as_str).unwrap_or_default()
    }

    /// Verifies the record for an introduction of `subject` by `issuer` to `target` that was issued at `issued`, all of
    /// 8.2. At most four signatures under at most two keys are tried, and one of a key state.
    pub fn verify(&self, subject: &Did, issuer: &Did, target: &Did, issued: UnixSeconds) -> Result<(), RecordError> {
        let fields = Fields::of(&self.raw)?;
        if fields.from != subject.as_str() {
            return Err(RecordError::OtherAsker);
        }
        if fields.to != issuer.as_str() {
            return Err(RecordError::OtherIntroducer);
        }
        if self.named_target().is_some_and(|named| named != target.as_str()) {
            return Err(RecordError::OtherTarget);
        }
        fields.check_age(issued)?;
        fields.check_signature(subject, self.raw.member("keystate"), issued)
    }
}

/// The members of a record, each of its type.
struct Fields<'a> {
    from: &'a str,
    to: &'a str,
    message_id: &'a str,
    context_id: Option<&'a str>,
    timestamp: &'a Value,
    text: &'a str,
    sig: &'a str,
}

impl<'a> Fields<'a> {
    fn of(raw: &'a Value) -> Result<Fields<'a>, RecordError> {
        let members = raw.as_object().ok_or(RecordError::Malformed("JSON object"))?;
        let text = |name| members.get(name).and_then(Value::as_str).ok_or(RecordError::Malformed(name));
        let context_id = match members.get("contextId") {
            Some(Value::Null) => None,
            Some(Value::String(context_id)) => Some(context_id.as_str()),
            _ => return Err(RecordError::Malformed("contextId")),
        };
        let timestamp = members.get("timestamp").filter(|timestamp| matches!(timestamp, Value::Number(_)));
        Ok(Fields {
            from: text("from")?,
            to: text("to")?,
            message_id: text("messageId")?,
            context_id,
            timestamp: timestamp.ok_or(RecordError::Malformed("timestamp"))?,
            text: text("text")?,
            sig: text("sig")?,
        })
    }

    /// Measured at the introduction's own date, in whole seconds away from zero: old nodes signed parts of a second.
    fn check_age(&self, issued: UnixSeconds) -> Result<(), RecordError> {
        let age_secs = match self.timestamp {
            Value::Number(Number::Integer(timestamp)) => issued.0.saturating_sub(*timestamp),
            Value::Number(number) => {
                let timestamp = number.as_f64().ok_or(RecordError::Malformed("timestamp"))?;
                let age = issued.0 as f64 - timestamp;
                (if age < 0.0 { age.floor() } else { age.ceil() }) as i64
            }
            _ => return Err(RecordError::Malformed("timestamp")),
        };
        if age_secs > REQUEST_TTL_SECS {
            return Err(RecordError::TooOld { age_secs });
        }
        match age_secs.saturating_neg() {
            ahead_secs if ahead_secs > REQUEST_SKEW_SECS => Err(RecordError::FromFuture { ahead_secs }),
            _ => Ok(()),
        }
    }

    fn check_signature(&self, from: &Did, state: Option<&Value>, issued: UnixSeconds) -> Result<(), RecordError> {
        canonical_as_received(self.timestamp).map_err(RecordError::Unverifiable)?;
        // There is no pin here, so no state is older than another: this never fails.
        let signers = keystate::signers(from, state, None, issued).map_err(|_| RecordError::Forged)?;
        let is_signed = signers.candidates.iter().any(|signer| self.is_by(signer));
        if is_signed { Ok(()) } else { Err(RecordError::Forged) }
    }

    /// Whether `signer` signed the six fields, an integral float in either of its spellings (1.3).
    fn is_by(&self, signer: &Did) -> bool {
        let integer = match self.timestamp {
            Value::Number(number @ Number::Token(_)) => number.as_integral().map(Value::from),
            _ => None,
        };
        let payload = |timestamp: &Value| {
            signing_payload(self.from, self.to, self.message_id, self.context_id, timestamp, self.text)
        };
        let mut spellings = [Some(self.timestamp), integer.as_ref()].into_iter().flatten();
        spellings.any(|timestamp| verify_base64(signer, payload(timestamp).as_bytes(), self.sig))
    }
}
