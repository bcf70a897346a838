//! The receive ladder (section 4.1): each row violated alone, each with every later row violated too, in both
//! profiles: a node that answers contacts, and a door that answers anyone.
use muretai_tests::{
    Home, Serve,
    rpc::{self, Fields, Key, code, request, send},
};
use serde_json::{Value, json};

#[derive(Clone, Copy, Debug, PartialEq)]
enum Profile {
    Node,
    Door,
}

/// A receiver, and a peer whose well-formed message it answers.
struct Receiver {
    profile: Profile,
    serve: Serve,
    peer: Key,
    _home: Home,
}

impl Receiver {
    fn start(profile: Profile) -> Receiver {
        let home = Home::with_agent("south");
        let flags: &[&str] = match profile {
            Profile::Node => &["--rate-limit", "off"],
            Profile::Door => &["--rate-limit", "off", "--open-door"],
        };
        let serve = home.serve("south", flags);
        let peer = Key::of(1);
        if profile == Profile::Node {
            let invite = home.invite("south");
            let mut claim = request("onboard/claim", json!({"nonce": invite["nonce"], "name": "north"}));
            claim["params"]["message"] = peer.message(&serve.did, "onboard/claim");
            assert_eq!(code(&serve.call(&claim)), 0);
        }
        Receiver { profile, serve, peer, _home: home }
    }

    fn good(&self) -> Value {
        send(&self.peer.message(&self.serve.did, "hello"))
    }

    fn fields(&self) -> Fields {
        Fields { to: self.serve.did.clone(), ..Fields::default() }
    }

    #[track_caller]
    fn expect(&self, what: &str, request: &Value, want: i64) -> Value {
        let response = self.serve.post(request.to_string().as_bytes());
        assert_eq!(response.status, 200, "{:?}, {what}: protocol verdicts are HTTP 200", self.profile);
        let answer = response.json();
        assert_eq!(code(&answer), want, "{:?}, {what}: {answer}", self.profile);
        assert_eq!(answer["id"], request.get("id").cloned().unwrap_or(Value::Null), "{what}");
        answer
    }
}

fn both() -> [Receiver; 2] {
    [Receiver::start(Profile::Node), Receiver::start(Profile::Door)]
}

fn with(mut request: Value, path: &str, value: Value) -> Value {
    *request.pointer_mut(path).unwrap_or_else(|| panic!("no {path}")) = value;
    request
}

fn without(mut request: Value, parent: &str, member: &str) -> Value {
    let object = request.pointer_mut(parent).and_then(Value::as_object_mut).unwrap();
    assert!(object.remove(member).is_some(), "no {member} in {parent}");
    request
}

#[test]
fn a_well_formed_message_is_answered_with_a_signed_reply() {
    for receiver in both() {
        let sent = receiver.peer.message(&receiver.serve.did, "hello");
        let answer = receiver.expect("good", &send(&sent), 0);
        rpc::reply_text(&answer, &receiver.serve.did, &sent);
        let sent = receiver.peer.signed(&Fields { context_id: Some("thread-1".into()), ..receiver.fields() });
        let answer = receiver.expect("with a context", &send(&sent), 0);
        rpc::reply_text(&answer, &receiver.serve.did, &sent);
    }
}

#[test]
fn the_frame_is_judged_first() {
    for receiver in both() {
        // As a Door the method alone decides (row c of the ladder).
        let (no_method, no_version) = match receiver.profile {
            Profile::Node => (-32600, -32600),
            Profile::Door => (-32601, 0),
        };
        receiver.expect("no method", &without(receiver.good(), "", "method"), no_method);
        receiver.expect("method 5", &with(receiver.good(), "/method", json!(5)), no_method);
        receiver.expect("method null", &with(receiver.good(), "/method", Value::Null), no_method);
        receiver.expect("no jsonrpc", &without(receiver.good(), "", "jsonrpc"), no_version);
        receiver.expect("jsonrpc 1.0", &with(receiver.good(), "/jsonrpc", json!("1.0")), no_version);
        receiver.expect("jsonrpc 2", &with(receiver.good(), "/jsonrpc", json!(2)), no_version);
    }
}

#[test]
fn an_unknown_method_is_told_which_are_known() {
    for receiver in both() {
        for method in ["message/stream", "Message/Send", " message/send", "tasks/get", ""] {
            let answer = receiver.expect(method, &with(receiver.good(), "/method", json!(method)), -32601);
            let data = &answer["error"]["data"];
            assert_eq!(data["method"], method);
            assert!(data["methods"].as_array().unwrap().contains(&json!("message/send")), "{data}");
            assert!(data["version"].is_string() && data["protocolVersion"].is_string(), "{data}");
        }
    }
}

#[test]
fn params_of_the_wrong_type_are_invalid() {
    for receiver in both() {
        receiver.expect("no params", &without(receiver.good(), "", "params"), -32602);
        for params in [json!("text"), json!([]), json!(5), json!(null), json!(true), json!({})] {
            receiver.expect("params", &with(receiver.good(), "/params", params), -32602);
        }
        for message in [json!([]), json!("text"), json!(5), json!(null)] {
            receiver.expect("message", &with(receiver.good(), "/params/message", message), -32602);
        }
    }
}

#[test]
fn a_message_of_the_wrong_shape_is_an_invalid_request() {
    for receiver in both() {
        let message = "/params/message";
        for (member, values) in [
            ("kind", vec![json!("task"), json!(5), json!(null), json!("Message")]),
            ("parts", vec![json!("text"), json!({}), json!(5)]),
            ("messageId", vec![json!(""), json!("  "), json!(5), json!(null), json!({})]),
            ("contextId", vec![json!(5), json!({}), json!(false)]),
            ("metadata", vec![json!("x"), json!([]), json!(5)]),
        ] {
            for value in values {
                let what = format!("{member} {value}");
                receiver.expect(&what, &with(receiver.good(), &format!("{message}/{member}"), value), -32600);
            }
        }
        for member in ["kind", "messageId"] {
            receiver.expect(member, &without(receiver.good(), message, member), -32600);
        }
        for member in ["from", "to", "sig"] {
            for value in [json!(5), json!({}), json!([]), json!(false)] {
                let path = format!("{message}/metadata/{member}");
                receiver.expect(member, &with(receiver.good(), &path, value), -32600);
            }
        }
        receiver.expect("text 5", &with(receiver.good(), "/params/message/parts/0/text", json!(5)), -32600);
    }
}

#[test]
fn text_is_measured_in_bytes_before_any_cryptography() {
    for receiver in both() {
        let fits = "é".repeat(32_768);
        receiver.expect("65,536 bytes", &send(&receiver.peer.message(&receiver.serve.did, &fits)), 0);
        let unsigned = with(receiver.good(), "/params/message/parts/0/text", json!(format!("{fits}x")));
        receiver.expect("65,537 bytes", &unsigned, -32005);
        let halves =
            json!([{"kind": "text", "text": "x".repeat(32_768)}, {"kind": "text", "text": "x".repeat(32_768)}]);
        receiver.expect("65,537 with the LF", &with(receiver.good(), "/params/message/parts", halves), -32005);
    }
}

#[test]
fn a_message_without_any_envelope_is_taught_and_a_partial_one_is_not() {
    for receiver in both() {
        let card = receiver.serve.request("GET", muretai_tests::http::CARD, &[], b"").json();
        let requirement = &card["securitySchemes"]["did-key-ed25519"]["agentEntry"];
        assert!(requirement.is_object(), "{card}");
        for metadata in [json!({}), json!(null), json!({"timestamp": rpc::now()})] {
            let unsigned = with(receiver.good(), "/params/message/metadata", metadata);
            let answer = receiver.expect("unsigned", &unsigned, -32001);
            assert_eq!(&answer["error"]["data"]["accepts"][0], requirement);
        }
        for member in ["from", "to", "sig"] {
            let partial = without(receiver.good(), "/params/message/metadata", member);
            let answer = receiver.expect(member, &partial, -32001);
            assert!(answer["error"]["data"]["accepts"].is_null(), "{answer}");
        }
    }
}

#[test]
fn a_message_for_someone_else_is_refused() {
    for receiver in both() {
        let elsewhere = send(&receiver.peer.message(Key::of(9).did(), "hello"));
        receiver.expect("to another DID", &elsewhere, -32003);
        let spelled = send(&receiver.peer.message(&format!("{} ", receiver.serve.did), "hello"));
        receiver.expect("a trailing blank", &spelled, -32003);
    }
}

#[test]
fn time_is_an_integer_within_five_minutes() {
    for receiver in both() {
        let now = rpc::now();
        let timed = |timestamp: Value| send(&receiver.peer.signed(&Fields { timestamp, ..receiver.fields() }));
        for good in [now - 290, now + 290] {
            receiver.expect("within", &timed(json!(good)), 0);
        }
        for bad in [json!(now - 310), json!(now + 310), json!(now * 1000), json!(0), json!(-now), json!(i64::MIN)] {
            let answer = receiver.serve.call(&timed(bad.clone()));
            assert_eq!(code(&answer), -32002, "{bad}: {answer}");
            assert_ne!(answer["error"]["data"]["duplicate"], true);
        }
        for bad in [json!(now.to_string()), json!(true), json!(null), json!([]), json!({}), json!(now as f64 + 0.5)] {
            receiver.expect("not an integer", &timed(bad), -32002);
        }
        let absent = without(receiver.good(), "/params/message/metadata", "timestamp");
        receiver.expect("absent", &absent, -32002);
    }
}

#[test]
fn an_integral_float_stands_for_its_integer() {
    for receiver in both() {
        let now = rpc::now();
        // A protobuf SDK signs the integer and writes the float.
        let message = receiver.peer.signed(&Fields { timestamp: json!(now), ..receiver.fields() });
        let raw =
            send(&message).to_string().replace(&format!("\"timestamp\":{now}"), &format!("\"timestamp\":{now}.0"));
        assert!(raw.contains(".0"));
        let answer = receiver.serve.post(raw.as_bytes()).json();
        assert_eq!(code(&answer), 0, "{answer}");
    }
}

#[test]
fn a_signature_must_verify_under_the_sender() {
    for receiver in both() {
        let other = Key::of(9);
        let lent = other.signed(&Fields { from: Some(receiver.peer.did().to_owned()), ..receiver.fields() });
        receiver.expect("signed by another key", &send(&lent), -32001);
        let changed = [
            ("/params/message/parts/0/text", json!("changed")),
            ("/params/message/messageId", json!(rpc::fresh_id())),
            ("/params/message/contextId", json!("changed")),
            ("/params/message/metadata/timestamp", json!(rpc::now() - 1)),
            ("/params/message/metadata/from", json!(other.did())),
            ("/params/message/metadata/sig", json!("")),
            ("/params/message/metadata/sig", json!("AAAA")),
            ("/params/message/metadata/sig", json!("A".repeat(86) + "==")),
            ("/params/message/metadata/from", json!("did:key:z6Mk")),
            ("/params/message/metadata/from", json!("did:web:example.com")),
            ("/params/message/metadata/from", json!(format!("did:key:z{}", "1".repeat(100_000)))),
        ];
        for (path, value) in changed {
            receiver.expect(path, &with(receiver.good(), path, value), -32001);
        }
    }
}

#[test]
fn a_key_that_anybody_can_sign_for_is_nobody() {
    use muretai_protocol::did::PublicKey;
    let mut identity = [0; 32];
    identity[0] = 1;
    let did = muretai_protocol::Did::from_key(&PublicKey::Ed25519(identity));
    let mut blob = identity.to_vec();
    blob.extend([0; 32]);
    for receiver in both() {
        let mut message = receiver.peer.message(&receiver.serve.did, "any text");
        message["metadata"]["from"] = json!(did.as_str());
        message["metadata"]["sig"] = json!(muretai_protocol::base64::encode(&blob));
        receiver.expect("small-order key", &send(&message), -32001);
    }
}

#[test]
fn a_seen_message_is_a_replay_and_a_seen_id_with_a_bad_signature_follows_the_profile() {
    for receiver in both() {
        let good = receiver.good();
        receiver.expect("first", &good, 0);
        let answer = receiver.expect("second", &good, -32002);
        assert_eq!(answer["error"]["data"]["duplicate"], true, "{answer}");
        let forged = with(good, "/params/message/metadata/sig", json!("A".repeat(86) + "=="));
        let want = if receiver.profile == Profile::Node { -32002 } else { -32001 };
        receiver.expect("forged copy of a seen id", &forged, want);
    }
}

#[test]
fn a_forged_copy_does_not_use_up_an_id() {
    for receiver in both() {
        let good = receiver.good();
        let forged = with(good.clone(), "/params/message/metadata/sig", json!("A".repeat(86) + "=="));
        receiver.expect("forged first", &forged, -32001);
        receiver.expect("the owner's own", &good, 0);
    }
}

#[test]
fn strangers_meet_the_gate_last() {
    let stranger = Key::of(5);
    let node = Receiver::start(Profile::Node);
    let answer = node.expect("stranger", &send(&stranger.message(&node.serve.did, "hello")), -32010);
    assert_eq!(answer["error"]["message"], "Introduction required");
    let door = Receiver::start(Profile::Door);
    door.expect("stranger", &send(&stranger.message(&door.serve.did, "hello")), 0);
}

#[test]
fn the_first_violation_answers_when_all_later_rows_are_violated_too() {
    for receiver in both() {
        let stranger = Key::of(6);
        let forged = json!("A".repeat(86) + "==");
        let mut request = send(&stranger.message(&receiver.serve.did, "hello"));
        let mut step = |what: &str, change: &dyn Fn(&mut Value), want: i64| {
            change(&mut request);
            receiver.expect(what, &request, want);
        };
        step("signature", &|r| r["params"]["message"]["metadata"]["sig"] = forged.clone(), -32001);
        step("stale", &|r| r["params"]["message"]["metadata"]["timestamp"] = json!(1), -32002);
        step("recipient", &|r| r["params"]["message"]["metadata"]["to"] = json!(stranger.did()), -32003);
        step("envelope", &|r| r["params"]["message"]["metadata"]["sig"] = json!(null), -32001);
        step("text", &|r| r["params"]["message"]["parts"][0]["text"] = json!("x".repeat(70_000)), -32005);
        step("shape", &|r| r["params"]["message"]["kind"] = json!("task"), -32600);
        step("params", &|r| r["params"]["message"] = json!([]), -32602);
        step("method", &|r| r["method"] = json!("no/such"), -32601);
        if receiver.profile == Profile::Node {
            step("frame", &|r| r["jsonrpc"] = json!("1.0"), -32600);
        }
    }
}

#[test]
fn unknown_members_are_ignored_and_null_reads_as_absent() {
    for receiver in both() {
        let mut request = receiver.good();
        request["extra"] = json!({"a": [1, 2]});
        request["params"]["extra"] = json!(1.5);
        request["params"]["message"]["extra"] = json!("x");
        request["params"]["message"]["extensions"] = json!([]);
        request["params"]["message"]["metadata"]["unknown"] = json!({"deep": {"er": null}});
        for known in ["vc", "coordination", "group", "replyTo", "deal", "keystate", "binding", "sigs", "offer"] {
            request["params"]["message"]["metadata"][known] = Value::Null;
        }
        request["params"]["message"]["metadata"]["auto"] = json!(false);
        receiver.expect("grease", &request, 0);
    }
}

#[test]
fn extra_signatures_of_the_wrong_shape_are_refused() {
    for receiver in both() {
        for sigs in [
            json!({}),
            json!("x"),
            json!([5]),
            json!([{"alg": "ed25519-pub"}]),
            json!([{"alg": "ed25519-pub", "sig": "A".repeat(86) + "=="}]),
            json!([{"alg": "p256-pub", "sig": "A".repeat(86) + "=="}]),
        ] {
            let mut request = receiver.good();
            request["params"]["message"]["metadata"]["sigs"] = sigs.clone();
            let answer = receiver.serve.call(&request);
            assert!([-32001, -32600].contains(&code(&answer)), "{sigs}: {answer}");
        }
        let mut request = receiver.good();
        request["params"]["message"]["metadata"]["sigs"] = json!([{"alg": "of-tomorrow", "sig": "x"}]);
        receiver.expect("an unknown algorithm is skipped", &request, 0);
    }
}
