mod relayed;

use super::*;
use crate::testing;

#[tokio::test]
async fn mailboxes_are_remembered_most_recent_first_and_not_too_many() {
    let owned = testing::agent("north").await;
    let north = &owned.agent;
    assert_eq!(north.mailboxes().await.unwrap(), Vec::<String>::new());
    for n in 1..=6 {
        north.remember_mailbox(&format!("https://relay{n}.example/")).await.unwrap();
    }
    north.remember_mailbox("https://RELAY5.example").await.unwrap();
    north.remember_mailbox("javascript:alert(1)").await.unwrap();
    let known =
        ["https://RELAY5.example", "https://relay6.example", "https://relay4.example", "https://relay3.example"];
    assert_eq!(north.mailboxes().await.unwrap(), known);
    north.configure_relays(vec!["https://own.example/r/".to_owned(), "https://relay4.example".to_owned()]);
    let all = north.known_relays().await.unwrap();
    assert_eq!(all[..2], ["https://own.example/r", "https://relay4.example"], "the owner's choice is first");
    assert_eq!(all.len(), 5, "and nothing is there twice");
}

#[tokio::test]
async fn a_relay_that_a_peer_named_stays_a_peers_word_until_the_owner_names_it() {
    let owned = testing::agent("north").await;
    let (north, relay) = (&owned.agent, "https://relay.example");
    north.adopt_mailbox("https://relay.example/").await.unwrap();
    assert_eq!(north.mailboxes().await.unwrap(), [relay]);
    assert_eq!(north.mailbox_policy(relay).await.unwrap(), Policy::Peer);
    assert!(!north.is_own_relay(relay).await.unwrap());
    north.remember_mailbox(relay).await.unwrap();
    assert_eq!(north.mailbox_policy(relay).await.unwrap(), Policy::Owner);
    north.adopt_mailbox(relay).await.unwrap();
    assert!(north.is_own_relay(relay).await.unwrap(), "known already");
}

#[tokio::test]
async fn a_damaged_setting_is_no_list() {
    let owned = testing::agent("north").await;
    let north = &owned.agent;
    for damaged in ["", "{}", "[1,null,\"x\"]", "\"https://relay.example\""] {
        north.store().set_setting(RELAYS_SETTING, Some(damaged)).await.unwrap();
        assert_eq!(north.mailboxes().await.unwrap(), Vec::<String>::new(), "{damaged}");
    }
    assert_eq!(north.mail_status().await.unwrap(), MailStatus::default());
}

#[test]
fn the_end_of_a_did_is_shown() {
    let did = testing::key(1).did().clone();
    assert!(did.as_str().ends_with(tail(&did)) && tail(&did).len() == 8);
}
