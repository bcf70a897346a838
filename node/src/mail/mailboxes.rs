//! The relays where an agent has a mailbox: those that its owner configured, those that it used, and those that a peer
//! named. A peer's word is dialled as such, displaces nothing of the owner's, and is forgotten when it leads nowhere for
//! long.
use std::collections::BTreeMap;

use muretai_protocol::{
    UnixSeconds,
    json::{self, Object, Value},
    urls,
};
use muretai_store::StoreError;
use muretai_transports::guard::Policy;

use super::{base, is_among};
use crate::Agent;

/// The setting that lists the relays where this agent has a mailbox, as a JSON list of base URLs.
pub const RELAYS_SETTING: &str = "mail.relays";
/// The setting that lists those of them that a peer named, and the owner has not.
const NAMED_BY_PEERS_SETTING: &str = "mail.relays.named-by-peers";
/// The setting that says since when those have been out of reach: an object, `[since, days, day]` by base URL.
const FAILING_SETTING: &str = "mail.relays.failing";
/// The setting that says when this home last listened at a relay, as far as that is lately: an object by base URL.
const FETCHED_SETTING: &str = "mail.relays.fetched";
/// Mailboxes that are remembered because the owner used them, and as many because peers named them.
const MAX_MAILBOXES: usize = 4;
/// How long a mailbox that a peer named may fail without a break until it is forgotten.
const MAX_FAILING_SECS: i64 = 30 * 86_400;
/// On so many days it has to have been tried: a clock that jumps, or a computer that was off, proves nothing.
const MIN_FAILING_DAYS: i64 = 7;
/// How long after this home listened a relay may still count it as a listener; relays say a minute.
const LINGERS_SECS: i64 = 90;

/// What became of a mailbox that was to be forgotten.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Forgotten {
    /// It was remembered, and is not any more.
    pub was_remembered: bool,
    /// The owner's configuration names it, so it stays a mailbox.
    pub is_configured: bool,
}

/// How long a mailbox has been out of reach.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Failing {
    since: i64,
    /// Days on which it was tried.
    days: i64,
    /// The last of them, in days since 1970.
    day: i64,
}

impl Failing {
    /// After one more failure.
    fn again(before: Option<Failing>, now: UnixSeconds) -> Failing {
        let day = now.0.div_euclid(86_400);
        match before.filter(|before| before.since <= now.0) {
            None => Failing { since: now.0, days: 1, day },
            Some(before) if before.day == day => before,
            Some(before) => Failing { days: before.days.saturating_add(1), day, ..before },
        }
    }

    fn is_hopeless(&self, now: UnixSeconds) -> bool {
        now.0.saturating_sub(self.since) >= MAX_FAILING_SECS && self.days >= MIN_FAILING_DAYS
    }

    fn to_value(self) -> Value {
        Value::from(vec![Value::from(self.since), self.days.into(), self.day.into()])
    }

    fn from_value(value: &Value) -> Option<Failing> {
        let [since, days, day] = value.as_array()? else { return None };
        Some(Failing { since: since.as_i64()?, days: days.as_i64()?, day: day.as_i64()? })
    }
}

impl Agent {
    /// Relays that the owner configured, in order; the first call decides.
    pub fn configure_relays(&self, relays: Vec<String>) {
        self.inner.relays.set(relays).ok();
    }

    /// The relays that may be asked about peers: those that are configured, and those where this agent has a mailbox.
    pub async fn known_relays(&self) -> Result<Vec<String>, StoreError> {
        self.mailboxes().await
    }

    /// The relays where this agent has a mailbox, its own choice first: those that are configured, then those that it has
    /// used, most recent first.
    pub async fn mailboxes(&self) -> Result<Vec<String>, StoreError> {
        let configured = self.inner.relays.get().cloned().unwrap_or_default();
        let mut all = Vec::new();
        for relay in
            configured.into_iter().filter_map(|relay| base(&relay)).chain(self.listed_relays(RELAYS_SETTING).await?)
        {
            if !is_among(&all, &relay) {
                all.push(relay);
            }
        }
        Ok(all)
    }

    /// Remembers that this agent has a mailbox at a relay that the owner named; most recent first, at most 4. What is no
    /// relay's address is not.
    pub async fn remember_mailbox(&self, relay: &str) -> Result<(), StoreError> {
        let Some(relay) = base(relay) else { return Ok(()) };
        let named = self.listed_relays(NAMED_BY_PEERS_SETTING).await?;
        if is_among(&named, &relay) {
            self.list_relays(NAMED_BY_PEERS_SETTING, without(named, &relay)).await?;
        }
        self.put_first(relay).await.map(drop)
    }

    /// The same for a relay that a peer named, and that was dialled as such: it goes on being dialled so, because its name
    /// may lead elsewhere another day.
    pub(crate) async fn adopt_mailbox(&self, relay: &str) -> Result<(), StoreError> {
        let Some(relay) = base(relay) else { return Ok(()) };
        if is_among(&self.mailboxes().await?, &relay) {
            return Ok(());
        }
        let mut named = self.listed_relays(NAMED_BY_PEERS_SETTING).await?;
        named.insert(0, relay.clone());
        // Never is one a mailbox and not marked: it would be dialled as the owner's.
        self.list_relays(NAMED_BY_PEERS_SETTING, named.clone()).await?;
        let all = self.put_first(relay).await?;
        named.retain(|relay| is_among(&all, relay));
        self.list_relays(NAMED_BY_PEERS_SETTING, named).await
    }

    /// Forgets a mailbox. Letters that lie there stay until they expire, and are fetched when the relay is named.
    pub async fn forget_mailbox(&self, relay: &str) -> Result<Forgotten, StoreError> {
        let is_configured = self.is_configured(relay);
        let Some(relay) = base(relay) else { return Ok(Forgotten { was_remembered: false, is_configured }) };
        let all = self.listed_relays(RELAYS_SETTING).await?;
        let was_remembered = is_among(&all, &relay);
        if was_remembered {
            self.list_relays(RELAYS_SETTING, without(all, &relay)).await?;
        }
        let named = self.listed_relays(NAMED_BY_PEERS_SETTING).await?;
        if is_among(&named, &relay) {
            self.list_relays(NAMED_BY_PEERS_SETTING, without(named, &relay)).await?;
        }
        Ok(Forgotten { was_remembered, is_configured })
    }

    /// What may be dialled for a relay where this agent has its mailbox.
    pub(crate) async fn mailbox_policy(&self, relay: &str) -> Result<Policy, StoreError> {
        let is_peers =
            !self.is_configured(relay) && is_among(&self.listed_relays(NAMED_BY_PEERS_SETTING).await?, relay);
        Ok(if is_peers { Policy::Peer } else { Policy::Owner })
    }

    /// Whether the owner's configuration names a relay.
    pub(crate) fn is_configured(&self, relay: &str) -> bool {
        self.inner.relays.get().is_some_and(|relays| is_among(relays, relay))
    }

    /// Takes note of which mailboxes could be reached and which could not, and forgets those that only peers named and
    /// that have been out of reach for 30 days. Gives those.
    pub(super) async fn age_mailboxes(
        &self,
        reached: &[String],
        failed: &[String],
        now: UnixSeconds,
    ) -> Result<Vec<String>, StoreError> {
        let named = self.listed_relays(NAMED_BY_PEERS_SETTING).await?;
        let before = self.object_setting(FAILING_SETTING).await?;
        let mut failing: BTreeMap<&str, Failing> = BTreeMap::new();
        for relay in named.iter().filter(|relay| !self.is_configured(relay) && !is_among(reached, relay)) {
            let known = before.get(relay.as_str()).and_then(Failing::from_value);
            let now_so = if is_among(failed, relay) { Some(Failing::again(known, now)) } else { known };
            failing.extend(now_so.map(|failing| (relay.as_str(), failing)));
        }
        let hopeless: Vec<String> =
            failing.iter().filter(|(_, it)| it.is_hopeless(now)).map(|(relay, _)| (*relay).to_owned()).collect();
        for relay in &hopeless {
            self.forget_mailbox(relay).await?;
            failing.remove(relay.as_str());
        }
        let after: Object = failing.iter().map(|(relay, it)| ((*relay).to_owned(), it.to_value())).collect();
        self.set_object(FAILING_SETTING, before, after).await?;
        Ok(hopeless)
    }

    /// The relays where this home listened so lately that they may still count it as a listener.
    pub(super) async fn fetched_lately(&self, now: UnixSeconds) -> Result<Vec<String>, StoreError> {
        let fetched = self.object_setting(FETCHED_SETTING).await?;
        Ok(fetched.into_iter().filter(|(_, at)| is_lately(at, now)).map(|(relay, _)| relay).collect())
    }

    /// Takes note that this home listens, or listened until now.
    pub(crate) async fn note_fetching(&self, relays: &[String], now: UnixSeconds) -> Result<(), StoreError> {
        let before = self.object_setting(FETCHED_SETTING).await?;
        let mut after = before.clone();
        after.retain(|_, at| is_lately(at, now));
        after.extend(relays.iter().map(|relay| (relay.clone(), Value::from(now.0))));
        self.set_object(FETCHED_SETTING, before, after).await
    }

    /// Puts a relay before the others, and lets go of those of its kind that are too many. Gives those that stay.
    async fn put_first(&self, relay: String) -> Result<Vec<String>, StoreError> {
        let all = self.listed_relays(RELAYS_SETTING).await?;
        if all.first() == Some(&relay) {
            return Ok(all);
        }
        let mut all = without(all, &relay);
        all.insert(0, relay);
        let named = self.listed_relays(NAMED_BY_PEERS_SETTING).await?;
        let (mut owners, mut peers) = (0, 0);
        all.retain(|relay| {
            let count = if is_among(&named, relay) { &mut peers } else { &mut owners };
            *count += 1;
            *count <= MAX_MAILBOXES
        });
        self.list_relays(RELAYS_SETTING, all.clone()).await?;
        Ok(all)
    }

    async fn list_relays(&self, key: &str, all: Vec<String>) -> Result<(), StoreError> {
        let all: Vec<Value> = all.into_iter().map(Value::from).collect();
        self.store().set_setting(key, Some(&Value::from(all).to_json())).await
    }

    async fn listed_relays(&self, key: &str) -> Result<Vec<String>, StoreError> {
        let list = self.store().setting(key).await?.unwrap_or_default();
        let Ok(Value::Array(list)) = json::parse(list.as_bytes()) else { return Ok(Vec::new()) };
        Ok(list.iter().filter_map(Value::as_str).filter_map(base).take(2 * MAX_MAILBOXES).collect())
    }

    /// Empty for what is damaged.
    async fn object_setting(&self, key: &str) -> Result<Object, StoreError> {
        let text = self.store().setting(key).await?.unwrap_or_default();
        Ok(match json::parse(text.as_bytes()) {
            Ok(Value::Object(object)) => object,
            _ => Object::new(),
        })
    }

    async fn set_object(&self, key: &str, before: Object, after: Object) -> Result<(), StoreError> {
        if before == after {
            return Ok(());
        }
        let text = (!after.is_empty()).then(|| Value::from(after).to_json());
        self.store().set_setting(key, text.as_deref()).await
    }
}

fn is_lately(at: &Value, now: UnixSeconds) -> bool {
    at.as_i64().is_some_and(|at| now.0.saturating_sub(at).unsigned_abs() <= LINGERS_SECS.unsigned_abs())
}

fn without(mut relays: Vec<String>, relay: &str) -> Vec<String> {
    relays.retain(|known| !(known == relay || urls::same_scope(known, relay)));
    relays
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing;

    const DAY: i64 = 86_400;

    fn relay(n: u32) -> String {
        format!("https://relay{n}.example")
    }

    #[tokio::test]
    async fn mailboxes_are_remembered_most_recent_first_and_not_too_many() {
        let owned = testing::agent("north").await;
        let north = &owned.agent;
        assert_eq!(north.mailboxes().await.unwrap(), Vec::<String>::new());
        for n in 1..=6 {
            north.remember_mailbox(&format!("{}/", relay(n))).await.unwrap();
        }
        north.remember_mailbox("https://RELAY5.example").await.unwrap();
        north.remember_mailbox("javascript:alert(1)").await.unwrap();
        let known = ["https://RELAY5.example".to_owned(), relay(6), relay(4), relay(3)];
        assert_eq!(north.mailboxes().await.unwrap(), known);
        north.configure_relays(vec!["https://own.example/r/".to_owned(), relay(4)]);
        let all = north.known_relays().await.unwrap();
        assert_eq!(all[..2], ["https://own.example/r".to_owned(), relay(4)], "the owner's choice is first");
        assert_eq!(all.len(), 5, "and nothing is there twice");
    }

    #[tokio::test]
    async fn what_peers_name_displaces_nothing_that_the_owner_used() {
        let owned = testing::agent("north").await;
        let north = &owned.agent;
        north.remember_mailbox(&relay(0)).await.unwrap();
        for n in 1..=9 {
            north.adopt_mailbox(&relay(n)).await.unwrap();
        }
        assert_eq!(north.mailboxes().await.unwrap(), [relay(9), relay(8), relay(7), relay(6), relay(0)]);
        assert_eq!(north.mailbox_policy(&relay(0)).await.unwrap(), Policy::Owner);
        for n in 6..=9 {
            assert_eq!(north.mailbox_policy(&relay(n)).await.unwrap(), Policy::Peer);
        }
    }

    #[tokio::test]
    async fn a_relay_that_a_peer_named_stays_a_peers_word_until_the_owner_names_it() {
        let owned = testing::agent("north").await;
        let (north, relay) = (&owned.agent, "https://relay.example");
        north.adopt_mailbox("https://relay.example/").await.unwrap();
        assert_eq!(north.mailboxes().await.unwrap(), [relay]);
        assert_eq!(north.mailbox_policy(relay).await.unwrap(), Policy::Peer);
        assert!(!north.is_own_relay(relay).await.unwrap());
        north.remember_mailbox(relay).await.unwrap();
        assert_eq!(north.mailbox_policy(relay).await.unwrap(), Policy::Owner);
        north.adopt_mailbox(relay).await.unwrap();
        assert!(north.is_own_relay(relay).await.unwrap(), "known already");
    }

    #[tokio::test]
    async fn what_is_forgotten_is_no_mailbox_any_more_however_it_is_spelled() {
        let owned = testing::agent("north").await;
        let north = &owned.agent;
        north.remember_mailbox(&relay(1)).await.unwrap();
        north.adopt_mailbox(&relay(2)).await.unwrap();
        north.configure_relays(vec![relay(3)]);
        let forget = async |relay: &str| {
            let forgotten = north.forget_mailbox(relay).await.unwrap();
            (forgotten.was_remembered, forgotten.is_configured)
        };
        assert_eq!(forget("https://RELAY1.example/").await, (true, false));
        assert_eq!(forget(&relay(2)).await, (true, false));
        assert_eq!(forget(&relay(2)).await, (false, false));
        assert_eq!(forget(&relay(3)).await, (false, true));
        assert_eq!(forget("no relay").await, (false, false));
        assert_eq!(north.mailboxes().await.unwrap(), [relay(3)]);
        north.remember_mailbox(&relay(2)).await.unwrap();
        assert_eq!(north.mailbox_policy(&relay(2)).await.unwrap(), Policy::Owner, "it is no peer's word any more");
    }

    #[tokio::test]
    async fn a_mailbox_that_only_a_peer_named_is_forgotten_after_thirty_days_of_failures() {
        let owned = testing::agent("north").await;
        let north = &owned.agent;
        north.remember_mailbox(&relay(1)).await.unwrap();
        north.adopt_mailbox(&relay(2)).await.unwrap();
        let both = [relay(1), relay(2)];
        let on = async |day: i64| north.age_mailboxes(&[], &both, UnixSeconds(day * DAY + 7)).await.unwrap();
        for day in (100..130).chain([50]) {
            assert_eq!(on(day).await, [""; 0], "day {day}");
        }
        for day in 51..80 {
            assert_eq!(on(day).await, [""; 0], "the clock was set back, and it begins anew");
        }
        north.age_mailboxes(&[relay(2)], &[], UnixSeconds(80 * DAY)).await.unwrap();
        for day in 81..111 {
            assert_eq!(on(day).await, [""; 0], "it worked once");
        }
        assert_eq!(on(111).await, [relay(2)]);
        assert_eq!(north.mailboxes().await.unwrap(), [relay(1)]);
        assert_eq!(north.object_setting(FAILING_SETTING).await.unwrap(), Object::new());
    }

    #[test]
    fn a_mailbox_that_was_hardly_tried_is_not_given_up() {
        let at = |day: i64| UnixSeconds(day * DAY);
        let mut failing = Failing::again(None, at(0));
        for day in [0, 0, 400, 400, 401] {
            failing = Failing::again(Some(failing), at(day));
        }
        assert_eq!((failing.days, failing.is_hopeless(at(401))), (3, false));
    }

    #[tokio::test]
    async fn damaged_settings_are_no_lists() {
        let owned = testing::agent("north").await;
        let north = &owned.agent;
        for damaged in ["", "{}", "[1,null,\"x\"]", "\"https://relay.example\"", "{\"https://relay.example\":[1]}"] {
            for key in [RELAYS_SETTING, NAMED_BY_PEERS_SETTING, FAILING_SETTING, FETCHED_SETTING] {
                north.store().set_setting(key, Some(damaged)).await.unwrap();
            }
            assert_eq!(north.mailboxes().await.unwrap(), Vec::<String>::new(), "{damaged}");
            assert_eq!(north.fetched_lately(UnixSeconds(1)).await.unwrap(), Vec::<String>::new(), "{damaged}");
            assert_eq!(north.age_mailboxes(&[], &[relay(1)], UnixSeconds(1)).await.unwrap(), [""; 0], "{damaged}");
        }
        assert_eq!(north.mail_status().await.unwrap(), crate::mail::MailStatus::default());
    }

    #[tokio::test]
    async fn where_this_home_listened_lately_is_remembered_for_as_long_as_relays_do() {
        let owned = testing::agent("north").await;
        let north = &owned.agent;
        north.note_fetching(&[relay(1)], UnixSeconds(1_000)).await.unwrap();
        north.note_fetching(&[relay(2)], UnixSeconds(1_080)).await.unwrap();
        let at = async |now| north.fetched_lately(UnixSeconds(now)).await.unwrap();
        assert_eq!(at(1_085).await, [relay(1), relay(2)]);
        assert_eq!(at(1_091).await, [relay(2)]);
        assert_eq!(at(500).await, [""; 0], "a clock that was set back");
    }
}
