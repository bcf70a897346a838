use muretai_protocol::{invite::InviteError as CardError, sign::SigningKey};
use muretai_store::messages::{Direction, Query};
use muretai_transports::{Stop, TransportError, http::ServerLimits};

use super::*;
use crate::{
    Fault, Home,
    serve::ServeOptions,
    testing::{Act, Fake, Owned, Seen, agent, agent_in, key, refusal, reply_to, result},
};

mod relayed;

/// A served agent that stops with the test.
struct Served {
    owned: Owned,
    url: String,
    stop: Stop,
}

impl Drop for Served {
    fn drop(&mut self) {
        self.stop.stop();
    }
}

async fn served(name: &str) -> Served {
    let owned = agent(name).await;
    let (url, stop) = serve(&owned.agent).await;
    Served { owned, url, stop }
}

async fn serve(agent: &Agent) -> (String, Stop) {
    let options = ServeOptions {
        listen: "127.0.0.1:0".parse().unwrap(),
        url: None,
        open_door: false,
        rate: None,
        reply_with: None,
        skills: None,
        policies: Vec::new(),
        limits: ServerLimits::default(),
        relays: Vec::new(),
        no_http: false,
        relay_times: Default::default(),
    };
    let serving = agent.serve(&options).await.unwrap();
    let (url, stop) = (serving.url().to_owned(), Stop::new());
    tokio::spawn(serving.run(stop.clone()));
    (url, stop)
}

fn claim(link: &str) -> ClaimRequest {
    ClaimRequest {
        link: link.to_owned(),
        timeout: Duration::from_secs(20),
        allow_private: false,
        name: None,
        no_greeting: false,
        relay: None,
        wait: Duration::ZERO,
        receiver: Default::default(),
    }
}

async fn invite(south: &Served) -> NewInvite {
    south.owned.agent.create_invite(&InviteRequest::default()).await.unwrap()
}

/// An inviter's key, its card for a URL, and the link that needs no fetch.
fn forged(key: &SigningKey, url: &str, exp: UnixSeconds) -> Value {
    invite::mint(key, &InviteSpec { url, ..spec("south", exp) })
}

fn spec(name: &str, exp: UnixSeconds) -> InviteSpec<'_> {
    InviteSpec {
        name,
        url: "",
        specialty: None,
        nonce: "00112233445566778899aabbccddeeff",
        exp,
        purpose: None,
        relay: None,
        enc_pub: None,
    }
}

fn tomorrow() -> UnixSeconds {
    UnixSeconds(now().0 + 86_400)
}

/// An inviter that serves its invite at `/i/code` and answers POSTs with `act`.
async fn inviter(act: impl Fn(&Seen, usize) -> Act + Send + Sync + 'static) -> Fake {
    Fake::start(move |base, seen, number| match (seen.method.as_str(), seen.path.as_str()) {
        ("GET", "/i/code") => Act::json(&forged(&key(2), base, tomorrow())),
        ("POST", _) => act(seen, number),
        _ => Act::status(404),
    })
    .await
}

fn welcome(key: &SigningKey) -> Act {
    result(&muretai_protocol::json!({"ok": true, "did": (key.did().as_str())}))
}

#[tokio::test]
async fn an_invite_is_claimed_and_both_can_talk() {
    let south = served("south").await;
    let north = agent("north").await;
    let invite = invite(&south).await;
    assert!(!invite.is_offline);
    assert_eq!(invite.url, south.url);
    let claimed = north.agent.claim(&claim(&format!(" <{}>\n", invite.link))).await.unwrap();
    assert!(!claimed.was_known && claimed.notes.is_empty(), "{:?}", claimed.notes);
    assert_eq!((&claimed.contact.did, claimed.contact.name.as_str()), (south.owned.agent.did(), "south"));
    assert!(claimed.contact.allow_private, "the owner typed a loopback link");
    let at_south = south.owned.agent.store().contact(north.agent.did()).await.unwrap().unwrap();
    assert_eq!(at_south.name, "north");
    let store = south.owned.agent.store();
    assert!(store.messages(&Query::default()).await.unwrap().is_empty(), "a greeting is no conversation");
    let inbox = store.messages(&Query { with_auto: true, ..Query::default() }).await.unwrap();
    assert!(inbox.iter().any(|row| row.direction == Direction::In && row.text.contains("this is north")));
}

#[tokio::test]
async fn claiming_again_is_a_success_and_makes_no_second_contact() {
    let south = served("south").await;
    let north = agent("north").await;
    let invite = invite(&south).await;
    north.agent.claim(&claim(&invite.link)).await.unwrap();
    let messages = || async {
        let all = Query { with_auto: true, with_sent: true, ..Query::default() };
        south.owned.agent.store().messages(&all).await.unwrap().len()
    };
    let before = (north.agent.store().contacts().await.unwrap(), messages().await);
    let renamed = ClaimRequest { name: Some("other".to_owned()), ..claim(&invite.link) };
    let again = north.agent.claim(&renamed).await.unwrap();
    assert!(again.was_known);
    assert!(again.notes.iter().any(|note| note.contains("keeps the name south")), "{:?}", again.notes);
    assert_eq!((north.agent.store().contacts().await.unwrap(), messages().await), before);
}

#[tokio::test]
async fn a_used_or_revoked_invite_is_refused_and_leaves_no_contact() {
    let south = served("south").await;
    let (north, west) = (agent("north").await, agent("west").await);
    let used = invite(&south).await;
    north.agent.claim(&claim(&used.link)).await.unwrap();
    let revoked = invite(&south).await;
    assert!(south.owned.agent.revoke_invite(&revoked.link).await.unwrap().is_some());
    for link in [&used.link, &used.token_link, &revoked.link, &revoked.token_link] {
        let request = ClaimRequest { allow_private: true, ..claim(link) };
        let error = west.agent.claim(&request).await.unwrap_err();
        let is_gone = matches!(error, ClaimError::NotValid { .. } | ClaimError::Refused { code: -32011, .. });
        assert!(is_gone, "{link}: {error:?}");
        assert!(error.hint().unwrap().contains("works once"), "{error:?}");
        assert_eq!(error.fault(), Fault::PeerRefused);
    }
    assert!(west.agent.store().contacts().await.unwrap().is_empty());
}

#[tokio::test]
async fn invites_are_revoked_by_link_nonce_or_code() {
    let south = served("south").await;
    for form in 0..4 {
        let new = invite(&south).await;
        let what = [&new.link, &new.token_link, &new.nonce, &new.code][form];
        let row = south.owned.agent.revoke_invite(what).await.unwrap().unwrap();
        assert_eq!(row.nonce, new.nonce);
    }
    assert!(south.owned.agent.revoke_invite("nothing").await.unwrap().is_none());
    assert!(matches!(south.owned.agent.revoke_invite("agent://invite?d=%").await, Err(InviteError::Link(_))));
    assert_eq!(south.owned.agent.invites().await.unwrap().len(), 4);
}

#[tokio::test]
async fn an_invite_needs_an_address_and_a_sane_life() {
    let north = agent("north").await;
    let create = async |request: InviteRequest| north.agent.create_invite(&request).await;
    assert!(matches!(create(InviteRequest::default()).await, Err(InviteError::NoUrl)));
    let with_url = |url: &str| InviteRequest { url: Some(url.to_owned()), ..InviteRequest::default() };
    assert!(matches!(create(with_url("http://0.0.0.0:80")).await, Err(InviteError::Wildcard(_))));
    assert!(matches!(create(with_url("ftp://x")).await, Err(InviteError::BadUrl { .. })));
    for secs in [0, 59, 31_536_001, u64::MAX] {
        let request = InviteRequest { ttl: Some(Duration::from_secs(secs)), ..with_url("https://north.example/") };
        assert!(matches!(create(request).await, Err(InviteError::TtlOutOfRange { .. })), "{secs}");
    }
    let long = InviteRequest { purpose: Some("x".repeat(1_001)), ..with_url("https://north.example") };
    assert!(matches!(create(long).await, Err(InviteError::TextTooLong { what: "purpose", .. })));
    assert!(north.agent.invites().await.unwrap().is_empty());
    let made = create(with_url("https://North.example/")).await.unwrap();
    assert_eq!(made.url, "https://north.example");
    assert!(made.is_offline && made.link.starts_with("https://north.example/i/"));
    assert_eq!((made.code.len(), made.nonce.len()), (14, 32));
}

#[tokio::test]
async fn bad_invites_are_told_apart() {
    let north = agent("north").await;
    let request = InviteRequest { url: Some("https://north.example".to_owned()), ..InviteRequest::default() };
    let own = north.agent.create_invite(&request).await.unwrap().token_link;
    let Value::Object(mut changed) = forged(&key(2), "https://south.example", tomorrow()) else { unreachable!() };
    changed.insert("name".to_owned(), "east".into());
    let expired = invite::token_link(&forged(&key(2), "https://south.example", UnixSeconds(now().0 - 1)));
    let no_url = invite::token_link(&forged(&key(2), "", tomorrow()));
    type Check = fn(&ClaimError) -> bool;
    let cases: [(String, Check, Fault); 7] = [
        (own, |e| matches!(e, ClaimError::Own(_)), Fault::Failed),
        (
            invite::token_link(&changed.into()),
            |e| matches!(e, ClaimError::Forged(CardError::Forged)),
            Fault::Unverified,
        ),
        (expired.clone(), |e| matches!(e, ClaimError::Expired { .. }), Fault::Failed),
        (no_url, |e| matches!(e, ClaimError::NoAddress), Fault::Unreachable),
        (expired[..expired.len() - 7].to_owned(), |e| matches!(e, ClaimError::Link(LinkError::Damaged)), Fault::Usage),
        ("https://south.example".to_owned(), |e| matches!(e, ClaimError::Link(LinkError::NotALink)), Fault::Usage),
        (String::new(), |e| matches!(e, ClaimError::Link(_)), Fault::Usage),
    ];
    for (link, check, fault) in cases {
        let error = north.agent.claim(&claim(&link)).await.unwrap_err();
        assert!(check(&error), "{link}: {error:?}");
        assert_eq!(error.fault(), fault, "{error:?}");
        assert!(error.hint().is_some(), "{error:?}");
    }
    assert!(north.agent.store().contacts().await.unwrap().is_empty());
}

#[tokio::test]
async fn the_claimer_learns_the_purpose() {
    let south = served("south").await;
    let north = agent("north").await;
    let request = InviteRequest { purpose: Some("try \u{7} it".to_owned()), ..InviteRequest::default() };
    let invite = south.owned.agent.create_invite(&request).await.unwrap();
    let claimed = north.agent.claim(&claim(&invite.link)).await.unwrap();
    assert_eq!(claimed.purpose.as_deref(), Some("try \u{7} it"));
}

#[tokio::test]
async fn what_is_never_dialled_is_not_called_unreachable() {
    let north = agent("north").await;
    let error = north.agent.claim(&claim("http://169.254.1.1/i/code")).await.unwrap_err();
    assert!(error.to_string().ends_with("is not dialled"), "{error}");
    assert!(error.hint().unwrap().contains("never dialled"), "{:?}", error.hint());
}

#[tokio::test]
async fn a_lost_answer_is_asked_for_again_with_a_fresh_claim() {
    let north = agent("north").await;
    let south = inviter(|seen, _| match seen.rpc().member("method").and_then(Value::as_str) {
        Some("onboard/claim") => Act::Drop,
        _ => Act::status(404),
    })
    .await;
    let error = north.agent.claim(&claim(&format!("{}/i/code", south.url))).await.unwrap_err();
    assert!(matches!(error, ClaimError::Transport { source: TransportError::Closed { .. }, .. }), "{error:?}");
    assert!(north.agent.store().contacts().await.unwrap().is_empty());
    let ids: std::collections::BTreeSet<_> = south.posts().iter().map(Seen::message_id).collect();
    assert_eq!(ids.len(), 3);
}

#[tokio::test]
async fn a_spent_link_still_leads_its_own_claimer_home() {
    let north = agent("north").await;
    // The first claim is taken and its answer lost; by then the link leads nowhere.
    let south = Fake::start(|base, seen, number| match (seen.method.as_str(), number) {
        ("GET", 0) => Act::json(&forged(&key(2), base, tomorrow())),
        ("POST", 1..=3) => Act::Drop,
        ("POST", _) => welcome(&key(2)),
        _ => Act::status(404),
    })
    .await;
    let request = ClaimRequest { no_greeting: true, ..claim(&format!("{}/i/code", south.url)) };
    assert!(north.agent.claim(&request).await.is_err());
    let claimed = north.agent.claim(&request).await.unwrap();
    assert_eq!(&claimed.contact.did, key(2).did());
}

#[tokio::test]
async fn refusals_and_false_inviters_leave_no_contact() {
    type Answer = fn(&Seen, usize) -> Act;
    type Check = fn(&ClaimError) -> bool;
    let not_accepted: Check = |e| matches!(e, ClaimError::NotAccepted { .. });
    let cases: [(Answer, Check, Fault); 11] = [
        (
            |_, _| refusal(-32011, "Introduction invalid or revoked", "null"),
            |e| matches!(e, ClaimError::Refused { code: -32011, message, .. } if message.contains("or revoked")),
            Fault::PeerRefused,
        ),
        (
            |_, _| refusal(-32004, "Rate\u{7} limited", r#"{"detail":"slow"}"#),
            |e| matches!(e, ClaimError::Refused { code: -32004, message, .. } if !message.contains('\u{7}')),
            Fault::PeerRefused,
        ),
        (|_, _| welcome(&key(3)), |e| matches!(e, ClaimError::OtherDid { .. }), Fault::Unverified),
        (|_, _| Act::html(), |e| matches!(e, ClaimError::NotAnAnswer { .. }), Fault::Failed),
        (|_, _| Act::status(500), |e| matches!(e, ClaimError::NotAnAnswer { .. }), Fault::Failed),
        (|_, _| result(&"ok".into()), not_accepted, Fault::Failed),
        (|_, _| result(&muretai_protocol::json!({})), not_accepted, Fault::Failed),
        (|_, _| result(&muretai_protocol::json!({"ok": true})), not_accepted, Fault::Failed),
        (
            |_, _| result(&muretai_protocol::json!({"ok": false, "did": (key(2).did().as_str())})),
            not_accepted,
            Fault::Failed,
        ),
        (
            |_, _| result(&muretai_protocol::json!({"ok": 1, "did": (key(2).did().as_str())})),
            not_accepted,
            Fault::Failed,
        ),
        (
            |_, _| {
                Act::Answer(
                    200,
                    "",
                    format!(r#"{{"jsonrpc":"2.0","id":"x","result":{{"ok":true,"did":"{}"}}}}"#, key(2).did()),
                )
            },
            |e| matches!(e, ClaimError::NotAnAnswer { .. }),
            Fault::Failed,
        ),
    ];
    for (answer, check, fault) in cases {
        let north = agent("north").await;
        let south = inviter(answer).await;
        let error = north.agent.claim(&claim(&format!("{}/i/code", south.url))).await.unwrap_err();
        assert!(check(&error), "{error:?}");
        assert_eq!(error.fault(), fault, "{error:?}");
        assert_eq!(south.posts().len(), 1);
        assert!(north.agent.store().contacts().await.unwrap().is_empty());
    }
}

#[tokio::test]
async fn a_silent_inviter_ends_with_the_timeout() {
    let north = agent("north").await;
    let south = inviter(|_, _| Act::Silence).await;
    let request = ClaimRequest { timeout: Duration::from_millis(300), ..claim(&format!("{}/i/code", south.url)) };
    let error = north.agent.claim(&request).await.unwrap_err();
    assert!(matches!(error, ClaimError::TimedOut { .. }), "{error:?}");
    assert!(north.agent.store().contacts().await.unwrap().is_empty());
}

#[tokio::test]
async fn a_greeting_that_fails_is_a_note() {
    let north = agent("north").await;
    let south = inviter(|seen, _| match seen.rpc().member("method").and_then(Value::as_str) {
        Some("onboard/claim") => welcome(&key(2)),
        _ => result(&reply_to(seen, "hi").sign(&key(3))),
    })
    .await;
    let claimed = north.agent.claim(&claim(&format!("{}/i/code", south.url))).await.unwrap();
    assert_eq!(claimed.notes.len(), 1);
    assert!(claimed.notes[0].starts_with("the greeting was not delivered"), "{}", claimed.notes[0]);
}

#[tokio::test]
async fn a_name_may_be_wished_for() {
    let north = agent("north").await;
    let south = inviter(|_, _| welcome(&key(2))).await;
    let link = format!("{}/i/code", south.url);
    let wish = |name: &str| ClaimRequest { name: Some(name.to_owned()), no_greeting: true, ..claim(&link) };
    for bad in
        ["", " south", "south.example", "a b", "did:key:x", "http://x", "a/b", "a\nb", "localhost", "north", "-x"]
    {
        let error = north.agent.claim(&wish(bad)).await.unwrap_err();
        assert!(matches!(error, ClaimError::BadName { .. }), "{bad:?}: {error:?}");
    }
    crate::testing::befriend(&north.agent, key(9).did(), None).await;
    assert!(matches!(north.agent.claim(&wish("south")).await, Err(ClaimError::NameTaken(_))));
    assert!(south.posts().is_empty());
    assert_eq!(north.agent.claim(&wish("neighbour")).await.unwrap().contact.name, "neighbour");
    assert!(north.agent.store().contact_named("neighbour").await.unwrap().is_some());
}

#[tokio::test]
async fn a_blocked_inviter_is_not_claimed_from() {
    let north = agent("north").await;
    let south = inviter(|_, _| welcome(&key(2))).await;
    north.agent.store().set_blocked(key(2).did(), true, now()).await.unwrap();
    let error = north.agent.claim(&claim(&format!("{}/i/code", south.url))).await;
    assert!(matches!(error, Err(ClaimError::Blocked(_))), "{error:?}");
    assert!(south.posts().is_empty());
}

#[tokio::test]
async fn a_token_with_an_inner_address_needs_a_neighbour_or_the_owners_word() {
    let north = agent("north").await;
    let south = inviter(|_, _| welcome(&key(2))).await;
    let link = invite::token_link(&forged(&key(2), &south.url, tomorrow()));
    let request = ClaimRequest { no_greeting: true, ..claim(&link) };
    let error = north.agent.claim(&request).await.unwrap_err();
    assert!(matches!(error, ClaimError::Transport { source: TransportError::Refused { .. }, .. }), "{error:?}");
    assert!(error.hint().unwrap().contains("--allow-private"));
    assert!(south.seen().is_empty());
    assert!(north.agent.store().contacts().await.unwrap().is_empty());
    // Another agent of this home is served on loopback, and this inviter is not that agent.
    let west = agent_in(&Home::at(north.home.path()), "west").await;
    let (west_url, stop) = serve(&west).await;
    let error = north.agent.claim(&request).await.unwrap_err();
    assert!(matches!(error, ClaimError::Transport { source: TransportError::Refused { .. }, .. }), "{error:?}");
    assert!(south.seen().is_empty());
    let invite = west.create_invite(&InviteRequest::default()).await.unwrap();
    let claimed = north.agent.claim(&claim(&invite.token_link)).await.unwrap();
    assert_eq!(claimed.contact.coordinates.url.as_ref(), Some(&west_url));
    assert!(!claimed.contact.allow_private, "neighbours are judged anew each time");
    stop.stop();
    let allowed = ClaimRequest { allow_private: true, ..request };
    assert!(north.agent.claim(&allowed).await.unwrap().contact.allow_private);
}

#[tokio::test]
async fn a_link_local_address_is_never_dialled() {
    let north = agent("north").await;
    let link = invite::token_link(&forged(&key(2), "http://169.254.169.254", tomorrow()));
    let error = north.agent.claim(&ClaimRequest { allow_private: true, ..claim(&link) }).await.unwrap_err();
    assert!(matches!(error, ClaimError::BadPlace { what: "address", .. }), "{error:?}");
    let error = north.agent.claim(&claim("http://169.254.169.254/i/code")).await.unwrap_err();
    assert!(matches!(error, ClaimError::Transport { source: TransportError::Refused { .. }, .. }), "{error:?}");
}

#[tokio::test]
async fn an_invite_with_a_place_that_nobody_dials_is_refused_before_anything_is_stored() {
    for bad in
        ["http://169.254.169.254/latest", "http://0.0.0.0:1", "http://2852039166", "http://0", "http://[fe80::1]"]
    {
        for is_relay in [true, false] {
            let north = agent("north").await;
            let south = Fake::start(move |base, seen, _| {
                let (url, relay) = if is_relay { (base, Some(bad)) } else { (bad, None) };
                let spec = InviteSpec { relay, url, ..spec("south", tomorrow()) };
                if seen.method == "GET" { Act::json(&invite::mint(&key(2), &spec)) } else { welcome(&key(2)) }
            })
            .await;
            let link = format!("{}/i/code", south.url);
            let error = north.agent.claim(&ClaimRequest { allow_private: true, ..claim(&link) }).await.unwrap_err();
            assert!(matches!(error, ClaimError::BadPlace { .. }), "{bad} {is_relay}: {error:?}");
            assert_eq!(error.fault(), Fault::Failed);
            assert!(south.posts().is_empty());
            let store = north.agent.store();
            assert!(store.contacts().await.unwrap().is_empty());
            assert_eq!(store.setting(&format!("claim:{link}")).await.unwrap(), None);
        }
    }
}

#[tokio::test]
async fn a_peer_that_calls_itself_localhost_or_like_us_is_called_something_else() {
    for (wish, name) in [("localhost", "localhost-2"), ("North", "north-2"), ("south.example", "south-example")] {
        let north = agent("north").await;
        let south = Fake::start(move |base, seen, _| {
            let spec = InviteSpec { url: base, ..spec(wish, tomorrow()) };
            if seen.method == "GET" { Act::json(&invite::mint(&key(2), &spec)) } else { welcome(&key(2)) }
        })
        .await;
        let request = ClaimRequest { no_greeting: true, ..claim(&format!("{}/i/code", south.url)) };
        assert_eq!(north.agent.claim(&request).await.unwrap().contact.name, name);
        assert_eq!(crate::send::target::check_name(name, "north"), Ok(()));
    }
}
