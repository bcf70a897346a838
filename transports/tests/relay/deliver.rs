//! Letters out.
use std::time::Duration;

use muretai_protocol::{
    json::Value,
    relay::{Deposit, deposit_id},
};
use muretai_transports::{
    Delivery, MailboxAddress, PeerAddress, Receipt, Transport as _, TransportError, Way, relay::RelayTimes,
};

use crate::{
    common::{
        deliver, did, enc_pub, inbox, keys, listen, listen_with, peer, place, request, times, transport, transport_of,
        waiting,
    },
    fake::{FakeRelay, Script, json_answer},
};

fn deposited(relay: &FakeRelay, path: &str) -> Vec<Deposit> {
    relay.requests(path).iter().map(|seen| Deposit::read(&seen.body).unwrap()).collect()
}

#[tokio::test]
async fn a_letter_is_sealed_signed_and_named_after_its_message() {
    let relay = FakeRelay::start().await;
    let first = deliver(&transport(1), &peer(2, &relay), request("m1")).await.unwrap();
    let receipt = Receipt { relay: relay.url.clone(), deposit_id: deposit_id("m1", &did(2)) };
    assert!(matches!(first, Delivery::Queued(found) if found == receipt));
    deliver(&transport(1), &peer(2, &relay), request("m1")).await.unwrap();
    let [first, again] = &deposited(&relay, "/send")[..] else { panic!() };
    assert!(first.is_signed() && again.is_signed());
    assert_eq!(first.id, again.id);
    assert_ne!(first.blob, again.blob, "nonces are fresh");
    assert_eq!((&first.from, &first.to, first.from_enc.clone()), (&did(1), &did(2), Some(enc_pub(1))));
    let opened = keys(2).sealing.open(&enc_pub(1), &first.blob, b"").unwrap();
    assert_eq!(opened, request("m1"));
}

#[tokio::test]
async fn requests_without_a_message_get_ids_at_random() {
    let relay = FakeRelay::start().await;
    for _ in 0..2 {
        deliver(&transport(1), &peer(2, &relay), "{}".into()).await.unwrap();
    }
    let ids: Vec<String> = deposited(&relay, "/send").into_iter().map(|deposit| deposit.id).collect();
    assert!(ids[0].len() == 32 && ids[0] != ids[1]);
}

#[tokio::test]
async fn letters_are_hybrid_where_the_peer_has_such_a_key() {
    let relay = FakeRelay::start().await;
    let mut peer = peer(2, &relay);
    for key in [keys(2).sealing.enc_pub_pq(), "ff".repeat(1184), "zz".to_owned()] {
        peer.mailbox.as_mut().unwrap().enc_pub_pq = Some(key);
        deliver(&transport(1), &peer, request("m1")).await.unwrap();
    }
    let blobs: Vec<String> = deposited(&relay, "/send").into_iter().map(|deposit| deposit.blob).collect();
    // base64 of `a2b2`.
    let hybrid: Vec<bool> = blobs.iter().map(|blob| blob.starts_with("YTJiM")).collect();
    assert_eq!(hybrid, [true, false, false], "a malformed key is no key");
    for blob in blobs {
        assert_eq!(keys(2).sealing.open(&enc_pub(1), &blob, b"").unwrap(), request("m1"));
    }
}

#[tokio::test]
async fn a_key_that_nobody_can_seal_to_is_told() {
    let relay = FakeRelay::start().await;
    let mut peer = peer(2, &relay);
    peer.mailbox.as_mut().unwrap().enc_pub = "00".repeat(32);
    let error = deliver(&transport(1), &peer, request("m1")).await.unwrap_err();
    assert!(matches!(error, TransportError::BadSealingKey));
    assert_eq!(relay.requests("/send").len(), 0);
}

#[tokio::test]
async fn there_is_a_route_to_whoever_has_a_mailbox_that_may_be_dialled() {
    let relay = FakeRelay::start().await;
    let north = transport(1);
    let good = peer(2, &relay);
    assert_eq!(north.route(&good).unwrap().address, relay.url);
    let with = |change: &dyn Fn(&mut MailboxAddress)| {
        let mut mailbox = good.mailbox.clone().unwrap();
        change(&mut mailbox);
        north.route(&PeerAddress { mailbox: Some(mailbox), ..good.clone() })
    };
    assert!(with(&|mailbox| mailbox.allow_private = false).is_none(), "a peer named a loopback address");
    for bad in ["", "relay.example", "ftp://relay.example", "https://relay.example/?a=b", "https://user@relay.example"]
    {
        assert!(with(&|mailbox| mailbox.relay = bad.to_owned()).is_none(), "{bad}");
    }
    assert!(with(&|mailbox| mailbox.relay = "https://relay.example/below".to_owned()).is_some());
    assert!(north.route(&PeerAddress { did: None, ..good.clone() }).is_none());
    assert!(north.route(&PeerAddress { mailbox: None, ..good }).is_none());
}

#[tokio::test]
async fn whoever_listens_answers_at_once() {
    let relay = FakeRelay::start().await;
    let mut south = listen(&relay);
    south.connected().await;
    relay.until(|state| state.is_listening(&did(2))).await;
    let answer = deliver(&transport_of(keys(1), waiting()), &peer(2, &relay), "hello".into()).await.unwrap();
    assert!(matches!(answer, Delivery::Answered(body) if &body[..] == b"re: hello"));
    relay.until(|state| state.acked.len() == 1).await;
    assert_eq!(south.inbox.heard().letters, [("hello".to_owned(), Way::RelayCall)]);
    let body = relay.requests("/rpc")[0].json();
    assert_eq!(body.member("wait").and_then(Value::as_i64), Some(25));
}

#[tokio::test]
async fn nobody_listens_and_the_letter_is_queued() {
    let relay = FakeRelay::start().await;
    let answer = deliver(&transport_of(keys(1), waiting()), &peer(2, &relay), request("m1")).await.unwrap();
    assert!(matches!(answer, Delivery::Queued(_)));
    assert_eq!(relay.letters(), 1);
}

#[tokio::test]
async fn a_relay_that_does_not_keep_to_the_time_still_gets_the_letter() {
    let relay = FakeRelay::start().await;
    relay.script("/rpc", [json_answer(404, r#"{"error":"no such path"}"#), Script::Hold(Vec::new())]);
    let times = RelayTimes { answer_wait: Duration::from_millis(1), ..times() };
    for id in ["m1", "m2"] {
        let answer = deliver(&transport_of(keys(1), times.clone()), &peer(2, &relay), request(id)).await.unwrap();
        assert!(matches!(answer, Delivery::Queued(receipt) if receipt.deposit_id == deposit_id(id, &did(2))));
    }
    assert_eq!(deposited(&relay, "/rpc"), deposited(&relay, "/send"));
    assert_eq!(relay.letters(), 2);
}

#[tokio::test]
async fn an_answer_whose_asker_has_gone_is_not_lost() {
    let relay = FakeRelay::start().await;
    relay.script("/reply", [json_answer(200, r#"{"delivered":false}"#), json_answer(200, "<html>"), Script::Cut]);
    let south = listen_with(transport(2), place(&relay, 1), inbox());
    for text in ["first", "second", "third"] {
        let mut item = crate::common::item(1, 2, text);
        item.waits = true;
        relay.store(&did(2), item);
    }
    let heard = south.inbox.until(|heard| heard.unheard.len() == 3).await;
    let answers: Vec<_> = heard.unheard.iter().map(|(_, answer)| &answer[..]).collect();
    assert_eq!(answers, [&b"re: first"[..], b"re: second", b"re: third"]);
    assert!(heard.answered.is_empty(), "whoever answers for the relay has not heard it");
    assert_eq!(heard.unheard[0].0.enc_pub, Some(enc_pub(1)));
    relay.until(|state| state.acked.len() == 3).await;
}

#[tokio::test]
async fn a_reply_that_does_not_open_proves_nothing() {
    let relay = FakeRelay::start().await;
    let forged = keys(3).sealing.seal(&enc_pub(1), b"forged", b"", [1; 12]).unwrap();
    for reply in [forged.as_str(), "", "no base64"] {
        relay.script("/rpc", [json_answer(200, &format!(r#"{{"reply":"{reply}"}}"#))]);
        let answer = deliver(&transport_of(keys(1), waiting()), &peer(2, &relay), request("m1")).await.unwrap();
        assert!(matches!(answer, Delivery::Queued(_)));
    }
}

#[tokio::test]
async fn refusals_are_told_in_the_relays_words() {
    let relay = FakeRelay::start().await;
    let full = r#"{"error":{"code":-32004,"message":"the mailbox is full","data":{"bound":"mailboxLetters"}}}"#;
    relay.script(
        "/send",
        [
            Script::Answer(429, "retry-after: 30\r\n", full.to_owned()),
            json_answer(413, r#"{"error":"too large"}"#),
            Script::Answer(502, "content-type: text/html\r\n", "<html>\u{1b}[31m".to_owned()),
        ],
    );
    let mut seen = Vec::new();
    for _ in 0..3 {
        match deliver(&transport(1), &peer(2, &relay), request("m1")).await.unwrap_err() {
            TransportError::RelayRefused { status, reason, retry_after, .. } => {
                seen.push((status, reason.into_string(), retry_after))
            }
            other => panic!("{other:?}"),
        }
    }
    assert_eq!(
        seen,
        [
            (429, "the mailbox is full (mailboxLetters)".to_owned(), Some(Duration::from_secs(30))),
            (413, "too large".to_owned(), None),
            (502, "it did not say why".to_owned(), None),
        ]
    );
}

#[tokio::test]
async fn what_is_no_relay_takes_no_letters() {
    let relay = FakeRelay::start().await;
    for body in
        [r#"{"ok":true}"#, r#"{"queued":"true"}"#, "[]", "<html>", "", r#"{"queued":false}"#, r#"{"reply":"AAAA"}"#]
    {
        relay.script("/send", [json_answer(200, body)]);
        let error = deliver(&transport(1), &peer(2, &relay), request("m1")).await.unwrap_err();
        assert!(matches!(error, TransportError::NotARelay { .. }), "{body}: {error:?}");
    }
    let elsewhere = Script::Answer(307, "location: https://other.example/send\r\n", String::new());
    relay.script("/send", [elsewhere]);
    let error = deliver(&transport(1), &peer(2, &relay), request("m1")).await.unwrap_err();
    assert!(matches!(error, TransportError::RedirectRefused { .. }), "{error:?}");
    relay.script("/send", [Script::Cut, Script::Cut]);
    let error = deliver(&transport(1), &peer(2, &relay), request("m1")).await.unwrap_err();
    assert!(!error.is_unreachable(), "the relay may have it: {error:?}");
}

#[tokio::test]
async fn a_connection_that_closes_meanwhile_is_made_anew() {
    let relay = FakeRelay::start().await;
    relay.script("/send", [Script::Cut]);
    deliver(&transport(1), &peer(2, &relay), request("m1")).await.unwrap();
    let [first, again] = &deposited(&relay, "/send")[..] else { panic!() };
    assert_eq!(first, again);
}

#[tokio::test]
async fn a_relay_that_is_not_there_is_out_of_reach() {
    let gone = FakeRelay::start().await;
    let peer = peer(2, &gone);
    drop(gone);
    tokio::task::yield_now().await;
    let error = deliver(&transport_of(keys(1), times()), &peer, request("m1")).await.unwrap_err();
    assert!(error.is_unreachable(), "{error:?}");
}
