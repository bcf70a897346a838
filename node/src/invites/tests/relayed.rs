//! Invites that a relay keeps, and claims that lie there.
use muretai_protocol::{
    MessageId,
    message::{self, Draft, Message, Role, Verified},
    relay::DID_NOT_OPEN,
};
use muretai_store::contacts::Relation;

use super::*;
use crate::{
    invites::{Settled, settle},
    testing::{
        befriend,
        post::{Post, listen, sync},
        relay::relay_refusal,
    },
};

/// An invite of an agent that is off, at a relay.
async fn kept_invite(south: &Agent, post: &Post) -> NewInvite {
    let request = InviteRequest { relay: Some(format!(" {}/ ", post.url)), ..InviteRequest::default() };
    south.create_invite(&request).await.unwrap()
}

async fn relation(agent: &Agent, other: &Agent) -> Option<Relation> {
    agent.store().contact(other.did()).await.unwrap().map(|contact| contact.relation)
}

async fn is_open(agent: &Agent, other: &Agent) -> bool {
    agent.store().is_provisional(other.did()).await.unwrap()
}

/// What an agent was sent, notices among it.
async fn texts(agent: &Agent, with_auto: bool) -> Vec<String> {
    let query = Query { with_auto, ..Query::default() };
    agent.store().messages(&query).await.unwrap().into_iter().map(|row| row.text).collect()
}

#[tokio::test]
async fn a_claim_waits_for_an_inviter_that_is_off_and_both_end_connected() {
    let post = Post::open().await;
    let (south, north) = (agent("south").await, agent("north").await);
    let invite = kept_invite(&south.agent, &post).await;
    assert_eq!(invite.link, format!("{}/i/{}", post.url, invite.code));
    assert_eq!((invite.url.as_str(), invite.relay.as_ref()), ("", Some(&post.url)));
    let claimed = north.agent.claim(&claim(&invite.link)).await.unwrap();
    assert!(claimed.is_pending && !claimed.was_known, "{:?}", claimed.notes);
    assert_eq!(claimed.at_relay.as_ref(), Some(&post.url));
    assert_eq!(relation(&north.agent, &south.agent).await, Some(Relation::Direct), "trusted for now");
    assert_eq!(north.agent.mailboxes().await.unwrap(), std::slice::from_ref(&post.url), "the answer comes there");

    sync(&south.agent).await;
    assert_eq!(relation(&south.agent, &north.agent).await, Some(Relation::Direct));
    assert!(is_open(&north.agent, &south.agent).await);
    sync(&north.agent).await;
    assert!(!is_open(&north.agent, &south.agent).await);
    assert_eq!(relation(&north.agent, &south.agent).await, Some(Relation::Direct));
    assert!(texts(&north.agent, false).await.is_empty(), "an acceptance is no conversation");

    sync(&south.agent).await;
    let greetings = texts(&south.agent, true).await;
    assert_eq!(greetings.iter().filter(|text| text.contains("this is north")).count(), 1, "{greetings:?}");
    let contact = south.agent.store().contact(north.agent.did()).await.unwrap().unwrap();
    assert_eq!(contact.coordinates.relay, Some(post.url.clone()));
    assert_eq!(contact.coordinates.enc_pub, Some(north.agent.enc_pub()));
}

#[tokio::test]
async fn an_inviter_that_listens_answers_at_once() {
    let post = Post::open().await;
    let (south, north) = (agent("south").await, agent("north").await);
    let invite = kept_invite(&south.agent, &post).await;
    let _listening = listen(&south.agent, &post.url).await;
    let claimed = north.agent.claim(&claim(&invite.link)).await.unwrap();
    assert!(!claimed.is_pending && claimed.notes.is_empty(), "{claimed:?}");
    assert!(!is_open(&north.agent, &south.agent).await);
    assert_eq!(relation(&south.agent, &north.agent).await, Some(Relation::Direct));
    assert_eq!(north.agent.mailboxes().await.unwrap(), std::slice::from_ref(&post.url), "it told the inviter so");
    assert!(north.agent.store().settings_under("claim.pending:").await.unwrap().is_empty());
}

#[tokio::test]
async fn whoever_waits_hears_the_answer() {
    let post = Post::open().await;
    let (south, north, west) = (agent("south").await, agent("north").await, agent("west").await);
    let invite = kept_invite(&south.agent, &post).await;
    let request = ClaimRequest { wait: Duration::from_secs(60), ..claim(&invite.link) };
    let (claimed, ()) = tokio::join!(north.agent.claim(&request), async {
        while relation(&north.agent, &south.agent).await.is_none() {
            tokio::task::yield_now().await;
        }
        sync(&south.agent).await;
    });
    let claimed = claimed.unwrap();
    assert!(!claimed.is_pending && claimed.at_relay.is_none());

    // The invite is used now, which the relay that keeps it does not know.
    let (refused, ()) = tokio::join!(west.agent.claim(&request), async {
        while relation(&west.agent, &south.agent).await.is_none() {
            tokio::task::yield_now().await;
        }
        sync(&south.agent).await;
    });
    let refused = refused.unwrap_err();
    assert!(matches!(refused, ClaimError::Refused { code: -32011, .. }), "{refused:?}");
    assert_eq!(refused.fault(), Fault::PeerRefused);
    assert_eq!(relation(&west.agent, &south.agent).await, None);
}

#[tokio::test]
async fn a_late_refusal_takes_back_what_the_claim_made_and_the_owner_sees_it() {
    let post = Post::open().await;
    let (south, north, west) = (agent("south").await, agent("north").await, agent("west").await);
    let invite = kept_invite(&south.agent, &post).await;
    assert!(north.agent.claim(&claim(&invite.link)).await.unwrap().is_pending);
    assert!(west.agent.claim(&claim(&invite.link)).await.unwrap().is_pending);
    sync(&south.agent).await;
    sync(&north.agent).await;
    sync(&west.agent).await;
    assert_eq!(relation(&north.agent, &south.agent).await, Some(Relation::Direct), "first come");
    assert_eq!(relation(&west.agent, &south.agent).await, None);
    assert_eq!(relation(&south.agent, &west.agent).await, None);
    let seen = texts(&west.agent, false).await;
    assert!(seen.len() == 1 && seen[0].contains("used, expired or revoked"), "{seen:?}");
    sync(&south.agent).await;
    assert!(texts(&south.agent, true).await.iter().all(|text| !text.contains("this is west")));
}

#[tokio::test]
async fn a_refusal_leaves_trust_from_before() {
    let post = Post::open().await;
    let (south, north) = (agent("south").await, agent("north").await);
    befriend(&north.agent, south.agent.did(), None).await;
    let invite = kept_invite(&south.agent, &post).await;
    south.agent.revoke_invite(&invite.link).await.unwrap().unwrap();
    let claimed = north.agent.claim(&claim(&invite.link)).await.unwrap();
    assert!(claimed.is_pending && claimed.was_known);
    sync(&south.agent).await;
    sync(&north.agent).await;
    assert_eq!(relation(&north.agent, &south.agent).await, Some(Relation::Direct));
    assert_eq!(texts(&north.agent, false).await.len(), 1);
}

#[tokio::test]
async fn claiming_twice_meanwhile_asks_twice_and_connects_once() {
    let post = Post::open().await;
    let (south, north) = (agent("south").await, agent("north").await);
    let invite = kept_invite(&south.agent, &post).await;
    assert!(north.agent.claim(&claim(&invite.link)).await.unwrap().is_pending);
    // Another process, the same database.
    let again = agent_in(&Home::at(north.home.path()), "north").await;
    let second = again.claim(&claim(&invite.link)).await.unwrap();
    assert!(second.is_pending && !second.was_known);
    assert_eq!(sync(&south.agent).await[0].letters, 2);
    sync(&again).await;
    assert!(!is_open(&again, &south.agent).await);
    assert_eq!(relation(&again, &south.agent).await, Some(Relation::Direct));
    sync(&south.agent).await;
    let greetings = texts(&south.agent, true).await;
    assert_eq!(greetings.iter().filter(|text| text.contains("this is north")).count(), 1, "{greetings:?}");
    let third = again.claim(&claim(&invite.link)).await.unwrap();
    assert!(third.was_known, "it was accepted meanwhile");
}

#[tokio::test]
async fn what_the_owner_removed_meanwhile_stays_removed() {
    let post = Post::open().await;
    let (south, north) = (agent("south").await, agent("north").await);
    let invite = kept_invite(&south.agent, &post).await;
    north.agent.claim(&claim(&invite.link)).await.unwrap();
    north.agent.store().remove_contact(south.agent.did()).await.unwrap();
    sync(&south.agent).await;
    sync(&north.agent).await;
    assert_eq!(relation(&north.agent, &south.agent).await, None);
    sync(&south.agent).await;
    assert!(texts(&south.agent, true).await.is_empty(), "nobody is greeted");
}

/// A notice about a claim, as its receiver has verified it.
fn notice(from: &SigningKey, to: &Agent, status: &str, asked: &str, claim: Value) -> Verified {
    let message_id = MessageId::from_random(random());
    let extra = [("auto", true.into()), ("status", status.into()), ("replyTo", asked.into()), ("claim", claim)];
    let draft = Draft {
        role: Role::User,
        to: to.did().as_str(),
        message_id: &message_id,
        context_id: None,
        text: DID_NOT_OPEN,
        timestamp: now(),
        extra: extra.into_iter().map(|(key, value)| (key.to_owned(), value)).collect(),
    };
    let message = Message::from_value(message::sign(from, &draft)).unwrap();
    message.into_envelope().ok().unwrap().verify(now()).ok().unwrap()
}

/// A claim of an invite by key 2 that lies at a relay, and the id of its message.
async fn pending(north: &Agent, post: &Post) -> String {
    let card = invite::mint(
        &key(2),
        &InviteSpec { relay: Some(&post.url), enc_pub: Some(&sealing_pub()), ..spec("south", tomorrow()) },
    );
    let request = ClaimRequest { allow_private: true, ..claim(&invite::token_link(&card)) };
    assert!(north.claim(&request).await.unwrap().is_pending);
    north.store().settings_under("claim.pending:").await.unwrap().pop().unwrap().0
}

fn sealing_pub() -> String {
    crate::testing::relay::sealing(2).enc_pub()
}

#[tokio::test]
async fn nobody_but_the_inviter_answers_a_claim() {
    let post = Post::open().await;
    let north = agent("north").await;
    let asked = pending(&north.agent, &post).await;
    befriend(&north.agent, key(3).did(), None).await;
    let welcome = |did: &SigningKey| muretai_protocol::json!({"ok": true, "did": (did.did().as_str())});
    let (two, three) = (key(2), key(3));
    let cases = [
        notice(&three, &north.agent, "claimed", &asked, welcome(&two)),
        notice(&three, &north.agent, "claimed", &asked, welcome(&three)),
        notice(&three, &north.agent, "claim-refused", &asked, Value::Null),
        notice(&two, &north.agent, "claimed", "another", welcome(&two)),
        notice(&two, &north.agent, "claimed", &asked, welcome(&three)),
        notice(&two, &north.agent, "claimed", &asked, muretai_protocol::json!({"ok": false})),
        notice(&two, &north.agent, "accepted", &asked, welcome(&two)),
    ];
    for (number, forged) in cases.iter().enumerate() {
        assert_eq!(settle(&north.agent, forged).await.unwrap(), Settled::Not, "{number}");
        assert!(north.agent.store().is_provisional(two.did()).await.unwrap(), "{number}");
    }
    let good = notice(&two, &north.agent, "claimed", &asked, welcome(&two));
    assert_eq!(settle(&north.agent, &good).await.unwrap(), Settled::Claimed);
    assert!(!north.agent.store().is_provisional(two.did()).await.unwrap());
}

#[tokio::test]
async fn an_answer_counts_once_and_a_later_one_changes_nothing() {
    let post = Post::open().await;
    for (first, second) in [("claimed", "claim-refused"), ("claim-refused", "claimed")] {
        let north = agent("north").await;
        let asked = pending(&north.agent, &post).await;
        let store = north.agent.store();
        let told = notice(&key(2), &north.agent, first, &asked, Value::Null);
        let expected = if first == "claimed" { Settled::Claimed } else { Settled::Refused };
        assert_eq!(settle(&north.agent, &told).await.unwrap(), expected);
        let outcome = (store.contact(key(2).did()).await.unwrap(), store.outbox(true).await.unwrap().len());
        assert_eq!(settle(&north.agent, &told).await.unwrap(), expected, "brought again before it was stored");
        let changed_mind = notice(&key(2), &north.agent, second, &asked, Value::Null);
        assert_eq!(settle(&north.agent, &changed_mind).await.unwrap(), Settled::Not);
        let after = (store.contact(key(2).did()).await.unwrap(), store.outbox(true).await.unwrap().len());
        assert_eq!(after, outcome);
        assert_eq!(after.0.is_some(), first == "claimed");
    }
}

#[tokio::test]
async fn a_relay_that_refuses_an_invite_leaves_none() {
    for (status, fault) in [(429, Fault::Failed), (403, Fault::PeerRefused), (404, Fault::PeerRefused)] {
        let north = agent("north").await;
        let relay = Fake::start(move |_, _, _| relay_refusal(status, "", "no")).await;
        let request = InviteRequest { relay: Some(relay.url.clone()), ..InviteRequest::default() };
        let error = north.agent.create_invite(&request).await.unwrap_err();
        assert!(matches!(error, InviteError::Relay { .. }), "{error:?}");
        assert_eq!(error.fault(), fault, "{error:?}");
        assert!(error.hint().unwrap().starts_with("nothing was stored"));
        assert!(north.agent.invites().await.unwrap().is_empty());
        assert!(north.agent.mailboxes().await.unwrap().is_empty());
    }
}

#[tokio::test]
async fn a_relay_does_not_choose_the_link_nor_an_old_code() {
    let north = agent("north").await;
    let relay = Fake::start(|_, _, _| {
        Act::json(&muretai_protocol::json!({"code": "abcdefgh", "link": "https://west.example/i/abcdefgh"}))
    })
    .await;
    let request = InviteRequest { relay: Some(relay.url.clone()), ..InviteRequest::default() };
    let made = north.agent.create_invite(&request).await.unwrap();
    assert_eq!(made.link, format!("{}/i/abcdefgh", relay.url));
    let again = north.agent.create_invite(&request).await.unwrap_err();
    assert!(matches!(again, InviteError::CodeTaken { .. }), "{again:?}");
    let invites = north.agent.invites().await.unwrap();
    assert_eq!(invites.len(), 1);
    assert_eq!(north.agent.relay_of(&invites[0]).await.unwrap(), Some(relay.url.clone()));
    for bad in ["", "relay.example", "ftp://relay.example", "https://a@relay.example", "http://169.254.1.1"] {
        let request = InviteRequest { relay: Some(bad.to_owned()), ..InviteRequest::default() };
        assert!(matches!(north.agent.create_invite(&request).await, Err(InviteError::BadRelay { .. })), "{bad}");
    }
}

#[tokio::test]
async fn an_invite_of_a_relay_is_told_from_others_whatever_its_code_looks_like() {
    for code in ["abcd", "abcdefgh", "abcdefghijkl", "abcdefghijklmn", &"a".repeat(64)] {
        let north = agent("north").await;
        let answer = muretai_protocol::json!({"code": code});
        let relay = Fake::start(move |_, _, _| Act::json(&answer)).await;
        let request = InviteRequest { relay: Some(relay.url.clone()), ..InviteRequest::default() };
        north.agent.create_invite(&request).await.unwrap();
        // This one is served by its agent, and names a relay all the same.
        let mut row = north.agent.invites().await.unwrap().remove(0);
        assert_eq!(north.agent.relay_of(&row).await.unwrap().as_ref(), Some(&relay.url), "{code}");
        row.nonce = "0".repeat(32);
        row.code = "abcdefghijkm".to_owned();
        north.agent.store().add_invite(&row).await.unwrap();
        assert_eq!(north.agent.relay_of(&row).await.unwrap(), None);
    }
}

#[tokio::test]
async fn a_relay_on_a_local_network_needs_the_owners_word() {
    let north = agent("north").await;
    let relay = Fake::start(|_, _, _| Act::status(500)).await;
    let card = invite::mint(
        &key(2),
        &InviteSpec { relay: Some(&relay.url), enc_pub: Some(&sealing_pub()), ..spec("south", tomorrow()) },
    );
    let link = invite::token_link(&card);
    let error = north.agent.claim(&claim(&link)).await.unwrap_err();
    assert!(matches!(error, ClaimError::Transport { .. }), "{error:?}");
    assert!(relay.seen().is_empty(), "not dialled");
    assert!(north.agent.mailboxes().await.unwrap().is_empty());
    assert!(north.agent.store().settings_under("claim.pending:").await.unwrap().is_empty());
    for allowed in [
        ClaimRequest { allow_private: true, ..claim(&link) },
        ClaimRequest { relay: Some(relay.url.clone()), ..claim(&link) },
    ] {
        let seen = relay.seen().len();
        assert!(north.agent.claim(&allowed).await.is_err());
        assert!(relay.seen().len() > seen);
        assert!(north.agent.store().contacts().await.unwrap().is_empty());
    }
}

#[tokio::test]
async fn an_inviter_whose_address_is_dead_is_asked_through_its_relay() {
    let post = Post::open().await;
    let (south, north) = (agent("south").await, agent("north").await);
    let closed = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let request = InviteRequest {
        url: Some(format!("http://{closed}")),
        relay: Some(post.url.clone()),
        ..InviteRequest::default()
    };
    let invite = south.agent.create_invite(&request).await.unwrap();
    assert!(north.agent.claim(&claim(&invite.link)).await.unwrap().is_pending);
    sync(&south.agent).await;
    sync(&north.agent).await;
    assert!(!is_open(&north.agent, &south.agent).await);
}
