//! Whom this agent knows.
#![allow(clippy::unwrap_used)]
mod common;
use common::*;
use muretai_protocol::UnixSeconds;
use muretai_store::{
    Store, StoreError,
    contacts::{CoordinateSource, Coordinates, Introduce, Relation},
};

fn url(text: &str) -> Coordinates {
    Coordinates { url: Some(text.to_owned()), ..Coordinates::default() }
}

#[tokio::test]
async fn names_are_unique_and_never_stolen() {
    let (_folder, store) = fresh().await;
    let first = connect(&store, &did(1), "North").await;
    let second = connect(&store, &did(2), "north").await;
    let third = connect(&store, &did(3), "NORTH").await;
    assert_eq!([first.name.as_str(), &second.name, &third.name], ["north", "north-2", "north-3"]);
    assert_eq!(connect(&store, &did(4), "").await.name, "peer");
    assert_eq!(connect(&store, &did(5), "日本").await.name, "peer-2");
    // Introducing itself under another name changes what it calls itself, not what the owner types.
    let again = connect(&store, &did(2), "south").await;
    assert_eq!((again.name.as_str(), again.peer_name.as_deref()), ("north-2", Some("south")));
    let names: Vec<_> = store.contacts().await.unwrap().into_iter().map(|contact| contact.name).collect();
    assert_eq!(names, ["north", "north-2", "north-3", "peer", "peer-2"]);
    let long = connect(&store, &did(6), &"x".repeat(40)).await.name;
    let longer = connect(&store, &did(7), &"x".repeat(50)).await.name;
    assert_eq!((long.len(), longer), (32, format!("{}-2", "x".repeat(30))));
}

#[tokio::test]
async fn renaming_refuses_a_taken_name() {
    let (_folder, store) = fresh().await;
    connect(&store, &did(1), "north").await;
    connect(&store, &did(2), "south").await;
    let refused = store.rename_contact(&did(2), "north").await;
    assert!(matches!(refused, Err(StoreError::NameTaken(name)) if name == "north"));
    assert_eq!(store.contact_named("south").await.unwrap().unwrap().did, did(2));
    assert!(store.rename_contact(&did(2), "south").await.unwrap());
    assert!(store.rename_contact(&did(2), "Ö 1").await.unwrap());
    assert_eq!(store.contact_named("Ö 1").await.unwrap().unwrap().did, did(2));
    assert!(store.contact_named("south").await.unwrap().is_none());
    assert!(!store.rename_contact(&did(9), "x").await.unwrap());
}

#[tokio::test]
async fn weaker_sources_do_not_overwrite_coordinates() {
    let (_folder, store) = fresh().await;
    let north = did(1);
    let learn = async |coordinates: Coordinates, source| {
        store.update_coordinates(&north, &coordinates, source).await.unwrap();
        let contact = store.contact(&north).await.unwrap().unwrap();
        (contact.coordinates, contact.source)
    };
    connect(&store, &north, "north").await;
    let card = Coordinates {
        url: Some("https://card.example".to_owned()),
        relay: Some("https://relay.example".to_owned()),
        enc_pub: Some("aa".to_owned()),
        enc_pub_pq: None,
    };
    assert_eq!(learn(card.clone(), CoordinateSource::Card).await, (card.clone(), CoordinateSource::Card));
    assert_eq!(learn(url("https://lie.example"), CoordinateSource::Peer).await.0, card);
    let claimed = Introduce { coordinates: url("https://lie.example"), ..introduce(&north, "north") };
    assert_eq!(store.connect(&claimed).await.unwrap().coordinates, card);
    // As strong: what it carries is newer, what it does not carry stays.
    let newer = learn(url("https://new.example"), CoordinateSource::Card).await.0;
    assert_eq!(newer, Coordinates { url: Some("https://new.example".to_owned()), ..card });
    assert_eq!(learn(Coordinates::default(), CoordinateSource::Owner).await.1, CoordinateSource::Card);
    assert_eq!(learn(url("http://10.0.0.1"), CoordinateSource::Owner).await.1, CoordinateSource::Owner);
    store.update_coordinates(&did(9), &url("https://x.example"), CoordinateSource::Owner).await.unwrap();
    assert!(store.contact(&did(9)).await.unwrap().is_none());
}

#[tokio::test]
async fn an_introducers_word_is_the_first_or_none() {
    use muretai_store::introductions::Role;
    let (_folder, store) = fresh().await;
    let (west, evil, north) = (did(1), did(2), did(3));
    let coordinates = |name: &str| Coordinates {
        url: Some(format!("https://{name}.example")),
        relay: Some(format!("https://relay.{name}.example")),
        enc_pub: Some(name.to_owned()),
        enc_pub_pq: None,
    };
    // Whatever a caller says: what comes with an introduction is its issuer's word.
    let told = |name: &str| Introduce {
        coordinates: coordinates(name),
        source: CoordinateSource::Owner,
        allow_private: true,
        ..introduce(&north, name)
    };
    let look = async || {
        let contact = store.contact(&north).await.unwrap().unwrap();
        (contact.peer_name.unwrap(), contact.coordinates, contact.source)
    };
    for (n, who) in [&west, &evil].into_iter().enumerate() {
        connect(&store, who, if n == 0 { "west" } else { "evil" }).await;
    }
    store.keep_held(&introduction(Role::Held, "a", 1, 100, 3), &told("first")).await.unwrap();
    let first = ("first".to_owned(), coordinates("first"), CoordinateSource::Introducer);
    assert_eq!(look().await, first);
    assert!(!store.contact(&north).await.unwrap().unwrap().allow_private);
    store.keep_held(&introduction(Role::Held, "b", 2, 100, 3), &told("second")).await.unwrap();
    assert_eq!(look().await, first, "another introducer's word");
    store.keep_held(&introduction(Role::Held, "c", 1, 100, 3), &told("third")).await.unwrap();
    assert_eq!(look().await, first, "nor another of the same");
    // The peer knows better, and what its introducer said goes.
    store.connect(&introduce(&north, "north")).await.unwrap();
    let own = ("north".to_owned(), url("https://north.example"), CoordinateSource::Peer);
    assert_eq!(look().await, own);
    assert!(store.remove_contact(&west).await.unwrap());
    store.keep_held(&introduction(Role::Held, "d", 2, 100, 3), &told("second")).await.unwrap();
    store.update_coordinates(&north, &coordinates("lie"), CoordinateSource::Introducer).await.unwrap();
    assert_eq!(look().await, own);
}

#[tokio::test]
async fn the_stored_numbers_of_sources_never_change() {
    let (folder, store) = fresh().await;
    connect(&store, &did(1), "north").await;
    store.close().await;
    let path = folder.path().join("agent.db");
    let sources = [
        CoordinateSource::Peer,
        CoordinateSource::Invite,
        CoordinateSource::Card,
        CoordinateSource::Owner,
        CoordinateSource::Introducer,
    ];
    for (number, source) in sources.into_iter().enumerate() {
        let options = sqlx::sqlite::SqliteConnectOptions::new().filename(&path);
        let mut conn = sqlx::ConnectOptions::connect(&options).await.unwrap();
        sqlx::query("UPDATE contacts SET source = ?").bind(number as i64).execute(&mut conn).await.unwrap();
        sqlx::Connection::close(conn).await.unwrap();
        let store = Store::open(&path).await.unwrap();
        assert_eq!(store.contact(&did(1)).await.unwrap().unwrap().source, source);
        store.rename_contact(&did(1), &format!("north-{number}")).await.unwrap();
        assert_eq!(store.contact(&did(1)).await.unwrap().unwrap().source, source);
        store.close().await;
    }
}

#[tokio::test]
async fn private_addresses_stay_allowed_once_the_owner_said_so() {
    let (_folder, store) = fresh().await;
    let allowed = Introduce { allow_private: true, ..introduce(&did(1), "north") };
    assert!(store.connect(&allowed).await.unwrap().allow_private);
    assert!(connect(&store, &did(1), "north").await.allow_private);
}

#[tokio::test]
async fn a_block_outlives_removal_and_a_new_introduction() {
    let (_folder, store) = fresh().await;
    let north = did(1);
    connect(&store, &north, "north").await;
    store.set_blocked(&north, true, NOW).await.unwrap();
    assert!(store.remove_contact(&north).await.unwrap());
    assert!(!store.remove_contact(&north).await.unwrap());
    let standing = store.standing(north.as_str(), "a").await.unwrap();
    assert_eq!((standing.is_direct, standing.is_blocked), (false, true));
    let back = connect(&store, &north, "north").await;
    assert_eq!((back.relation, back.is_blocked, back.name.as_str()), (Relation::Direct, true, "north"));
    store.set_blocked(&north, false, NOW).await.unwrap();
    assert!(!store.contact(&north).await.unwrap().unwrap().is_blocked);
    assert!(store.remove_contact(&north).await.unwrap());
    assert!(store.contact(&north).await.unwrap().is_none());
}

#[tokio::test]
async fn a_blocked_stranger_is_listed_without_trust_and_forgotten_when_unblocked() {
    let (_folder, store) = fresh().await;
    let east = did(2);
    store.set_blocked(&east, false, NOW).await.unwrap();
    assert!(store.contacts().await.unwrap().is_empty());
    store.set_blocked(&east, true, NOW).await.unwrap();
    let contact = store.contact(&east).await.unwrap().unwrap();
    assert_eq!((contact.relation, contact.is_blocked, contact.added), (Relation::None, true, NOW));
    assert!(!store.remove_contact(&east).await.unwrap());
    // Once it introduces itself it gets a name of its own.
    assert_eq!(connect(&store, &east, "east").await.name, "east");
    store.remove_contact(&east).await.unwrap();
    store.set_blocked(&east, false, NOW).await.unwrap();
    assert!(store.contacts().await.unwrap().is_empty());
}

#[tokio::test]
async fn removing_keeps_messages_and_handled_ids() {
    let (_folder, store) = fresh().await;
    let north = did(1);
    connect(&store, &north, "north").await;
    store.commit_received(received(&north, "a")).await.unwrap();
    store.remove_contact(&north).await.unwrap();
    let rows = store.messages(&Default::default()).await.unwrap();
    assert_eq!((rows.len(), rows[0].name.as_deref()), (1, None));
    let standing = store.standing(north.as_str(), "a").await.unwrap();
    assert!(standing.handled.is_some() && !standing.is_direct);
}

#[tokio::test]
async fn adding_is_remembered_from_the_first_time() {
    let (_folder, store) = fresh().await;
    connect(&store, &did(1), "north").await;
    let later = Introduce { now: UnixSeconds(NOW.0 + 5), ..introduce(&did(1), "north") };
    assert_eq!(store.connect(&later).await.unwrap().added, NOW);
}

#[tokio::test]
async fn no_peer_gets_the_name_of_a_host_or_of_the_agent() {
    let (_folder, store) = fresh().await;
    let own_name = Some("South".to_owned());
    let mut names = Vec::new();
    for (number, wish) in ["localhost", "LOCALHOST", "Local\u{7}host", "south", "south-2"].iter().enumerate() {
        let who = Introduce { own_name: own_name.clone(), ..introduce(&did(number as u32), wish) };
        names.push(store.connect(&who).await.unwrap().name);
    }
    assert_eq!(names, ["localhost-2", "localhost-3", "localhost-4", "south-2", "south-2-2"]);
}

#[tokio::test]
async fn tags_are_the_owners_and_bounded() {
    let (folder, store) = fresh().await;
    let tags = ["rust".to_owned(), "żurek \"and\" more".to_owned()];
    assert!(!store.set_expertise(&did(1), &tags).await.unwrap(), "nobody");
    connect(&store, &did(1), "north").await;
    assert!(store.set_expertise(&did(1), &tags).await.unwrap());
    // What else is learned leaves them alone.
    connect(&store, &did(1), "north").await;
    store.rename_contact(&did(1), "n").await.unwrap();
    store.close().await;
    let store = Store::open(&folder.path().join("agent.db")).await.unwrap();
    assert_eq!(store.contact(&did(1)).await.unwrap().unwrap().expertise, tags);
    for bad in [vec!["x".repeat(65)], vec!["x".to_owned(); 17]] {
        assert!(matches!(store.set_expertise(&did(1), &bad).await, Err(StoreError::TooManyTags)));
    }
    assert!(store.set_expertise(&did(1), &[]).await.unwrap());
    assert!(store.contact(&did(1)).await.unwrap().unwrap().expertise.is_empty());
}

#[tokio::test]
async fn what_another_process_decides_about_a_contact_counts_at_once() {
    let (folder, store) = fresh().await;
    let other = Store::open(&folder.path().join("agent.db")).await.unwrap();
    let north = did(1);
    let look = async || {
        let mut seen = Vec::new();
        for id in ["a", "b"] {
            let standing = store.standing(north.as_str(), id).await.unwrap();
            seen.push((standing.is_direct, standing.is_introduced, standing.is_blocked));
        }
        assert_eq!(seen[0], seen[1], "read, and remembered");
        seen[0]
    };
    assert_eq!(look().await, (false, false, false));
    connect(&other, &north, "north").await;
    assert_eq!(look().await, (true, false, false));
    other.set_blocked(&north, true, NOW).await.unwrap();
    assert_eq!(look().await, (true, false, true));
    other.remove_contact(&north).await.unwrap();
    assert_eq!(look().await, (false, false, true));
    other.set_blocked(&north, false, NOW).await.unwrap();
    assert_eq!(look().await, (false, false, false));
    // Many at once, known and unknown.
    connect(&other, &did(2), "south").await;
    for _ in 0..2 {
        let calls: Vec<_> = (0..64)
            .map(|n| {
                let store = store.clone();
                tokio::spawn(async move { store.standing(did(n % 3).as_str(), "m").await.unwrap().is_direct })
            })
            .collect();
        for (n, call) in calls.into_iter().enumerate() {
            assert_eq!(call.await.unwrap(), n % 3 == 2);
        }
    }
}
