//! Bodies and ids of every kind (sections 1.2, 5.1, 12.4): an answer with the right code, never a dead process.
use muretai_tests::{
    Home, Response, Serve,
    rpc::{self, Fields, Key, code, send},
};
use serde_json::{Value, json};

fn door() -> (Home, Serve) {
    let home = Home::with_agent("south");
    let serve = home.serve("south", &["--open-door", "--rate-limit", "off"]);
    (home, serve)
}

#[track_caller]
fn refused(response: &Response, status: u16, want: i64) {
    assert_eq!(response.status, status, "{}", response.text());
    let answer = response.json();
    assert_eq!(code(&answer), want, "{answer}");
    assert_eq!(answer["id"], Value::Null, "{answer}");
}

#[test]
fn bytes_that_are_not_json_are_a_parse_error() {
    let (_home, serve) = door();
    let good = send(&Key::of(1).message(&serve.did, "hello")).to_string();
    let utf16: Vec<u8> = good.encode_utf16().flat_map(u16::to_le_bytes).collect();
    let mut utf16_be = vec![0xfe, 0xff];
    utf16_be.extend(good.encode_utf16().flat_map(u16::to_be_bytes));
    let mut bom = vec![0xef, 0xbb, 0xbf];
    bom.extend(good.bytes());
    let mut truncated_utf8 = good.clone().into_bytes();
    truncated_utf8.extend([0xe2, 0x82]);
    let bodies: Vec<(&str, Vec<u8>)> = vec![
        ("empty", vec![]),
        ("a brace", b"{".to_vec()),
        ("truncated", good.as_bytes()[..good.len() - 1].to_vec()),
        ("trailing", format!("{good}x").into_bytes()),
        ("two documents", format!("{good}{good}").into_bytes()),
        ("UTF-8 byte order mark", bom),
        ("UTF-16 without a mark", utf16),
        ("UTF-16 with a mark", utf16_be),
        ("truncated UTF-8", truncated_utf8),
        ("overlong UTF-8", b"{\"a\":\"\xc0\xaf\"}".to_vec()),
        ("surrogate as bytes", b"{\"a\":\"\xed\xa0\x80\"}".to_vec()),
        ("lone surrogate", good.replace("hello", "\\ud800").into_bytes()),
        ("lone low surrogate", good.replace("hello", "\\udc00").into_bytes()),
        ("reversed pair", good.replace("hello", "\\udc00\\ud800").into_bytes()),
        ("lone surrogate in a key", good.replacen("\"kind\"", "\"\\udc00\"", 1).into_bytes()),
        ("lone surrogate as id", good.replace("\"id\":1", "\"id\":\"\\ud800\"").into_bytes()),
        ("NaN", good.replace("\"id\":1", "\"id\":NaN").into_bytes()),
        ("single quotes", b"{'a':1}".to_vec()),
        ("a comment", format!("{good}//").into_bytes()),
        ("100,000 arrays", [vec![b'['; 100_000], vec![b']'; 100_000]].concat()),
        ("100,000 open arrays", vec![b'['; 100_000]),
        ("100,000 objects", "{\"a\":".repeat(100_000).into_bytes()),
        (
            "deep params",
            good.replace("\"id\":1", &format!("\"id\":1,\"x\":{}{}", "[".repeat(50_000), "]".repeat(50_000)))
                .into_bytes(),
        ),
    ];
    for (what, body) in bodies {
        let response = serve.post(&body);
        assert_eq!(response.status, 400, "{what}: {}", response.text());
        assert_eq!(code(&response.json()), -32700, "{what}");
        assert_eq!(response.json()["id"], Value::Null);
    }
    assert_eq!(code(&serve.say(&Key::of(1), "still here")), 0);
}

#[test]
fn json_that_is_no_object_is_an_invalid_request() {
    let (_home, serve) = door();
    for body in ["[]", "[{\"jsonrpc\":\"2.0\"}]", "5", "\"text\"", "null", "true", " [1] "] {
        refused(&serve.post(body.as_bytes()), 400, -32600);
    }
}

#[test]
fn the_content_type_is_not_checked() {
    let (_home, serve) = door();
    for kind in ["text/plain", "application/x-www-form-urlencoded", "nonsense"] {
        let body = send(&Key::of(1).message(&serve.did, "hello")).to_string();
        let answer = serve.request("POST", "/", &[("Content-Type", kind)], body.as_bytes());
        assert_eq!(code(&answer.json()), 0);
    }
}

#[test]
fn a_mebibyte_is_read_and_one_byte_more_is_not() {
    let (_home, serve) = door();
    let good = send(&Key::of(1).message(&serve.did, "hello")).to_string();
    let full = format!("{good}{}", " ".repeat(1_048_576 - good.len()));
    assert_eq!(code(&serve.post(full.as_bytes()).json()), 0);
    let over = format!("{full} ");
    for _ in 0..3 {
        let answer = serve.post(over.as_bytes());
        assert_eq!(answer.status, 413);
        assert!(answer.json().is_object(), "a JSON body: {}", answer.text());
    }
}

#[test]
fn an_oversized_upload_sees_its_answer() {
    let (_home, serve) = door();
    let answer = serve.post(&vec![b'x'; 8 * 1_048_576]);
    assert_eq!(answer.status, 413, "{}", answer.text());
}

#[test]
fn an_endless_chunked_body_is_cut_off() {
    let (_home, serve) = door();
    let mut connection = serve.connect();
    let head = format!("POST / HTTP/1.1\r\nHost: {}\r\nTransfer-Encoding: chunked\r\n\r\n", serve.addr);
    assert!(connection.write(head.as_bytes()));
    let chunk = [b"10000\r\n".to_vec(), vec![b' '; 65_536], b"\r\n".to_vec()].concat();
    // 64 MiB: twice what is drained for the sender's sake. The receiver hangs up on the way.
    let sent = (0..1024).take_while(|_| connection.write(&chunk)).count();
    assert!(sent < 1024, "all of it was taken");
    if let Some(answer) = connection.try_read(false) {
        assert_eq!(answer.status, 413);
    }
    assert_eq!(code(&serve.say(&Key::of(1), "still here")), 0);
}

#[test]
fn a_chunked_body_within_the_limits_is_fine() {
    let (_home, serve) = door();
    let good = send(&Key::of(1).message(&serve.did, "hello")).to_string();
    let (first, second) = good.split_at(100);
    let body = format!("{:x}\r\n{first}\r\n{:x};ext=1\r\n{second}\r\n0\r\n\r\n", first.len(), second.len());
    let answer = serve.request("POST", "/", &[("Transfer-Encoding", "chunked")], body.as_bytes());
    assert_eq!(code(&answer.json()), 0, "{}", answer.text());
}

#[test]
fn an_id_comes_back_as_it_went_or_as_null() {
    let (_home, serve) = door();
    let good = send(&Key::of(1).message(&serve.did, "hello"));
    let long = format!("\"{}\"", "x".repeat(200));
    let echoed =
        ["1", "0", "-1", "\"1\"", "\"\"", "null", &long, "9007199254740991", "-9007199254740991", "\"\\u00e9\""];
    for id in echoed {
        let answer = with_raw_id(&serve, &good, id);
        let want: Value = serde_json::from_str(id).unwrap();
        assert_eq!(answer["id"], want, "id {id}");
    }
    let nulled = ["{}", "{\"a\":1}", "[]", "[1]", "true", "false", "1e300", "99999999999999999999", "-1e300"];
    for id in nulled {
        let answer = with_raw_id(&serve, &good, id);
        assert_eq!(answer["id"], Value::Null, "id {id}");
    }
    let fraction = with_raw_id(&serve, &good, "1.5");
    assert!(fraction["id"] == json!(1.5) || fraction["id"].is_null());
}

/// Sends with a raw id member; the id never changes the verdict.
#[track_caller]
fn with_raw_id(serve: &Serve, good: &Value, id: &str) -> Value {
    let mut request = good.clone();
    request["method"] = json!("no/such");
    let raw = request.to_string().replacen("\"id\":1", &format!("\"id\":{id}"), 1);
    let response = serve.post(raw.as_bytes());
    assert_eq!(response.status, 200, "id {id}: {}", response.text());
    let answer = response.json();
    assert_eq!(code(&answer), -32601, "id {id}: {answer}");
    answer
}

#[test]
fn a_notification_is_processed_and_answered_under_null() {
    let (home, serve) = door();
    let mut request = send(&Key::of(1).message(&serve.did, "no id"));
    request.as_object_mut().unwrap().remove("id");
    let response = serve.post(request.to_string().as_bytes());
    assert_eq!((response.status, code(&response.json())), (200, 0));
    assert_eq!(response.json()["id"], Value::Null);
    assert_eq!(home.inbox("south").len(), 1);
}

#[test]
fn of_duplicate_keys_the_last_one_counts() {
    let (home, serve) = door();
    let key = Key::of(1);
    let good = send(&key.message(&serve.did, "what was signed")).to_string();
    let first = good.replacen("\"parts\":", "\"parts\":[{\"kind\":\"text\",\"text\":\"another\"}],\"parts\":", 1);
    assert_eq!(code(&serve.post(first.as_bytes()).json()), 0);
    let good = send(&key.message(&serve.did, "signed")).to_string();
    let last = good.replacen("\"metadata\":", "\"parts\":[{\"kind\":\"text\",\"text\":\"another\"}],\"metadata\":", 1);
    assert_eq!(code(&serve.post(last.as_bytes()).json()), -32001);
    let texts: Vec<String> = home.inbox("south").iter().map(|m| m["text"].as_str().unwrap().to_owned()).collect();
    assert_eq!(texts, ["what was signed"]);
}

#[test]
fn numbers_that_are_no_numbers_are_refused_where_they_matter() {
    let (_home, serve) = door();
    let key = Key::of(1);
    for token in ["1.5", "1e10", "1E+3", "-0.0"] {
        let message = key.message(&serve.did, "hello");
        let now = message["metadata"]["timestamp"].to_string();
        let raw =
            send(&message).to_string().replace(&format!("\"timestamp\":{now}"), &format!("\"timestamp\":{token}"));
        let response = serve.post(raw.as_bytes());
        let answer = response.json();
        assert_eq!((response.status, code(&answer)), (200, -32002), "{token}: {answer}");
    }
    for (place, token) in [("\"id\":1", "1e400"), ("\"kind\":\"message\"", "-1e400")] {
        let good = send(&key.message(&serve.did, "hello")).to_string();
        let response = serve.post(good.replacen(place, &format!("{place},\"x\":[{token}]"), 1).as_bytes());
        assert_eq!((response.status, code(&response.json())), (400, -32700), "{token}");
    }
    // Elsewhere they are unsigned decoration and are ignored.
    let mut message = key.message(&serve.did, "hello");
    message["metadata"]["level"] = json!("LEVEL");
    let raw = send(&message).to_string().replace("\"LEVEL\"", "1.5e3");
    assert_eq!(code(&serve.post(raw.as_bytes()).json()), 0);
}

#[test]
fn text_arrives_byte_for_byte() {
    let (home, serve) = door();
    let key = Key::of(1);
    let texts = [
        "",
        " ",
        "- a dash",
        "--help",
        "@file",
        "日本語 / \u{1f600}",
        "e\u{301}",
        "\u{e9}",
        "a\nb\r\nc\ttab",
        "\u{fffd}",
        "\"quotes\" \\ and </script>",
        "\u{2028}\u{2029}\u{7f}\u{0}\u{1f}",
    ];
    for text in texts {
        let message = key.signed(&Fields { to: serve.did.clone(), text: text.into(), ..Fields::default() });
        let answer = serve.call(&send(&message));
        assert_eq!(code(&answer), 0, "{text:?}: {answer}");
        rpc::reply_text(&answer, &serve.did, &message);
    }
    let stored: Vec<String> = home.inbox("south").iter().map(|m| m["text"].as_str().unwrap().to_owned()).collect();
    assert_eq!(stored, texts);
}

#[test]
fn parts_that_are_not_text_are_not_signed_and_not_lost() {
    let (home, serve) = door();
    let key = Key::of(1);
    let mut message = key.message(&serve.did, "see the file");
    message["parts"].as_array_mut().unwrap().push(json!({"kind": "file", "file": {"name": "a.txt", "bytes": "aGk="}}));
    message["parts"].as_array_mut().unwrap().push(json!("not an object"));
    assert_eq!(code(&serve.call(&send(&message))), 0);
    let stored = &home.inbox("south")[0];
    assert_eq!(stored["text"], "see the file");
    assert!(stored.to_string().contains("a.txt"), "kept and listed: {stored}");
}
