use muretai_protocol::json::Object;

use super::*;
use crate::testing::{Act, Fake, Seen, agent, card_of, documents, key};

/// Fetches the card of a server that answers so.
async fn fetch(
    act: impl Fn(&str, &Seen) -> Act + Send + Sync + 'static,
) -> (Result<FetchedCard, CardFetchError>, Fake) {
    let north = agent("north").await;
    let fake = Fake::start(move |base, seen, _| act(base, seen)).await;
    let fetched = north.agent.fetch_card(&fake.url, None, false).await;
    (fetched, fake)
}

fn peer(fetched: Result<FetchedCard, CardFetchError>) -> PeerCard {
    match fetched {
        Ok(FetchedCard::Peer(peer)) => *peer,
        other => panic!("{other:?}"),
    }
}

/// A card, and no envelope beside it.
fn plain(card: Value) -> impl Fn(&str, &Seen) -> Act {
    move |_, seen| if seen.path.ends_with("agent-card.json") { Act::json(&card) } else { Act::status(404) }
}

fn with(mut card: Value, key: &str, value: Option<Value>) -> Value {
    let Value::Object(members) = &mut card else { unreachable!() };
    match value {
        Some(value) => drop(members.insert(key.to_owned(), value)),
        None => drop(members.remove(key)),
    }
    card
}

#[tokio::test]
async fn a_signed_card_is_proven() {
    let (fetched, fake) = fetch(|base, seen| documents(&key(2), base, seen)).await;
    let peer = peer(fetched);
    assert!(peer.is_signed);
    assert_eq!((&peer.card.did, &peer.base), (key(2).did(), &fake.url));
}

#[tokio::test]
async fn a_card_url_may_be_typed_in_full() {
    let north = agent("north").await;
    let fake = Fake::start(|base, seen, _| documents(&key(2), base, seen)).await;
    for path in ["/", "/.well-known/agent-card.json", "/.well-known/agent.json"] {
        let fetched = north.agent.fetch_card(&format!("{}{path}", fake.url), Some(key(2).did()), false).await;
        assert!(peer(fetched).is_signed, "{path}");
    }
}

#[tokio::test]
async fn an_odd_spelling_of_an_address_is_still_the_owners_word() {
    let north = agent("north").await;
    let fake = Fake::start(|base, seen, _| documents(&key(2), base, seen)).await;
    let port = fake.url.rsplit(':').next().unwrap();
    for host in ["2130706433", "0x7f.1", "127.1"] {
        let fetched = peer(north.agent.fetch_card(&format!("http://{host}:{port}"), None, false).await);
        assert!(fetched.is_signed && fetched.policy == Policy::Owner, "{host}");
        assert_eq!(fetched.base, fake.url, "{host}");
    }
}

#[tokio::test]
async fn the_older_path_is_tried_second() {
    let (fetched, fake) = fetch(|base, seen| match seen.path.as_str() {
        "/.well-known/agent-card.json" => Act::status(404),
        _ => documents(&key(2), base, seen),
    })
    .await;
    assert!(peer(fetched).is_signed);
    assert_eq!(fake.seen()[1].path, "/.well-known/agent.json");
}

#[tokio::test]
async fn a_card_without_an_envelope_is_an_unproven_claim() {
    let (fetched, _fake) = fetch(|base, seen| plain(card_of(&key(2), base))(base, seen)).await;
    assert!(!peer(fetched).is_signed);
}

#[tokio::test]
async fn documents_that_are_no_card_are_named() {
    type Check = fn(&CardFetchError) -> bool;
    let missing: Check = |e| {
        let CardFetchError::NotACard { source: CardError::Missing(fields), .. } = e else { return false };
        fields.contains(&"capabilities")
    };
    let half = with(card_of(&key(2), "http://127.0.0.1"), "capabilities", None).to_json();
    let cases: Vec<(String, Check)> = vec![
        ("{}".to_owned(), missing),
        (half, missing),
        ("[]".to_owned(), |e| matches!(e, CardFetchError::NotACard { source: CardError::NotAnObject, .. })),
        ("<!doctype html>".to_owned(), |e| matches!(e, CardFetchError::WebPage { .. })),
        ("\u{feff}{}".to_owned(), |e| matches!(e, CardFetchError::NotJson { .. })),
        (String::new(), |e| matches!(e, CardFetchError::NotJson { .. })),
        ("x".repeat(1_048_577), |e| {
            matches!(e, CardFetchError::Transport { source: TransportError::TooLarge { .. }, .. })
        }),
    ];
    for (body, check) in cases {
        let shown: String = body.chars().take(40).collect();
        let (fetched, _fake) = fetch(move |_, _| Act::Answer(200, "", body.clone())).await;
        let error = fetched.unwrap_err();
        assert!(check(&error), "{shown}: {error:?}");
    }
}

#[tokio::test]
async fn statuses_are_reported_for_the_first_path() {
    let (fetched, fake) = fetch(|_, _| Act::status(404)).await;
    let error = fetched.unwrap_err();
    assert!(matches!(&error, CardFetchError::Status { url, status: 404, .. } if url.ends_with("agent-card.json")));
    assert_eq!((error.fault(), fake.seen().len()), (Fault::Failed, 2));
    let (fetched, fake) = fetch(|_, _| Act::Answer(503, "Retry-After: 9\r\n", String::new())).await;
    let error = fetched.unwrap_err();
    assert_eq!((error.fault(), fake.seen().len()), (Fault::Unreachable, 1));
    assert!(error.hint().unwrap().contains("9 s"));
}

#[tokio::test]
async fn a_broken_envelope_makes_the_card_unusable() {
    type Envelope = fn(&Value) -> Act;
    let cases: [(&str, Envelope); 5] = [
        ("signed by another key", |card| Act::json(&card::sign_envelope(&key(3), card, now()).unwrap())),
        ("too old", |card| {
            let ts = muretai_protocol::UnixSeconds(now().0 - 21_700);
            Act::json(&card::sign_envelope(&key(2), card, ts).unwrap())
        }),
        ("around another card", |card| {
            let other = with(card.clone(), "description", Some("another".into()));
            Act::json(&card::sign_envelope(&key(2), &other, now()).unwrap())
        }),
        ("a web page", |_| Act::html()),
        ("an empty object", |_| Act::json(&Object::new().into())),
    ];
    for (why, envelope) in cases {
        let (fetched, _fake) = fetch(move |base, seen| match seen.path.ends_with(".sig.json") {
            true => envelope(&card_of(&key(2), base)),
            false => documents(&key(2), base, seen),
        })
        .await;
        let error = fetched.unwrap_err();
        assert_eq!(error.fault(), Fault::Unverified, "{why}: {error:?}");
    }
}

#[tokio::test]
async fn a_copied_card_is_refused_signed_or_not() {
    let (fetched, _fake) = fetch(|_, seen| documents(&key(2), "https://south.example", seen)).await;
    let error = fetched.unwrap_err();
    assert!(matches!(error, CardFetchError::Envelope { .. }), "{error:?}");
    let (fetched, _fake) = fetch(plain(card_of(&key(2), "https://south.example"))).await;
    let error = fetched.unwrap_err();
    assert!(matches!(error, CardFetchError::OtherScope { .. }), "{error:?}");
    assert_eq!(error.fault(), Fault::Unverified);
    assert!(error.hint().unwrap().contains("https://south.example"));
}

#[tokio::test]
async fn a_card_that_names_no_address_falls_back_to_its_origin_only_unsigned() {
    for url in ["", "http://0.0.0.0:80", "http://[::]"] {
        let card = with(card_of(&key(2), "https://south.example"), "url", Some(url.into()));
        let (fetched, fake) = fetch(plain(card.clone())).await;
        assert_eq!(peer(fetched).base, fake.url, "{url}");
        let (fetched, _fake) = fetch(move |_, seen| match seen.path.ends_with(".sig.json") {
            true => Act::json(&card::sign_envelope(&key(2), &card, now()).unwrap()),
            false => Act::json(&card),
        })
        .await;
        assert!(matches!(fetched, Err(CardFetchError::Envelope { .. })), "{url}");
    }
}

#[tokio::test]
async fn somebody_elses_card_is_refused() {
    let north = agent("north").await;
    let fake = Fake::start(|base, seen, _| documents(&key(2), base, seen)).await;
    let error = north.agent.fetch_card(&fake.url, Some(key(3).did()), false).await.unwrap_err();
    assert!(matches!(error, CardFetchError::OtherDid { .. }), "{error:?}");
    let foreign = with(card_of(&key(2), &fake.url), "did", None);
    let fake = Fake::start(move |base, seen, _| plain(foreign.clone())(base, seen)).await;
    let error = north.agent.fetch_card(&fake.url, Some(key(3).did()), false).await.unwrap_err();
    assert!(matches!(error, CardFetchError::OtherDid { .. }), "{error:?}");
}

#[tokio::test]
async fn a_redirect_to_an_inner_address_is_not_followed() {
    let inner = Fake::start(|base, seen, _| documents(&key(2), base, seen)).await;
    let target: &'static str =
        Box::leak(format!("Location: {}/.well-known/agent-card.json\r\n", inner.url).into_boxed_str());
    let (fetched, _fake) = fetch(move |_, _| Act::Answer(302, target, String::new())).await;
    let error = fetched.unwrap_err();
    assert!(matches!(error, CardFetchError::Transport { source: TransportError::Refused { .. }, .. }), "{error:?}");
    assert!(inner.seen().is_empty());
}

#[test]
fn bad_urls_are_named() {
    for url in ["http://", "http://a b", "http://[fe80::1%25eth0]:80", "http://h/?q=1", "http://u@h/"] {
        assert!(matches!(Places::of(url), Err(CardFetchError::BadUrl { .. })), "{url}");
    }
}

#[test]
fn places_of_a_card() {
    for (url, base, first) in [
        ("https://H/", "https://h", "https://h/.well-known/agent-card.json"),
        ("https://h/a/.well-known/agent.json", "https://h/a", "https://h/a/.well-known/agent-card.json"),
        ("https://h/agents/one.json", "https://h/agents", "https://h/agents/one.json"),
        (
            "http://[200:abcd::1]:8080/",
            "http://[200:abcd::1]:8080",
            "http://[200:abcd::1]:8080/.well-known/agent-card.json",
        ),
    ] {
        let places = Places::of(url).unwrap();
        assert_eq!((places.base.as_str(), places.cards[0].as_str()), (base, first), "{url}");
    }
}

#[tokio::test]
async fn a_card_for_another_name_of_the_same_place_says_which() {
    let north = agent("north").await;
    let south = Fake::start(|base, seen, _| documents(&key(2), base, seen)).await;
    let other = south.url.replace("127.0.0.1", "localhost");
    let error = north.agent.fetch_card(&other, None, false).await.unwrap_err();
    assert_eq!(error.fault(), Fault::Unverified);
    assert!(error.hint().unwrap().contains(&south.url), "{:?}", error.hint());
}
