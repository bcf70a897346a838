"""Cases about introductions, revocation lists and domains."""

import json
import time

import oracle
from messages import fields_of, payload_of
from oracle import EAST, NORTH, NOW, SOUTH, Agent, b64url, canonical, case

DAY = 86_400
WEST = Agent(4)


def iso(secs):
    return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(secs))


# ---------------------------------------------------------------- introductions.json
def record(sender=NORTH, to=WEST, text=None, timestamp=NOW - DAY, signer=None, signed_time=None, **changes):
    """North's question to west, for an introduction to south."""
    text = f"introduce-me-to:{SOUTH.did}" if text is None else text
    fields = fields_of(sender, to, text, timestamp=timestamp)
    payload = payload_of({**fields, "timestamp": timestamp if signed_time is None else signed_time})
    return {**fields, "sig": (signer or sender).sign(payload), **changes}


def keystate(operating, **changes):
    state = {
        "typ": "muretai/keystate/1",
        "rootDid": NORTH.did,
        "epoch": 1,
        "rootKey": NORTH.public.hex(),
        "rootNextHash": "",
        "opDid": operating.did,
        "opNextHash": "",
        "encPub": "",
        "encNextHash": "",
        "guardiansHash": "",
        "revokedOps": [],
        "notBefore": NOW - 9 * DAY,
        "notAfter": NOW + DAY,
        "ts": NOW - 9 * DAY,
        **changes,
    }
    return {**state, "sig": NORTH.sign(canonical(state))}


def credential(signer=WEST, request=None, subject=None, proof=None, drop=(), **changes):
    """West vouches for north to south."""
    vc = {
        "id": "urn:uuid:" + "ab" * 16,
        "type": ["VerifiableCredential", "AgentIntroduction"],
        "issuer": WEST.did,
        "issuanceDate": iso(NOW),
        "credentialSubject": {
            "id": NORTH.did,
            "introducedTo": SOUTH.did,
            "expertise": ["translation"],
            "trustLevelBp": 873,
            "validUntil": iso(NOW + 30 * DAY),
            **(subject or {}),
        },
        "provenance": {"mode": "requested", "request": request} if request else {"mode": "proactive"},
        "issuerEndpoint": "https://west.example",
        **changes,
    }
    vc = {key: value for key, value in vc.items() if key not in drop}
    signed = {
        "type": "Ed25519Signature2020",
        "created": iso(NOW),
        "verificationMethod": WEST.did,
        "jws": signer.sign(canonical(vc)),
    }
    return {**vc, "proof": {**signed, **(proof or {})}}


def introduction_cases():
    def one(name, why, expect, vc, subject=NORTH, target=SOUTH, now=NOW + 60):
        return case(name, why, expect, now=now, subject=subject.did, target=target.did if target else None, vc=vc)

    def level(**members):
        """A credential without the level that all others have."""
        vc = credential()
        subject = {key: value for key, value in vc["credentialSubject"].items() if key != "trustLevelBp"}
        return credential(credentialSubject={**subject, **members})

    good, asked = credential(), credential(request=record())
    end = NOW + 30 * DAY
    operating = Agent(7)
    delegated = record(signer=operating, keystate=keystate(operating))
    p256_did = oracle.did_of(b"\x80\x24", oracle.p256_key(7)[1])
    accepted = [
        one("proactive", "the introducer's own idea", "proactive 873", good),
        one("requested", "the subject asked", "requested 873", asked),
        one("in-words", "a referral names nobody", "requested 873", credential(request=record(text="who translates?"))),
        one("target-unsaid", "a credential that was given away", "proactive 873", good, target=None),
        one("last-second", "validUntil is the first second after", "proactive 873", good, now=end - 1),
        one("unstated", "old credentials have no provenance", "unstated 873", credential(drop=["provenance"])),
        one("null-provenance", "null reads as absent", "unstated 873", credential(provenance=None)),
        one("unknown-member", "covered by the proof", "proactive 873", credential(later={"list": [1, None]})),
        one("no-level", "the level may be left out", "proactive null", level()),
        one("old-level", "a float of an old node", "proactive 873", level(trustLevel=0.8731)),
        one("old-level-integral", "as CPython spells it", "proactive 1000", level(trustLevel=1.0)),
        one("both-levels", "the integer is preferred", "proactive 5", level(trustLevel=0.8, trustLevelBp=5)),
        one("no-endpoint", "nobody to ask", "proactive 873", credential(drop=["issuerEndpoint"])),
        one(
            "useless-endpoint", "as good as none", "proactive 873", credential(issuerEndpoint="https://a@west.example")
        ),
        one("oldest-request", "30 days", "requested 873", credential(request=record(timestamp=NOW - 30 * DAY))),
        one("newest-request", "300 s ahead", "requested 873", credential(request=record(timestamp=NOW + 300))),
        one("float-time", "an old node's own float", "requested 873", credential(request=record(timestamp=NOW - 5.25))),
        one(
            "integral-float-time",
            "an SDK made a float of the integer that was signed",
            "requested 873",
            credential(request=record(timestamp=float(NOW - DAY), signed_time=NOW - DAY)),
        ),
        one("operating-key", "the state travels with the record", "requested 873", credential(request=delegated)),
        one(
            "fragment",
            "a key's name is not its DID",
            "proactive 873",
            credential(proof={"verificationMethod": WEST.did + "#k"}),
        ),
    ]
    no_state = {key: value for key, value in delegated.items() if key != "keystate"}
    records = [
        ("request-to-other", "asked of another introducer", record(to=EAST)),
        ("request-of-other", "asked by somebody else", record(sender=EAST)),
        ("request-for-other", "asked for another target", record(text=f"introduce-me-to:{EAST.did}")),
        ("request-with-note", "the DID and nothing else", record(text=f"introduce-me-to:{SOUTH.did}\nplease")),
        ("request-of-31-days", "asked too long before", record(timestamp=NOW - 31 * DAY)),
        ("request-a-second-too-old", "30 days and a second", record(timestamp=NOW - 30 * DAY - 1)),
        ("request-a-second-too-new", "301 s ahead", record(timestamp=NOW + 301)),
        ("request-edited", "another text under the signature", record(text="who?", sig=record()["sig"])),
        ("request-forged", "signed by another key", record(signer=EAST)),
        ("request-without-context", "null is a member, absence is not", None),
        ("request-time-text", "a time is a number", record(timestamp=str(NOW - DAY))),
        ("request-time-true", "a boolean is not a number", record(timestamp=True)),
        ("request-state-missing", "an operating key without its state", no_state),
        (
            "request-state-ended",
            "judged when the introduction was issued",
            record(signer=operating, keystate=keystate(operating, notAfter=NOW - 1)),
        ),
        (
            "request-state-burned",
            "a state may burn its own key",
            record(signer=operating, keystate=keystate(operating, revokedOps=[operating.did])),
        ),
    ]
    without_context = {key: value for key, value in record().items() if key != "contextId"}
    flipped = good["proof"]["jws"]
    flipped = ("A" if flipped[0] != "A" else "B") + flipped[1:]
    refused = [
        *(one(name, why, "record", credential(request=found or without_context)) for name, why, found in records),
        one(
            "requested-without-request", "nothing bears it out", "record", credential(provenance={"mode": "requested"})
        ),
        one("unknown-mode", "never guess", "unknown provenance", credential(provenance={"mode": "overheard"})),
        one("text-provenance", "never guess", "unknown provenance", credential(provenance="proactive")),
        one("other-subject", "shown by somebody else", "other subject", good, subject=EAST),
        one("other-target", "meant for somebody else", "other target", good, target=EAST),
        one(
            "re-subjected",
            "the subject is signed",
            "forged",
            {**good, "credentialSubject": {**good["credentialSubject"], "id": EAST.did}},
            subject=EAST,
        ),
        one(
            "re-targeted",
            "the target is signed",
            "forged",
            {**good, "credentialSubject": {**good["credentialSubject"], "introducedTo": EAST.did}},
            target=EAST,
        ),
        one(
            "prolonged",
            "the end is signed",
            "forged",
            {**good, "credentialSubject": {**good["credentialSubject"], "validUntil": iso(end + DAY)}},
        ),
        one("renamed", "the id is signed", "forged", {**good, "id": "urn:uuid:" + "cd" * 16}),
        one("unasked", "the provenance is signed", "forged", {**asked, "provenance": {"mode": "proactive"}}),
        one(
            "respelled-level",
            "no coercion",
            "forged",
            {**good, "credentialSubject": {**good["credentialSubject"], "trustLevelBp": 873.0}},
        ),
        one("foreign-signer", "signed by another key", "forged", credential(signer=EAST)),
        one("flipped-proof", "one letter", "forged", credential(proof={"jws": flipped})),
        one("unpadded-proof", "strict base64", "forged", credential(proof={"jws": good["proof"]["jws"].rstrip("=")})),
        one(
            "p256-issuer",
            "introducers have Ed25519 keys",
            "forged",
            credential(issuer=p256_did, proof={"verificationMethod": p256_did}),
        ),
        one("self-issued", "nobody vouches for himself", "self-issued", credential(signer=NORTH, issuer=NORTH.did)),
        one(
            "issued-by-target",
            "nobody vouches to himself",
            "issued by target",
            credential(signer=SOUTH, issuer=SOUTH.did),
        ),
        one(
            "to-itself",
            "nobody is introduced to himself",
            "subject is target",
            credential(subject={"introducedTo": NORTH.did}),
            target=None,
        ),
        one("expired", "validUntil is the first second after", "expired", good, now=end),
        one("other-type", "a credential about something else", "other type", credential(type=["VerifiableCredential"])),
        one("unsafe-integer", "languages read it differently", "unverifiable", credential(later=2**53)),
        one("too-large", "16 KiB and more", "too large", credential(later="x" * 16_384)),
        *(
            one(f"no-{key}", "every credential has it", "malformed", credential(drop=[key]))
            for key in ("id", "type", "issuer", "issuanceDate", "credentialSubject")
        ),
        one(
            "no-proof",
            "every credential has it",
            "malformed",
            {key: value for key, value in good.items() if key != "proof"},
        ),
        *(
            one(f"no-subject-{key}", "every credential has it", "malformed", credential(subject={key: None}))
            for key in ("id", "introducedTo", "validUntil")
        ),
        *(
            one(f"level-{name}", "an integer of thousandths", "malformed", credential(subject={"trustLevelBp": level}))
            for name, level in (("true", True), ("float", 873.0), ("text", "873"), ("above", 1001), ("below", -1))
        ),
        one("old-level-true", "a boolean is not a number", "malformed", level(trustLevel=True)),
        one("old-level-above", "1 is the most", "malformed", level(trustLevel=1.1)),
        one("other-proof-type", "another way to sign", "malformed", credential(proof={"type": "JsonWebSignature2020"})),
        one(
            "other-method",
            "another key than the issuer's",
            "malformed",
            credential(proof={"verificationMethod": EAST.did}),
        ),
        one("lax-time", "one spelling", "malformed", credential(subject={"validUntil": "2027-01-01T00:00:00+00:00"})),
        one("long-id", "128 bytes are enough", "malformed", credential(id="a" * 129)),
        one("id-with-blank", "an id is shown and typed", "malformed", credential(id="urn:uuid:a b")),
        one("much-expertise", "16 fields are enough", "malformed", credential(subject={"expertise": ["a"] * 17})),
        one("long-expertise", "64 bytes are enough", "malformed", credential(subject={"expertise": ["é" * 33]})),
        one("list", "a credential is an object", "malformed", [good]),
    ]
    return accepted + refused


# ---------------------------------------------------------------- revocations.json
def revocation_cases():
    ids = [f"urn:uuid:{n:032x}" for n in (1, 2, 0xAB)]

    def signed(signer=WEST, **changes):
        value = {"typ": "muretai/revocations/1", "issuer": WEST.did, "revoked": ids, "ts": NOW, **changes}
        return {**value, "sig": signer.sign(canonical(value))}

    def one(name, why, expect, value):
        return case(name, why, expect, now=NOW, issuer=WEST.did, list=value)

    good = signed()
    return [
        one("plain", "three were taken back", ids, good),
        one("empty", "none was", [], signed(revoked=[])),
        one(
            "foreign-ids",
            "ids are the issuer's own",
            ["\u00e9", "\U00010000"],
            signed(revoked=["\u00e9", "\U00010000"]),
        ),
        one("unknown-member", "covered by the signature", ids, signed(later=[1])),
        one("newest", "300 s ahead", ids, signed(ts=NOW + 300)),
        one("old", "a list has no end", ids, signed(ts=0)),
        one("other-issuer", "never widen", "other issuer", signed(EAST, issuer=EAST.did)),
        one("foreign-signer", "signed by another key", "forged", signed(EAST)),
        one("shortened", "one name less", "forged", {**good, "revoked": ids[1:]}),
        one("redated", "the time is signed", "forged", {**good, "ts": NOW - 1}),
        one("unpadded", "strict base64", "forged", {**good, "sig": good["sig"].rstrip("=")}),
        one("future", "301 s ahead", "from the future", signed(ts=NOW + 301)),
        one("unsorted", "one spelling", "malformed", signed(revoked=ids[::-1])),
        one("twice", "one spelling", "malformed", signed(revoked=[ids[0], ids[0]])),
        one("number", "ids are texts", "malformed", signed(revoked=[1])),
        one("no-list", "not a list", "malformed", signed(revoked=ids[0])),
        one("float-time", "a time is an integer", "malformed", signed(ts=float(NOW))),
        one("other-typ", "a list of something else", "malformed", signed(typ="muretai/revocations/2")),
        one("no-sig", "a claim", "malformed", {key: value for key, value in good.items() if key != "sig"}),
        one("array", "a list is an object", "malformed", ids),
    ]


# ---------------------------------------------------------------- linkage.json
CONTEXT = "https://identity.foundation/.well-known/did-configuration/v1"
CREDENTIALS = "https://www.w3.org/2018/credentials/v1"


def linkage_cases():
    def token(signer=NORTH, origin="https://north.example", header=None, vc=None, raw=None, **changes):
        header = {"alg": "EdDSA", "kid": f"{NORTH.did}#{NORTH.did[8:]}", "typ": "JWT", **(header or {})}
        credential = {
            "@context": [CREDENTIALS, CONTEXT],
            "credentialSubject": {"id": NORTH.did, "origin": origin},
            "expirationDate": iso(NOW + 90 * DAY),
            "issuanceDate": iso(NOW - DAY),
            "issuer": NORTH.did,
            "type": ["VerifiableCredential", "DomainLinkageCredential"],
            **(vc or {}),
        }
        payload = {
            "exp": NOW + 90 * DAY,
            "iss": NORTH.did,
            "nbf": NOW - DAY,
            "sub": NORTH.did,
            "vc": credential,
            **changes,
        }
        payload = {key: value for key, value in payload.items() if value is not None}
        text = raw or canonical(payload)
        signed = f"{b64url(canonical(header).encode())}.{b64url(text.encode())}"
        return f"{signed}.{b64url(signer.key.sign(signed.encode()))}"

    def one(name, why, expect, *entries, domain="north.example", now=NOW, **changes):
        document = {"@context": CONTEXT, "linked_dids": list(entries), **changes}
        return case(name, why, expect, now=now, did=NORTH.did, domain=domain, document=document)

    good = token()
    expired, other = token(exp=NOW - 1), token(EAST, iss=EAST.did)
    subject = {"id": NORTH.did, "origin": "https://north.example"}
    respelled = json.dumps(
        {
            "exp": NOW + 1,
            "iss": NORTH.did,
            "sub": NORTH.did,
            "vc": {
                "type": ["DomainLinkageCredential", "VerifiableCredential"],
                "@context": [CONTEXT, CREDENTIALS],
                "credentialSubject": subject,
            },
        },
        indent=1,
    )
    head, body, sig = good.split(".")
    return [
        one("plain", "the domain names the DID", "linked", good),
        one("spelled-otherwise", "signed as received, never written again", "linked", token(raw=respelled)),
        one("origin-spelling", "origins are compared, not texts", "linked", token(origin="HTTPS://North.Example:443/")),
        one(
            "port",
            "a port is part of it",
            "linked",
            token(origin="https://north.example:8443"),
            domain="north.example:8443",
        ),
        one("first-second", "both ends included", "linked", good, now=NOW - DAY),
        one("last-second", "both ends included", "linked", good, now=NOW + 90 * DAY),
        one("no-nbf", "it may be left out", "linked", token(nbf=None)),
        one("among-others", "other entries are passed over", "linked", {"proof": {}}, 7, "a.b.c", other, good),
        one("second-of-two", "a token takes over from another", "linked", expired, good),
        one("no-context", "the document's own context says nothing", "linked", good, **{"@context": None}),
        one("third-of-three", "two are verified", "token", expired, expired, good),
        one("sixty-fifth", "64 entries are read", "not named", *["a.b.c"] * 64, good),
        one("other-did", "the domain of somebody else", "not named", other),
        one("none", "the domain names nobody", "not named"),
        one("other-domain", "a copied document", "token", good, domain="east.example"),
        one("subdomain", "another domain", "token", good, domain="a.north.example"),
        one("other-port", "another origin", "token", good, domain="north.example:8443"),
        one("http", "another origin", "token", token(origin="http://north.example")),
        one("expired", "a second late", "token", good, now=NOW + 90 * DAY + 1),
        one("early", "a second early", "token", good, now=NOW - DAY - 1),
        one("forged", "signed by another key", "token", token(EAST)),
        one(
            "edited", "the payload is signed", "token", f"{head}.{b64url(canonical({'iss': NORTH.did}).encode())}.{sig}"
        ),
        one("padded", "strict base64url", "token", f"{head}.{body}.{sig}=="),
        one("two-segments", "no signature", "token", f"{head}.{body}"),
        one("four-segments", "a JWE has more", "not named", f"x.{good}"),
        one("no-algorithm", "never none", "token", token(header={"alg": "none"})),
        one("other-algorithm", "exactly EdDSA", "token", token(header={"alg": "Ed25519"})),
        one("demands", "an unknown crit", "token", token(header={"crit": ["x"]})),
        one("other-sub", "two DIDs in one token", "token", token(sub=EAST.did)),
        one(
            "other-subject",
            "two DIDs in one token",
            "token",
            token(vc={"credentialSubject": {**subject, "id": EAST.did}}),
        ),
        one("no-exp", "it has to end", "token", token(exp=None)),
        one("float-exp", "a time is an integer", "token", token(exp=float(NOW + DAY))),
        one("true-nbf", "a boolean is not a number", "token", token(nbf=True)),
        one("type-text", "types are a list", "token", token(vc={"type": "DomainLinkageCredential"})),
        one("type-missing", "both types", "token", token(vc={"type": ["VerifiableCredential"]})),
        one("context-missing", "both contexts", "token", token(vc={"@context": [CREDENTIALS]})),
        one("no-origin", "the domain is said", "token", token(vc={"credentialSubject": {"id": NORTH.did}})),
        one("too-long", "16 KiB are enough", "not named", token(vc={"later": "x" * 16_384})),
        one("not-a-list", "linked_dids is a list", "malformed", linked_dids=good),
        one("no-list", "linked_dids is there", "malformed", linked_dids=None),
    ]
