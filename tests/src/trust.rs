//! Agents that know each other, and the calls of section 5.2 made by hand.
use serde_json::{Value, json};

use crate::{
    Home, Serve,
    rpc::{Key, code, request},
};

/// Makes a key a direct contact of the agent that is served, through an invite.
pub fn befriend(home: &Home, serve: &Serve, name: &str, key: &Key) {
    befriend_at(home, serve, name, key, None);
}

/// The same, and the key says where it can be reached.
pub fn befriend_at(home: &Home, serve: &Serve, name: &str, key: &Key, url: Option<&str>) {
    let invite = home.invite(name);
    let mut params = json!({"nonce": invite["nonce"]});
    if let Some(url) = url {
        params["url"] = json!(url);
    }
    let answer = call(serve, key, "onboard/claim", "onboard/claim", params);
    assert_eq!(code(&answer), 0, "{answer}");
}

/// One signed call of a method: the whole JSON-RPC answer.
pub fn call(serve: &Serve, key: &Key, method: &str, text: &str, params: Value) -> Value {
    serve.call(&asking(&serve.did, key, method, text, params))
}

/// The request of such a call.
pub fn asking(to: &str, key: &Key, method: &str, text: &str, mut params: Value) -> Value {
    params["message"] = key.message(to, text);
    request(method, params)
}

/// `connect/request` without anything beside it.
pub fn connect(serve: &Serve, key: &Key) -> Value {
    call(serve, key, "connect/request", "connect/request", json!({"name": "north", "note": "let me in"}))
}

/// `trust/status` about the caller, or about somebody else.
pub fn status(serve: &Serve, key: &Key, subject: Option<&str>) -> Value {
    let params = subject.map_or_else(|| json!({}), |subject| json!({"subject": subject}));
    call(serve, key, "trust/status", "trust/status", params)
}

/// `introduce/propose` of a credential.
pub fn propose(serve: &Serve, issuer: &Key, vc: &Value) -> Value {
    let params = json!({"vc": vc, "subject": {"did": vc["credentialSubject"]["id"], "name": "north"}});
    call(serve, issuer, "introduce/propose", "introduce/propose", params)
}

/// What waits for an agent's owner, newest last.
pub fn waiting(home: &Home, name: &str) -> Vec<Value> {
    let rows = home.run(["--as", name, "requests", "--json"]).ok().json_lines();
    rows.into_iter().filter(|row| row["direction"] == "in").collect()
}

/// Claims an invite of one agent for another, in another home: direct trust both ways.
pub fn introduce_each_other(home: &Home, name: &str, other: &Home, other_name: &str) {
    let link = home.run(["--as", name, "invite", "create"]).ok().out;
    other.run(["--as", other_name, "claim", link.trim(), "--no-greeting"]).ok();
}
