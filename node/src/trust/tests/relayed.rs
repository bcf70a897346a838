//! Agents that have a mailbox and nothing else.
use muretai_protocol::{Did, card, json::Object};
use muretai_store::{
    contacts::{CoordinateSource, Coordinates},
    introductions::Role as StoredRole,
};
use muretai_transports::{MailboxAddress, guard::Policy, relay::directory::Relay as Directory};

use super::{super::call::Call, *};
use crate::{
    send::{ResolvedPeer, notice::Notice},
    testing::{
        key,
        post::{Post, listen, sync},
        relay::sealing,
    },
};

/// An agent with a mailbox at a relay.
async fn with_mailbox(name: &str, post: &Post) -> Owned {
    let owned = agent(name).await;
    owned.agent.configure_relays(vec![post.url.clone()]);
    owned
}

/// What one contact knows of another that is nowhere but at the relay.
async fn know(agent: &Agent, did: &Did, name: &str, enc_pub: String, post: &Post) {
    let contact = befriend(agent, did, None).await;
    agent.store().rename_contact(&contact.did, name).await.unwrap();
    let mailbox = Coordinates { relay: Some(post.url.clone()), enc_pub: Some(enc_pub), ..Coordinates::default() };
    agent.store().update_coordinates(did, &mailbox, CoordinateSource::Invite).await.unwrap();
}

async fn befriend_both(one: &Owned, other: &Owned, post: &Post) {
    for (from, to) in [(one, other), (other, one)] {
        know(&from.agent, to.agent.did(), to.agent.name(), to.agent.enc_pub(), post).await;
    }
}

/// Leaves an agent's card at the relay, as a `serve` that listens there does.
async fn publish(owned: &Owned, post: &Post) {
    let spec = card::CardSpec {
        did: owned.agent.did(),
        name: owned.agent.name(),
        description: "a test",
        url: "",
        version: "0.0.0",
        profile: &card::Profile::default(),
        enc_pub: Some(&owned.agent.enc_pub()),
        enc_pub_pq: None,
        relay: Some(&post.url),
        open_door: false,
        methods: &["message/send"],
        skills: &[],
        trust: card::TrustFacts::default(),
    };
    let envelope = card::sign_envelope(owned.agent.key(), &card::build(&spec), now()).unwrap();
    let relay = Directory { base: &post.url, policy: Policy::Owner, timeout: TIMEOUT };
    assert!(relay.publish_card(&owned.agent.inner.http, &envelope).await.unwrap());
}

async fn relation(agent: &Agent, did: &Did) -> Option<ContactRelation> {
    agent.store().contact(did).await.unwrap().map(|contact| contact.relation)
}

#[tokio::test]
async fn a_question_is_answered_by_a_peer_that_listens_and_by_nobody_else() {
    let post = Post::open().await;
    let (north, south) = (with_mailbox("north", &post).await, with_mailbox("south", &post).await);
    befriend_both(&north, &south, &post).await;
    let asleep = north.agent.ask_trust_status("south", None, TIMEOUT, false).await.unwrap_err();
    assert!(matches!(&asleep, TrustError::AtRelay { relay, .. } if *relay == post.url), "{asleep:?}");
    assert_eq!(asleep.fault(), Fault::Unreachable);
    assert!(asleep.to_string().contains("not listening right now") && asleep.hint().is_some());
    sync(&south.agent).await;
    let _listening = listen(&south.agent, &post.url).await;
    let status = north.agent.ask_trust_status("south", None, TIMEOUT, false).await.unwrap();
    assert_eq!(status.relation, Relation::Direct);
    let request =
        ReferralRequest { topic: "a gardener".to_owned(), ask: "south".to_owned(), limit: 5, timeout: TIMEOUT };
    assert!(north.agent.referral(&request).await.unwrap().is_queued);
}

#[tokio::test]
async fn strangers_connect_although_neither_is_there_when_the_other_is() {
    let post = Post::open().await;
    let (north, south) = (with_mailbox("north", &post).await, with_mailbox("south", &post).await);
    publish(&south, &post).await;
    let asked = connection(south.agent.did().as_str());
    assert!(matches!(north.agent.ask_to_connect(&asked).await.unwrap(), Connected::Pending { .. }));
    sync(&south.agent).await;
    let row = south.agent.requests(false).await.unwrap().remove(0);
    assert_eq!((row.kind, row.coordinates.relay.as_ref()), (RequestKind::Connect, Some(&post.url)));
    let decided = south.agent.decide(&decision_on(&row, Decision::Accept)).await.unwrap();
    assert!(decided.is_told && decided.notes.is_empty(), "{:?}", decided.notes);
    assert_eq!(relation(&north.agent, south.agent.did()).await, None);
    sync(&north.agent).await;
    assert_eq!(relation(&north.agent, south.agent.did()).await, Some(ContactRelation::Direct));
    assert_eq!(relation(&south.agent, north.agent.did()).await, Some(ContactRelation::Direct));
}

#[tokio::test]
async fn an_owner_who_waits_gets_the_answer_by_mail() {
    let post = Post::open().await;
    let (north, south) = (with_mailbox("north", &post).await, with_mailbox("south", &post).await);
    publish(&south, &post).await;
    let request = ConnectRequest { wait: Some(Duration::from_secs(60)), ..connection(south.agent.did().as_str()) };
    let (outcome, ()) = tokio::join!(north.agent.ask_to_connect(&request), async {
        while south.agent.requests(false).await.unwrap().is_empty() {
            sync(&south.agent).await;
        }
        let row = south.agent.requests(false).await.unwrap().remove(0);
        assert!(south.agent.decide(&decision_on(&row, Decision::Accept)).await.unwrap().is_told);
    });
    assert!(matches!(outcome.unwrap(), Connected::Connected { was_known: false, .. }));
}

#[tokio::test]
async fn an_agent_without_a_mailbox_has_one_at_the_peers_relay_once_that_has_its_request() {
    let post = Post::open().await;
    let (north, south) = (agent("north").await, with_mailbox("south", &post).await);
    let (did, enc_pub) = (south.agent.did().clone(), south.agent.enc_pub());
    for (allow_private, has_mailbox) in [(false, false), (true, true)] {
        let (relay, enc_pub) = (post.url.clone(), enc_pub.clone());
        let mailbox = Some(MailboxAddress { relay, allow_private, enc_pub, enc_pub_pq: None });
        let (did, url, policy) = (did.clone(), String::new(), Policy::Peer);
        let peer = ResolvedPeer { did, name: None, is_blocked: false, url, policy, mailbox, is_stored: false };
        let (method, params) = ("connect/request", north.agent.about_us().await.unwrap());
        let call = Call { method, text: method, params, timeout: TIMEOUT, message_id: None, is_answered_later: true };
        assert_eq!(north.agent.call(&peer, call).await.unwrap_err().is_at_relay(), has_mailbox);
        assert_eq!(!north.agent.mailboxes().await.unwrap().is_empty(), has_mailbox);
    }
    sync(&south.agent).await;
    let row = south.agent.requests(false).await.unwrap().remove(0);
    assert_eq!(row.coordinates.relay.as_ref(), Some(&post.url), "where its answer goes");
}

#[tokio::test]
async fn an_introduction_goes_through_relays_from_end_to_end() {
    let post = Post::open().await;
    let west = with_mailbox("west", &post).await;
    let (north, south) = (with_mailbox("north", &post).await, with_mailbox("south", &post).await);
    befriend_both(&west, &north, &post).await;
    befriend_both(&west, &south, &post).await;
    let introduced = west.agent.introduce(&introduction("north", "south")).await.unwrap();
    assert_eq!(introduced.proposed, Proposed::Pending);
    sync(&south.agent).await;
    let row = south.agent.requests(false).await.unwrap().remove(0);
    assert!(south.agent.decide(&decision_on(&row, Decision::Accept)).await.unwrap().is_told);
    sync(&west.agent).await;
    assert!(west.agent.store().errands().await.unwrap().is_empty(), "handed over");
    sync(&north.agent).await;
    assert_eq!(relation(&north.agent, south.agent.did()).await, Some(ContactRelation::Offered));
    let request = SendRequest {
        target: south.agent.did().to_string(),
        text: "hello".to_owned(),
        context_id: None,
        reply_to: None,
        timeout: TIMEOUT,
        retries: 0,
        unverified: false,
        allow_private: false,
        via: None,
    };
    assert_eq!(north.agent.send(&request).await.unwrap().status, SentStatus::AtRelay);
    sync(&south.agent).await;
    let inbox = south.agent.store().messages(&Query::default()).await.unwrap();
    assert_eq!(inbox.iter().map(|row| row.text.as_str()).collect::<Vec<_>>(), ["hello"]);
}

#[tokio::test]
async fn a_call_goes_to_the_relay_when_nobody_is_at_the_address() {
    let post = Post::open().await;
    let (north, south) = (with_mailbox("north", &post).await, with_mailbox("south", &post).await);
    befriend_both(&north, &south, &post).await;
    let closed = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let url = Coordinates { url: Some(format!("http://{closed}")), ..Coordinates::default() };
    north.agent.store().update_coordinates(south.agent.did(), &url, CoordinateSource::Owner).await.unwrap();
    let _listening = listen(&south.agent, &post.url).await;
    let status = north.agent.ask_trust_status("south", None, TIMEOUT, false).await.unwrap();
    assert_eq!(status.relation, Relation::Direct);
}

#[tokio::test]
async fn a_relay_on_a_local_network_is_not_dialled_on_a_peers_word() {
    let post = Post::open().await;
    let north = agent("north").await;
    know(&north.agent, key(2).did(), "south", sealing(2).enc_pub(), &post).await;
    let contact = north.agent.store().contact(key(2).did()).await.unwrap().unwrap();
    let stranger = muretai_store::contacts::Contact { allow_private: false, ..contact };
    let peer = north.agent.contact_at(&stranger, false).await.unwrap().unwrap();
    assert!(!peer.mailbox.as_ref().unwrap().allow_private);
    let error = north.agent.status_at(&peer, north.agent.did(), TIMEOUT).await.unwrap_err();
    assert!(matches!(error, TrustError::Send(SendError::Transport { attempts: 0, .. })), "{error:?}");
    assert!(north.agent.contact_at(&stranger, true).await.unwrap().unwrap().mailbox.unwrap().allow_private);
    north.agent.configure_relays(vec![post.url.clone()]);
    assert!(north.agent.contact_at(&stranger, false).await.unwrap().unwrap().mailbox.unwrap().allow_private);
}

/// Says by letter that a call was refused.
async fn refuse(who: &Owned, asked: &str, to: &Did, code: i64) {
    let notice = Notice {
        to: to.clone(),
        status: "refused",
        text: format!("refused {code}"),
        reply_to: Some(asked.to_owned()),
        context_id: None,
        extra: Object::from([("code".to_owned(), code.into())]),
        fallback: None,
    };
    who.agent.leave_notice(notice).await.unwrap();
    assert_eq!(who.agent.run_outbox().await, 1);
}

/// The ids of the calls that lie at relays.
async fn left(owned: &Owned) -> Vec<String> {
    owned.agent.store().settings_under("call.left:").await.unwrap().into_iter().map(|(id, _)| id).collect()
}

#[tokio::test]
async fn what_a_call_at_a_relay_stands_for_ends_when_its_peer_and_nobody_else_refuses_it() {
    let post = Post::open().await;
    let (north, south) = (with_mailbox("north", &post).await, with_mailbox("south", &post).await);
    let west = with_mailbox("west", &post).await;
    befriend_both(&north, &west, &post).await;
    befriend_both(&north, &south, &post).await;

    let request = ConnectRequest { ask: Some("west".to_owned()), ..connection(key(9).did().as_str()) };
    assert!(matches!(north.agent.ask_to_connect(&request).await.unwrap(), Connected::Asked { .. }));
    let asked = left(&north).await.remove(0);
    let status = || async { north.agent.requests(true).await.unwrap().remove(0).status };
    refuse(&south, &asked, north.agent.did(), -32010).await;
    refuse(&west, &asked, north.agent.did(), -32004).await;
    sync(&north.agent).await;
    assert_eq!(status().await, RequestStatus::Pending, "neither of another agent, nor for now");
    refuse(&west, &asked, north.agent.did(), -32010).await;
    sync(&north.agent).await;
    assert_eq!(status().await, RequestStatus::Rejected);
    assert!(left(&north).await.is_empty());

    let introduced = north.agent.introduce(&introduction("west", "south")).await.unwrap();
    assert_eq!(introduced.introduction.status, IntroductionStatus::Pending);
    let asked = left(&north).await.remove(0);
    refuse(&south, &asked, north.agent.did(), -32011).await;
    sync(&north.agent).await;
    let id = &introduced.introduction.id;
    let row = north.agent.store().introduction(StoredRole::Issued, north.agent.did(), id).await.unwrap().unwrap();
    assert_eq!(row.status, IntroductionStatus::Rejected);
}

#[tokio::test]
async fn a_refusal_by_letter_is_expected_before_its_call_has_left() {
    let post = Post::open().await;
    let (north, west) = (with_mailbox("north", &post).await, with_mailbox("west", &post).await);
    befriend_both(&north, &west, &post).await;
    let closed = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let nowhere = Coordinates { relay: Some(format!("http://{closed}")), ..Coordinates::default() };
    north.agent.store().update_coordinates(west.agent.did(), &nowhere, CoordinateSource::Owner).await.unwrap();
    let request = ConnectRequest { ask: Some("west".to_owned()), ..connection(key(9).did().as_str()) };
    north.agent.ask_to_connect(&request).await.unwrap_err();
    assert_eq!(left(&north).await.len(), 1);
}

#[tokio::test]
async fn who_accepts_a_request_by_letter_that_was_taken_back_trusts_nobody_for_it() {
    let post = Post::open().await;
    let (north, south) = (with_mailbox("north", &post).await, with_mailbox("south", &post).await);
    publish(&south, &post).await;
    let asked = north.agent.ask_to_connect(&connection(south.agent.did().as_str())).await.unwrap();
    let Connected::Pending { request, .. } = asked else { panic!("{asked:?}") };
    sync(&south.agent).await;
    north.agent.withdraw(request).await.unwrap();
    let row = south.agent.requests(false).await.unwrap().remove(0);
    south.agent.decide(&decision_on(&row, Decision::Accept)).await.unwrap();
    assert_eq!(relation(&south.agent, north.agent.did()).await, Some(ContactRelation::Direct));
    sync(&north.agent).await;
    north.agent.run_outbox().await;
    sync(&south.agent).await;
    assert_ne!(relation(&south.agent, north.agent.did()).await, Some(ContactRelation::Direct));
    assert_eq!(relation(&north.agent, south.agent.did()).await, None);
    assert!(left(&south).await.is_empty());
}

#[tokio::test]
async fn who_is_trusted_already_hears_so_by_letter_and_is_connected() {
    let post = Post::open().await;
    let (north, south) = (with_mailbox("north", &post).await, with_mailbox("south", &post).await);
    publish(&south, &post).await;
    know(&south.agent, north.agent.did(), "north", north.agent.enc_pub(), &post).await;
    let asked = north.agent.ask_to_connect(&connection(south.agent.did().as_str())).await.unwrap();
    assert!(matches!(asked, Connected::Pending { .. }), "{asked:?}");
    sync(&south.agent).await;
    south.agent.run_outbox().await;
    sync(&north.agent).await;
    assert_eq!(relation(&north.agent, south.agent.did()).await, Some(ContactRelation::Direct));
    assert_eq!(north.agent.requests(true).await.unwrap().remove(0).status, RequestStatus::Accepted);
}
