use super::*;

fn parse(text: &str) -> Value {
    json::parse(text.as_bytes()).unwrap()
}

fn found(url: &str, version: Version) -> Option<Interface> {
    Some(Interface { url: url.to_owned(), version })
}

#[test]
fn the_interface_of_every_generation_is_found() {
    use Version::{V0_3, V1_0};
    for (card, url, version) in [
        // 0.2: `url` alone, at odd paths, with and without a slash.
        (r#"{"url":"http://a.example/"}"#, "http://a.example/", V0_3),
        (r#"{"url":"https://a.example/t/7/a2a?x=1","protocolVersion":"0.2.5"}"#, "https://a.example/t/7/a2a?x=1", V0_3),
        // 0.3: the preferred transport is another one.
        (
            r#"{"url":"https://a.example/grpc","preferredTransport":"GRPC","additionalInterfaces":[
                {"url":"https://a.example/rest","transport":"HTTP+JSON"},
                {"url":"https://a.example/rpc/","transport":"JSONRPC"}]}"#,
            "https://a.example/rpc/",
            V0_3,
        ),
        (
            r#"{"url":"http://a.example/v1","preferredTransport":"JSONRPC","protocolVersion":"0.3.0"}"#,
            "http://a.example/v1",
            V0_3,
        ),
        // 1.0: the list alone, in its order, foreign bindings and versions skipped.
        (
            r#"{"supportedInterfaces":[
                {"url":"https://a.example/g","protocolBinding":"GRPC","protocolVersion":"1.0"},
                {"url":"https://a.example/two","protocolBinding":"JSONRPC","protocolVersion":"2.0"},
                {"url":"","protocolBinding":"JSONRPC","protocolVersion":"1.0"},
                {"url":"https://a.example/x/y","protocolBinding":"JSONRPC","protocolVersion":"1.0"}]}"#,
            "https://a.example/x/y",
            V1_0,
        ),
        (r#"{"supportedInterfaces":[{"url":"http://[::1]:8/","protocolBinding":"JSONRPC"}]}"#, "http://[::1]:8/", V1_0),
        (r#"{"url":"","supportedInterfaces":[{"url":"http://a/","protocolVersion":"0.3"}]}"#, "http://a/", V0_3),
        // A list that names nothing usable leaves the older fields.
        (
            r#"{"url":"http://a/","supportedInterfaces":[{"url":"http://b/","protocolBinding":"GRPC"}]}"#,
            "http://a/",
            V0_3,
        ),
    ] {
        assert_eq!(interface_of(&parse(card)), found(url, version), "{card}");
    }
}

#[test]
fn a_card_that_names_no_interface_has_none() {
    for card in [
        "{}",
        "[]",
        r#"{"url":""}"#,
        r#"{"url":7}"#,
        r#"{"url":"ftp://a/"}"#,
        r#"{"url":"http://a/","protocolVersion":"2.0"}"#,
        r#"{"url":"http://a/","preferredTransport":"GRPC"}"#,
        r#"{"url":"http://a/","preferredTransport":"GRPC","additionalInterfaces":{"url":"http://b/"}}"#,
        r#"{"supportedInterfaces":[{"protocolBinding":"JSONRPC"},7,null]}"#,
    ] {
        assert_eq!(interface_of(&parse(card)), None, "{card}");
    }
}

#[test]
fn the_version_header_is_read() {
    for header in [None, Some(""), Some(" 0.3 "), Some("0.2.5"), Some("0")] {
        assert_eq!(version_from_header(header), Ok(Version::V0_3), "{header:?}");
    }
    for header in ["1.0", "1", "1.1", " 1.0.0"] {
        assert_eq!(version_from_header(Some(header)), Ok(Version::V1_0), "{header}");
    }
    for header in ["2.0", "10", "1.", ".1", "v1", "1.0, 0.3", "-1", "1.x"] {
        let refusal = version_from_header(Some(header)).unwrap_err();
        assert_eq!(refusal.code, Code::VersionNotSupported, "{header}");
    }
}

#[test]
fn a_1_0_message_takes_our_shape_and_keeps_the_rest() {
    let Value::Object(message) = parse(
        r#"{"role":"ROLE_USER","messageId":"m","parts":[{"text":"a","mediaType":"text/plain"},{"data":{}},{"text":7},3],
            "metadata":{"timestamp":5.0},"later":[1]}"#,
    ) else {
        unreachable!()
    };
    let expected = parse(
        r#"{"kind":"message","role":"user","messageId":"m","parts":[{"kind":"text","text":"a","mediaType":"text/plain"},
            {"data":{}},{"kind":"text","text":7},3],"metadata":{"timestamp":5.0},"later":[1]}"#,
    );
    assert_eq!(Value::Object(message_from_v1(message)), expected);
    for untouched in [r#"{"kind":"task","role":"ROLE_OTHER","parts":7}"#, r#"{"kind":"message","role":7}"#] {
        let Value::Object(message) = parse(untouched) else { unreachable!() };
        assert_eq!(Value::Object(message_from_v1(message)), parse(untouched));
    }
}

#[test]
fn our_reply_becomes_a_1_0_result() {
    let reply = parse(
        r#"{"kind":"message","role":"agent","messageId":"r","contextId":null,"parts":[{"kind":"text","text":"hi"}],
            "metadata":{"sig":"s","timestamp":5}}"#,
    );
    let expected = r#"{"message":{"role":"ROLE_AGENT","messageId":"r","parts":[{"text":"hi"}],
        "metadata":{"sig":"s","timestamp":5}}}"#;
    assert_eq!(result_to_v1(&reply), parse(expected));
}

#[test]
fn requests_have_the_shape_of_their_version() {
    assert_eq!(
        parse(&unsigned_request(Version::V0_3, "1", "m", None, "hi")),
        parse(
            r#"{"jsonrpc":"2.0","id":"1","method":"message/send","params":{"message":{"kind":"message","role":"user",
                "messageId":"m","parts":[{"kind":"text","text":"hi"}]}}}"#
        )
    );
    assert_eq!(
        parse(&unsigned_request(Version::V1_0, "1", "m", Some("c"), "hi")),
        parse(
            r#"{"jsonrpc":"2.0","id":"1","method":"SendMessage","params":{"message":{"role":"ROLE_USER",
                "messageId":"m","contextId":"c","parts":[{"text":"hi"}]}}}"#
        )
    );
}

#[test]
fn the_text_of_every_kind_of_result_is_found() {
    for (result, text) in [
        (
            r#"{"kind":"message","parts":[{"kind":"text","text":"a"},{"kind":"data","data":{}},{"type":"text","text":"b"}]}"#,
            "a\nb",
        ),
        (r#"{"message":{"role":"ROLE_AGENT","parts":[{"text":"a"}]}}"#, "a"),
        (
            r#"{"task":{"id":"t","status":{"state":"TASK_STATE_COMPLETED"},"artifacts":[{"parts":[{"text":"a"}]},{"parts":[{"text":"b"}]}]}}"#,
            "a\nb",
        ),
        (
            r#"{"task":{"id":"t","status":{"state":"TASK_STATE_INPUT_REQUIRED","message":{"parts":[{"text":"which?"}]}}}}"#,
            "which?",
        ),
        (
            r#"{"kind":"task","status":{"state":"completed","message":{"parts":[{"kind":"text","text":"done"}]}},"artifacts":[{"parts":[{"kind":"text","text":"it"}]}]}"#,
            "done\nit",
        ),
        (
            r#"{"kind":"task","status":{"state":"completed"},"history":[{"role":"agent","parts":[{"kind":"text","text":"old"}]},
                {"role":"agent","parts":[{"kind":"text","text":"new"}]},{"role":"user","parts":[{"kind":"text","text":"me"}]}]}"#,
            "new",
        ),
        (r#"{"parts":[{"text":""}]}"#, ""),
    ] {
        assert_eq!(text_of_result(&parse(result)).as_deref(), Some(text), "{result}");
    }
    for nothing in [
        "null",
        "7",
        "{}",
        r#"{"parts":[]}"#,
        r#"{"parts":[{"kind":"data","data":{}}]}"#,
        r#"{"message":{"parts":"x"}}"#,
        r#"{"task":{"status":{"state":"working"}}}"#,
        r#"{"task":7}"#,
    ] {
        assert_eq!(text_of_result(&parse(nothing)), None, "{nothing}");
    }
}
