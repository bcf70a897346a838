//! Two agents and a real relay on loopback.
use std::{sync::Arc, time::Duration};

use muretai_relay::{Bounds, MetricsAccess, Relay, RelayOptions};
use muretai_store::{
    contacts::{CoordinateSource, Coordinates, Introduce},
    mailboxes::{Quotas, open_sqlite},
    messages::{MessageRow, OutStatus},
};
use muretai_transports::{Stop, http::ServerLimits};
use tokio::task::JoinHandle;

use crate::{
    Agent,
    mail::{MailError, SyncRequest},
    receive::service::ReceiverOptions,
    send::{SendRequest, SentStatus},
    serve::{ServeError, ServeOptions, Serving},
    testing::{self, Owned},
};

/// Longer than anything here takes.
const PATIENCE: Duration = Duration::from_secs(60);

struct World {
    relay: String,
    north: Owned,
    south: Owned,
    stop: Stop,
    running: JoinHandle<()>,
    _folder: tempfile::TempDir,
}

async fn world() -> World {
    let folder = tempfile::tempdir().unwrap();
    let store = open_sqlite(&folder.path().join("relay.db"), Quotas::default()).await.unwrap();
    let options = RelayOptions {
        listen: "127.0.0.1:0".parse().unwrap(),
        urls: Vec::new(),
        quotas: Quotas::default(),
        limits: ServerLimits::default(),
        bounds: Bounds::default(),
        metrics: MetricsAccess::Off,
    };
    let relay = Relay::bind(options, store).await.unwrap();
    let (url, stop) = (relay.url().to_owned(), Stop::new());
    let until = stop.clone();
    let running = tokio::spawn(async move { relay.run(until).await.unwrap() });
    let (north, south) = (testing::agent("north").await, testing::agent("south").await);
    for (one, other) in [(&north, &south), (&south, &north)] {
        knows(&one.agent, &other.agent, &url).await;
        one.agent.remember_mailbox(&url).await.unwrap();
    }
    World { relay: url, north, south, stop, running, _folder: folder }
}

impl World {
    async fn end(self) {
        self.stop.stop();
        self.running.await.unwrap();
    }
}

/// Makes one a contact of the other, with a mailbox.
async fn knows(agent: &Agent, other: &Agent, relay: &str) {
    let coordinates =
        Coordinates { relay: Some(relay.to_owned()), enc_pub: Some(other.enc_pub()), ..Coordinates::default() };
    let who = Introduce {
        did: other.did().clone(),
        peer_name: Some(other.name().to_owned()),
        own_name: None,
        coordinates,
        source: CoordinateSource::Owner,
        allow_private: true,
        now: crate::agent::now(),
    };
    agent.store().connect(&who).await.unwrap();
}

async fn send(from: &Agent, to: &str, text: &str) -> String {
    let sent = from.send(&message(to, text)).await.unwrap();
    assert_eq!(sent.status, SentStatus::AtRelay);
    sent.message_id
}

fn message(to: &str, text: &str) -> SendRequest {
    SendRequest {
        target: to.to_owned(),
        text: text.to_owned(),
        context_id: None,
        reply_to: None,
        timeout: PATIENCE,
        retries: 0,
        unverified: false,
        allow_private: true,
        via: None,
    }
}

fn sync() -> SyncRequest {
    SyncRequest { timeout: PATIENCE, ..SyncRequest::default() }
}

async fn synced(agent: &Agent) -> Vec<(u64, u64, bool)> {
    let receiver = ReceiverOptions::default();
    let synced = agent.sync_mail(&sync(), &receiver, Arc::new(|_| {})).await.unwrap();
    synced.into_iter().map(|at| (at.letters, at.rejected, at.is_served)).collect()
}

async fn inbox(agent: &Agent) -> Vec<String> {
    agent.store().messages(&Default::default()).await.unwrap().into_iter().map(|row| row.text).collect()
}

async fn row(agent: &Agent, id: &str) -> MessageRow {
    agent.store().outgoing(id).await.unwrap().unwrap()
}

#[tokio::test]
async fn a_letter_waits_for_who_is_off_and_the_word_of_it_comes_back() {
    let world = world().await;
    let (north, south) = (&world.north.agent, &world.south.agent);
    let id = send(north, "south", "hello").await;
    assert_eq!(row(north, &id).await.status, Some(OutStatus::AtRelay));
    assert_eq!(synced(south).await, [(1, 0, false)]);
    assert_eq!(inbox(south).await, ["hello"]);
    assert_eq!(synced(south).await, [(0, 0, false)], "it is acknowledged");
    assert_eq!(synced(north).await, [(1, 0, false)]);
    assert_eq!(row(north, &id).await.status, Some(OutStatus::Delivered));
    assert_eq!(synced(south).await, [(0, 0, false)], "word of it is not answered");
    world.end().await;
}

#[tokio::test]
async fn two_that_fetch_at_once_do_not_take_the_mailbox_from_each_other() {
    let world = world().await;
    let (north, south) = (&world.north.agent, &world.south.agent);
    for n in 0..20 {
        send(north, "south", &n.to_string()).await;
    }
    let (first, second) = tokio::join!(synced(south), synced(south));
    assert_eq!(first[0].0 + second[0].0, 20);
    assert_eq!(inbox(south).await.len(), 20);
    world.end().await;
}

#[tokio::test]
async fn mail_cannot_be_fetched_from_nowhere() {
    let north = testing::agent("north").await;
    let fetch = async |relays: &[&str]| {
        let relays = relays.iter().map(|relay| (*relay).to_owned()).collect();
        let request = SyncRequest { relays, ..sync() };
        north.agent.sync_mail(&request, &ReceiverOptions::default(), Arc::new(|_| {})).await.unwrap_err()
    };
    assert!(matches!(fetch(&[]).await, MailError::NoRelay));
    assert!(matches!(fetch(&["https://relay.example/?x"]).await, MailError::BadRelay { .. }));
    let request = SyncRequest { relays: vec![closed()], ..sync() };
    let synced = north.agent.sync_mail(&request, &ReceiverOptions::default(), Arc::new(|_| {})).await.unwrap();
    assert!(matches!(synced[0].failure, Some(MailError::Transport { .. })) && synced[0].is_chosen, "{synced:?}");
    assert_eq!(north.agent.mailboxes().await.unwrap(), Vec::<String>::new(), "what never worked is not remembered");
}

/// The address of a relay that nobody runs.
fn closed() -> String {
    format!("http://{}", std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap())
}

#[tokio::test]
async fn a_relay_that_is_away_or_silent_takes_nothing_from_the_others() {
    let world = world().await;
    let (north, south) = (&world.north.agent, &world.south.agent);
    // It takes connections, and says nothing.
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let silent = format!("http://{}", listener.local_addr().unwrap());
    send(north, "south", "hello").await;
    let relays = vec![closed(), silent, world.relay.clone()];
    let request = SyncRequest { relays, timeout: Duration::from_secs(2), ..sync() };
    let synced = south.sync_mail(&request, &ReceiverOptions::default(), Arc::new(|_| {})).await.unwrap();
    let outcomes: Vec<_> = synced.iter().map(|one| (one.letters, one.failure.is_some())).collect();
    assert_eq!(outcomes, [(0, true), (0, true), (1, false)], "in the order in which they were named");
    assert_eq!(inbox(south).await, ["hello"]);
    assert_eq!(south.mailboxes().await.unwrap(), std::slice::from_ref(&world.relay));
    world.end().await;
}

#[tokio::test]
async fn who_takes_over_from_another_home_is_told_and_who_comes_again_is_not() {
    let world = world().await;
    let south = &world.south.agent;
    let stop = Stop::new();
    let elsewhere = testing::agent("south").await;
    let running = tokio::spawn(serve(&elsewhere.agent, &world.relay).await.run(stop.clone()));
    until(&elsewhere.agent, || elsewhere.agent.served_by().is_some_and(|holder| !holder.relays.is_empty())).await;
    let superseded = async || {
        let synced = south.sync_mail(&sync(), &ReceiverOptions::default(), Arc::new(|_| {})).await.unwrap();
        synced.iter().map(|one| (one.has_superseded, one.failure.is_some())).collect::<Vec<_>>()
    };
    assert_eq!(superseded().await, [(true, false)]);
    assert!(matches!(running.await.unwrap(), Err(ServeError::Superseded { .. })));
    assert_eq!(superseded().await, [(false, false)], "it was this home that was there last");
    world.end().await;
}

/// Serves at the relay alone.
async fn serve(agent: &Agent, relay: &str) -> Serving {
    let options = ServeOptions {
        listen: "127.0.0.1:0".parse().unwrap(),
        url: None,
        open_door: false,
        rate: None,
        reply_with: None,
        skills: None,
        policies: Vec::new(),
        limits: ServerLimits::default(),
        relays: vec![format!("{relay}/")],
        no_http: true,
        relay_times: Default::default(),
    };
    agent.serve(&options).await.unwrap()
}

/// Waits for something that another task of this agent brings about.
async fn until(agent: &Agent, is_there: impl Fn() -> bool + Send + Sync) {
    let receiver = ReceiverOptions::default();
    let look = || async { Ok(is_there().then_some(())) };
    agent.mail_until(PATIENCE, &receiver, look).await.unwrap().expect("it comes");
}

#[tokio::test]
async fn an_agent_that_is_served_at_a_relay_says_so_for_as_long_as_it_listens() {
    let world = world().await;
    let (north, south) = (&world.north.agent, &world.south.agent);
    let serving = serve(south, &world.relay).await;
    assert_eq!((serving.url(), serving.local_addr(), serving.relays()), ("", None, &[world.relay.clone()][..]));
    let stop = Stop::new();
    let running = tokio::spawn(serving.run(stop.clone()));
    until(south, || south.served_by().is_some_and(|holder| !holder.relays.is_empty())).await;
    let status = south.mail_status().await.unwrap();
    assert_eq!((status.served, status.connected), (vec![world.relay.clone()], vec![world.relay.clone()]));
    assert_eq!(synced(south).await, [(0, 0, true)], "there is nothing to do for anybody else");
    // The answer comes back at once.
    assert_eq!(north.send(&message("south", "hello")).await.unwrap().status, SentStatus::Accepted);
    assert_eq!(inbox(south).await, ["hello"]);
    stop.stop();
    running.await.unwrap().unwrap();
    assert!(south.served_by().is_none());
    world.end().await;
}

#[tokio::test]
async fn the_older_of_two_ends_and_says_why() {
    let world = world().await;
    let south = &world.south.agent;
    let serving = serve(south, &world.relay).await;
    let running = tokio::spawn(serving.run(Stop::new()));
    until(south, || south.served_by().is_some_and(|holder| !holder.relays.is_empty())).await;
    // The same identity in another home.
    let elsewhere = testing::agent("south").await;
    let stop = Stop::new();
    let newer = tokio::spawn(serve(&elsewhere.agent, &world.relay).await.run(stop.clone()));
    match running.await.unwrap() {
        Err(ServeError::Superseded { relay }) => assert_eq!(relay, world.relay),
        other => panic!("{other:?}"),
    }
    stop.stop();
    newer.await.unwrap().unwrap();
    world.end().await;
}

#[tokio::test]
async fn an_answer_is_waited_for_without_a_server() {
    let world = world().await;
    let (north, south) = (&world.north.agent, &world.south.agent);
    let id = send(north, "south", "hello").await;
    let (store, receiver) = (north.store(), ReceiverOptions::default());
    let waits = north.mail_until(PATIENCE, &receiver, || async {
        let row = store.outgoing(&id).await?;
        Ok(row.filter(|row| row.status == Some(OutStatus::Delivered)))
    });
    let (found, synced) = tokio::join!(waits, synced(south));
    assert!(found.unwrap().is_some());
    assert_eq!(synced, [(1, 0, false)]);
    let nothing = north.mail_until(Duration::from_millis(1), &receiver, || async { Ok(None::<()>) }).await;
    assert!(nothing.unwrap().is_none());
    world.end().await;
}
