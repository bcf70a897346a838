//! `POST <relay>/send` (9.2): who deposits what for whom, signed by plain joining.
use sha2::{Digest as _, Sha256};

use crate::{
    Did, hex,
    json::{self, Object, ParseError, Value},
    sign::{self, SigningKey},
};

/// Bytes of a deposit's id; ours have 32.
pub const MAX_DEPOSIT_ID_BYTES: usize = 256;

/// What the signature of a deposit covers.
pub fn deposit_payload(to: &str, from: &str, id: &str, blob: &str) -> String {
    [to, from, id, blob].join("|")
}

/// The id of the deposit that brings this message to this recipient: the first 32 hex digits of
/// `SHA-256(to "|" messageId)`. The same in every attempt, so that a relay that still has the letter recognises it; who
/// does not know the message id learns nothing from it.
pub fn deposit_id(message_id: &str, to: &Did) -> String {
    let digest = Sha256::new().chain_update(to.as_str()).chain_update("|").chain_update(message_id).finalize();
    hex::encode(&digest[..16])
}

/// How many seconds the depositor of this body of `POST /rpc` waits at most, when it says so.
pub fn asked_wait_secs(body: &[u8]) -> Option<u64> {
    u64::try_from(json::parse(body).ok()?.member("wait")?.as_i64()?).ok()
}

/// A letter on its way to a relay. Whether `from` signed it is what [`Deposit::is_signed`] tells.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Deposit {
    /// Whose mailbox it is for.
    pub to: Did,
    /// Who deposits it.
    pub from: Did,
    /// The sender's X25519 key, 64 lower-case hex digits. The signature does not cover it: a hint.
    pub from_enc: Option<String>,
    /// Names the deposit, so that a repeated one is stored once.
    pub id: String,
    /// The sealed box, strict base64, not empty.
    pub blob: String,
    /// Strict base64 of the signature.
    pub sig: String,
}

/// Why a body is no deposit. Everything here is the sender's fault.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum DepositError {
    /// No JSON.
    #[error("the body is not JSON")]
    NotJson(#[source] ParseError),
    /// A member is missing or of the wrong type.
    #[error("`{0}` must be a string")]
    Missing(&'static str),
    /// `to` or `from` is no DID with an Ed25519 key.
    #[error("`{0}` is not a did:key")]
    BadDid(&'static str),
    /// The joining would be ambiguous, or the id is of no sane length.
    #[error("`id` must be 1 to 256 bytes, without `|` and without control characters")]
    BadId,
    /// A letter that nobody could open.
    #[error("`blob` must be base64 and not empty")]
    BadBlob,
    /// No key.
    #[error("`from_enc` must be 64 hex digits")]
    BadKey,
}

impl Deposit {
    /// Signs a deposit. `id` is the same in every attempt, as [`deposit_id`] makes it, or 32 hex digits of randomness.
    pub fn sign(key: &SigningKey, to: &Did, from_enc: &str, id: &str, blob: String) -> Deposit {
        let from = key.did().clone();
        let sig = key.sign_base64(deposit_payload(to.as_str(), from.as_str(), id, &blob).as_bytes());
        Deposit { to: to.clone(), from, from_enc: Some(from_enc.to_owned()), id: id.to_owned(), blob, sig }
    }

    /// Reads a request body of bounded size. Unknown members are ignored.
    ///
    /// # Errors
    /// The first thing that is wrong with its shape; the signature is not looked at.
    pub fn read(body: &[u8]) -> Result<Deposit, DepositError> {
        let body = json::parse(body).map_err(DepositError::NotJson)?;
        let text = |member: &'static str| {
            body.member(member).and_then(Value::as_str).map(str::to_owned).ok_or(DepositError::Missing(member))
        };
        let did = |member: &'static str| text(member)?.parse::<Did>().map_err(|_| DepositError::BadDid(member));
        let (to, from) = (did("to")?, did("from")?);
        let id = text("id")?;
        if id.is_empty() || id.len() > MAX_DEPOSIT_ID_BYTES || id.contains(|c: char| c == '|' || c.is_control()) {
            return Err(DepositError::BadId);
        }
        let blob = text("blob")?;
        if blob.is_empty() || !crate::base64::is_strict(&blob) {
            return Err(DepositError::BadBlob);
        }
        let from_enc = match body.member("from_enc") {
            None | Some(Value::Null) => None,
            Some(Value::String(key)) if hex::decode::<32>(key).is_some() => Some(key.to_ascii_lowercase()),
            Some(_) => return Err(DepositError::BadKey),
        };
        Ok(Deposit { to, from, from_enc, id, blob, sig: text("sig")? })
    }

    /// Whether `from` signed it.
    pub fn is_signed(&self) -> bool {
        let payload = deposit_payload(self.to.as_str(), self.from.as_str(), &self.id, &self.blob);
        sign::verify_base64(&self.from, payload.as_bytes(), &self.sig)
    }

    /// The request body.
    pub fn to_json(&self) -> String {
        Value::from(self.to_object()).to_json()
    }

    /// The request body of `POST /rpc`: the same, and how many seconds the depositor waits for an answer at most.
    pub fn to_json_waiting(&self, wait_secs: u64) -> String {
        let mut body = self.to_object();
        body.insert("wait".to_owned(), i64::try_from(wait_secs).unwrap_or(i64::MAX).into());
        Value::from(body).to_json()
    }

    fn to_object(&self) -> Object {
        let mut body = Object::new();
        let mut put = |name: &str, value: &str| body.insert(name.to_owned(), value.into());
        put("to", self.to.as_str());
        put("from", self.from.as_str());
        if let Some(key) = &self.from_enc {
            put("from_enc", key);
        }
        put("id", &self.id);
        put("blob", &self.blob);
        put("sig", &self.sig);
        body
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::{base64, sign::Seed};

    fn key(n: u8) -> SigningKey {
        SigningKey::from_seed(&Seed::from_bytes([n; 32]))
    }

    fn deposit() -> Deposit {
        Deposit::sign(&key(1), key(2).did(), &"ab".repeat(32), "0123", "AAAA".to_owned())
    }

    #[test]
    fn reads_what_it_writes() {
        let deposit = deposit();
        let again = Deposit::read(deposit.to_json().as_bytes()).unwrap();
        assert_eq!(again, deposit);
        assert!(again.is_signed());
    }

    #[test]
    fn nothing_but_the_hint_may_change() {
        let deposit = deposit();
        assert!(Deposit { from_enc: None, ..deposit.clone() }.is_signed());
        for other in [
            Deposit { to: key(3).did().clone(), ..deposit.clone() },
            Deposit { from: key(3).did().clone(), ..deposit.clone() },
            Deposit { id: "0124".to_owned(), ..deposit.clone() },
            Deposit { blob: "AAAB".to_owned(), ..deposit.clone() },
        ] {
            assert!(!other.is_signed());
        }
    }

    #[test]
    fn refuses_the_first_thing_that_is_wrong() {
        let refusal = |member: &str, value: Value| {
            let mut body = json::parse(deposit().to_json().as_bytes()).unwrap().as_object().unwrap().clone();
            body.insert(member.to_owned(), value);
            Deposit::read(Value::from(body).to_json().as_bytes()).unwrap_err().to_string()
        };
        for id in ["", "a|b", "a\nb"] {
            assert!(refusal("id", id.into()).contains("`|`"), "{id:?}");
        }
        for blob in ["", "=", "AAA", "A A=", "AA==\n"] {
            assert!(refusal("blob", blob.into()).contains("base64"), "{blob:?}");
        }
        assert!(refusal("to", "did:key:z6Mk|".into()).contains("did:key"));
        assert!(refusal("from_enc", "zz".into()).contains("hex"));
        assert!(refusal("sig", Value::Null).contains("`sig`"));
        assert!(matches!(Deposit::read(b"[").unwrap_err(), DepositError::NotJson(_)));
        assert!(matches!(Deposit::read(b"[]").unwrap_err(), DepositError::Missing("to")));
    }
    #[test]
    fn ids_are_of_a_message_and_its_recipient() {
        let (south, east) = (key(2), key(3));
        let id = deposit_id("m1", south.did());
        assert_eq!(id.len(), 32);
        assert_eq!(id, deposit_id("m1", south.did()));
        assert_ne!(id, deposit_id("m2", south.did()));
        assert_ne!(id, deposit_id("m1", east.did()));
    }

    #[test]
    fn a_synchronous_call_is_a_deposit_that_says_how_long_it_waits() {
        let body = deposit().to_json_waiting(10);
        assert_eq!(Deposit::read(body.as_bytes()).unwrap(), deposit());
        assert_eq!(asked_wait_secs(body.as_bytes()), Some(10));
        for without in ["", "{}", r#"{"wait":-1}"#, r#"{"wait":"10"}"#, "[]"] {
            assert_eq!(asked_wait_secs(without.as_bytes()), None, "{without}");
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(48))]

        #[test]
        fn reads_every_deposit_that_it_writes(
            id in "[^|\\p{Cc}]{1,40}",
            blob in proptest::collection::vec(any::<u8>(), 1..80),
            hint in any::<Option<[u8; 32]>>(),
        ) {
            let mut deposit = Deposit::sign(&key(1), key(2).did(), "", &id, base64::encode(&blob));
            deposit.from_enc = hint.map(|hint| hex::encode(&hint));
            let text = deposit.to_json();
            let read = Deposit::read(text.as_bytes()).unwrap();
            prop_assert!(read.is_signed());
            prop_assert_eq!(read, deposit);
            for end in (0..text.len()).step_by(7) {
                prop_assert!(Deposit::read(&text.as_bytes()[..end]).is_err());
            }
        }

        #[test]
        fn no_body_makes_it_panic(bytes: Vec<u8>, text: String) {
            let _ = (Deposit::read(&bytes), Deposit::read(text.as_bytes()));
        }
    }
}
