"""Cases about cards, invites and sealed letters."""

import base64

import oracle
from oracle import EAST, NORTH, NOW, SOUTH, b64, b64url, canonical, case


# ---------------------------------------------------------------- cards.json
def card_cases():
    url = "https://north.example/a"
    card = {
        "did": NORTH.did,
        "name": "north",
        "url": url,
        "later": {"empty": "", "no": False, "list": [], "nothing": None},
    }

    def envelope(card=card, ts=NOW, signer=NORTH, **changes):
        value = {"v": 1, "typ": "agentcard", "card": card, "ts": ts}
        return {**value, "sig": signer.sign(canonical(value)), **changes}

    def one(name, why, expect, envelope, **caller):
        return case(name, why, expect, now=NOW, envelope=envelope, caller=caller)

    p256, p256_public = oracle.p256_key(7)
    root_card = {"did": oracle.did_of(b"\x80\x24", p256_public), "name": "root", "url": url}

    class Root:
        """A hardware root: P-256 signatures, in one of their two forms."""

        def __init__(self, form):
            self.sign = lambda text: b64(form(oracle.p256_sign(p256, text.encode())))

    good = envelope()
    copied = {**card, "url": "https://east.example/a"}
    return [
        one("plain", "a card by its own key", "proven", good),
        one(
            "expected",
            "the caller's DID, plain card and address agree",
            "proven",
            good,
            did=NORTH.did,
            plain=card,
            dialled=url,
        ),
        one("trailing-slash", "the same scope", "proven", good, dialled="HTTPS://North.Example:443/a/"),
        one("key-order", "canonical comparison", "proven", good, plain=dict(reversed(card.items()))),
        one("unknown-member", "not covered, and ignored", "proven", {**good, "later": 1}),
        one("oldest", "six hours", "proven", envelope(ts=NOW - 21_600)),
        one("newest", "300 s ahead", "proven", envelope(ts=NOW + 300)),
        one("float-time", "an old publisher's time is taken as received", "proven", envelope(ts=float(NOW))),
        one("no-url", "a directory's copy", "proven", envelope({"did": NORTH.did, "name": "north", "url": ""})),
        one(
            "p256-der", "a hardware root, signature in DER", "proven", envelope(root_card, signer=Root(lambda der: der))
        ),
        one(
            "p256-raw",
            "a hardware root, signature as r and s",
            "proven",
            envelope(root_card, signer=Root(oracle.raw_p256)),
        ),
        one("other-did", "another agent's card", "other did", good, did=EAST.did),
        one("foreign-signer", "signed by another key", "signature", envelope(signer=EAST)),
        one("edited", "one letter of the card", "signature", {**good, "card": {**card, "name": "North"}}),
        one(
            "dropped-member",
            "an empty member is a member",
            "signature",
            {**good, "card": {k: v for k, v in card.items() if k != "later"}},
        ),
        one("redated", "the time is signed", "signature", {**good, "ts": NOW - 1}),
        one("respelled-time", "no coercion", "signature", {**good, "ts": float(NOW)}),
        one("unpadded", "strict base64", "signature", {**good, "sig": good["sig"].rstrip("=")}),
        one(
            "p256-key-ed25519-signature",
            "a key of another curve",
            "signature",
            envelope({**card, "did": oracle.did_of(b"\x80\x24", p256_public)}),
        ),
        one("too-old", "six hours and a second", "too old", envelope(ts=NOW - 21_601)),
        one("too-new", "301 s ahead", "from the future", envelope(ts=NOW + 301)),
        one(
            "other-plain-card", "what is served is not what is signed", "differs", good, plain={**card, "name": "North"}
        ),
        one("other-path", "another agent of the same host", "other scope", good, dialled="https://north.example/A"),
        one("other-scheme", "an origin has a scheme", "other scope", good, dialled="http://north.example/a"),
        one("copied", "a card made for another address", "other scope", envelope(copied), dialled=url),
        one("empty-url", "matches nothing", "other scope", envelope({"did": NORTH.did, "url": ""}), dialled=""),
        one(
            "unverifiable", "an integer that languages read differently", "unverifiable", envelope({**card, "n": 2**53})
        ),
        one("no-did", "an envelope around no card", "card", envelope({"name": "north"})),
        one("bad-did", "an envelope around no card", "card", envelope({"did": "north"})),
        one("other-type", "a signature over something else", "other type", {**good, "typ": "invite"}),
        *(
            one(f"shape-{key}", "missing or of another type", "shape", {**good, key: value})
            for key, value in (
                ("v", 2),
                ("typ", None),
                ("card", []),
                ("ts", str(NOW)),
                ("ts", None),
                ("sig", 7),
                ("sig", None),
            )
        ),
    ]


# ---------------------------------------------------------------- invites.json, links.json
def invite(signer=NORTH, **changes):
    card = {
        "v": 1,
        "did": NORTH.did,
        "name": "north",
        "url": "https://north.example",
        "specialty": "general",
        "nonce": "00ff" * 8,
    }
    card = {**card, "exp": "2026-07-25T17:20:01Z", **changes}
    card = {key: value for key, value in card.items() if value is not ...}
    return {**card, "sig": signer.sign(canonical(card))}


def invite_cases():
    def one(name, why, expect, card, me=SOUTH):
        return case(name, why, expect, now=NOW, me=me.did, card=card)

    good = invite()
    return [
        one("plain", "valid for one more second", "accepted", good),
        one(
            "every-member",
            "optional members are covered",
            "accepted",
            invite(relay="https://relay.example", enc_pub=NORTH.enc_pub, purpose="p", tags=["a"]),
        ),
        one("trailing-slash", "nothing is normalised", "accepted", invite(url="https://north.example/")),
        one("unknown-members", "covered, whatever they are", "accepted", invite(later={"b": [1, None], "a": ""})),
        one("no-url", "reached through its relay", "accepted", invite(url="", relay="https://relay.example")),
        one("expires-now", "strictly later than now", "expired", invite(exp="2026-07-25T17:20:00Z")),
        one("expired", "long ago", "expired", invite(exp="2020-01-01T00:00:00Z")),
        one("own", "this is yourself", "own", good, me=NORTH),
        one("foreign-signer", "signed by another key", "forged", invite(signer=EAST)),
        one("edited", "a slash is a change", "forged", {**good, "url": "https://north.example/"}),
        one("added-member", "unknown members are covered", "forged", {**good, "later": None}),
        one(
            "dropped-member", "what was signed must be there", "forged", {k: v for k, v in good.items() if k != "name"}
        ),
        one("longer", "a later end", "forged", {**good, "exp": "2099-01-01T00:00:00Z"}),
        one("other-inviter", "another DID in its place", "forged", {**good, "did": EAST.did}),
        one("unpadded", "strict base64", "forged", {**good, "sig": good["sig"].rstrip("=")}),
        one("relay-with-query", "would be put into other URLs", "bad relay", invite(relay="https://relay.example/?x=")),
        one(
            "relay-with-user", "would be put into other URLs", "bad relay", invite(relay="https://north@relay.example")
        ),
        one("relay-not-http", "would be put into other URLs", "bad relay", invite(relay="ftp://relay.example")),
        one("expiry-with-offset", "one spelling of time", "malformed", invite(exp="2026-07-25T17:20:01+00:00")),
        one("expiry-not-a-day", "no such day", "malformed", invite(exp="2099-02-30T00:00:00Z")),
        one("expiry-number", "not text", "malformed", invite(exp=NOW + 1)),
        one("did-of-another-method", "no key to verify with", "malformed", {**good, "did": "did:web:north.example"}),
        one("unverifiable", "an integer that languages read differently", "unverifiable", invite(n=2**53)),
        *(
            one(f"no-{key}", "required", "missing", invite(**{key: ...}) if key != "sig" else {**good, "sig": None})
            for key in ("did", "sig", "exp", "nonce")
        ),
        one("list", "not an object", "not an object", []),
    ]


def link_cases():
    card = invite()
    token = b64url(canonical(card).encode())
    padded = base64.urlsafe_b64encode(canonical(card).encode()).decode()
    half = len(token) // 2

    def one(name, why, link, expect):
        return case(name, why, expect, link=link)

    def card_of(name, why, link):
        return one(name, why, link, {"card": card})

    def fetch(name, why, link, url="https://relay.example/i/aZ0_-9"):
        return one(name, why, link, {"fetch": url})

    return [
        card_of("agent", "the form that needs no server", f"agent://invite?d={token}"),
        card_of("padded", "padding is optional", f"agent://invite?d={padded}"),
        card_of("page", "the token is behind the fragment", f"https://relay.example/invitation#d={token}"),
        card_of("page-alias", "the short page", f"https://relay.example/i#d={token}"),
        card_of("blanks", "pasted", f" \tagent://invite?d={token}\r\n"),
        card_of("angle-brackets", "from a mail", f"<agent://invite?d={token}>"),
        card_of("quotes", "from a chat", f"\u201cagent://invite?d={token}\u201d"),
        card_of("broken-lines", "wrapped by a terminal", f"agent://invite?d={token[:half]}\n  {token[half:]}"),
        card_of(
            "quoted-reply",
            "wrapped and quoted by a mail program",
            f"> agent://invite?d={token[:half]}\n> {token[half:]}",
        ),
        card_of("token-before-path", "d= decides first", f"https://relay.example/i/abc#d={token}"),
        fetch("short", "the card is fetched", "https://relay.example/i/aZ0_-9"),
        fetch("short-pasted", "pasted", " <https://relay.example/i/aZ0_-9>\n"),
        fetch("short-respelled", "one spelling of the host", "HTTPS://Relay.Example:443/i/aZ0_-9"),
        fetch("short-below-a-mount", "shared hosts", "http://10.0.0.1:8/a/b/i/x", "http://10.0.0.1:8/a/b/i/x"),
        fetch("short-ipv6", "brackets stay", "http://[200::1]:8080/i/x", "http://[200::1]:8080/i/x"),
        one("cut-token", "half a token", f"agent://invite?d={token[:half]}", "damaged"),
        one("empty-token", "nothing", "agent://invite?d=", "damaged"),
        one("token-not-json", "base64 of something else", f"agent://invite?d={b64url(b'hello')}", "damaged"),
        one("token-not-object", "JSON of something else", f"agent://invite?d={b64url(b'[]')}", "damaged"),
        one(
            "token-with-mark",
            "the parse boundary holds here too",
            "agent://invite?d=" + b64url(b"\xef\xbb\xbf{}"),
            "damaged",
        ),
        one("token-of-other-alphabet", "base64url only", "agent://invite?d=e30+/w", "damaged"),
        *(
            one(name, why, link, "not a link")
            for name, why, link in (
                ("empty", "nothing", ""),
                ("word", "a name", "north"),
                ("did", "an address is not an invite", NORTH.did),
                ("no-code", "a short link without its code", "https://relay.example/i/"),
                ("odd-code", "a code has no dots", "https://relay.example/i/a.b"),
                ("query", "a short link has none", "https://relay.example/i/abc?id=5"),
                ("user", "no credentials in links", "https://north@relay.example/i/abc"),
                ("dot-segments", "no way out of the mount", "https://relay.example/%2e%2E/i/abc"),
                ("scheme", "http or https", "ftp://relay.example/i/abc"),
                ("no-scheme", "a path alone", "/i/abc"),
            )
        ),
    ]


# ---------------------------------------------------------------- sealed.json
def sealed_cases():
    nonce = bytes(range(12))
    text = "two agents, \u4e8c\U0001f426".encode()
    ad = b"contextId=c1"
    blob = oracle.seal(NORTH, SOUTH, text, ad, nonce)

    def one(name, why, expect, blob, ad=ad, sender=NORTH, recipient=SOUTH):
        blob = blob if isinstance(blob, str) else b64(blob)
        keys = {
            "recipientSeedHex": recipient.seed.hex(),
            "recipientEncPub": recipient.enc_pub,
            "senderEncPub": sender.enc_pub,
        }
        return case(name, why, expect, **keys, adHex=ad.hex(), blob=blob)

    def flip(at):
        return blob[:at] + bytes([blob[at] ^ 1]) + blob[at + 1 :]

    closed = "does not open"
    return [
        one("plain", "a letter", {"plaintextHex": text.hex()}, oracle.seal(NORTH, SOUTH, text, b"", nonce), ad=b""),
        one("associated-data", "covered, not sent", {"plaintextHex": text.hex()}, blob),
        one("empty", "nothing, sealed", {"plaintextHex": ""}, oracle.seal(NORTH, SOUTH, b"", b"", nonce), ad=b""),
        one(
            "both-ways",
            "one key for both directions",
            {"plaintextHex": text.hex()},
            blob,
            sender=SOUTH,
            recipient=NORTH,
        ),
        one(
            "long",
            "more than one block",
            {"plaintextHex": (b"x" * 1000).hex()},
            oracle.seal(NORTH, SOUTH, b"x" * 1000, ad, nonce),
        ),
        one("other-associated-data", "bound to its context", closed, blob, ad=b"contextId=c2"),
        one("no-associated-data", "bound to its context", closed, blob, ad=b""),
        one("other-recipient", "not for east", closed, blob, recipient=EAST),
        one("other-sender", "not from east", closed, blob, sender=EAST),
        one("flipped-nonce", "one bit", closed, flip(0)),
        one("flipped-text", "one bit", closed, flip(12)),
        one("flipped-tag", "one bit", closed, flip(len(blob) - 1)),
        one("truncated", "one byte short", closed, blob[:-1]),
        one("nonce-only", "nothing after it", closed, blob[:12]),
        one("tag-too-short", "27 bytes", closed, blob[:27]),
        one("empty-blob", "nothing at all", closed, ""),
        one("hybrid-cut-short", "the magic of v2 and too little behind it", closed, b"a2b2" + blob),
        one("hybrid-of-noise", "the magic of v2 and a ciphertext of nothing", closed, b"a2b2" + bytes(1088) + blob),
        one("unpadded", "strict base64", closed, b64(blob).rstrip("=")),
        one("line-feed", "strict base64", closed, b64(blob) + "\n"),
    ]
