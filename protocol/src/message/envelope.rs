//! Steps 1, 2, 3 and 5 of the receive ladder (4.1): envelope, recipient, freshness, signature.
use sha2::{Digest as _, Sha256};

use super::{Message, signing_payload};
use crate::{
    Did, UnixSeconds,
    binding::{self, Binding},
    json::{Number, Value},
    keystate,
    limits::{CLOCK_WINDOW_SECS, MAX_EXTRA_SIGNATURES},
    relay::MAILBOX_RETENTION_SECS,
    sign::verify_base64,
};

/// Which part of the envelope is missing (step 1): `-32001`.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum EnvelopeError {
    /// `from`, `to` and `sig` are all absent: the teaching refusal (4.4).
    #[error("the message is not signed")]
    Unsigned,
    /// Some are there, some are not.
    #[error("the envelope is incomplete")]
    Incomplete,
}

/// How a timestamp misses the window (step 3): `-32002`.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Stale {
    /// Outside the window; positive when the message is older than the clock.
    #[error("the timestamp is {} s {}, the limit is {CLOCK_WINDOW_SECS} s", .0.unsigned_abs(), direction(*.0))]
    OutsideWindow(i64),
    /// Older than a relay keeps letters.
    #[error("the timestamp is {0} s old, a relay keeps letters for {MAILBOX_RETENTION_SECS} s")]
    OlderThanMail(i64),
    /// The present time, but counted in milliseconds.
    #[error("the timestamp is in milliseconds, not in seconds")]
    Milliseconds,
    /// Not an integer.
    #[error("the timestamp is not an integer")]
    NotAnInteger,
    /// Absent or `null`.
    #[error("the timestamp is missing")]
    Missing,
}

fn direction(age_secs: i64) -> &'static str {
    if age_secs < 0 { "ahead" } else { "old" }
}

/// The signature, an extra signature or a binding does not verify (step 5): `-32001`.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("the signature does not verify")]
pub struct SignatureError;

/// A message whose envelope is there and is not yet believed.
#[derive(Debug, Clone)]
pub struct Unverified {
    /// The message.
    pub message: Message,
    /// `metadata.from`, as text.
    pub from: String,
    /// `metadata.to`, as text.
    pub to: String,
    sig: String,
}

/// A message whose signature verified under `from`. Made by [`Unverified::verify`] alone.
#[derive(Debug, Clone)]
pub struct Verified {
    inner: Unverified,
    from: Did,
    timestamp: UnixSeconds,
    binding: Option<Binding>,
    pins_keystate: bool,
}

impl Message {
    /// Step 1: `from`, `to` and `sig` are there.
    pub fn into_envelope(self) -> Result<Unverified, EnvelopeError> {
        let text = |key| self.meta(key).and_then(Value::as_str).map(str::to_owned);
        match (text("from"), text("to"), text("sig")) {
            (Some(from), Some(to), Some(sig)) => Ok(Unverified { message: self, from, to, sig }),
            (None, None, None) => Err(EnvelopeError::Unsigned),
            _ => Err(EnvelopeError::Incomplete),
        }
    }
}

impl Unverified {
    /// Step 2: addressed to `me`, whom the verifier names.
    pub fn is_for(&self, me: &Did) -> bool {
        self.to == me.as_str()
    }

    /// The time that the message claims, whatever the window. An integral float counts as its integer (1.3).
    pub fn timestamp(&self) -> Result<UnixSeconds, Stale> {
        match self.message.meta("timestamp") {
            None => Err(Stale::Missing),
            Some(Value::Number(number)) => number.as_integral().map(UnixSeconds).ok_or(Stale::NotAnInteger),
            Some(_) => Err(Stale::NotAnInteger),
        }
    }

    /// Step 3: within ±300 s of `now`, both ends inclusive. An integral float counts as its integer (1.3).
    pub fn freshness(&self, now: UnixSeconds) -> Result<UnixSeconds, Stale> {
        let is_near = |secs: i64| now.0.abs_diff(secs) <= CLOCK_WINDOW_SECS.unsigned_abs();
        let timestamp = self.timestamp()?;
        match timestamp.0 {
            secs if is_near(secs) => Ok(timestamp),
            millis if is_near(millis / 1000) => Err(Stale::Milliseconds),
            secs => Err(Stale::OutsideWindow(now.0.saturating_sub(secs))),
        }
    }

    /// Step 3 for a letter that lay in a mailbox: at most 300 s ahead of `now`, and at most 300 s older than a relay keeps
    /// letters (4.2), both ends inclusive. That it is not handled twice is for stored ids to see to.
    pub fn freshness_of_mail(&self, now: UnixSeconds) -> Result<UnixSeconds, Stale> {
        let timestamp = self.timestamp()?;
        let age_of = |secs: i64| now.0.saturating_sub(secs);
        let window = -CLOCK_WINDOW_SECS..=MAILBOX_RETENTION_SECS + CLOCK_WINDOW_SECS;
        match age_of(timestamp.0) {
            age if window.contains(&age) => Ok(timestamp),
            age if age > 0 => Err(Stale::OlderThanMail(age)),
            _ if window.contains(&age_of(timestamp.0 / 1000)) => Err(Stale::Milliseconds),
            age => Err(Stale::OutsideWindow(age)),
        }
    }

    /// Step 5: the signature under `from`, the extra signatures of 3.3 and a device binding (11.2).
    ///
    /// The caller has checked steps 2 and 3. A message that an operating key signed does not verify here, because
    /// without a pin nobody knows whether the key still acts for its root: see [`Unverified::verify_delegated`].
    pub fn verify(self, now: UnixSeconds) -> Result<Verified, SignatureError> {
        let from: Did = self.from.parse().map_err(|_| SignatureError)?;
        self.verify_as(from, now)
    }

    /// Step 5 for a receiver that knows the sender's DID already: [`Unverified::verify`] without reading it again.
    ///
    /// A DID other than `metadata.from` does not verify.
    pub fn verify_as(self, from: Did, now: UnixSeconds) -> Result<Verified, SignatureError> {
        if self.from != from.as_str() {
            return Err(SignatureError);
        }
        let root = from.clone();
        self.verify_under(from, &[root], false, now)
    }

    /// Step 5 where pins are kept: the signature under `from` or under a key that `from` delegated to (11.1).
    ///
    /// `pinned` is the last state of `from` for which [`Verified::keystate_to_pin`] answered something, as it was kept.
    pub fn verify_delegated(self, pinned: Option<&Value>, now: UnixSeconds) -> Result<Verified, SignatureError> {
        let from: Did = self.from.parse().map_err(|_| SignatureError)?;
        let signers = keystate::signers(&from, self.message.meta("keystate"), pinned, now);
        let keystate::Signers { candidates, is_newer } = signers.map_err(|_| SignatureError)?;
        self.verify_under(from, &candidates, is_newer, now)
    }

    /// Verifies under the first of at most three keys that fits. At most 2 * 3 + 2 + [`MAX_EXTRA_SIGNATURES`]
    /// signatures are tried, whatever came in.
    fn verify_under(
        self,
        from: Did,
        signers: &[Did],
        pins_keystate: bool,
        now: UnixSeconds,
    ) -> Result<Verified, SignatureError> {
        let timestamp = self.timestamp().map_err(|_| SignatureError)?;
        let signed = |signer| Some((signer, self.signed_payload(signer, timestamp)?));
        let (signer, payload) = signers.iter().find_map(signed).ok_or(SignatureError)?;
        self.verify_extra_signatures(signer, &payload)?;
        let binding = self.message.meta("binding").map(|binding| binding::verify(binding, &from, now));
        let binding = binding.transpose().map_err(|_| SignatureError)?;
        Ok(Verified { inner: self, from, timestamp, binding, pins_keystate })
    }

    /// The payload that `sig` covers under the key of `signer`: with the timestamp as received or, for an integral
    /// float, as its integer.
    ///
    /// Generic A2A 1.x SDKs turn the integer that their user signed into a float on the wire (1.3); either spelling
    /// proves the same number.
    fn signed_payload(&self, signer: &Did, timestamp: UnixSeconds) -> Option<String> {
        let received = self.message.meta("timestamp")?;
        let integer = Value::from(timestamp.0);
        let spellings = match received {
            Value::Number(Number::Integer(_)) => [Some(received), None],
            _ => [Some(received), Some(&integer)],
        };
        let payload = |timestamp: &Value| {
            let message = &self.message;
            let context_id = message.context_id.as_deref();
            let id = message.message_id.as_str();
            signing_payload(&self.from, &self.to, id, context_id, timestamp, &message.text)
        };
        let is_signed = |payload: &String| verify_base64(signer, payload.as_bytes(), &self.sig);
        spellings.into_iter().flatten().map(payload).find(is_signed)
    }

    /// `metadata.sigs`: further signatures over the same payload. All that we know must verify (3.3).
    fn verify_extra_signatures(&self, signer: &Did, payload: &str) -> Result<(), SignatureError> {
        let Some(sigs) = self.message.meta("sigs") else { return Ok(()) };
        let mut known = 0;
        for entry in sigs.as_array().ok_or(SignatureError)? {
            let text = |key| entry.member(key).and_then(Value::as_str).ok_or(SignatureError);
            let (alg, sig) = (text("alg")?, text("sig")?);
            if !["ed25519-pub", "p256-pub"].contains(&alg) {
                continue;
            }
            known += 1;
            // The signer of an envelope has an Ed25519 key, so `p256-pub` never matches its curve.
            let is_good = alg == "ed25519-pub" && known <= MAX_EXTRA_SIGNATURES;
            if !is_good || !verify_base64(signer, payload.as_bytes(), sig) {
                return Err(SignatureError);
            }
        }
        Ok(())
    }
}

impl Verified {
    /// Who signed.
    pub fn from(&self) -> &Did {
        &self.from
    }
    /// The message.
    pub fn message(&self) -> &Message {
        &self.inner.message
    }
    /// `metadata.to`, as it was signed.
    pub fn to(&self) -> &str {
        &self.inner.to
    }
    /// The signed time.
    pub fn timestamp(&self) -> UnixSeconds {
        self.timestamp
    }
    /// `metadata.sig`.
    pub fn sig(&self) -> &str {
        &self.inner.sig
    }
    /// The owner of the device that signed, when a binding that grants an account came along and verified (11.2).
    ///
    /// Whether the device belongs to somebody else already is for the caller to remember.
    pub fn owner(&self) -> Option<&Did> {
        self.binding.as_ref().and_then(Binding::owner)
    }
    /// The key state that came along and is newer than what was pinned; the caller keeps it for the next message.
    pub fn keystate_to_pin(&self) -> Option<&Value> {
        self.message().meta("keystate").filter(|_| self.pins_keystate)
    }
    /// Drops what is not signed: the parts that are no text, and the metadata that `keep` does not ask for. What was
    /// verified stays as it is.
    pub fn strip(&mut self, mut keep: impl FnMut(&str, &Value) -> bool) {
        let message = &mut self.inner.message;
        message.other_parts = Vec::new();
        message.metadata.retain(|key, value| keep(key, value));
    }
    /// SHA-256 over `to`, `contextId` and `text`, unambiguously joined: equal for an honest re-send (4.5).
    pub fn content_digest(&self) -> [u8; 32] {
        let message = &self.inner.message;
        let mut digest = Sha256::new();
        for field in [Some(self.to()), message.context_id.as_deref(), Some(&message.text)] {
            // An absent context and an empty one differ, and no field can run over into the next.
            let len = field.map_or(u64::MAX, |field| field.len() as u64);
            digest.update(len.to_be_bytes());
            digest.update(field.unwrap_or_default());
        }
        digest.finalize().into()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        json,
        json::Object,
        message::{Draft, MessageId, Role, sign},
        sign::{Seed, SigningKey},
    };

    const NOW: UnixSeconds = UnixSeconds(1_784_273_700);

    fn north() -> SigningKey {
        SigningKey::from_seed(&Seed::from_bytes([1; 32]))
    }

    fn south() -> SigningKey {
        SigningKey::from_seed(&Seed::from_bytes([2; 32]))
    }

    /// A message from north to south with these metadata members set after signing.
    fn message(metadata: impl IntoIterator<Item = (&'static str, Value)>) -> Unverified {
        let key = north();
        let mut value = sign(
            &key,
            &Draft {
                role: Role::User,
                to: south().did().as_str(),
                message_id: &MessageId::new("m1").unwrap(),
                context_id: Some("c1"),
                text: "hello",
                timestamp: NOW,
                extra: Object::new(),
            },
        );
        let Value::Object(members) = &mut value else { unreachable!() };
        let Some(Value::Object(members)) = members.get_mut("metadata") else { unreachable!() };
        members.extend(metadata.into_iter().map(|(key, value)| (key.to_owned(), value)));
        Message::from_value(value).unwrap().into_envelope().unwrap()
    }

    fn at(timestamp: &str) -> Unverified {
        message([("timestamp", json::parse(timestamp.as_bytes()).unwrap())])
    }

    #[test]
    fn a_signed_message_verifies() {
        let verified = message([]).verify(NOW).unwrap();
        assert_eq!((verified.from(), verified.to()), (north().did(), south().did().as_str()));
        assert_eq!((verified.timestamp(), verified.message().text.as_str()), (NOW, "hello"));
        assert_eq!(verified.owner(), None);
    }

    #[test]
    fn every_signed_field_is_covered() {
        let mut changed = vec![message([("to", json!("did:key:z6Mk"))]), message([("from", json!(south().did()))])];
        changed.push(at("1784273701"));
        for change in [
            |m: &mut Message| m.text.push('!'),
            |m: &mut Message| m.context_id = None,
            |m: &mut Message| m.message_id = MessageId::new("m2").unwrap(),
        ] {
            let mut message = message([]);
            change(&mut message.message);
            changed.push(message);
        }
        for message in changed {
            assert_eq!(message.verify(NOW).unwrap_err(), SignatureError);
        }
    }

    #[test]
    fn tells_unsigned_from_incomplete() {
        let envelope = |metadata| {
            let value = json!({"kind": "message", "messageId": "m1", "metadata": metadata});
            Message::from_value(value).unwrap().into_envelope().unwrap_err()
        };
        assert_eq!(envelope(json!({})), EnvelopeError::Unsigned);
        assert_eq!(envelope(json!({"from": null, "to": null, "sig": null, "timestamp": 1})), EnvelopeError::Unsigned);
        assert_eq!(envelope(json!({"from": "x"})), EnvelopeError::Incomplete);
        assert_eq!(envelope(json!({"from": "x", "to": "y", "sig": null})), EnvelopeError::Incomplete);
    }

    #[test]
    fn the_recipient_is_compared_exactly() {
        assert!(message([]).is_for(south().did()));
        assert!(!message([]).is_for(north().did()));
    }

    #[test]
    fn the_window_includes_both_ends() {
        for offset in [-300, 0, 300] {
            let secs = NOW.0 + offset;
            assert_eq!(at(&secs.to_string()).freshness(NOW), Ok(UnixSeconds(secs)));
            assert_eq!(at(&format!("{secs}.0")).freshness(NOW), Ok(UnixSeconds(secs)));
        }
        assert_eq!(at(&(NOW.0 - 301).to_string()).freshness(NOW), Err(Stale::OutsideWindow(301)));
        assert_eq!(at(&(NOW.0 + 301).to_string()).freshness(NOW), Err(Stale::OutsideWindow(-301)));
        assert_eq!(Stale::OutsideWindow(-301).to_string(), "the timestamp is 301 s ahead, the limit is 300 s");
        assert_eq!(Stale::OutsideWindow(301).to_string(), "the timestamp is 301 s old, the limit is 300 s");
    }

    #[test]
    fn mail_may_be_as_old_as_a_relay_keeps_it_and_not_from_the_future() {
        let oldest = NOW.0 - MAILBOX_RETENTION_SECS - 300;
        for secs in [oldest, NOW.0 - 6 * 86_400, NOW.0, NOW.0 + 300] {
            assert_eq!(at(&secs.to_string()).freshness_of_mail(NOW), Ok(UnixSeconds(secs)));
            assert_eq!(at(&format!("{secs}.0")).freshness_of_mail(NOW), Ok(UnixSeconds(secs)));
        }
        let stale = |secs: &str| at(secs).freshness_of_mail(NOW).unwrap_err();
        assert_eq!(stale(&(oldest - 1).to_string()), Stale::OlderThanMail(MAILBOX_RETENTION_SECS + 301));
        assert_eq!(stale(&(NOW.0 + 301).to_string()), Stale::OutsideWindow(-301));
        assert_eq!(stale(&(NOW.0 * 1000).to_string()), Stale::Milliseconds);
        assert_eq!(stale("null"), Stale::Missing);
        assert_eq!(stale("\"1784273700\""), Stale::NotAnInteger);
        for extreme in [i64::MIN, i64::MAX] {
            assert!(at(&extreme.to_string()).freshness_of_mail(NOW).is_err());
        }
    }

    #[test]
    fn names_what_is_no_timestamp() {
        assert_eq!(at(&(NOW.0 * 1000 + 999).to_string()).freshness(NOW), Err(Stale::Milliseconds));
        assert_eq!(at("null").freshness(NOW), Err(Stale::Missing));
        for other in ["\"1784273700\"", "true", "[]", "1784273700.5", "1e300", "9007199254740993"] {
            assert_eq!(at(other).freshness(NOW), Err(Stale::NotAnInteger), "{other}");
        }
        let far = at("-9007199254740991").freshness(UnixSeconds(i64::MAX));
        assert_eq!(far, Err(Stale::OutsideWindow(i64::MAX)));
    }

    #[test]
    fn an_integral_float_verifies_in_either_spelling() {
        assert!(at("1784273700.0").verify(NOW).is_ok(), "signed as an integer, made a float under way");
        let payload = signing_payload(
            north().did().as_str(),
            south().did().as_str(),
            "m1",
            Some("c1"),
            &json::parse(b"1784273700.0").unwrap(),
            "hello",
        );
        assert!(payload.contains("\"timestamp\":1784273700.0,"));
        let signed_as_float = json!(north().sign_base64(payload.as_bytes()));
        for (spelling, verifies) in [("1784273700.0", true), ("1.7842737e9", true), ("1784273700", false)] {
            let timestamp = json::parse(spelling.as_bytes()).unwrap();
            let message = message([("timestamp", timestamp), ("sig", signed_as_float.clone())]);
            assert_eq!(message.verify(NOW).is_ok(), verifies, "{spelling}");
        }
    }

    #[test]
    fn extra_signatures_must_verify_when_they_are_known() {
        let payload = |unverified: &Unverified| unverified.signed_payload(north().did(), NOW).unwrap();
        let good = north().sign_base64(payload(&message([])).as_bytes());
        let other = south().sign_base64(payload(&message([])).as_bytes());
        let entry = |alg: &str, sig: &str| json!({"alg": alg, "sig": sig});
        for (sigs, verifies) in [
            (json!(null), true),
            (json!([]), true),
            (json!([entry("ed25519-pub", &good)]), true),
            (json!([entry("future-pub", "?"), entry("ed25519-pub", &good)]), true),
            (json!([entry("ed25519-pub", &good), entry("ed25519-pub", &other)]), false),
            (json!([entry("p256-pub", &good)]), false),
            (json!([{"alg": "future-pub"}]), false),
            (json!([{"alg": 1, "sig": "?"}]), false),
            (json!(["ed25519-pub"]), false),
            (json!({}), false),
            (json!("x"), false),
            (Value::Array(vec![entry("ed25519-pub", &good); MAX_EXTRA_SIGNATURES]), true),
            (Value::Array(vec![entry("ed25519-pub", &good); MAX_EXTRA_SIGNATURES + 1]), false),
        ] {
            assert_eq!(message([("sigs", sigs.clone())]).verify(NOW).is_ok(), verifies, "{}", sigs.to_json());
        }
    }

    #[test]
    fn a_binding_that_does_not_verify_refuses_the_message() {
        for binding in [json!({}), json!("x"), json!(1), json!({"typ": "muretai/devicebinding/2"})] {
            assert!(message([("binding", binding)]).verify(NOW).is_err());
        }
        let binding = binding::sign(&south(), &north(), NOW, UnixSeconds(0));
        assert_eq!(message([("binding", binding)]).verify(NOW).unwrap().owner(), Some(south().did()));
        assert!(message([("binding", json!(null))]).verify(NOW).is_ok());
    }

    #[test]
    fn the_digest_of_a_re_send_is_equal_and_of_other_content_is_not() {
        let digest = |change: &dyn Fn(&mut Verified)| {
            let mut verified = message([]).verify(NOW).unwrap();
            change(&mut verified);
            verified.content_digest()
        };
        let original = digest(&|_| ());
        assert_eq!(original, digest(&|v| v.timestamp = UnixSeconds(0)));
        let mut digests = vec![
            original,
            digest(&|v| v.inner.to.push('x')),
            digest(&|v| v.inner.message.text.push('x')),
            digest(&|v| v.inner.message.context_id = None),
            digest(&|v| v.inner.message.context_id = Some(String::new())),
            digest(&|v| (v.inner.message.context_id, v.inner.message.text) = (Some("c1hello".into()), String::new())),
        ];
        digests.sort();
        digests.dedup();
        assert_eq!(digests.len(), 6);
    }
}
