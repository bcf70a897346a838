//! Claims that lie at a relay, until the inviter has answered them. Each has its own record, under the id of its message,
//! so that whoever claims a link once more loses nothing of the first claim, and a process may end in between.
use muretai_protocol::{
    Did, UnixSeconds,
    invite::{self, Invite},
    json::{self, Object, Value},
    relay::MAILBOX_RETENTION_SECS,
};
use muretai_store::{Store, StoreError};

/// Before a message id: the setting that keeps the record.
const KEY: &str = "claim.pending:";
/// Seconds for which a record is kept: a relay keeps the claim for as long, and then the answer.
const LIFE_SECS: i64 = 2 * MAILBOX_RETENTION_SECS + 86_400;

/// How a claim ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Ended {
    /// The inviter accepted it.
    Claimed,
    /// The inviter refused it, with this code.
    Refused(i64),
}

/// A claim at a relay.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Pending {
    /// The id of its message.
    pub(crate) message_id: String,
    /// The inviter.
    pub(crate) did: Did,
    /// The invite, as it was signed.
    pub(crate) card: Value,
    /// Where the inviter is dialled; empty when the invite names nothing that can be.
    pub(crate) base: String,
    /// The relay where it lies.
    pub(crate) relay: String,
    /// The owner lets us dial local addresses of the inviter.
    pub(crate) allow_private: bool,
    /// The name that the owner wants for the inviter.
    pub(crate) name: Option<String>,
    /// The inviter was trusted before.
    pub(crate) was_known: bool,
    /// A greeting is owed once it is accepted.
    pub(crate) greet: bool,
    /// The relay took it, and the inviter is trusted for now. Whoever is no contact then was removed by the owner.
    pub(crate) is_trusted: bool,
    /// When it was made.
    pub(crate) made: UnixSeconds,
    /// How it ended, if it has.
    pub(crate) ended: Option<Ended>,
}

impl Pending {
    /// The invite; `None` when the record is damaged.
    pub(crate) fn invite(&self) -> Option<Invite> {
        // It was valid when it was claimed, and an inviter may take its time with the answer.
        invite::verify(self.card.clone(), None, self.made).ok()
    }

    /// The invite's one-time value.
    pub(crate) fn nonce(&self) -> Option<&str> {
        self.card.member("nonce").and_then(Value::as_str)
    }

    /// Writes the record as it is.
    pub(crate) async fn save(&self, store: &Store) -> Result<(), StoreError> {
        store.set_setting(&format!("{KEY}{}", self.message_id), Some(&self.to_json())).await
    }

    /// Writes it in the place of the record that it was, unless another program was faster.
    pub(crate) async fn replace(&self, store: &Store, before: &Pending) -> Result<bool, StoreError> {
        store.replace_setting(&format!("{KEY}{}", self.message_id), &before.to_json(), &self.to_json()).await
    }

    /// Forgets it.
    pub(crate) async fn forget(&self, store: &Store) -> Result<(), StoreError> {
        store.set_setting(&format!("{KEY}{}", self.message_id), None).await
    }

    /// The claim whose message has this id.
    pub(crate) async fn load(store: &Store, message_id: &str) -> Result<Option<Pending>, StoreError> {
        let kept = store.setting(&format!("{KEY}{message_id}")).await?;
        Ok(kept.and_then(|kept| Pending::from_json(message_id, &kept)))
    }

    /// All of them, oldest first. Those that nobody can answer any more are forgotten.
    pub(crate) async fn all(store: &Store, now: UnixSeconds) -> Result<Vec<Pending>, StoreError> {
        let mut all = Vec::new();
        for (message_id, kept) in store.settings_under(KEY).await? {
            match Pending::from_json(&message_id, &kept) {
                Some(pending) if now.0.saturating_sub(pending.made.0) <= LIFE_SECS => all.push(pending),
                _ => store.set_setting(&format!("{KEY}{message_id}"), None).await?,
            }
        }
        all.sort_by_key(|pending: &Pending| pending.made);
        Ok(all)
    }

    fn to_json(&self) -> String {
        let mut record = Object::from([
            ("did".to_owned(), Value::from(&self.did)),
            ("card".to_owned(), self.card.clone()),
            ("base".to_owned(), self.base.as_str().into()),
            ("relay".to_owned(), self.relay.as_str().into()),
            ("allow_private".to_owned(), self.allow_private.into()),
            ("was_known".to_owned(), self.was_known.into()),
            ("greet".to_owned(), self.greet.into()),
            ("is_trusted".to_owned(), self.is_trusted.into()),
            ("made".to_owned(), self.made.0.into()),
        ]);
        if let Some(name) = &self.name {
            record.insert("name".to_owned(), name.as_str().into());
        }
        match self.ended {
            Some(Ended::Claimed) => _ = record.insert("ended".to_owned(), "claimed".into()),
            Some(Ended::Refused(code)) => _ = record.insert("ended".to_owned(), code.into()),
            None => {}
        }
        Value::Object(record).to_json()
    }

    fn from_json(message_id: &str, kept: &str) -> Option<Pending> {
        let record = json::parse(kept.as_bytes()).ok()?;
        let text = |key: &str| record.member(key).and_then(Value::as_str);
        let is = |key: &str| record.member(key).and_then(Value::as_bool).unwrap_or_default();
        let ended = match record.member("ended") {
            None => None,
            Some(Value::String(_)) => Some(Ended::Claimed),
            Some(code) => Some(Ended::Refused(code.as_i64()?)),
        };
        Some(Pending {
            message_id: message_id.to_owned(),
            did: text("did")?.parse().ok()?,
            card: record.member("card")?.clone(),
            base: text("base")?.to_owned(),
            relay: text("relay")?.to_owned(),
            allow_private: is("allow_private"),
            name: text("name").map(str::to_owned),
            was_known: is("was_known"),
            greet: is("greet"),
            is_trusted: is("is_trusted"),
            made: UnixSeconds(record.member("made")?.as_i64()?),
            ended,
        })
    }
}
