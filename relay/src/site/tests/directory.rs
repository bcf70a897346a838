//! Cards, invites, presence.
use super::*;
use crate::testing::listening;

const ENVELOPE_TYP: &str = "agentcard";

fn card(of: u8) -> json::Object {
    let mut card = json::Object::new();
    card.insert("did".to_owned(), key(of).did().as_str().into());
    card.insert("name".to_owned(), "south".into());
    card
}

fn envelope(signer: u8, card: &json::Object, ts: Value) -> String {
    let mut envelope = json::Object::new();
    envelope.insert("v".to_owned(), 1.into());
    envelope.insert("typ".to_owned(), ENVELOPE_TYP.into());
    envelope.insert("card".to_owned(), card.clone().into());
    envelope.insert("ts".to_owned(), ts);
    let payload = json::canonical_as_received(&Value::from(envelope.clone())).unwrap();
    envelope.insert("sig".to_owned(), key(signer).sign_base64(payload.as_bytes()).into());
    Value::from(envelope).to_json()
}

#[tokio::test]
async fn the_newest_card_of_a_did_is_kept() {
    let rig = Rig::new();
    let path = format!("/card/{}", key(2).did());
    assert_eq!(rig.get(&path).await.status, 404);
    let old = envelope(2, &card(2), (NOW - 30 * 86_400).into());
    assert_eq!(text(&rig.post("/card", old.clone()).await), r#"{"ok":true}"#, "of any age");
    assert_eq!(text(&rig.get(&path).await), old);
    assert_eq!(text(&rig.get(&path.replace(':', "%3A")).await), old);
    let new = envelope(2, &card(2), (NOW + 300).into());
    assert_eq!(rig.post("/card", new.clone()).await.status, 200);
    for late in [old, new.clone()] {
        assert_eq!(refusal(&rig.post("/card", late).await), (409, -32_002, format!(r#"{{"ts":{}}}"#, NOW + 300)));
    }
    assert_eq!(text(&rig.get(&path).await), new);
    assert_eq!(rig.get("/card/did:web:x").await.status, 404);
    assert_eq!(rig.get("/card/%ff").await.status, 404);
}

#[tokio::test]
async fn only_its_did_publishes_a_card() {
    let rig = Rig::new();
    let good = envelope(2, &card(2), NOW.into());
    let mut edited = card(2);
    edited.insert("name".to_owned(), "west".into());
    let sig = |envelope: &str| json::parse(envelope.as_bytes()).unwrap().member("sig").unwrap().to_json();
    let other = envelope(2, &edited, NOW.into());
    let swapped = good.replace(&sig(&good), &sig(&other));
    for forged in [envelope(3, &card(2), NOW.into()), swapped, good.replace("south", "sauth")] {
        assert_eq!(refusal(&rig.post("/card", forged).await), (403, -32_001, String::new()));
    }
    for odd in [
        "{}".to_owned(),
        "x".to_owned(),
        good.replace(ENVELOPE_TYP, "other"),
        good.replace(&format!("{NOW}"), "\"now\""),
        good.replace("did:key", "did:web"),
        envelope(2, &card(2), (NOW + 301).into()),
    ] {
        assert_eq!(refusal(&rig.post("/card", odd.clone()).await).0, 400, "{odd}");
    }
    assert_eq!(rig.get(&format!("/card/{}", key(2).did())).await.status, 404);
}

#[tokio::test]
async fn a_card_is_kept_without_what_nobody_signed() {
    let rig = Rig::new();
    let good = envelope(2, &card(2), NOW.into());
    let with_more = good.replacen('{', r#"{"note":"unsigned","#, 1);
    assert_eq!(rig.post("/card", with_more).await.status, 200);
    assert_eq!(text(&rig.get(&format!("/card/{}", key(2).did())).await), good);
}

#[tokio::test]
async fn cards_of_old_publishers_have_a_float() {
    let rig = Rig::new();
    let ts = json::parse(format!("{}.5", NOW - 10).as_bytes()).unwrap();
    assert_eq!(rig.post("/card", envelope(2, &card(2), ts)).await.status, 200);
    assert_eq!(rig.post("/card", envelope(2, &card(2), (NOW - 10).into())).await.status, 409);
    assert_eq!(rig.post("/card", envelope(2, &card(2), (NOW - 9).into())).await.status, 200);
    let good = envelope(2, &card(2), (NOW - 8).into());
    let huge = good.replace(&format!("{}", NOW - 8), "1e300");
    assert_eq!(rig.post("/card", huge).await.status, 400);
}

#[tokio::test(start_paused = true)]
async fn presence_is_told_unless_its_owner_does_not_want_that() {
    let rig = Rig::new();
    let did = key(2).did().clone();
    let path = format!("/presence/{did}");
    let told = |online: &str, seen: &str| format!(r#"{{"did":"{did}","lastSeen":{seen},"online":{online}}}"#);
    assert_eq!(text(&rig.get(&path).await), told("false", "null"));
    let (_, during) = tokio::join!(rig.listen(2, "1", 5), async {
        listening(&rig, 2).await;
        rig.get(&path).await
    });
    assert_eq!(text(&during), told("true", &NOW.to_string()));
    rig.listen(2, "1", 5).await;
    assert_eq!(text(&rig.get(&path).await), told("true", &NOW.to_string()), "between two polls");
    let mut hidden = card(2);
    hidden.insert("muretai".to_owned(), json::parse(br#"{"pr\u0065sence":false}"#).unwrap());
    assert_eq!(rig.post("/card", envelope(2, &hidden, NOW.into())).await.status, 200);
    assert_eq!(text(&rig.get(&path).await), told("null", "null"));
    assert_eq!(rig.get("/presence/did:web:x").await.status, 400);
}

fn invite(of: u8, nonce: &str, exp: i64) -> String {
    let spec = InviteSpec {
        name: "south",
        url: "",
        specialty: None,
        nonce,
        exp: UnixSeconds(exp),
        purpose: None,
        relay: Some(ORIGIN),
        enc_pub: None,
    };
    mint(&key(of), &spec).to_json()
}

#[tokio::test]
async fn an_invite_is_kept_under_a_code_until_it_expires() {
    let rig = Rig::new();
    let card = invite(2, "one", NOW + 60);
    let minted = rig.post("/i", card.clone()).await;
    let body = json::parse(&minted.body).unwrap();
    let code = body.member("code").and_then(Value::as_str).unwrap();
    assert!(code.len() == 12 && code.bytes().all(|b| b.is_ascii_alphanumeric() || b"-_".contains(&b)), "{code}");
    let link = body.member("link").and_then(Value::as_str).unwrap();
    assert_eq!(link, format!("{ORIGIN}/mail/i/{code}"), "from the configuration");
    let path = format!("/i/{code}");
    let held = json::parse(&rig.get(&path).await.body).unwrap();
    assert_eq!(canonical(&held).unwrap(), canonical(&json::parse(card.as_bytes()).unwrap()).unwrap());
    assert_eq!(text(&rig.post("/i", card).await), text(&minted), "the same invite, the same code");
    rig.clock.fetch_add(60, Ordering::SeqCst);
    assert_eq!(rig.get(&path).await.status, 404);
    for target in ["/i/unknown-code", "/i/a.b", "/i/%61", &format!("/i/{}", "a".repeat(65))] {
        assert_eq!(rig.get(target).await.status, 404, "{target}");
    }
}

#[tokio::test]
async fn invites_are_verified_and_bounded() {
    let rig = Rig::with(Bounds::default(), Quotas { invites: 2, ..Quotas::default() });
    let good = invite(2, "one", NOW + 60);
    assert_eq!(refusal(&rig.post("/i", good.replace("south", "sauth")).await), (403, -32_001, String::new()));
    for odd in ["[]".to_owned(), "x".to_owned(), "{}".to_owned(), invite(2, "one", NOW)] {
        assert_eq!(refusal(&rig.post("/i", odd.clone()).await).0, 400, "{odd}");
    }
    assert_eq!(rig.post("/i", good).await.status, 200);
    assert_eq!(rig.post("/i", invite(2, "two", NOW + 60)).await.status, 200);
    let answer = rig.post("/i", invite(2, "three", NOW + 60)).await;
    assert_eq!(refusal(&answer), (429, -32_004, r#"{"bound":"invites","limit":2}"#.to_owned()));
    assert_eq!(rig.post("/i", invite(3, "one", NOW + 60)).await.status, 200);
}
