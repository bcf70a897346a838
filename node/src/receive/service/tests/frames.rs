//! The JSON-RPC frame: ids, methods, encodings, neighbouring versions.
use crate::receive::testing::*;
use muretai_protocol::json::{self, Value};

#[tokio::test]
async fn ids_of_every_shape_are_echoed_or_nulled() {
    let world = world(|_| {}).await;
    let long = format!("\"{}\"", "x".repeat(200));
    let echoed = ["\"1\"", "1", "0", "\"\"", "null", "-7", "9007199254740991", long.as_str()];
    for id in echoed {
        let body = format!(r#"{{"jsonrpc":"2.0","id":{id},"method":"nothing"}}"#);
        let (status, answer) = world.raw(body, None).await;
        assert_eq!((status, code(&answer)), (200, -32601));
        assert_eq!(*answer.as_object().unwrap().get("id").unwrap(), json::parse(id.as_bytes()).unwrap(), "{id}");
    }
    for id in ["{}", "[]", "[1]", "true", "99999999999999999999"] {
        let body = format!(r#"{{"jsonrpc":"2.0","id":{id},"method":"nothing"}}"#);
        let (status, answer) = world.raw(body, None).await;
        assert_eq!(status, 200, "{id}");
        assert_eq!(*answer.as_object().unwrap().get("id").unwrap(), Value::Null, "{id}");
    }
    let (status, answer) = world.raw(r#"{"jsonrpc":"2.0","method":"nothing"}"#, None).await;
    assert_eq!((status, answer.as_object().unwrap().get("id").unwrap()), (200, &Value::Null), "a notification");
}

#[tokio::test]
async fn what_is_no_request_gets_400() {
    let world = world(|_| {}).await;
    let utf16: Vec<u8> = r#"{"id":1}"#.encode_utf16().flat_map(u16::to_le_bytes).collect();
    let nested = "[".repeat(100_000);
    let in_params = format!(r#"{{"jsonrpc":"2.0","id":1,"method":"message/send","params":{}"#, nested);
    let lone = r#"{"jsonrpc":"2.0","id":"\ud800","method":"message/send"}"#;
    let bodies: [&[u8]; 12] = [
        b"",
        b"{",
        b"nonsense",
        b"{} {}",
        b"\xef\xbb\xbf{}",
        &utf16,
        nested.as_bytes(),
        in_params.as_bytes(),
        b"{\"a\":\"\xff\"}",
        b"{\"a\":\"\xed\xa0\x80\"}",
        lone.as_bytes(),
        b"{\"a\":NaN}",
    ];
    for body in bodies {
        let (status, answer) = world.raw(body, None).await;
        let shown = String::from_utf8_lossy(&body[..body.len().min(40)]).into_owned();
        assert_eq!((status, code(&answer)), (400, -32700), "{shown}");
        assert_eq!(*answer.as_object().unwrap().get("id").unwrap(), Value::Null);
    }
    for body in ["[]", "[{}]", "5", "\"x\"", "null"] {
        let (status, answer) = world.raw(body, None).await;
        assert_eq!((status, code(&answer)), (400, -32600), "{body}");
    }
}

#[tokio::test]
async fn an_unknown_method_is_told_what_there_is() {
    let world = world(|_| {}).await;
    for method in ["message/stream", "message/send ", "MESSAGE/SEND", "sendMessage", "tasks/get"] {
        let answer = world.call(&frame(method, object([]))).await;
        assert_eq!(code(&answer), -32601);
        assert_eq!(data(&answer, "method").unwrap().as_str(), Some(method));
        let methods: Vec<_> = data(&answer, "methods").unwrap().as_array().unwrap().iter().map(Value::as_str).collect();
        let offered = crate::receive::frame::methods(false);
        assert_eq!(methods, offered.iter().copied().map(Some).collect::<Vec<_>>());
        assert!(data(&answer, "version").is_some() && data(&answer, "protocolVersion").is_some());
    }
    assert_eq!(crate::receive::frame::methods(false).len(), 9);
    assert!(!crate::receive::frame::methods(true).iter().any(|method| method.starts_with("introduc")));
    let answer = world.call(&frame(&"x".repeat(100_000), object([]))).await;
    assert!(answer.to_json().len() < 1_000, "a long name is not echoed");
}

#[tokio::test]
async fn wrong_types_in_params() {
    let world = world(|_| {}).await;
    for params in [
        "\"x\"",
        "[]",
        "{}",
        "null",
        r#"{"message":[]}"#,
        r#"{"message":"x"}"#,
        r#"{"message":{"kind":"message","parts":[]}}"#,
    ] {
        let params = json::parse(params.as_bytes()).unwrap();
        assert_eq!(code(&world.call(&frame("message/send", params)).await), -32602);
    }
    let no_params = object([("jsonrpc", "2.0".into()), ("id", 1.into()), ("method", "message/send".into())]);
    assert_eq!(code(&world.call(&no_params).await), -32602);
}

#[tokio::test]
async fn an_a2a_1_0_client_is_answered_in_its_shape() {
    let world = world(|options| options.open_door = true).await;
    let mut message = world.message(&key(1), "v1", "hello");
    let members = at(&mut message, &[]);
    members.remove("kind");
    members.insert("role".to_owned(), "ROLE_USER".into());
    members.insert("parts".to_owned(), vec![object([("text", "hello".into())])].into());
    let body = request("SendMessage", message).to_json();
    let (status, answer) = world.raw(body, Some("1.0")).await;
    assert_eq!((status, code(&answer)), (200, 0), "{}", answer.to_json());
    let reply = answer.member("result").unwrap().member("message").unwrap();
    assert_eq!(reply.member("role").unwrap().as_str(), Some("ROLE_AGENT"));
    assert!(reply.member("metadata").unwrap().member("sig").is_some());
    assert_eq!(world.stored().await[0].text, "hello");
}

#[tokio::test]
async fn an_unknown_a2a_version_is_named_as_such() {
    let world = world(|_| {}).await;
    let body = request("message/send", world.message(&key(1), "1", "hello")).to_json();
    let (status, answer) = world.raw(body.clone(), Some("7.0")).await;
    assert_eq!((status, code(&answer)), (200, -32009));
    for version in [Some("0.3"), Some("1.0"), None] {
        let (_, answer) = world.raw(body.clone(), version).await;
        assert_eq!(code(&answer), -32010, "{version:?}");
    }
}

#[tokio::test]
async fn an_unsigned_1_0_message_is_taught_like_any_other() {
    let world = world(|_| {}).await;
    let message = object([
        ("messageId", "1".into()),
        ("role", "ROLE_USER".into()),
        ("parts", vec![object([("text", "x".into())])].into()),
    ]);
    let answer = world.call(&request("SendMessage", message)).await;
    assert_eq!(code(&answer), -32001, "{}", answer.to_json());
    assert!(data(&answer, "accepts").is_some());
}

#[tokio::test]
async fn parts_in_every_spelling_are_text() {
    let world = world(|_| {}).await;
    world.befriend(&key(1)).await;
    let parts = [
        object([("kind", "text".into()), ("text", "hello".into())]),
        object([("type", "text".into()), ("text", "hello".into())]),
        object([("text", "hello".into())]),
    ];
    for (n, part) in parts.into_iter().enumerate() {
        let mut message = world.message(&key(1), &n.to_string(), "hello");
        at(&mut message, &[]).insert("parts".to_owned(), vec![part].into());
        let answer = world.call(&request("message/send", message)).await;
        assert_eq!(code(&answer), 0, "{n}: {}", answer.to_json());
    }
    assert!(world.stored().await.iter().all(|row| row.text == "hello"));
}

#[tokio::test]
async fn parts_that_are_no_text_and_unknown_members_are_kept() {
    let world = world(|_| {}).await;
    world.befriend(&key(1)).await;
    let mut message = world.message(&key(1), "1", "hello");
    at(&mut message, &["metadata"]).insert("novel".to_owned(), object([("a", 1.into())]));
    at(&mut message, &["metadata"]).insert("auto".to_owned(), false.into());
    at(&mut message, &[]).insert("novel".to_owned(), 1.into());
    let Some(Value::Array(parts)) = at(&mut message, &[]).get_mut("parts") else { panic!("parts") };
    parts.push(object([("kind", "data".into()), ("data", object([("x", 1.into())]))]));
    assert_eq!(code(&world.call(&request("message/send", message)).await), 0);
    let extra = world.stored().await[0].extra.clone().unwrap();
    let extra = json::parse(extra.as_bytes()).unwrap();
    assert_eq!(extra.member("metadata").unwrap().to_json(), r#"{"novel":{"a":1}}"#);
    assert_eq!(extra.member("parts").unwrap().to_json(), r#"[{"data":{"x":1},"kind":"data"}]"#);
}

#[tokio::test]
async fn of_duplicate_keys_the_last_one_counts() {
    let world = world(|_| {}).await;
    world.befriend(&key(1)).await;
    let body = request("message/send", world.message(&key(1), "1", "hello")).to_json();
    let body = body.replacen("\"text\":\"hello\"", "\"text\":\"other\",\"text\":\"hello\"", 1);
    let (_, answer) = world.raw(body, None).await;
    assert_eq!(code(&answer), 0, "{}", answer.to_json());
}
