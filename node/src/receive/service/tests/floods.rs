//! Strangers as a whole are bounded, and contacts are never hurt by them.
use crate::receive::{rate::RateLimit, testing::*};
use muretai_protocol::{
    json,
    sign::{Seed, SigningKey},
};
use muretai_store::requests::RequestStatus;

fn many(n: u32) -> SigningKey {
    let mut seed = [77; 32];
    seed[..4].copy_from_slice(&n.to_be_bytes());
    SigningKey::from_seed(&Seed::from_bytes(seed))
}

const REQUEST: (&str, &str) = ("connect/request", "connect/request");

#[tokio::test]
async fn of_many_requests_a_bounded_number_waits() {
    let world = world(|_| {}).await;
    world.policy("pending", "12").await;
    let west = key(2);
    world.befriend(&west).await;
    let mut refused = 0;
    for n in 0..60 {
        // Somebody vouches for every second one.
        let by = many(n);
        let vc = if n % 2 == 0 { vec![("vc", world.vc(&west, &by, n as u8))] } else { Vec::new() };
        let answer = world.ask(REQUEST, &by, "1", &vc).await;
        if code(&answer) != 0 {
            assert_eq!(code(&answer), -32004);
            assert!(data(&answer, "retryAfter").unwrap().as_i64().unwrap() > 0);
            refused += 1;
        }
    }
    let waiting = world.requests().await;
    assert!(waiting.len() <= 12 && waiting.len() + refused == 60, "{} wait", waiting.len());
    for id in 0..50 {
        world.ask(REQUEST, &many(1), &id.to_string(), &[]).await;
    }
    let of_one = world.requests().await.iter().filter(|row| row.peer == *many(1).did()).count();
    assert_eq!(of_one, 1);
    assert!(world.requests().await.iter().all(|row| row.status == RequestStatus::Pending));
    assert_eq!(code(&world.send(&west, "1", "hello").await), 0);
}

#[tokio::test]
async fn one_contact_cannot_fill_the_room_with_introductions() {
    let world = world(|_| {}).await;
    world.policy("pending", "8").await;
    let (west, east) = (key(2), key(3));
    world.befriend(&west).await;
    world.befriend(&east).await;
    let mut held = 0;
    for n in 0..10 {
        let (by, vc) = (many(n), world.vc(&west, &many(n), n as u8));
        let answer = world.send_with(&by, "1", "hello", json!({"vc": (vc)})).await;
        held += usize::from(code(&answer) == 0);
        assert!([0, -32014].contains(&code(&answer)));
    }
    assert_eq!(held, 2, "a quarter of the room");
    let (by, vc) = (many(20), world.vc(&east, &many(20), 20));
    assert_eq!(code(&world.send_with(&by, "1", "hello", json!({"vc": (vc)})).await), 0, "others have theirs");
}

#[tokio::test]
async fn questions_of_strangers_cost_contacts_nothing() {
    let world = world(|options| options.rate = Some(RateLimit { per_account: 2, total: 3 })).await;
    let west = key(2);
    world.befriend(&west).await;
    let status = async |key: &SigningKey, id: &str| world.ask(("trust/status", "trust/status"), key, id, &[]).await;
    for (n, expected) in [(1, 0), (1, 0), (1, -32004), (2, 0), (3, -32004)] {
        let answer = status(&many(n), "1").await;
        assert_eq!(code(&answer), expected);
        assert_eq!(data(&answer, "retryAfter").is_some(), expected != 0);
    }
    assert_eq!(code(&status(&west, "1").await), 0);
    assert_eq!(code(&world.send(&west, "2", "hello").await), 0);
}
