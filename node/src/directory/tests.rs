use std::sync::{
    Arc,
    atomic::{AtomicI64, Ordering},
};

use muretai_protocol::{
    card::{CardSpec, Profile, TrustFacts},
    json::Value,
    sign::SigningKey,
};
use muretai_store::contacts::{Coordinates, Introduce};
use muretai_transports::TransportName;

use super::*;
use crate::{
    Fault,
    send::{SendError, SendRequest, SentStatus, delivery::tests::request, peer::FetchedCard, resolve::Recipient},
    testing::{
        Act, Fake, Owned, agent, befriend, card_of, documents, key,
        relay::{queued, sealing},
        reply_to, result, serve_elsewhere,
    },
};

/// A card that names a mailbox.
fn card_at(key: &SigningKey, url: &str, relay: Option<&str>) -> Value {
    card::build(&CardSpec {
        did: key.did(),
        name: "south",
        description: "a test",
        url,
        version: "0.0.0",
        profile: &Profile::default(),
        enc_pub: Some(&sealing(2).enc_pub()),
        enc_pub_pq: None,
        relay,
        open_door: false,
        methods: &["message/send"],
        skills: &[],
        trust: TrustFacts::default(),
    })
}

fn signed(key: &SigningKey, card: &Value, secs_ago: i64) -> Act {
    Act::json(&card::sign_envelope(key, card, UnixSeconds(now().0 - secs_ago)).unwrap())
}

/// A relay that says this when it is asked for a card.
async fn directory(answer: impl Fn() -> Act + Send + Sync + 'static) -> Fake {
    Fake::start(move |_, seen, _| match seen.path.starts_with("/card/did:key:") {
        true => answer(),
        false => Act::status(404),
    })
    .await
}

async fn north_at(relays: &[&Fake]) -> Owned {
    let north = agent("north").await;
    north.agent.configure_relays(relays.iter().map(|relay| relay.url.clone()).collect());
    north
}

#[tokio::test]
async fn a_card_may_be_old_and_says_when_it_was_signed() {
    let relay = directory(|| signed(&key(2), &card_at(&key(2), "", Some("https://relay.example")), 86_400)).await;
    let north = north_at(&[&relay]).await;
    let found = north.agent.directory_card(key(2).did()).await.unwrap().unwrap();
    assert!((now().0 - found.signed.0) >= 86_400);
    assert_eq!((found.card.relay.as_deref(), found.relay), (Some("https://relay.example"), relay.url.clone()));
    let FetchedCard::Peer(peer) = north.agent.card_of(key(2).did().as_str(), false).await.unwrap() else { panic!() };
    assert_eq!((peer.copy_signed, peer.is_signed, peer.base.as_str()), (Some(found.signed), true, ""));
}

#[tokio::test]
async fn what_does_not_verify_is_nothing() {
    let (two, three) = (key(2), key(3));
    let good = card_at(&two, "", Some("https://relay.example"));
    let forged = card::sign_envelope(&three, &good, now()).unwrap();
    let others = card::sign_envelope(&three, &card_at(&three, "", None), now()).unwrap();
    let future = card::sign_envelope(&two, &good, UnixSeconds(now().0 + 3_600)).unwrap();
    let mut newer = card::sign_envelope(&two, &good, UnixSeconds(now().0 - 60)).unwrap();
    if let Value::Object(members) = &mut newer {
        members.insert("ts".to_owned(), now().0.into());
    }
    for envelope in [forged, others, future, newer, good, Value::from(vec![Value::Null])] {
        let relay = directory(move || Act::json(&envelope)).await;
        let north = north_at(&[&relay]).await;
        assert_eq!(north.agent.directory_card(two.did()).await.unwrap(), None);
        let error = north.agent.resolve(two.did().as_str(), false).await.err().unwrap();
        assert!(matches!(&error, SendError::NotListed { silent, .. } if *silent == [relay.url.clone()]), "{error:?}");
        assert_eq!(error.fault(), Fault::Unreachable);
    }
}

#[tokio::test]
async fn of_two_relays_the_newer_card_counts_and_a_silent_one_costs_little() {
    let card = |relay: &str| card_at(&key(2), "", Some(relay));
    let (old, new) = (card("https://old.example"), card("https://new.example"));
    let old = directory(move || signed(&key(2), &old, 3_600)).await;
    let new = directory(move || signed(&key(2), &new, 60)).await;
    let lost = directory(|| Act::Drop).await;
    let none = directory(|| Act::status(404)).await;
    for relays in [[&old, &new, &lost, &none], [&none, &lost, &new, &old]] {
        let north = north_at(&relays).await;
        let listing = north.agent.look_up(key(2).did()).await.unwrap();
        assert_eq!(listing.card.unwrap().card.relay.as_deref(), Some("https://new.example"));
        assert_eq!(listing.silent, std::slice::from_ref(&lost.url));
    }
}

#[tokio::test]
async fn an_older_card_than_was_seen_before_is_a_replay() {
    let age = Arc::new(AtomicI64::new(60));
    let told = Arc::clone(&age);
    let relay = directory(move || {
        let card = card_at(&key(2), "", Some("https://relay.example"));
        signed(&key(2), &card, told.load(Ordering::SeqCst))
    })
    .await;
    let north = north_at(&[&relay]).await;
    assert!(north.agent.directory_card(key(2).did()).await.unwrap().is_some());
    age.store(3_600, Ordering::SeqCst);
    assert_eq!(north.agent.directory_card(key(2).did()).await.unwrap(), None);
    age.store(0, Ordering::SeqCst);
    assert!(north.agent.directory_card(key(2).did()).await.unwrap().is_some());
}

#[tokio::test]
async fn nobody_is_asked_without_a_relay_and_never_a_peers_own() {
    let relay = directory(|| signed(&key(2), &card_at(&key(2), "", Some("https://relay.example")), 0)).await;
    let north = agent("north").await;
    befriend(&north.agent, key(2).did(), None).await;
    let told = Coordinates { relay: Some(relay.url.clone()), ..Coordinates::default() };
    north.agent.store().update_coordinates(key(2).did(), &told, CoordinateSource::Invite).await.unwrap();
    for target in ["south", key(2).did().as_str(), key(3).did().as_str()] {
        let error = north.agent.resolve(target, true).await.err().unwrap();
        assert!(matches!(error, SendError::NoAddress { .. }), "{error:?}");
        assert!(error.hint().is_some());
    }
    assert!(relay.seen().is_empty());
}

#[tokio::test]
async fn what_a_relay_knows_of_a_contact_is_kept() {
    let relay = directory(|| signed(&key(2), &card_at(&key(2), "", Some("https://other.example")), 60)).await;
    let north = north_at(&[&relay]).await;
    befriend(&north.agent, key(2).did(), None).await;
    let Recipient::Peer(peer) = north.agent.resolve("south", false).await.unwrap() else { panic!() };
    let mailbox = peer.mailbox.unwrap();
    assert_eq!((mailbox.relay.as_str(), mailbox.enc_pub), ("https://other.example", sealing(2).enc_pub()));
    let contact = north.agent.store().contact(key(2).did()).await.unwrap().unwrap();
    assert_eq!(contact.source, CoordinateSource::Card);
    assert_eq!(contact.coordinates.relay.as_deref(), Some("https://other.example"));
    north.agent.resolve("south", false).await.unwrap();
    assert_eq!(relay.seen().len(), 1, "known now");
}

#[tokio::test]
async fn a_relay_does_not_lead_into_local_networks() {
    let inside = Fake::start(|_, _, _| Act::status(200)).await;
    let url = inside.url.clone();
    let relay = directory(move || signed(&key(2), &card_at(&key(2), &url, Some(&url)), 60)).await;
    let north = north_at(&[&relay]).await;
    let Recipient::Peer(peer) = north.agent.resolve(key(2).did().as_str(), false).await.unwrap() else { panic!() };
    assert_eq!((peer.policy, peer.mailbox.unwrap().allow_private), (Policy::Peer, false));
    let Recipient::Peer(peer) = north.agent.resolve(key(2).did().as_str(), true).await.unwrap() else { panic!() };
    assert_eq!(peer.policy, Policy::Owner);
    assert!(inside.seen().is_empty());
}

#[tokio::test]
async fn a_card_is_fetched_where_its_agent_is_and_else_from_a_relay() {
    let south = Fake::start(|base, seen, _| documents(&key(2), base, seen)).await;
    let relay = directory(|| signed(&key(2), &card_of(&key(2), ""), 60)).await;
    let north = north_at(&[&relay]).await;
    befriend(&north.agent, key(2).did(), Some(&south.url)).await;
    let FetchedCard::Peer(live) = north.agent.card_of("south", false).await.unwrap() else { panic!() };
    assert_eq!(live.copy_signed, None);
    assert!(relay.seen().is_empty());
    drop(south);
    let FetchedCard::Peer(copy) = north.agent.card_of("south", false).await.unwrap() else { panic!() };
    assert!(copy.copy_signed.is_some());
    drop(relay);
    let error = north.agent.card_of("south", false).await.unwrap_err();
    assert!(matches!(error, SendError::Card(_)), "what stood in the way at its own address: {error:?}");
}

/// North, who knows south by its mailbox at this relay alone, and has one there itself.
async fn north_beside(relay: &Fake) -> Owned {
    let north = north_at(&[relay]).await;
    let enc_pub = Some(sealing(2).enc_pub());
    let south = Introduce {
        did: key(2).did().clone(),
        peer_name: Some("south".to_owned()),
        own_name: None,
        coordinates: Coordinates { relay: Some(relay.url.clone()), enc_pub, ..Coordinates::default() },
        source: CoordinateSource::Invite,
        allow_private: false,
        now: now(),
    };
    north.agent.store().connect(&south).await.unwrap();
    north
}

/// A relay that has a card of this age with this address, keeps letters, and answers no call.
async fn relay_with_card(url: &str, secs_ago: i64) -> Fake {
    let url = url.to_owned();
    Fake::start(move |base, seen, _| match seen.path.as_str() {
        "/rpc" | "/send" => queued(),
        _ => signed(&key(2), &card_at(&key(2), &url, Some(base)), secs_ago),
    })
    .await
}

fn looked_up(relay: &Fake) -> usize {
    relay.seen().iter().filter(|seen| seen.path.starts_with("/card/")).count()
}

#[tokio::test]
async fn a_contact_with_a_mailbox_alone_is_dialled_where_its_fresh_card_says() {
    let south = Fake::start(|_, seen, _| result(&reply_to(seen, "HELLO").sign(&key(2)))).await;
    let relay = relay_with_card(&south.url, 60).await;
    let north = north_beside(&relay).await;
    let _close = serve_elsewhere(&north, "west", "http://127.0.0.1:1");
    let sent = north.agent.send(&request("south")).await.unwrap();
    assert_eq!((sent.via, sent.status), (TransportName::Http, SentStatus::Answered));
    let contact = north.agent.store().contact(key(2).did()).await.unwrap().unwrap();
    assert_eq!(contact.coordinates.url, Some(south.url.clone()));
    assert_eq!((contact.coordinates.relay, contact.source), (Some(relay.url.clone()), CoordinateSource::Invite));
    north.agent.send(&SendRequest { via: Some(TransportName::Http), ..request("south") }).await.unwrap();
    assert_eq!((looked_up(&relay), relay.seen().len()), (1, 1), "known now, and no letter");
}

#[tokio::test]
async fn directories_are_asked_for_an_address_now_and_then_or_when_it_is_wanted() {
    let relay = relay_with_card("", 60).await;
    let north = north_beside(&relay).await;
    for _ in 0..2 {
        assert_eq!(north.agent.send(&request("south")).await.unwrap().via, TransportName::Relay);
        assert_eq!(looked_up(&relay), 1, "once in six hours");
    }
    let by = |via| SendRequest { via: Some(via), ..request("south") };
    north.agent.send(&by(TransportName::Relay)).await.unwrap();
    assert_eq!(looked_up(&relay), 1);
    let error = north.agent.send(&by(TransportName::Http)).await.unwrap_err();
    assert!(matches!(error, SendError::WayUnknown { .. }), "{error:?}");
    assert_eq!(looked_up(&relay), 2);
    let asked = format!("{ASKED}{}", key(2).did());
    for long_ago in [now().0 - ASK_AGAIN_SECS, now().0 + 3_600] {
        let before = looked_up(&relay);
        north.agent.store().set_setting(&asked, Some(&long_ago.to_string())).await.unwrap();
        north.agent.send(&request("south")).await.unwrap();
        assert_eq!(looked_up(&relay), before + 1);
    }
}

#[tokio::test]
async fn an_old_card_a_private_address_and_the_owners_word_lead_nowhere() {
    let inside = Fake::start(|_, _, _| Act::status(200)).await;
    let known = |north: &Owned| {
        let store = north.agent.store().clone();
        async move { store.contact(key(2).did()).await.unwrap().unwrap().coordinates.url }
    };
    // Nobody is served close by: the address is kept, and not dialled.
    let relay = relay_with_card(&inside.url, 60).await;
    let north = north_beside(&relay).await;
    assert_eq!(north.agent.send(&request("south")).await.unwrap().status, SentStatus::AtRelay);
    assert_eq!(known(&north).await, Some(inside.url.clone()));

    let relay = relay_with_card(&inside.url, FRESH_SECS + 60).await;
    let north = north_beside(&relay).await;
    assert_eq!(north.agent.send(&request("south")).await.unwrap().status, SentStatus::AtRelay);
    assert_eq!(known(&north).await, None);

    let relay = relay_with_card(&inside.url, 60).await;
    let north = north_beside(&relay).await;
    let told = Coordinates { relay: Some(relay.url.clone()), ..Coordinates::default() };
    north.agent.store().update_coordinates(key(2).did(), &told, CoordinateSource::Owner).await.unwrap();
    assert_eq!(north.agent.send(&request("south")).await.unwrap().status, SentStatus::AtRelay);
    assert_eq!((known(&north).await, looked_up(&relay)), (None, 0));
    assert!(inside.seen().is_empty());
}

#[tokio::test]
async fn a_directory_that_says_nothing_holds_no_letter_up() {
    let relay = Fake::start(|_, seen, _| match seen.path.as_str() {
        "/rpc" | "/send" => queued(),
        _ => Act::Silence,
    })
    .await;
    let north = north_beside(&relay).await;
    let message = SendRequest { timeout: Duration::from_secs(2), ..request("south") };
    assert_eq!(north.agent.send(&message).await.unwrap().status, SentStatus::AtRelay);
    assert_eq!(looked_up(&relay), 1);
}
