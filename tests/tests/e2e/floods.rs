//! Strangers by the thousand: a DID costs nothing, so that bounds hold for all of them together (H5).
use std::sync::atomic::{AtomicU32, Ordering};

use muretai_tests::{
    Home, Serve,
    rpc::{Key, code, send},
    trust::{befriend, call, waiting},
    vouch::{presenting, vc},
    wait,
};
use serde_json::{Value, json};

/// How many strangers.
const FRESH: u32 = 1_000;
/// How many requests may wait.
const PENDING: usize = 32;

struct Scene {
    home: Home,
    serve: Serve,
    west: Key,
}

impl Scene {
    fn new(flags: &[&str]) -> Scene {
        let home = Home::with_agent("south");
        home.run(["policy", "set", "pending", &PENDING.to_string()]).ok();
        let serve = home.serve("south", flags);
        let west = Key::of(1);
        befriend(&home, &serve, "south", &west);
        Scene { home, serve, west }
    }

    /// Eight connections at a time send what `request` makes for each number below `count`; gives the codes.
    fn flood(&self, count: u32, request: impl Fn(u32) -> Value + Sync) -> Vec<i64> {
        let next = AtomicU32::new(0);
        std::thread::scope(|scope| {
            let workers: Vec<_> = (0..8)
                .map(|_| {
                    scope.spawn(|| {
                        let mut connection = self.serve.connect();
                        let mut codes = Vec::new();
                        loop {
                            let n = next.fetch_add(1, Ordering::Relaxed);
                            if n >= count {
                                return codes;
                            }
                            let body = request(n).to_string();
                            let headers = [("Content-Type", "application/json")];
                            let answer = connection.request("POST", "/", &headers, body.as_bytes()).json();
                            if code(&answer) == -32004 {
                                let retry = answer["error"]["data"]["retryAfter"].as_u64();
                                assert!(retry.is_some_and(|secs| secs > 0), "it says when to try again: {answer}");
                            }
                            codes.push(code(&answer));
                        }
                    })
                })
                .collect();
            workers.into_iter().flat_map(|worker| worker.join().unwrap()).collect()
        })
    }

    fn disk_bytes(&self) -> u64 {
        let files = std::fs::read_dir(self.home.agent("south")).unwrap().flatten();
        files.map(|file| file.metadata().unwrap().len()).sum()
    }

    /// A contact is answered, whatever else happens.
    fn assert_contacts_are_heard(&self) {
        for _ in 0..20 {
            assert_eq!(code(&self.serve.say(&self.west, "hello")), 0);
        }
    }
}

fn asking(to: &str, key: &Key, vc: Option<Value>) -> Value {
    let mut params = json!({"name": "x".repeat(64), "note": "y".repeat(500)});
    if let Some(vc) = vc {
        params["vc"] = vc;
    }
    muretai_tests::trust::asking(to, key, "connect/request", "connect/request", params)
}

/// One row for each DID, and at most as many as may wait.
fn assert_bounded(rows: &[Value]) {
    let mut dids: Vec<&str> = rows.iter().map(|row| row["did"].as_str().unwrap()).collect();
    dids.sort_unstable();
    dids.dedup();
    assert_eq!(dids.len(), rows.len(), "one for each DID");
    assert!(rows.len() <= PENDING, "{} wait", rows.len());
}

#[test]
fn a_thousand_strangers_and_one_who_asks_fifty_times_fill_no_more_than_their_room() {
    for flags in [&["--rate-limit", "off"][..], &[]] {
        let scene = Scene::new(flags);
        let did = scene.serve.did.clone();
        // What the program needs for eight connections is not the strangers' doing.
        scene.flood(64, |n| asking(&did, &Key::nth(100_000 + n), None));
        let (memory, disk) = (scene.serve.resident_kib(), scene.disk_bytes());
        let codes = scene.flood(FRESH, |n| asking(&did, &Key::nth(n), None));
        assert!(codes.iter().all(|code| [0, -32004].contains(code)), "{codes:?}");
        assert_bounded(&waiting(&scene.home, "south"));
        scene.assert_contacts_are_heard();

        let one = Key::of(7);
        let codes = scene.flood(50, |_| asking(&did, &one, None));
        assert!(codes.iter().all(|code| [0, -32004].contains(code)), "{codes:?}");
        let rows = waiting(&scene.home, "south");
        assert_bounded(&rows);
        assert!(rows.iter().filter(|row| row["did"] == one.did()).count() <= 1);
        scene.assert_contacts_are_heard();

        let grown = scene.serve.resident_kib().saturating_sub(memory);
        assert!(grown < 24 * 1_024, "memory grew by {grown} KiB");
        let grown = scene.disk_bytes().saturating_sub(disk);
        assert!(grown < 4 << 20, "the disk holds {grown} bytes more");
    }
}

#[test]
fn the_owner_hears_of_a_flood_in_one_line() {
    let scene = Scene::new(&["--rate-limit", "off"]);
    let did = scene.serve.did.clone();
    scene.flood(200, |n| asking(&did, &Key::nth(n), None));
    let digests = || scene.serve.err().lines().filter(|line| line.contains("wait for you")).count();
    wait::until("the digest", || (digests() > 0).then_some(()));
    scene.flood(200, |n| asking(&did, &Key::nth(1_000 + n), None));
    scene.assert_contacts_are_heard();
    assert_eq!(digests(), 1, "{}", scene.serve.err());
}

#[test]
fn a_contact_who_vouches_for_a_thousand_fills_no_more_than_its_room() {
    let scene = Scene::new(&["--rate-limit", "off"]);
    let did = scene.serve.did.clone();
    let vouched = |n: u32| (Key::nth(n), vc(&scene.west, Key::nth(n).did(), &did, |_| {}));
    let codes = scene.flood(300, |n| {
        let (key, vc) = vouched(n);
        asking(&did, &key, Some(vc))
    });
    assert!(codes.iter().all(|code| [0, -32004].contains(code)), "{codes:?}");
    let connects = waiting(&scene.home, "south");
    assert_bounded(&connects);
    let codes = scene.flood(300, |n| {
        let (key, vc) = vouched(10_000 + n);
        send(&presenting(&key, &did, "hello", &vc))
    });
    assert!(codes.iter().all(|code| [0, -32014].contains(code)), "{codes:?}");
    let held = waiting(&scene.home, "south").iter().filter(|row| row["kind"] == "introduction").count();
    assert!(held <= PENDING / 4, "a contact's introductions have a quarter of the room, not {held}");
    // Another contact still finds room.
    let east = Key::of(3);
    befriend(&scene.home, &scene.serve, "south", &east);
    let north = Key::of(2);
    let good = vc(&east, north.did(), &did, |_| {});
    assert_eq!(code(&scene.serve.call(&send(&presenting(&north, &did, "hello", &good)))), 0);
    scene.assert_contacts_are_heard();
}

#[test]
fn questions_of_strangers_leave_nothing_behind() {
    let scene = Scene::new(&["--rate-limit", "off"]);
    let did = scene.serve.did.clone();
    scene.flood(64, |n| send(&Key::nth(n).message(&did, "hello")));
    let (memory, disk) = (scene.serve.resident_kib(), scene.disk_bytes());
    for (method, text) in [
        ("trust/status", "trust/status".to_owned()),
        ("introduction/request", format!("introduce-me-to:{}", scene.west.did())),
        ("referral/request", "who knows law?".to_owned()),
        ("connect/respond", "connect/respond".to_owned()),
    ] {
        scene.flood(250, |n| {
            let params = json!({"decision": "accept"});
            muretai_tests::trust::asking(&did, &Key::nth(n), method, &text, params)
        });
    }
    assert_eq!(waiting(&scene.home, "south").len(), 0);
    let grown = scene.serve.resident_kib().saturating_sub(memory);
    assert!(grown < 24 * 1_024, "memory grew by {grown} KiB");
    let grown = scene.disk_bytes().saturating_sub(disk);
    assert!(grown < 4 << 20, "the disk holds {grown} bytes more");
    let answer = call(&scene.serve, &scene.west, "trust/status", "trust/status", json!({}));
    assert_eq!(answer["result"]["relation"], "direct");
}
