//! Publishing the own signed card at the relays where mail is fetched (9.6): when it changes, and daily.
use std::time::{Duration, Instant};

use muretai_protocol::{UnixSeconds, card, json::Value};
use muretai_transports::{guard::Policy, relay::directory::Relay};

use crate::{Agent, agent::now};

/// A card that did not change is published again after so long: a relay that lost it has it again then.
const DAILY: Duration = Duration::from_secs(86_400);
/// The first pause after a failure; it doubles up to [`LONGEST_PAUSE`].
const FIRST_PAUSE: Duration = Duration::from_secs(5);
const LONGEST_PAUSE: Duration = Duration::from_secs(900);
/// For one request.
const PATIENCE: Duration = Duration::from_secs(10);

/// What was published where.
pub(super) struct Publisher {
    agent: Agent,
    places: Vec<Published>,
    /// When the last envelope was signed: the next one is newer, as relays want it.
    signed: UnixSeconds,
}

/// One relay.
struct Published {
    relay: String,
    /// The card that it has, since when.
    card: Option<(String, Instant)>,
    /// After a failure, when it is tried again, and the pause after that.
    again: Option<(Instant, Duration)>,
}

impl Publisher {
    pub(super) fn new(agent: &Agent, relays: &[String]) -> Publisher {
        let place = |relay: &String| Published { relay: relay.clone(), card: None, again: None };
        Publisher { agent: agent.clone(), places: relays.iter().map(place).collect(), signed: UnixSeconds(0) }
    }

    /// Publishes a card at those of these relays that do not have it.
    pub(super) async fn publish(&mut self, card: &Value, connected: &[String]) {
        let text = card.to_json();
        for number in 0..self.places.len() {
            let place = &self.places[number];
            if !connected.contains(&place.relay) || !place.is_due(&text, Instant::now()) {
                continue;
            }
            let outcome = self.publish_at(&place.relay.clone(), card).await;
            let (place, now) = (&mut self.places[number], Instant::now());
            match outcome {
                Ok(()) => (place.card, place.again) = (Some((text.clone(), now)), None),
                Err(why) => {
                    let pause = place.again.map_or(FIRST_PAUSE, |(_, pause)| (pause * 2).min(LONGEST_PAUSE));
                    if place.again.is_none() {
                        tracing::warn!(relay = place.relay, why, "the card could not be published; it is tried again");
                    }
                    place.again = Some((now + pause, pause));
                }
            }
        }
    }

    async fn publish_at(&mut self, relay: &str, card: &Value) -> Result<(), String> {
        let ts = UnixSeconds(now().0.max(self.signed.0.saturating_add(1)));
        let envelope = card::sign_envelope(self.agent.key(), card, ts).map_err(|error| error.to_string())?;
        self.signed = ts;
        let at = Relay { base: relay, policy: Policy::Owner, timeout: PATIENCE };
        match at.publish_card(&self.agent.inner.http, &envelope).await {
            Ok(true) => {
                tracing::info!(relay, "the card was published");
                Ok(())
            }
            Ok(false) => Err("the relay has a newer card of this identity".to_owned()),
            Err(error) => Err(chain(&error)),
        }
    }
}

impl Published {
    fn is_due(&self, card: &str, now: Instant) -> bool {
        let has_it = self.card.as_ref().is_some_and(|(had, since)| had == card && now < *since + DAILY);
        !has_it && self.again.is_none_or(|(again, _)| now >= again)
    }
}

/// An error with its causes, on one line.
fn chain(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(cause) = source {
        text.push_str(": ");
        text.push_str(&cause.to_string());
        source = cause.source();
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_card_is_published_when_it_changes_and_daily_and_after_a_pause_when_that_failed() {
        let start = Instant::now();
        let at = |secs| start + Duration::from_secs(secs);
        let mut place = Published { relay: "https://relay.example".to_owned(), card: None, again: None };
        assert!(place.is_due("a", at(0)));
        place.card = Some(("a".to_owned(), at(0)));
        assert!(!place.is_due("a", at(86_399)) && place.is_due("a", at(86_400)) && place.is_due("b", at(1)));
        place.again = Some((at(5), FIRST_PAUSE));
        assert!(!place.is_due("b", at(4)) && place.is_due("b", at(5)));
    }
}
