//! Lanes by value: letters in, letters out, with explicit times.
use std::time::Duration;

use super::*;

fn letter(qid: &str, from: &str) -> Letter {
    Letter::Sealed(Item {
        qid: qid.to_owned(),
        id: String::new(),
        from: from.to_owned(),
        from_enc: None,
        blob: "AAAA".to_owned(),
        ts: 0,
        waits: false,
    })
}

fn lanes(letters: &[(&str, &str)]) -> Lanes {
    let mut lanes = Lanes::default();
    for (qid, from) in letters {
        assert!(lanes.take(letter(qid, from)));
    }
    lanes
}

/// Starts whatever may be started.
fn start(lanes: &mut Lanes) -> Vec<(String, Sender)> {
    std::iter::from_fn(|| lanes.start()).map(|(sender, letter)| (letter.qid().to_owned(), sender)).collect()
}

fn qids(started: &[(String, Sender)]) -> Vec<&str> {
    started.iter().map(|(qid, _)| qid.as_str()).collect()
}

#[test]
fn one_sender_one_after_the_other_and_different_senders_side_by_side() {
    let mut lanes = lanes(&[("1", "north"), ("2", "north"), ("3", "east"), ("4", "north")]);
    let first = start(&mut lanes);
    assert_eq!(qids(&first), ["1", "3"]);
    lanes.handled(&first[0].1);
    let second = start(&mut lanes);
    assert_eq!(qids(&second), ["2"]);
    lanes.handled(&first[1].1);
    assert_eq!(start(&mut lanes), []);
    lanes.handled(&second[0].1);
    let third = start(&mut lanes);
    assert_eq!(qids(&third), ["4"]);
    lanes.handled(&third[0].1);
    assert!(lanes.is_idle() && lanes.lanes.is_empty());
}

#[test]
fn so_many_senders_at_once_and_then_who_came_first() {
    let mut lanes = Lanes::default();
    for n in 0..MAX_RUNNING + 4 {
        lanes.take(letter(&n.to_string(), &format!("sender {n}")));
    }
    let started = start(&mut lanes);
    assert_eq!(started.len(), MAX_RUNNING);
    lanes.handled(&started[3].1);
    assert_eq!(qids(&start(&mut lanes)), [MAX_RUNNING.to_string()]);
}

#[test]
fn a_letter_in_hand_is_not_taken_again_until_it_is_acknowledged() {
    let mut lanes = lanes(&[("1", "north")]);
    assert!(!lanes.take(letter("1", "north")), "it waits");
    let started = start(&mut lanes);
    assert!(!lanes.take(letter("1", "south")), "it is handled, whoever is said to have sent it");
    lanes.handled(&started[0].1);
    assert!(!lanes.take(letter("1", "north")), "its acknowledgement is on the way");
    lanes.acked("1");
    assert!(lanes.take(letter("1", "north")), "a number may be given again");
}

#[test]
fn what_is_postponed_holds_back_its_own_sender_alone() {
    let now = Instant::now();
    let mut lanes = lanes(&[("1", "north"), ("2", "north"), ("3", "east")]);
    let started = start(&mut lanes);
    let mut pauses = Vec::new();
    lanes.postponed(&started[0].1, |failures| {
        pauses.push(failures);
        now + Duration::from_secs(1)
    });
    lanes.handled(&started[1].1);
    assert!(lanes.is_idle());
    assert_eq!(lanes.next_wake(), Some(now + Duration::from_secs(1)));
    assert!(lanes.take(letter("4", "north")), "it waits behind the others");
    lanes.wake(now);
    assert_eq!(start(&mut lanes), []);
    lanes.wake(now + Duration::from_secs(1));
    let again = start(&mut lanes);
    assert_eq!(qids(&again), ["1"]);
    lanes.postponed(&again[0].1, |failures| {
        pauses.push(failures);
        now + Duration::from_secs(3)
    });
    lanes.wake(now + Duration::from_secs(3));
    for expected in ["1", "2", "4"] {
        let started = start(&mut lanes);
        assert_eq!(qids(&started), [expected]);
        lanes.handled(&started[0].1);
    }
    assert_eq!(pauses, [0, 1]);
    assert_eq!(lanes.next_wake(), None);
}

#[test]
fn what_is_abandoned_stays_in_hand_with_all_behind_it() {
    let mut lanes = lanes(&[("1", "north"), ("2", "north"), ("3", "east")]);
    let started = start(&mut lanes);
    lanes.abandoned(&started[0].1);
    lanes.handled(&started[1].1);
    assert!(lanes.is_idle() && lanes.start().is_none());
    assert!(!lanes.take(letter("2", "north")));
    assert!(lanes.take(letter("4", "north")));
    assert!(lanes.start().is_none(), "what comes later does not overtake");
    assert_eq!(lanes.waiting(), 3);
}

#[test]
fn what_was_not_begun_can_be_let_go() {
    let now = Instant::now();
    let mut lanes = lanes(&[("1", "north"), ("2", "north"), ("3", "east")]);
    let (running, letter) = lanes.start().unwrap();
    assert_eq!(letter.qid(), "1");
    lanes.drop_waiting();
    assert_eq!(lanes.running, 1);
    assert!(lanes.start().is_none());
    lanes.postponed(&running, |_| now);
    lanes.drop_waiting();
    lanes.wake(now);
    assert!(lanes.start().is_none() && lanes.is_idle());
}

#[test]
fn there_is_room_for_so_many_letters_and_bytes() {
    let mut lanes = Lanes::default();
    for n in 0..MAX_IN_HAND {
        assert!(lanes.has_room());
        lanes.take(letter(&n.to_string(), "north"));
    }
    assert!(!lanes.has_room());
    lanes.acked("7");
    lanes.acked("never there");
    assert!(lanes.has_room());
    lanes.bytes = MAX_BYTES_IN_HAND;
    assert!(!lanes.has_room());
}

#[test]
fn only_what_has_a_number_can_be_taken() {
    assert!(Letter::of(Err(BadItem { qid: None, why: "" })).is_none());
    let damaged = Letter::of(Err(BadItem { qid: Some("9".to_owned()), why: "no blob" })).unwrap();
    assert_eq!((damaged.qid(), damaged.sender(), damaged.bytes()), ("9", "", 0));
}
