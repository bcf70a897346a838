//! What can be read without a key: cards, methods, addresses (sections 6.1, 6.6, 12.3).
use muretai_protocol::{Did, UnixSeconds, card, json};
use muretai_tests::{
    Home, Response, Serve,
    http::{CARD, OLD_CARD, SIGNED_CARD},
    rpc::{self, Key},
};

fn south() -> (Home, Serve) {
    let home = Home::with_agent("south");
    let serve = home.serve("south", &[]);
    (home, serve)
}

fn get(serve: &Serve, path: &str) -> Response {
    serve.request("GET", path, &[], b"")
}

#[test]
fn the_card_is_byte_identical_on_both_paths_and_head_has_its_length() {
    let (_home, serve) = south();
    let card = get(&serve, CARD);
    let old = get(&serve, OLD_CARD);
    assert_eq!((card.status, old.status), (200, 200));
    assert_eq!(card.body, old.body);
    assert_eq!(card.header("content-type"), Some("application/json; charset=utf-8"));
    for path in [CARD, OLD_CARD] {
        let head = serve.request("HEAD", path, &[], b"");
        assert_eq!((head.status, head.body.len()), (200, 0), "HEAD {path}");
        assert_eq!(head.header("content-length"), Some(card.body.len().to_string().as_str()));
    }
    let value = card.json();
    for field in ["name", "description", "version", "capabilities", "defaultInputModes", "defaultOutputModes"] {
        assert!(!value[field].is_null(), "the card has {field}");
    }
    assert_eq!(value["url"], serve.url.as_str());
    assert_eq!(value["protocolVersion"], "0.2");
    assert_eq!(value["skills"][0]["id"], "chat");
    assert_eq!(value["supportedInterfaces"][0]["protocolBinding"], "JSONRPC");
}

#[test]
fn the_signed_envelope_proves_the_card_that_is_served_and_is_not_signed_per_request() {
    let (_home, serve) = south();
    let first = get(&serve, SIGNED_CARD);
    assert_eq!(first.status, 200);
    assert_eq!(first.body, get(&serve, SIGNED_CARD).body);
    let plain = json::parse(&get(&serve, CARD).body).unwrap();
    let did: Did = serve.did.parse().unwrap();
    let expect = card::Expect {
        did: Some(&did),
        plain_card: Some(&plain),
        dialled: Some(&serve.url),
        now: UnixSeconds(rpc::now()),
    };
    let envelope = json::parse(&first.body).unwrap();
    assert_eq!(card::verify_envelope(&envelope, &expect).unwrap().did, did);
}

#[test]
fn every_address_answers_each_method_as_the_table_says() {
    let (_home, serve) = south();
    let card_methods = "GET, HEAD, OPTIONS";
    let door_methods = "GET, HEAD, POST, OPTIONS";
    let rows: [(&str, &str, u16, Option<&str>); 22] = [
        ("OPTIONS", "/", 204, Some(door_methods)),
        ("OPTIONS", CARD, 204, Some(card_methods)),
        ("OPTIONS", OLD_CARD, 204, Some(card_methods)),
        ("OPTIONS", SIGNED_CARD, 204, Some(card_methods)),
        ("GET", "/", 200, None),
        ("HEAD", "/", 200, None),
        ("PUT", "/", 405, Some(door_methods)),
        ("DELETE", "/", 405, Some(door_methods)),
        ("PATCH", "/", 405, Some(door_methods)),
        ("POST", CARD, 405, Some(card_methods)),
        ("POST", OLD_CARD, 405, Some(card_methods)),
        ("PUT", SIGNED_CARD, 405, Some(card_methods)),
        ("GET", "/nowhere", 404, None),
        ("POST", "/nowhere", 404, None),
        ("OPTIONS", "/nowhere", 404, None),
        ("DELETE", "/nowhere", 404, None),
        ("POST", "/rpc", 404, None),
        ("POST", "/?x=1", 404, None),
        ("GET", "//", 404, None),
        ("POST", "//", 404, None),
        ("GET", "http://elsewhere.example/", 404, None),
        ("GET", "/.well-known/../.well-known/agent-card.json", 404, None),
    ];
    for (method, path, status, allow) in rows {
        let answer = serve.request(method, path, &[], b"");
        assert_eq!(answer.status, status, "{method} {path}: {}", answer.text());
        if let Some(allow) = allow {
            assert_eq!(answer.header("allow"), Some(allow), "{method} {path}");
        }
        if status == 204 {
            assert_eq!(answer.header("access-control-allow-methods"), allow, "{method} {path}");
        }
    }
}

#[test]
fn every_answer_may_be_read_by_a_web_page_and_none_takes_credentials() {
    let (_home, serve) = south();
    for (method, path) in
        [("GET", CARD), ("GET", "/"), ("GET", "/nowhere"), ("PUT", "/"), ("OPTIONS", "/"), ("POST", "/")]
    {
        let answer = serve.request(method, path, &[("Origin", "https://page.example")], b"");
        assert_eq!(answer.header("access-control-allow-origin"), Some("*"), "{method} {path}");
        assert_eq!(answer.header("access-control-allow-credentials"), None, "{method} {path}");
    }
}

#[test]
fn the_door_itself_tells_who_lives_here_and_where_the_card_is() {
    let (_home, serve) = south();
    let notice = get(&serve, "/");
    assert!(notice.header("content-type").unwrap().starts_with("text/plain"));
    assert!(notice.text().contains(&serve.did), "{}", notice.text());
    let link = notice.header("link").expect("a Link header");
    assert!(link.contains(CARD) && link.contains("service-desc"), "{link}");
}

#[test]
fn absolute_targets_are_refused_with_a_reason() {
    let (_home, serve) = south();
    for path in ["http://elsewhere.example/", "//elsewhere.example/"] {
        let answer = get(&serve, path);
        assert_eq!(answer.status, 404);
        assert!(answer.text().contains("detail"), "{}", answer.text());
    }
}

#[test]
fn doubtful_framing_is_refused_before_anything_is_read() {
    let (_home, serve) = south();
    let body = r#"{"jsonrpc":"2.0","id":1,"method":"x"}"#;
    let length = body.len().to_string();
    let frames: [&[(&str, &str)]; 6] = [
        &[("Content-Length", &length), ("Content-Length", &length)],
        &[("Content-Length", &length), ("Content-Length", "5")],
        &[("Content-Length", &length), ("Transfer-Encoding", "chunked")],
        &[("Transfer-Encoding", "chunked"), ("Content-Length", &length)],
        &[("Content-Length", "+37")],
        &[("Content-Length", "0x25")],
    ];
    for headers in frames {
        let answer = serve.request("POST", "/", headers, body.as_bytes());
        assert_eq!(answer.status, 400, "{headers:?}: {}", answer.text());
    }
    assert_eq!(get(&serve, CARD).status, 200);
}

#[test]
fn one_connection_carries_many_requests_and_a_pipelined_one_is_answered_in_order() {
    let (_home, serve) = south();
    let key = Key::of(7);
    let mut connection = serve.connect();
    for _ in 0..3 {
        assert_eq!(connection.request("GET", CARD, &[], b"").status, 200);
    }
    let body = rpc::send(&key.message(&serve.did, "two in one write")).to_string();
    let host = serve.addr.to_string();
    let mut both = muretai_tests::http::encode(&host, "GET", CARD, &[], b"");
    both.extend(muretai_tests::http::encode(&host, "POST", "/", &[], body.as_bytes()));
    connection.write(&both);
    assert_eq!(connection.read(false).json()["did"], serve.did.as_str());
    assert_eq!(rpc::code(&connection.read(false).json()), -32010);
}
