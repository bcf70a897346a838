//! The door's terms (6.5): how a caller that has never heard of this network signs its first message.
//!
//! The recipe is complete without any URL in it: whoever holds only this object and a way to POST can follow it.
use crate::{Did, json, json::Value};

const INSTRUCTION: &str = "Sign your message. You need no account and no permission: make an Ed25519 key pair now, \
    turn its public half into a did:key as `identity` says, and fill in the blanks of `exampleRequest`, top to bottom: \
    a fresh messageId, your text, your DID as `from`, the time, and last the signature. POST the result. Keep the \
    private half: it is your address from now on, and whoever holds it is you. Never send it anywhere.";

const IDENTITY: &str = "Take the 32 bytes of your Ed25519 public key, put the two bytes 0xed 0x01 in front, encode \
    the 34 bytes in base58 (the Bitcoin alphabet, big-endian), and put `did:key:z` in front. The result starts with \
    `did:key:z6Mk` and is both your name and your public key.";

const IDENTITY_CODE: &str = r#"# Python 3, no packages; public_key is bytes of length 32
def did_key(public_key):
    alphabet = "123456789ABCDEFGHJKLMNPQRSTUVWXYZabcdefghijkmnopqrstuvwxyz"
    number, text = int.from_bytes(b"\xed\x01" + public_key, "big"), ""
    while number:
        number, digit = divmod(number, 58)
        text = alphabet[digit] + text
    return "did:key:z" + text
"#;

const CANONICALIZATION: &str = "Write a JSON object of exactly the six members of `signedFields`, keys in that order, \
    no white space between tokens. Escape in strings only the quotation mark, the backslash and the characters below \
    U+0020: \\b \\t \\n \\f \\r by their letters, the others as \\u00xx in lower case; every other character stands \
    for itself. contextId is the message's contextId, or null when it has none. text is the text of all text parts, \
    joined with one line feed. timestamp is a plain integer. Encode the object as UTF-8.";

const SIGNATURE: &str = "Sign those bytes with Ed25519 (RFC 8032, pure, no prehash) and put the 64-byte signature into \
    metadata.sig as standard base64 with padding: 88 characters.";

const TIMESTAMP: &str = "Integer seconds since 1970-01-01T00:00:00Z, at most 300 away from the recipient's clock. A \
    messageId is accepted once; to send the same message again keep its messageId, take a new timestamp, and sign anew.";

const DESCRIPTION: &str = "Requests are signed inside the JSON-RPC body, in params.message.metadata. No Authorization \
    header is read. The member `muretai` says how, field by field.";

/// The `<requirement>` of 6.5, equal on the card and in `accepts[0]`.
///
/// `howTo` is left out: nothing here can know that another page answers. `endpoint` is left out when it is empty.
pub fn requirement(did: &Did, endpoint: &str) -> Value {
    let mut terms = super::object(json!({
        "scheme": "did-key-ed25519",
        "instruction": (INSTRUCTION),
        "in": "params.message.metadata",
        "exampleRequest": (example_request(did)),
        "recipient": (did.as_str()),
        "identity": (IDENTITY),
        "identityCode": (IDENTITY_CODE),
        "signedFields": ["contextId", "from", "messageId", "text", "timestamp", "to"],
        "canonicalization": (CANONICALIZATION),
        "signature": (SIGNATURE),
        "timestamp": (TIMESTAMP)
    }));
    if !endpoint.is_empty() {
        terms.insert("endpoint".to_owned(), endpoint.into());
    }
    Value::Object(terms)
}

/// The `securitySchemes` of the card. `http` with a scheme name of our own, because other types make SDKs refuse it.
pub(super) fn security_schemes(did: &Did, endpoint: &str) -> Value {
    let terms = requirement(did, endpoint);
    json!({
        "did-key-ed25519": {
            "type": "http",
            "scheme": "did-key-ed25519",
            "description": (DESCRIPTION),
            "agentEntry": (terms.clone()),
            "muretai": (terms)
        }
    })
}

/// A whole request with five blanks.
fn example_request(did: &Did) -> Value {
    json!({
        "jsonrpc": "2.0",
        "id": "1",
        "method": "message/send",
        "params": {
            "message": {
                "kind": "message",
                "role": "user",
                "messageId": "<messageId: a fresh random string, for example 32 hex digits>",
                "contextId": null,
                "parts": [{"kind": "text", "text": "<text: what you want to say>"}],
                "metadata": {
                    "from": "<from: your did:key>",
                    "to": (did.as_str()),
                    "timestamp": "<timestamp: integer seconds, not a string>",
                    "sig": "<sig: base64 of your signature>"
                }
            }
        }
    })
}
