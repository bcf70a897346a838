//! Letters as they are handed out (9.3), written without copying what they hold more than once.
use std::fmt::Write as _;

use muretai_protocol::{UnixSeconds, json::Value};
use muretai_store::mailboxes::{Fetched, Qid, StoredLetter};
use tokio::time::Instant;

use crate::{
    answer::Refusal,
    budget::Share,
    hub::{InHand, Sitting},
    metrics::{Count, Op},
    shared::Shared,
};

/// Letters that may be handed out and not acknowledged, however a listener listens. The mailbox is asked to leave all of
/// them out.
const MAX_IN_HAND: usize = 1_000;

/// Bytes around the blob of an item, at most about.
const ITEM_BYTES: usize = 1_024;

/// What a letter counts for in bounds.
pub(crate) fn weight(letter: &StoredLetter) -> u64 {
    letter.blob.len() as u64
}

/// Adds one item.
pub(crate) fn write_item(text: &mut String, letter: &StoredLetter, now: UnixSeconds) {
    text.reserve(letter.blob.len() + ITEM_BYTES);
    let quoted = |word: &str| Value::from(word).to_json();
    let _ = write!(text, r#"{{"qid":"{}","id":{},"from":{}"#, letter.qid, quoted(&letter.id), quoted(&letter.from));
    if let Some(key) = &letter.from_enc {
        let _ = write!(text, r#","from_enc":{}"#, quoted(key));
    }
    text.push_str(r#","blob":""#);
    // Strict base64 needs no escapes: nothing else was ever taken in.
    text.push_str(&letter.blob);
    let _ = write!(text, r#"","ts":{}"#, letter.ts.0);
    if letter.awaited_until.is_some_and(|until| until > now) {
        text.push_str(r#","waits":true"#);
    }
    text.push('}');
}

/// The oldest letters that this listener has not in hand, within these bounds.
pub(crate) async fn fetch(
    shared: &Shared,
    sitting: &Sitting<'_>,
    hand: &InHand,
    max_letters: u32,
    max_bytes: u64,
) -> Result<(Fetched, Share), Refusal> {
    let most = u32::try_from(MAX_IN_HAND.saturating_sub(hand.qids.len())).unwrap_or(0).min(max_letters);
    if most == 0 {
        return Ok((Fetched::default(), None));
    }
    let did = &sitting.listener().did;
    let fetch = || shared.ask(Op::Fetch, shared.store.fetch(did, &hand.qids, most, max_bytes));
    shared.budget.fetch(max_bytes, || shared.late(Op::Fetch), fetch).await
}

/// Notes that these letters are about to go to the listener.
pub(crate) fn hand_out(shared: &Shared, sitting: &Sitting<'_>, letters: &[StoredLetter]) {
    let weights: Vec<(Qid, u64)> = letters.iter().map(|letter| (letter.qid, weight(letter))).collect();
    sitting.give(&weights, Instant::now() + shared.bounds.redeliver_after);
    shared.metrics.add(Count::HandedOut, letters.len() as u64);
}

#[cfg(test)]
mod tests {
    use muretai_protocol::{json, relay::Item};

    use super::*;

    #[test]
    fn items_are_what_listeners_read() {
        let mut letter = StoredLetter {
            qid: 7,
            id: "\"\u{e9}\\".to_owned(),
            from: "did:key:z6Mk".to_owned(),
            from_enc: Some("ab".repeat(32)),
            blob: "AAAA".to_owned(),
            ts: UnixSeconds(1_784_273_700),
            awaited_until: Some(UnixSeconds(10)),
        };
        let written = |letter: &StoredLetter, now| {
            let mut text = String::new();
            write_item(&mut text, letter, UnixSeconds(now));
            Item::from_value(&json::parse(text.as_bytes()).unwrap()).unwrap()
        };
        let item = written(&letter, 9);
        assert_eq!((item.qid.as_str(), &item.id, item.ts, item.waits), ("7", &letter.id, letter.ts.0, true));
        assert_eq!((item.from_enc, item.blob), (letter.from_enc.take(), "AAAA".to_owned()));
        let item = written(&letter, 10);
        assert_eq!((item.from_enc, item.waits), (None, false), "its depositor has gone");
    }
}
