//! Introductions and revocation lists made by hand (section 8), so that each can be wrong in one place. Nothing here is
//! the code under test but the Ed25519 signature itself: layout, dates and canonical form are written out once more.
use serde_json::{Value, json};

use crate::rpc::{self, Fields, Key};

/// Seconds of a day.
pub const DAY: i64 = 86_400;

/// An introduction of `subject` to `target` by `issuer` that is valid for a day. `change` comes before the signature.
pub fn vc(issuer: &Key, subject: &str, target: &str, change: impl FnOnce(&mut Value)) -> Value {
    let now = rpc::now();
    let mut vc = json!({
        "id": format!("urn:uuid:{}", rpc::fresh_id()),
        "type": ["VerifiableCredential", "AgentIntroduction"],
        "issuer": issuer.did(),
        "issuanceDate": iso(now),
        "credentialSubject": {
            "id": subject, "introducedTo": target, "expertise": ["translation"], "trustLevelBp": 800,
            "validUntil": iso(now + DAY),
        },
        "provenance": {"mode": "proactive"},
    });
    change(&mut vc);
    prove(issuer, vc)
}

/// The same with this record of the subject's question inside.
pub fn requested(issuer: &Key, subject: &str, target: &str, record: &Value) -> Value {
    vc(issuer, subject, target, |vc| vc["provenance"] = json!({"mode": "requested", "request": record}))
}

/// Signs a credential, whatever it says.
pub fn prove(signer: &Key, mut vc: Value) -> Value {
    vc.as_object_mut().unwrap().remove("proof");
    let jws = signer.signing().sign_base64(canonical(&vc).as_bytes());
    vc["proof"] = json!({
        "type": "Ed25519Signature2020", "created": vc["issuanceDate"], "verificationMethod": signer.did(), "jws": jws,
    });
    vc
}

/// The record (8.2) of a question that `asker` signed at `timestamp`.
pub fn record(asker: &Key, introducer: &str, text: &str, timestamp: i64) -> Value {
    let fields =
        Fields { to: introducer.to_owned(), text: text.to_owned(), timestamp: json!(timestamp), ..Fields::default() };
    let message = asker.signed(&fields);
    json!({
        "from": asker.did(), "to": introducer, "messageId": fields.message_id, "contextId": null,
        "timestamp": timestamp, "text": text, "sig": message["metadata"]["sig"],
    })
}

/// A revocation list (8.4) of `issuer`, signed by `signer`.
pub fn revocations(signer: &Key, issuer: &str, ids: &[&str], ts: i64) -> Value {
    let mut ids = ids.to_vec();
    ids.sort_unstable();
    let mut list = json!({"typ": "muretai/revocations/1", "issuer": issuer, "revoked": ids, "ts": ts});
    list["sig"] = json!(signer.signing().sign_base64(canonical(&list).as_bytes()));
    list
}

/// A message of `key` to `to` that presents a credential.
pub fn presenting(key: &Key, to: &str, text: &str, vc: &Value) -> Value {
    let mut message = key.message(to, text);
    message["metadata"]["vc"] = vc.clone();
    message
}

/// The canonical form: members by name, no blanks. Enough for the ASCII and the integers of these tests.
pub fn canonical(value: &Value) -> String {
    match value {
        Value::Object(members) => {
            let mut names: Vec<&String> = members.keys().collect();
            names.sort_unstable();
            let members = names.into_iter().map(|name| format!("{}:{}", json!(name), canonical(&members[name])));
            format!("{{{}}}", members.collect::<Vec<_>>().join(","))
        }
        Value::Array(items) => format!("[{}]", items.iter().map(canonical).collect::<Vec<_>>().join(",")),
        other => other.to_string(),
    }
}

/// `YYYY-MM-DDTHH:MM:SSZ` of a time after 1970.
pub fn iso(secs: i64) -> String {
    let (days, rest) = (secs.div_euclid(DAY), secs.rem_euclid(DAY));
    let (mut year, mut day) = (1970, days);
    let leap = |year: i64| (year % 4 == 0 && year % 100 != 0) || year % 400 == 0;
    while day >= 365 + i64::from(leap(year)) {
        day -= 365 + i64::from(leap(year));
        year += 1;
    }
    let mut month = 0;
    let lengths = [31, 28 + i64::from(leap(year)), 31, 30, 31, 30, 31, 31, 30, 31, 30, 31];
    while day >= lengths[month] {
        day -= lengths[month];
        month += 1;
    }
    let (hour, minute, second) = (rest / 3_600, rest / 60 % 60, rest % 60);
    format!("{year:04}-{:02}-{:02}T{hour:02}:{minute:02}:{second:02}Z", month + 1, day + 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dates_are_those_of_the_calendar() {
        assert_eq!(iso(0), "1970-01-01T00:00:00Z");
        assert_eq!(iso(951_782_400), "2000-02-29T00:00:00Z");
        assert_eq!(iso(1_784_273_681), "2026-07-17T07:34:41Z");
        assert_eq!(iso(4_107_542_399), "2100-02-28T23:59:59Z");
    }

    /// The worked example of the network's vectors: seed 0x21 introduces 0x22 to 0x23.
    #[test]
    fn a_credential_made_here_is_the_one_of_the_published_example() {
        let (west, north, south) = (Key::of(0x21), Key::of(0x22), Key::of(0x23));
        let text = format!("introduce-me-to:{}", south.did());
        let mut record = record(&north, west.did(), &text, 1_784_273_621);
        record["messageId"] = json!("req-1");
        record["sig"] =
            json!("6A0oawCXb4vK7lH2zmWVAiuijDQQ/akIsjW68xWrZMjYJEOIz6OQeqVmat+wEctF+9lzxqU8aJjKnNAC0qjECw==");
        let vc = vc(&west, north.did(), south.did(), |vc| {
            vc["id"] = json!("urn:uuid:00112233445566778899aabbccddeeff");
            vc["issuanceDate"] = json!("2026-07-17T07:34:41Z");
            vc["credentialSubject"]["trustLevelBp"] = json!(873);
            vc["credentialSubject"]["validUntil"] = json!("2026-08-16T07:34:41Z");
            vc["provenance"] = json!({"mode": "requested", "request": record});
            vc["issuerEndpoint"] = json!("https://introducer.example");
        });
        let expected = "nU4h4dWZHY6tvRNSbt9HmpvAFo9XFTz6+R10ynf6DiG6AF6jSUpKobjQrWwh+fqezXJC6+JVY2xJd7nRH+C2Bw==";
        assert_eq!(vc["proof"]["jws"], expected);
    }
}
