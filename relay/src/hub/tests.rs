use muretai_protocol::relay::Epoch;

use super::*;
use crate::testing::key;

fn epoch(n: u64) -> Epoch {
    Epoch::new(n, 1)
}

#[tokio::test]
async fn the_greatest_epoch_has_the_seat() {
    let hub = Hub::new();
    let south = key(2).did().clone();
    let first = hub.sit(&south, &epoch(1), Kind::Poll).unwrap();
    let second = hub.sit(&south, &epoch(2), Kind::Stream).unwrap();
    assert_eq!(first.signal().wait().await, Flags::SUPERSEDED);
    assert_eq!(hub.sit(&south, &epoch(1), Kind::Poll).err(), Some(NoSeat::Superseded));
    let again = hub.sit(&south, &epoch(2), Kind::Stream).unwrap();
    assert_eq!(second.signal().wait().await, Flags::REPLACED);
    hub.supersede(&south, &epoch(2));
    assert!(!again.signal().is_up(Flags::SUPERSEDED), "its own epoch is no news");
    hub.supersede(&south, &epoch(3));
    assert_eq!(again.signal().wait().await, Flags::SUPERSEDED);
    drop(again);
    assert_eq!(hub.sit(&south, &epoch(2), Kind::Poll).err(), Some(NoSeat::Superseded), "known from elsewhere");
    assert_eq!(hub.is_current(&south, &epoch(2)), Some(false));
    drop((first, second));
    assert_eq!(hub.waiting(), (0, 0));
}

#[tokio::test]
async fn one_that_was_replaced_does_not_take_the_seat_with_it() {
    let hub = Hub::new();
    let south = key(2).did().clone();
    let old = hub.sit(&south, &epoch(1), Kind::Poll).unwrap();
    let new = hub.sit(&south, &epoch(1), Kind::Poll).unwrap();
    old.give(&[(1, 1)], Instant::now() + POLL_LINGER);
    drop(old);
    hub.wake(&south);
    assert_eq!(new.signal().wait().await, Flags::LETTERS);
    assert!(new.in_hand().qids.is_empty(), "what the old one fetched late is not in the new one's hand");
}

#[tokio::test]
async fn a_hand_lasts_as_long_as_its_listener_can_be_the_same() {
    let hub = Hub::new();
    let south = key(2).did().clone();
    let later = Instant::now() + POLL_LINGER;
    let sit = |n, kind| hub.sit(&south, &epoch(n), kind).unwrap();
    sit(1, Kind::Poll).give(&[(1, 10), (2, 20)], later);
    assert_eq!(sit(1, Kind::Poll).in_hand().qids, [1, 2], "the next poll");
    assert_eq!(sit(1, Kind::Drain).in_hand().qids, [1, 2]);
    assert!(hub.has_in_hand(&south, &epoch(1), &[2]) && !hub.has_in_hand(&south, &epoch(1), &[2, 3]));
    let poll = sit(1, Kind::Poll);
    hub.acked(&south, &[2]);
    assert_eq!(poll.signal().wait().await, Flags::LETTERS, "there is room again");
    drop(poll);
    assert!(sit(1, Kind::Stream).in_hand().qids.is_empty(), "a stream broke, or begins");
    sit(1, Kind::Poll).give(&[(1, 10)], later);
    assert!(sit(2, Kind::Poll).in_hand().qids.is_empty(), "another listener");
}

#[tokio::test(start_paused = true)]
async fn the_store_hears_of_changes_only() {
    let hub = Hub::new();
    let (south, west) = (key(2).did().clone(), key(3).did().clone());
    drop(hub.sit(&west, &epoch(1), Kind::Drain).unwrap());
    assert_eq!(hub.take_changes(10), [], "one who drains does not listen");
    for _ in 0..5 {
        drop(hub.sit(&south, &epoch(1), Kind::Poll).unwrap());
    }
    assert!(hub.is_listening(&south), "back in a moment");
    assert_eq!((hub.reaches(&south), hub.reaches(&west)), (Some(true), None));
    tokio::time::advance(BETWEEN).await;
    assert!(!hub.is_listening(&south));
    assert_eq!(hub.reaches(&south), Some(false));
    assert_eq!(hub.take_changes(10), [(south.clone(), true)]);
    hub.expire(Instant::now());
    assert_eq!(hub.take_changes(10), []);
    drop(hub.sit(&south, &epoch(1), Kind::Stream).unwrap());
    assert_eq!(hub.reaches(&south), Some(false), "a stream that ended is not waited for");
    let stream = hub.sit(&south, &epoch(1), Kind::Stream).unwrap();
    assert_eq!(hub.reaches(&south), Some(true));
    tokio::time::advance(POLL_LINGER * 2).await;
    hub.expire(Instant::now());
    assert_eq!(hub.take_changes(10), [], "it is still there");
    drop(stream);
    tokio::time::advance(STREAM_LINGER).await;
    hub.expire(Instant::now());
    let changes = hub.take_changes(10);
    assert_eq!(changes, [(south.clone(), false)]);
    hub.put_back(changes);
    let _back = hub.sit(&south, &epoch(1), Kind::Stream).unwrap();
    assert_eq!(hub.take_changes(10), [(south, true)], "news is newer than what was put back");
    let seats: usize = hub.shards.iter().map(|shard| shard.lock().unwrap().len()).sum();
    assert_eq!(seats, 1, "who drained left nothing behind");
}

#[tokio::test]
async fn whoever_comes_after_the_end_is_sent_away() {
    let hub = Hub::new();
    let (south, west) = (key(2).did().clone(), key(3).did().clone());
    let sitting = hub.sit(&south, &epoch(1), Kind::Stream).unwrap();
    hub.stop();
    assert_eq!(sitting.signal().wait().await, Flags::STOP);
    assert_eq!(hub.sit(&west, &epoch(1), Kind::Poll).err(), Some(NoSeat::Stopping));
    assert_eq!(hub.waiting(), (0, 1));
    assert!(hub.told().contains(&south));
}

#[tokio::test]
async fn a_resync_has_everybody_look_and_be_told_of_again() {
    let hub = Hub::new();
    let south = key(2).did().clone();
    let sitting = hub.sit(&south, &epoch(1), Kind::Stream).unwrap();
    assert_eq!(hub.take_changes(10).len(), 1);
    hub.resync().iter().for_each(|listener| listener.look_again());
    assert_eq!(sitting.signal().wait().await, Flags::RESYNC.or(Flags::LETTERS));
    assert_eq!(hub.take_changes(10), [(south, true)]);
}
