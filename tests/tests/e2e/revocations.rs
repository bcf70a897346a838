//! Taking an introduction back (section 8.4), and servers of revocation lists that lie, stall or are not there.
use std::sync::{
    Arc,
    atomic::{AtomicBool, Ordering},
};

use muretai_protocol::sign;
use muretai_tests::{
    Home, Serve,
    peer::{Act, Peer, Seen},
    rpc::{self, Key, code, send},
    trust::{befriend, befriend_at, propose},
    vouch::{canonical, presenting, revocations, vc},
};
use serde_json::{Value, json};

fn south(policy: &str) -> (Home, Serve) {
    let home = Home::with_agent("south");
    home.run(["policy", "set", "revocation", policy]).ok();
    let serve = home.serve("south", &["--rate-limit", "off"]);
    (home, serve)
}

/// What a server of lists does, as (issuer, id of the introduction) -> answer.
type Server = fn(&Key, &str) -> Act;

fn list(signer: &Key, issuer: &Key, ids: &[&str], age: i64) -> Act {
    Act::json(&revocations(signer, issuer.did(), ids, rpc::now() - age))
}

/// What each kind of server makes of an introduction, while undecided ones pass and while they do not. 0 is: let pass to
/// the owner.
const SERVERS: [(&str, Server, i64, i64); 16] = [
    ("an empty list", |key, _| list(key, key, &[], 0), 0, 0),
    ("a list of others", |key, _| list(key, key, &["urn:uuid:00", "urn:uuid:ff"], 5_000), 0, 0),
    ("a list that names it", |key, id| list(key, key, &["urn:uuid:0", id], 0), -32011, -32011),
    ("a forged list", |key, id| list(&Key::of(99), key, &[id], 0), 0, -32011),
    ("another issuer's list", |_, id| list(&Key::of(99), &Key::of(99), &[id], 0), 0, -32011),
    ("a list from the future", |key, id| list(key, key, &[id], -3_600), 0, -32011),
    ("no list", |_, _| Act::json(&json!({})), 0, -32011),
    ("no JSON", |_, _| Act::Answer(200, "text/html", b"<p>hello".to_vec()), 0, -32011),
    ("an empty body", |_, _| Act::Answer(200, "application/json", Vec::new()), 0, -32011),
    ("not found", |_, _| Act::Answer(404, "application/json", b"{}".to_vec()), 0, -32011),
    ("an error", |_, _| Act::Answer(500, "text/plain", b"oops".to_vec()), 0, -32011),
    ("no word", |_, _| Act::HangUp, 0, -32011),
    ("silence", |_, _| Act::Silence, 0, -32011),
    ("a drip", |_, _| Act::Drip, 0, -32011),
    ("a way into the network", |_, _| Act::Redirect("http://169.254.169.254/revocations".to_owned()), 0, -32011),
    ("too much", |_, _| Act::Answer(200, "application/json", vec![b' '; 3_000_000]), -32011, -32011),
];

#[test]
fn what_a_server_of_revocations_says_decides_and_what_it_does_not_say_is_for_the_policy() {
    let judge = |policy: &str, want: fn(&(&str, Server, i64, i64)) -> i64| {
        let (home, serve) = south(policy);
        for (n, case) in SERVERS.iter().enumerate() {
            let n = u8::try_from(n).unwrap();
            let (issuer, subject) = (Key::of(10 + n), Key::of(100 + n));
            befriend(&home, &serve, "south", &issuer);
            let mut vc = vc(&issuer, subject.did(), &serve.did, |_| {});
            let id = vc["id"].as_str().unwrap().to_owned();
            let (act, key) = (case.1, Key::of(10 + n));
            let peer = Peer::start(move |_, _| act(&key, &id));
            vc["issuerEndpoint"] = json!(peer.url());
            let vc = muretai_tests::vouch::prove(&issuer, vc);
            let answer = serve.call(&send(&presenting(&subject, &serve.did, "hello", &vc)));
            assert_eq!(code(&answer), want(case), "{policy}, {}: {answer}", case.0);
            assert!(peer.count("GET") >= 1, "{policy}, {}: it was asked", case.0);
        }
    };
    std::thread::scope(|scope| {
        scope.spawn(|| judge("pass", |case| case.2));
        scope.spawn(|| judge("strict", |case| case.3));
    });
}

#[test]
fn a_server_that_is_not_there_is_undecided() {
    let closed = {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        format!("http://{}", listener.local_addr().unwrap())
    };
    for (policy, want) in [("pass", 0), ("strict", -32011)] {
        let (home, serve) = south(policy);
        let (west, north) = (Key::of(1), Key::of(2));
        befriend(&home, &serve, "south", &west);
        let vc = vc(&west, north.did(), &serve.did, |vc| vc["issuerEndpoint"] = json!(closed));
        let answer = serve.call(&send(&presenting(&north, &serve.did, "hello", &vc)));
        assert_eq!(code(&answer), want, "{policy}: {answer}");
    }
}

/// West with a list that the test changes; whom it names is in `revoked`.
struct West {
    key: Key,
    is_revoked: Arc<AtomicBool>,
    peer: Peer,
    id: String,
}

impl West {
    fn new() -> West {
        let is_revoked = Arc::new(AtomicBool::new(false));
        let id = format!("urn:uuid:{}", rpc::fresh_id());
        let peer = Peer::start({
            let (is_revoked, id) = (Arc::clone(&is_revoked), id.clone());
            move |seen: &Seen, _| match (seen.path.as_str(), is_revoked.load(Ordering::SeqCst)) {
                ("/revocations", true) => list(&Key::of(1), &Key::of(1), &[&id], 0),
                ("/revocations", false) => list(&Key::of(1), &Key::of(1), &[], 0),
                _ => Act::Answer(404, "application/json", b"{}".to_vec()),
            }
        });
        West { key: Key::of(1), is_revoked, peer, id }
    }

    fn introduce(&self, subject: &Key, target: &str) -> Value {
        vc(&self.key, subject.did(), target, |vc| {
            vc["id"] = json!(self.id);
            vc["issuerEndpoint"] = json!(self.peer.url());
        })
    }
}

#[test]
fn what_was_accepted_is_refused_once_it_is_revoked_and_stays_so_when_the_issuer_is_gone() {
    let home = Home::with_agent("south");
    home.run(["policy", "set", "introductions", "accept"]).ok();
    let (west, north) = (West::new(), Key::of(2));
    let vc = {
        let serve = home.serve("south", &[]);
        befriend(&home, &serve, "south", &west.key);
        let vc = west.introduce(&north, &serve.did);
        assert_eq!(code(&propose(&serve, &west.key, &vc)), 0);
        assert_eq!(code(&serve.say(&north, "hello")), 0);
        assert_eq!(code(&serve.say(&north, "hello again")), 0);
        let asked = west.peer.count("GET");
        assert!(asked <= 1, "a list is asked once in five minutes, not {asked} times");
        vc
    };
    west.is_revoked.store(true, Ordering::SeqCst);
    let serve = home.serve("south", &[]);
    assert_eq!(code(&serve.say(&north, "hello")), -32011);
    let West { peer, .. } = west;
    drop(peer);
    drop(serve);
    let serve = home.serve("south", &[]);
    for answer in [serve.say(&north, "hello"), serve.call(&send(&presenting(&north, &serve.did, "hello", &vc)))] {
        assert!([-32010, -32011].contains(&code(&answer)), "{answer}");
    }
    let listed = home.run(["introduce", "list", "--received", "--json"]).ok().json_lines();
    assert_eq!(listed[0]["status"], "revoked", "{listed:?}");
}

#[test]
fn messages_that_arrive_together_ask_for_one_list() {
    let (home, serve) = south("pass");
    let west = West::new();
    befriend(&home, &serve, "south", &west.key);
    std::thread::scope(|scope| {
        let (serve, west) = (&serve, &west);
        for n in 0..12 {
            scope.spawn(move || {
                let key = Key::nth(n);
                let vc = vc(&west.key, key.did(), &serve.did, |vc| vc["issuerEndpoint"] = json!(west.peer.url()));
                let answer = serve.call(&send(&presenting(&key, &serve.did, "hello", &vc)));
                assert!([0, -32014].contains(&code(&answer)), "{answer}");
            });
        }
    });
    assert_eq!(west.peer.count("GET"), 1);
}

#[test]
fn a_list_that_is_pushed_counts_when_it_is_its_senders_own() {
    let (home, serve) = south("pass");
    home.run(["policy", "set", "introductions", "accept"]).ok();
    let (west, east, north) = (Key::of(1), Key::of(3), Key::of(2));
    befriend(&home, &serve, "south", &west);
    befriend(&home, &serve, "south", &east);
    let vc = vc(&west, north.did(), &serve.did, |_| {});
    let id = vc["id"].as_str().unwrap();
    muretai_tests::wait::until("the policy to be followed", || {
        (propose(&serve, &west, &vc)["result"]["status"] == "accepted").then_some(())
    });
    let push = |sender: &Key, list: &Value| {
        let mut message = sender.message(&serve.did, "I took back an introduction");
        message["metadata"]["auto"] = json!(true);
        message["metadata"]["status"] = json!("revocation");
        message["metadata"]["revocations"] = list.clone();
        code(&serve.call(&send(&message)))
    };
    let now = rpc::now();
    assert_eq!(push(&Key::of(9), &revocations(&west, west.did(), &[id], now)), -32010, "a stranger");
    assert_eq!(push(&east, &revocations(&west, west.did(), &[id], now)), 0);
    assert_eq!(push(&east, &revocations(&east, east.did(), &[id], now)), 0);
    assert_eq!(push(&west, &revocations(&east, west.did(), &[id], now)), 0);
    assert_eq!(push(&west, &json!("all of them")), 0);
    assert_eq!(code(&serve.say(&north, "still in")), 0, "none of these says that west took it back");
    assert_eq!(push(&west, &revocations(&west, west.did(), &[id], now)), 0);
    let refused = code(&serve.say(&north, "out"));
    assert!([-32010, -32011].contains(&refused), "{refused}");
}

#[test]
fn our_own_list_is_signed_sorted_and_grows_with_what_is_revoked() {
    let home = Home::with_agent("west");
    let serve = home.serve("west", &[]);
    let (north, south) = (Key::of(2), Key::of(3));
    befriend(&home, &serve, "west", &north);
    befriend_at(&home, &serve, "west", &south, Some("http://127.0.0.1:1"));
    let fetch = || {
        let list = serve.request("GET", "/revocations", &[], b"").json();
        assert_eq!((&list["typ"], &list["issuer"]), (&json!("muretai/revocations/1"), &json!(serve.did)), "{list}");
        let mut unsigned = list.clone();
        unsigned.as_object_mut().unwrap().remove("sig");
        let did = serve.did.parse().unwrap();
        assert!(sign::verify_base64(&did, canonical(&unsigned).as_bytes(), list["sig"].as_str().unwrap()), "{list}");
        let ids: Vec<String> =
            list["revoked"].as_array().unwrap().iter().map(|id| id.as_str().unwrap().to_owned()).collect();
        assert!(ids.is_sorted(), "{ids:?}");
        ids
    };
    assert_eq!(fetch(), [""; 0]);
    let mut ids = Vec::new();
    for _ in 0..3 {
        // South cannot be reached: the introduction is written all the same, and told later.
        let made = home.run(["introduce", north.did(), "--to", south.did(), "--timeout", "2s", "--json"]).ok().json();
        assert_eq!(made["told"], false, "{made}");
        ids.push(made["id"].as_str().unwrap().to_owned());
    }
    assert_eq!(fetch(), [""; 0]);
    for id in &ids {
        let revoked = home.run(["introduce", "revoke", id, "--timeout", "2s", "--json"]).ok().json();
        assert_eq!(revoked["status"], "revoked", "{revoked}");
    }
    ids.sort();
    // The list may be a second old.
    muretai_tests::wait::until("the list to grow", || (fetch() == ids).then_some(()));
    home.run(["introduce", "revoke", "00000000-no-such"]).exits(1);
    let head = serve.request("HEAD", "/revocations", &[], b"");
    assert_eq!(head.status, 200);
}
