//! What a relay hands to a listener (9.3). Written by our relay, read from any, item by item: one that is damaged must
//! not stand in the way of the others.
use crate::{
    hex,
    json::{self, Object, ParseError, Value},
};

/// A letter as a relay hands it out. All of it is what the relay says.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Item {
    /// The relay's number for it, to be acknowledged.
    pub qid: String,
    /// The deposit's id.
    pub id: String,
    /// Who deposited it, as the relay says. Proves nothing.
    pub from: String,
    /// The key to open it with, as the depositor said: 64 lower-case hex digits. A hint.
    pub from_enc: Option<String>,
    /// The sealed box.
    pub blob: String,
    /// When the relay took it, Unix seconds.
    pub ts: i64,
    /// The depositor waits for the answer (`POST /rpc`); it goes to `POST /reply`.
    pub waits: bool,
}

/// An item that cannot be read. With a `qid` it can be acknowledged and be gone.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BadItem {
    /// Its number, when it has one.
    pub qid: Option<String>,
    /// What is wrong with it.
    pub why: &'static str,
}

/// One answer to a poll.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Batch {
    /// The items in the relay's order.
    pub items: Vec<Result<Item, BadItem>>,
    /// The mailbox holds more.
    pub more: bool,
}

/// Why an answer to a poll is none.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ReadBatchError {
    /// It is no JSON.
    #[error("the answer to a poll is no JSON")]
    Json(#[from] ParseError),
    /// It is no object with a list of items.
    #[error("the answer to a poll has no list `items`")]
    NoItems,
}

/// Bytes of a qid, of an id and of a DID that are read.
const MAX_WORD_BYTES: usize = 512;
/// Items of one answer that are read. Relays give 100; what lies behind these comes again.
const MAX_ITEMS: usize = 1_000;

impl Item {
    /// As it is written.
    pub fn to_value(&self) -> Value {
        let mut item = Object::new();
        item.insert("qid".to_owned(), self.qid.as_str().into());
        item.insert("id".to_owned(), self.id.as_str().into());
        item.insert("from".to_owned(), self.from.as_str().into());
        if let Some(key) = &self.from_enc {
            item.insert("from_enc".to_owned(), key.as_str().into());
        }
        item.insert("blob".to_owned(), self.blob.as_str().into());
        item.insert("ts".to_owned(), self.ts.into());
        if self.waits {
            item.insert("waits".to_owned(), true.into());
        }
        item.into()
    }

    /// Reads one item, tolerant of everything but what is needed to open it and to be rid of it.
    ///
    /// # Errors
    /// What is wrong, with the `qid` when there is one.
    pub fn from_value(value: &Value) -> Result<Item, BadItem> {
        let word = |member: &str| match value.member(member) {
            Some(Value::String(text)) if !text.is_empty() && text.len() <= MAX_WORD_BYTES => Some(text.clone()),
            Some(number) => number.as_i64().map(|number| number.to_string()),
            None => None,
        };
        let Some(qid) = word("qid") else { return Err(BadItem { qid: None, why: "the item has no qid" }) };
        let bad = |why| BadItem { qid: Some(qid.clone()), why };
        let blob = value.member("blob").and_then(Value::as_str).ok_or_else(|| bad("the item has no blob"))?;
        let key = value.member("from_enc").and_then(Value::as_str).filter(|key| hex::decode::<32>(key).is_some());
        Ok(Item {
            id: word("id").unwrap_or_default(),
            from: word("from").unwrap_or_default(),
            from_enc: key.map(str::to_ascii_lowercase),
            blob: blob.to_owned(),
            ts: value.member("ts").and_then(Value::as_i64).unwrap_or(0),
            waits: value.member("waits").and_then(Value::as_bool).unwrap_or(false),
            qid,
        })
    }
}

impl Batch {
    /// Reads the answer to a poll; of more than 1,000 items the first 1,000.
    ///
    /// # Errors
    /// When it is no JSON, or has no list of items: whatever that is, it does not say that the mailbox is empty.
    pub fn read(body: &[u8]) -> Result<Batch, ReadBatchError> {
        let body = json::parse(body)?;
        let items = body.member("items").and_then(Value::as_array).ok_or(ReadBatchError::NoItems)?;
        Ok(Batch {
            items: items.iter().take(MAX_ITEMS).map(Item::from_value).collect(),
            more: body.member("more").and_then(Value::as_bool).unwrap_or(false),
        })
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn item() -> Item {
        Item {
            qid: "7".to_owned(),
            id: "ab".to_owned(),
            from: "did:key:z6Mk".to_owned(),
            from_enc: Some("ab".repeat(32)),
            blob: "AAAA".to_owned(),
            ts: 1_784_273_700,
            waits: false,
        }
    }

    #[test]
    fn reads_what_it_writes() {
        for item in [item(), Item { from_enc: None, waits: true, ..item() }] {
            assert_eq!(Item::from_value(&item.to_value()), Ok(item));
        }
    }

    #[test]
    fn a_damaged_item_is_told_apart_from_the_others() {
        let body =
            br#"{"items":[{"qid":1,"blob":"AA=="},{"qid":"2"},{"blob":"x"},7,{"qid":"3","blob":"","from_enc":9}]}"#;
        let batch = Batch::read(body).unwrap();
        let qids: Vec<_> = batch.items.iter().map(|item| item.as_ref().map(|item| item.qid.as_str())).collect();
        assert_eq!(qids[0], Ok("1"));
        assert_eq!(qids[1], Err(&BadItem { qid: Some("2".to_owned()), why: "the item has no blob" }));
        assert!(qids[2].is_err() && qids[3].is_err());
        assert_eq!(qids[4], Ok("3"));
        assert!(!batch.more);
    }

    #[test]
    fn what_does_not_list_items_is_no_empty_mailbox() {
        assert_eq!(Batch::read(br#"{"items":[]}"#), Ok(Batch::default()));
        for body in ["{}", "[]", "7", "null", r#"{"items":null}"#, r#"{"items":{}}"#, r#"{"error":"no"}"#] {
            assert_eq!(Batch::read(body.as_bytes()), Err(ReadBatchError::NoItems), "{body}");
        }
        for body in ["", "<html>", "{\"items\":["] {
            assert!(matches!(Batch::read(body.as_bytes()), Err(ReadBatchError::Json(_))), "{body}");
        }
    }

    #[test]
    fn no_answer_has_more_items_than_are_sane() {
        let body = format!(r#"{{"items":[{}7]}}"#, "7,".repeat(MAX_ITEMS));
        assert_eq!(Batch::read(body.as_bytes()).unwrap().items.len(), MAX_ITEMS);
    }

    #[test]
    fn words_of_no_sane_length_are_no_words() {
        let long = "7".repeat(MAX_WORD_BYTES + 1);
        let item = Item { qid: long.clone(), ..item() };
        assert_eq!(Item::from_value(&item.to_value()), Err(BadItem { qid: None, why: "the item has no qid" }));
        let item = Item { qid: "7".to_owned(), from: long.clone(), id: long, ..item };
        let read = Item::from_value(&item.to_value()).unwrap();
        assert_eq!((read.from.as_str(), read.id.as_str()), ("", ""));
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]

        #[test]
        fn reads_every_batch_that_it_writes(
            qids in proptest::collection::vec("[0-9a-zé-]{1,20}", 0..5),
            blob in "[A-Za-z0-9+/]{0,40}",
            ts in -json_safe()..json_safe(),
            waits: bool,
            more: bool,
        ) {
            let items: Vec<_> =
                qids.into_iter().map(|qid| Item { qid, blob: blob.clone(), ts, waits, ..item() }).collect();
            let values: Vec<Value> = items.iter().map(Item::to_value).collect();
            let mut body = Object::new();
            body.insert("items".to_owned(), Value::Array(values));
            body.insert("more".to_owned(), more.into());
            let text = Value::from(body).to_json();
            let batch = Batch::read(text.as_bytes()).unwrap();
            prop_assert_eq!(batch, Batch { items: items.into_iter().map(Ok).collect(), more });
            for end in (0..text.len()).step_by(5) {
                prop_assert!(Batch::read(&text.as_bytes()[..end]).is_err());
            }
        }

        #[test]
        fn no_body_makes_it_panic(bytes: Vec<u8>, text: String) {
            let _ = (Batch::read(&bytes), Batch::read(text.as_bytes()));
        }
    }

    fn json_safe() -> i64 {
        crate::limits::MAX_SAFE_INT
    }
}
