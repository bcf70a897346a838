//! Redelivery (4.5): what is stored is confirmed once, what was refused is judged anew.
use crate::receive::{rate::RateLimit, testing::*};
use muretai_protocol::json::Value;

#[tokio::test]
async fn a_stored_message_is_confirmed_and_not_answered_again() {
    let world = world(|_| {}).await;
    world.befriend(&key(1)).await;
    assert_eq!(code(&world.send(&key(1), "1", "hello").await), 0);
    assert!(is_duplicate(&world.send(&key(1), "1", "hello").await));
    assert_eq!(world.stored().await.len(), 1);
}

#[tokio::test]
async fn the_store_remembers_what_memory_does_not() {
    let folder = tempfile::tempdir().unwrap();
    let agent = agent_in(folder.path()).await;
    let options = super::super::ReceiverOptions {
        url: "http://127.0.0.1:9000".to_owned(),
        open_door: true,
        ..Default::default()
    };
    let message = message_to(agent.did(), &key(1), "1", "hello", crate::agent::now());
    let body = request("message/send", message).to_json();
    for expected in [0, -32002] {
        // A new receiver each time: a restart.
        let receiver = super::super::Receiver::new(&agent, &options);
        let request = muretai_transports::Incoming {
            body: body.clone().into(),
            a2a_version: None,
            remote: None,
            way: Default::default(),
        };
        let outcome = muretai_transports::Service::call(&receiver, request).await;
        let answer = muretai_protocol::json::parse(&outcome.body).unwrap();
        assert_eq!(code(&answer), expected);
        assert_eq!(is_duplicate(&answer), expected != 0);
    }
}

#[tokio::test]
async fn one_id_with_two_contents_is_no_duplicate() {
    let world = world(|_| {}).await;
    world.befriend(&key(1)).await;
    assert_eq!(code(&world.send(&key(1), "1", "hello").await), 0);
    let answer = world.send(&key(1), "1", "something else").await;
    assert_eq!(code(&answer), -32002);
    assert!(!is_duplicate(&answer));
    assert_eq!(world.receiver.inner.ladder.guard().conflicts(), 1);
}

#[tokio::test]
async fn another_time_stamp_is_an_honest_copy() {
    let world = world(|_| {}).await;
    world.befriend(&key(1)).await;
    let now = crate::agent::now();
    for (timestamp, expected) in [(now.0, false), (now.0 - 10, true)] {
        let message = message_to(world.agent.did(), &key(1), "1", "hello", muretai_protocol::UnixSeconds(timestamp));
        assert_eq!(is_duplicate(&world.call(&request("message/send", message)).await), expected);
    }
}

#[tokio::test]
async fn only_the_proven_sender_hears_of_a_duplicate() {
    for open_door in [false, true] {
        let world = world(|options| options.open_door = open_door).await;
        world.befriend(&key(1)).await;
        let good = world.message(&key(1), "1", "hello");
        assert_eq!(code(&world.call(&request("message/send", good.clone())).await), 0);
        let mut forged = good;
        let other = world.message(&key(1), "2", "hello");
        let sig = other.member("metadata").unwrap().member("sig").unwrap().clone();
        at(&mut forged, &["metadata"]).insert("sig".to_owned(), sig);
        let answer = world.call(&request("message/send", forged)).await;
        assert_eq!(code(&answer), if open_door { -32001 } else { -32002 }, "a Door looks at the signature first");
        assert!(!is_duplicate(&answer));
    }
}

#[tokio::test]
async fn two_senders_may_use_one_id() {
    let world = world(|options| options.open_door = true).await;
    for n in 1..4 {
        assert_eq!(code(&world.send(&key(n), "same", "hello").await), 0);
    }
    assert_eq!(world.stored().await.len(), 3);
}

#[tokio::test]
async fn a_forged_message_does_not_use_up_an_id() {
    let world = world(|_| {}).await;
    world.befriend(&key(1)).await;
    let mut forged = world.message(&key(2), "1", "hello");
    at(&mut forged, &["metadata"]).insert("from".to_owned(), key(1).did().as_str().into());
    assert_eq!(code(&world.call(&request("message/send", forged)).await), -32001);
    assert_eq!(code(&world.send(&key(1), "1", "hello").await), 0);
}

#[tokio::test]
async fn the_gate_releases_the_id() {
    let world = world(|_| {}).await;
    let stranger = world.send(&key(1), "1", "hello").await;
    assert_eq!(code(&stranger), -32010);
    assert_eq!(code(&world.send(&key(1), "1", "hello").await), -32010, "not a replay");
    world.befriend(&key(1)).await;
    assert_eq!(code(&world.send(&key(1), "1", "hello").await), 0);
}

async fn closed_world() -> World {
    world(|_| {}).await
}

#[tokio::test]
async fn the_blocked_hear_what_strangers_hear_even_at_an_open_door() {
    let world = world(|options| options.open_door = true).await;
    let closed = closed_world().await;
    world.befriend(&key(1)).await;
    world.agent.store().set_blocked(key(1).did(), true, crate::agent::now()).await.unwrap();
    let blocked = world.send(&key(1), "1", "hello").await;
    let stranger = closed.send(&key(1), "1", "hello").await;
    assert_eq!(blocked, stranger);
    assert_eq!(code(&blocked), -32010);
    world.agent.store().set_blocked(key(1).did(), false, crate::agent::now()).await.unwrap();
    assert_eq!(code(&world.send(&key(1), "1", "hello").await), 0);
}

#[tokio::test]
async fn the_rate_limit_releases_the_id_and_does_not_name_itself() {
    let limit = RateLimit { per_account: 2, total: 3 };
    let world = world(|options| (options.open_door, options.rate) = (true, Some(limit))).await;
    for (n, expected) in [(1, 0), (2, 0), (3, -32004), (3, -32004)] {
        assert_eq!(code(&world.send(&key(1), &n.to_string(), "hello").await), expected);
    }
    assert_eq!(code(&world.send(&key(2), "1", "hello").await), 0);
    let answer = world.send(&key(3), "1", "hello").await;
    assert_eq!(code(&answer), -32004, "the total");
    let wait = data(&answer, "retryAfter").and_then(Value::as_i64).unwrap();
    assert!((1..=65).contains(&wait));
    assert_eq!(world.stored().await.len(), 3);
}

#[tokio::test]
async fn strangers_at_a_closed_door_do_not_spend_the_total() {
    let limit = RateLimit { per_account: 2, total: 2 };
    let world = world(|options| options.rate = Some(limit)).await;
    world.befriend(&key(1)).await;
    for n in 2..10 {
        assert_eq!(code(&world.send(&key(n), "1", "hello").await), -32010);
    }
    assert_eq!(code(&world.send(&key(1), "1", "hello").await), 0);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn of_racing_copies_one_is_answered_and_all_others_are_confirmed() {
    let world = std::sync::Arc::new(world(|options| options.open_door = true).await);
    let message = request("message/send", world.message(&key(1), "1", "hello"));
    let tasks: Vec<_> = (0..32)
        .map(|_| {
            let (world, message) = (world.clone(), message.clone());
            tokio::spawn(async move { world.call(&message).await })
        })
        .collect();
    let mut answered = 0;
    for task in tasks {
        let answer = task.await.unwrap();
        answered += usize::from(code(&answer) == 0);
        assert!(code(&answer) == 0 || is_duplicate(&answer), "{}", answer.to_json());
    }
    assert_eq!(answered, 1);
    assert_eq!(world.stored().await.len(), 1);
}

/// Polls a call so often and then hangs up.
async fn hang_up_after(polls: usize, call: impl Future<Output = Value>) -> Option<Value> {
    let mut call = std::pin::pin!(call);
    for _ in 0..polls {
        let polled = std::future::poll_fn(|context| std::task::Poll::Ready(call.as_mut().poll(context))).await;
        if let std::task::Poll::Ready(answer) = polled {
            return Some(answer);
        }
        tokio::task::yield_now().await;
    }
    None
}

#[tokio::test]
async fn whoever_hangs_up_at_any_moment_and_tries_again_is_heard_once() {
    let world = world(|_| {}).await;
    world.befriend(&key(1)).await;
    for polls in 0..40 {
        let id = format!("m{polls}");
        let first = hang_up_after(polls, world.send(&key(1), &id, "hello")).await;
        let again = world.send(&key(1), &id, "hello").await;
        assert!(code(&again) == 0 && first.is_none() || is_duplicate(&again), "{polls}: {}", again.to_json());
    }
    assert_eq!(world.stored().await.len(), 40);
}
