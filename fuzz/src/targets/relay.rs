//! What strangers send to a relay, and what a relay sends to whoever listens.
use bytes::Bytes;
use muretai_protocol::{
    json::parse,
    relay::{Batch, Deposit, Item, asked_wait_secs},
};
use muretai_transports::relay::sse::{Event, Parser};

/// Reads the data as a deposit, as an answer to a poll, and as an event stream that comes in pieces.
pub fn run(data: &[u8]) {
    if let Ok(deposit) = Deposit::read(data) {
        let again = Deposit::read(deposit.to_json().as_bytes()).expect("what was read can be written and read");
        assert_eq!(again, deposit);
        assert_eq!(again.is_signed(), deposit.is_signed());
    }
    let _ = asked_wait_secs(data);
    if let Ok(batch) = Batch::read(data) {
        for item in batch.items.into_iter().flatten() {
            assert!(!item.qid.is_empty(), "an item can be acknowledged");
            assert_eq!(Item::from_value(&item.to_value()).as_ref(), Ok(&item));
        }
    }
    let events = read(data, data.len().max(1));
    let size = 1 + usize::from(data.first().copied().unwrap_or(0)) % 7;
    assert_eq!(read(data, size), events, "where a stream is cut does not matter");
    for event in events {
        if let Event::Message { data, .. } = event {
            let _ = parse(&data).map(|value| Item::from_value(&value));
        }
    }
}

fn read(stream: &[u8], size: usize) -> Vec<Event> {
    let mut parser = Parser::new();
    let mut events = Vec::new();
    for piece in stream.chunks(size) {
        parser.feed(Bytes::copy_from_slice(piece));
        events.extend(std::iter::from_fn(|| parser.event()));
    }
    events
}
