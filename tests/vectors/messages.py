"""Cases about signed messages."""

import base64

import oracle
from oracle import EAST, NORTH, NOW, SOUTH, b64, canonical, case


# ---------------------------------------------------------------- messages.json
def payload_of(fields):
    return canonical({key: fields[key] for key in ("contextId", "from", "messageId", "text", "timestamp", "to")})


def fields_of(sender=NORTH, to=SOUTH, text="hello", context=None, message_id="m1", timestamp=NOW):
    return {
        "contextId": context,
        "from": sender.did,
        "messageId": message_id,
        "text": text,
        "timestamp": timestamp,
        "to": to.did,
    }


def wire(fields, sig, **changes):
    message = {
        "kind": "message",
        "role": "user",
        "parts": [{"kind": "text", "text": fields["text"]}],
        "messageId": fields["messageId"],
        "metadata": {"timestamp": fields["timestamp"], "from": fields["from"], "to": fields["to"], "sig": sig},
    }
    if fields["contextId"] is not None:
        message["contextId"] = fields["contextId"]
    metadata = changes.pop("metadata", {})
    if isinstance(metadata, dict):
        message["metadata"].update(metadata)
    else:
        message["metadata"] = metadata
    message.update(changes)
    return message


def message_cases():
    """`expect` is the payload that the signature covers."""

    def one(name, why, signed=None, **changes):
        fields = signed or fields_of()
        payload = payload_of(fields)
        sig = NORTH.sign(payload)
        return case(
            name,
            why,
            payload,
            seedHex=NORTH.seed.hex(),
            now=NOW,
            me=SOUTH.did,
            sig=sig,
            message=wire(fields, sig, **changes),
        )

    other_parts = [{"kind": "data", "data": {"n": 1}}, {"kind": "text", "text": "a"}, {"kind": "text", "text": "b"}]
    return [
        one("plain", "a first message"),
        one("context", "contextId is signed", fields_of(context="c1")),
        one("empty-context", "an empty string is not null", fields_of(context="")),
        one("null-context", "null on the wire is absent", contextId=None),
        one("empty-text", "nothing is something that can be signed", fields_of(text="")),
        one(
            "all-scripts",
            "no character is escaped that need not be",
            fields_of(text='"\\\u0000\u001f\u007f/\u00e9\u2028\u65e5\u672c\U0001f426'),
        ),
        one("long-id", "ids are not always ours", fields_of(message_id="urn:uuid:6e1b\u00fc/1")),
        one("two-text-parts", "text parts are joined with one line feed", fields_of(text="a\nb"), parts=other_parts),
        one("window-starts", "300 s old is not too old", fields_of(timestamp=NOW - 300)),
        one("window-ends", "300 s ahead is not too far", fields_of(timestamp=NOW + 300)),
        one(
            "unknown-members",
            "what is not known is ignored and not signed",
            later=[1],
            metadata={"later": {}, "vc": None, "auto": False},
        ),
        one("lying-recipient", "who it is for is named by the verifier, not by decoration", recipientDid=EAST.did),
        mixed_order(),
    ]


def mixed_order():
    """A key with a small-order component whose signature satisfies the cofactorless equation: valid (2.2)."""
    scalar = oracle.secret_scalar(NORTH)
    public = oracle.compress(oracle.add(oracle.multiply(scalar, oracle.BASE), oracle.TORSION))
    for number in range(1000):
        fields = {**fields_of(message_id=f"m{number}"), "from": oracle.ed25519_did(public)}
        payload = payload_of(fields)
        raw = oracle.sign_with(scalar, public, payload.encode())
        if oracle.challenge(raw[:32], public, payload.encode()) % 8 == 0:
            why = "a key is not asked to be free of torsion"
            return case(
                "mixed-order-key", why, payload, now=NOW, me=SOUTH.did, sig=b64(raw), message=wire(fields, b64(raw))
            )
    raise AssertionError("one in eight fits")


# ---------------------------------------------------------------- messages_refused.json
def refused_message_cases():
    fields = fields_of()
    payload = payload_of(fields)
    sig = NORTH.sign(payload)
    raw = base64.b64decode(sig)

    def one(name, why, expect, message):
        return case(name, why, expect, now=NOW, me=SOUTH.did, message=message)

    def with_raw(name, why, raw, sender=fields["from"]):
        return one(name, why, "signature", wire({**fields, "from": sender}, b64(raw)))

    def malleated():
        s = int.from_bytes(raw[32:], "little") + oracle.L
        return raw[:32] + s.to_bytes(32, "little")

    identity = bytes([1]) + bytes(31)
    base_point_one = oracle.compress(oracle.BASE) + identity
    torsion = oracle.sign_with(oracle.secret_scalar(NORTH), NORTH.public, payload.encode(), oracle.TORSION)
    p256_did = oracle.did_of(b"\x80\x24", oracle.p256_key(7)[1])
    last = sig[-3]
    twin = sig[:-3] + with_unused_bits(last) + "=="
    changed = [
        ("text", "the text is signed", {"parts": [{"kind": "text", "text": "hello!"}]}),
        (
            "part-split",
            "one part of two lines, or two parts, but not two lines for one",
            {"parts": [{"kind": "text", "text": "hel"}, {"kind": "text", "text": "lo"}]},
        ),
        ("message-id", "the id is signed", {"messageId": "m2"}),
        ("context", "contextId is signed", {"contextId": "c"}),
        ("empty-context", "an empty string is not null", {"contextId": ""}),
        ("timestamp", "the time is signed", {"metadata": {"timestamp": NOW + 1}}),
        ("fractional-timestamp", "a time is whole seconds", {"metadata": {"timestamp": NOW + 0.5}}),
        ("sender", "another sender did not sign this", {"metadata": {"from": EAST.did}}),
        ("small-order-signature", "R of small order", {"metadata": {"sig": b64(identity + bytes(32))}}),
        ("empty-signature", "a string, and no signature", {"metadata": {"sig": ""}}),
        ("unpadded-signature", "strict base64 is padded", {"metadata": {"sig": sig.rstrip("=")}}),
        ("urlsafe-signature", "the standard alphabet only", {"metadata": {"sig": "-_" + sig[2:]}}),
        ("padded-blank", "no white space", {"metadata": {"sig": sig + "\n"}}),
        ("twin-signature", "one of sixteen spellings that decode alike", {"metadata": {"sig": twin}}),
        ("bad-sender", "no DID", {"metadata": {"from": "north"}}),
        ("p256-sender", "only Ed25519 in envelopes", {"metadata": {"from": p256_did}}),
        ("extra-signatures-no-list", "present and malformed", {"metadata": {"sigs": {}}}),
        (
            "extra-signature-forged",
            "known and wrong",
            {"metadata": {"sigs": [{"alg": "ed25519-pub", "sig": b64(bytes(64))}]}},
        ),
    ]
    assert base64.b64decode(twin) == raw != twin
    signature_cases = [
        one(name, why, "stale" if "fractional" in name else "signature", wire(fields, sig, **change))
        for name, why, change in changed
    ]
    return [
        *signature_cases,
        with_raw("random-bytes", "no signature of anybody", bytes(range(64))),
        with_raw("short", "63 bytes", raw[:63]),
        with_raw("long", "65 bytes", raw + b"\0"),
        with_raw("malleated", "S + L, the other spelling of S", malleated()),
        with_raw(
            "identity-key",
            "under this key one constant would sign everything",
            base_point_one,
            oracle.ed25519_did(identity),
        ),
        with_raw(
            "y-not-reduced",
            "p + 1 is the identity in disguise",
            base_point_one,
            oracle.ed25519_did((oracle.P + 1).to_bytes(32, "little")),
        ),
        with_raw("cofactored-only", "valid when multiplied by eight, and not otherwise", torsion),
        one(
            "wrong-recipient",
            "signed for another",
            "not addressed",
            wire(fields_of(to=EAST), NORTH.sign(payload_of(fields_of(to=EAST)))),
        ),
        one("one-second-too-old", "301 s", "stale", signed(fields_of(timestamp=NOW - 301))),
        one("one-second-too-new", "301 s", "stale", signed(fields_of(timestamp=NOW + 301))),
        *(
            one(f"timestamp-{kind}", "not a number", "stale", wire(fields, sig, metadata={"timestamp": value}))
            for kind, value in (("text", str(NOW)), ("bool", True), ("null", None), ("list", [NOW]))
        ),
        one("unsigned", "no envelope at all", "unsigned", wire(fields, sig, metadata=None)),
        one(
            "null-envelope", "null reads as absent", "unsigned", wire(fields, None, metadata={"from": None, "to": None})
        ),
        *(
            one(f"no-{key}", "a part of the envelope", "incomplete", wire(fields, sig, metadata={key: None}))
            for key in ("from", "to", "sig")
        ),
        *(
            one(f"shape-{name}", "refused before anything is hashed", "shape", wire(fields, sig, **change))
            for name, change in (
                ("kind", {"kind": "task"}),
                ("kind-absent", {"kind": None}),
                ("parts", {"parts": {}}),
                ("text", {"parts": [{"kind": "text", "text": 7}]}),
                ("id-blank", {"messageId": " \t"}),
                ("id-empty", {"messageId": ""}),
                ("id-number", {"messageId": 7}),
                ("id-null", {"messageId": None}),
                ("context", {"contextId": 7}),
                ("metadata", {"metadata": []}),
                ("from", {"metadata": {"from": 7}}),
                ("to", {"metadata": {"to": []}}),
                ("sig", {"metadata": {"sig": {}}}),
            )
        ),
    ]


def signed(fields):
    return wire(fields, NORTH.sign(payload_of(fields)))


def with_unused_bits(letter):
    """The letter with the same two top bits and other, unused, low bits."""
    letters = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/"
    return letters[letters.index(letter) | 1]
