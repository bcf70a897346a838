"""Cases about documents, numbers, addresses and phrases."""

import json

import oracle
from oracle import EAST, NORTH, Agent, canonical, case


# ---------------------------------------------------------------- canonical.json
def canonical_cases():
    def one(name, why, document):
        return case(name, why, canonical(json.loads(document)), document=document)

    astral, private = "\U0001f426", "\ue000"
    return [
        one("empty-object", "the smallest document", "{}"),
        one(
            "sorted-at-every-depth",
            "order is by key, in arrays' objects too",
            '{"b":[{"d":1,"c":2}],"a":{"z":1,"y":2}}',
        ),
        one("array-order-kept", "arrays are sequences", "[3,1,2]"),
        one("white-space-dropped", "all four kinds of JSON white space", ' \t\r\n{ "a" :\t[ 1 ,\r2 ] }\n'),
        one("literals", "null, true, false", "[null,true,false]"),
        one("shorthand-escapes", "two-character escapes where they exist", r'"\"\\\/\b\f\n\r\t"'),
        one(
            "control-characters", "lower-case hex for all others", '"' + "".join(f"\\u{c:04X}" for c in range(32)) + '"'
        ),
        one("nothing-else-escaped", "slash, DEL and line separators stand for themselves", '"/\\u007f\\u2028\\u2029"'),
        one("no-normalisation", "composed and decomposed are two strings", '["\\u00e9","e\\u0301"]'),
        one("case-of-hex-in-input", "escapes are read in either case", '"\\u00E9\\u00e9"'),
        one("astral-escaped-and-raw", "one document, two spellings", f'["\\ud83d\\udc26","{astral}"]'),
        one("astral-key-sorts-last", "code points, not UTF-16 units", f'{{"{astral}":1,"{private}":2,"a":3}}'),
        one("numeric-keys-sort-as-text", "10 before 9", '{"9":1,"10":2}'),
        one("empty-key", "an empty name is a name", '{"a":1,"":2}'),
        one("duplicate-key-last-wins", "agreement with every other reader", '{"a":1,"b":2,"a":3}'),
        one("duplicate-key-by-escape", "names are compared after unescaping", '{"a":1,"\\u0061":2}'),
        one("largest-integers", "the edges of what is exact", "[9007199254740991,-9007199254740991]"),
        one("null-is-a-member", "absent and null are two documents", '{"a":null}'),
    ]


# ---------------------------------------------------------------- numbers.json
def number_cases():
    """`sign`: what a signer emits; `verify`: what a verifier hashes. CPython's repr decides about floats."""
    refused = "refused"
    cases = []
    for token, why in [
        ("0", "an integer"),
        ("-1", "an integer"),
        ("-0", "the token of an integer zero"),
        ("9007199254740991", "the largest exact integer"),
        ("9007199254740992", "beyond it, refused and not rounded"),
        ("-9007199254740992", "beyond it on the other side"),
        ("123456789012345678901234567890", "far beyond it"),
        ("1.0", "an integral float is not the integer"),
        ("0.0", "zero as a float"),
        ("-0.0", "negative zero"),
        ("0.1", "a fraction that all languages spell alike"),
        ("1785937682.845164", "a time with microseconds"),
        ("0.0001", "the smallest decimal exponent without e"),
        ("0.00001", "one below: exponent form, two digits"),
        ("1e-7", "exponent form is completed"),
        ("1E5", "an exponent that is not needed"),
        ("1e15", "still positional"),
        ("9999999999999998.0", "the last positional one"),
        ("1e16", "the first with an exponent"),
        ("1.5e300", "three digits of exponent"),
        ("5e-324", "the smallest subnormal"),
        ("1.7976931348623157e308", "the largest finite number"),
        ("1e-400", "underflows to zero"),
        ("0.30000000000000004", "seventeen digits are kept"),
        ("0.3000000000000000444", "more digits than a double has"),
        ("1e400", "not finite"),
        ("-1e400", "not finite"),
    ]:
        value = json.loads(token)
        is_safe_int = isinstance(value, int) and abs(value) < 2**53
        is_finite_float = isinstance(value, float) and abs(value) != float("inf")
        sign = canonical(value) if is_safe_int else refused
        verify = canonical(value) if is_safe_int or is_finite_float else refused
        for shape in ("{}", '{{"a":[{}]}}'):
            wrap = shape.format
            cases.append(
                case(
                    f"{token}{' nested' if shape != '{}' else ''}",
                    why,
                    {
                        side: text if text == refused else wrap(text)
                        for side, text in (("sign", sign), ("verify", verify))
                    },
                    document=wrap(token),
                )
            )
    return cases


# ---------------------------------------------------------------- encodings.json
def encoding_cases():
    def accept(name, why, data):
        return case(name, why, canonical(json.loads(data.decode())), documentHex=data.hex())

    def refuse(name, why, data):
        return case(name, why, "refused", documentHex=data.hex())

    nest = lambda depth: b"[" * depth + b"]" * depth
    return [
        accept("replacement-character", "a literal U+FFFD is a character like any other", '"\ufffd"'.encode()),
        accept("escaped-nul", "U+0000 is a scalar value", b'"\\u0000"'),
        accept("astral-pair-escape", "a proper pair is one character", b'"\\ud83d\\udc26"'),
        accept("astral-raw", "four bytes of UTF-8", '"\U0001f426"'.encode()),
        accept("noncharacter", "U+FFFE inside a document is no mark", '"a\ufffe"'.encode()),
        accept("bom-inside-a-string", "only the start of a document is special", '"a\ufeff"'.encode()),
        accept("nesting-at-the-limit", "128 levels", nest(128)),
        refuse("nesting-beyond-the-limit", "129 levels", nest(129)),
        refuse("nesting-unbounded", "thousands of levels must not use up the stack", b"[" * 5_000),
        refuse("not-finite", "a number that reads as infinity", b'{"a":1e400}'),
        refuse("not-finite-negative", "a number that reads as infinity", b"[-1e400]"),
        refuse("empty", "no document", b""),
        refuse("white-space-only", "no document", b" \n"),
        refuse("utf8-mark", "a byte order mark", b"\xef\xbb\xbf{}"),
        refuse("utf16le-mark", "a byte order mark", "{}".encode("utf-16")),
        refuse("utf16be-mark", "a byte order mark", b"\xfe\xff\0{\0}"),
        refuse("utf32le-mark", "a byte order mark", b"\xff\xfe\0\0{\0\0\0}\0\0\0"),
        refuse("utf16le", "a NUL among the first four bytes", "{}".encode("utf-16-le")),
        refuse("utf16be", "a NUL among the first four bytes", "{}".encode("utf-16-be")),
        refuse("utf32be", "a NUL among the first four bytes", "{}".encode("utf-32-be")),
        refuse("truncated-sequence", "two of three bytes", b'"\xe2\x82"'),
        refuse("stray-continuation", "a byte that starts nothing", b'"\x80"'),
        refuse("overlong-slash", "two bytes for an ASCII character", b'"\xc0\xaf"'),
        refuse("overlong-nul", "the C0 80 of other languages", b'"\xc0\x80"'),
        refuse("surrogate-as-utf8", "CESU-8", b'"\xed\xa0\xbd\xed\xb0\xa6"'),
        refuse("beyond-unicode", "U+110000", b'"\xf4\x90\x80\x80"'),
        refuse("latin-1", "a byte of another encoding", b'"\xe9"'),
        refuse("invalid-utf8-in-key", "keys are strings too", b'{"\xff":1}'),
        refuse("lone-high-surrogate", "half a pair", b'"\\ud83d"'),
        refuse("lone-low-surrogate", "half a pair", b'"\\udc26"'),
        refuse("reversed-pair", "both halves in the wrong order", b'"\\udc26\\ud83d"'),
        refuse("high-surrogate-then-letter", "half a pair", b'"\\ud83dx"'),
        refuse("two-high-surrogates", "half a pair, twice", b'"\\ud83d\\ud83d"'),
        refuse("lone-surrogate-in-key", "keys are strings too", b'{"\\ud83d":1}'),
        refuse("nan", "not a JSON literal", b"NaN"),
        refuse("infinity", "not a JSON literal", b"[-Infinity]"),
        refuse("trailing-bytes", "a second document", b"{}{}"),
        refuse("trailing-comma", "not JSON", b"[1,]"),
        refuse("trailing-nul", "not white space", b"[123]\0"),
        refuse("comment", "not JSON", b"[1]// no"),
        refuse("single-quotes", "not JSON", b"{'a':1}"),
        refuse("bare-key", "not JSON", b"{a:1}"),
        refuse("leading-zero", "not a JSON number", b"01"),
        refuse("leading-plus", "not a JSON number", b"+1"),
        refuse("bare-fraction", "not a JSON number", b".5"),
        refuse("open-fraction", "not a JSON number", b"1."),
        refuse("open-exponent", "not a JSON number", b"1e+"),
        refuse("hex-number", "not a JSON number", b"0x10"),
        refuse("lone-minus", "not a JSON number", b"-"),
        refuse("raw-control-character", "a line feed inside a string", b'"a\nb"'),
        refuse("unknown-escape", "not a JSON escape", b'"\\x41"'),
        refuse("short-escape", "three hex digits", b'"\\u12G4"'),
        refuse("no-break-space", "not JSON white space", b"[1,\xc2\xa02]"),
        refuse("form-feed", "not JSON white space", b"[1,\x0c2]"),
        refuse("cut-literal", "not JSON", b"[tru]"),
        refuse("upper-case-literal", "not JSON", b"True"),
        refuse("open-string", "cut short", b'{"a":"b'),
        refuse("open-array", "cut short", b"[1,2"),
        refuse("missing-colon", "not JSON", b'{"a" 1}'),
        refuse("missing-value", "not JSON", b'{"a":}'),
    ]


# ---------------------------------------------------------------- did.json
def did_cases():
    def accept(name, why, curve, codec, key):
        return case(name, why, {"curve": curve, "keyHex": key.hex()}, did=oracle.did_of(codec, key))

    def refuse(name, why, did):
        return case(name, why, "refused", did=did)

    ed, p256 = b"\xed\x01", b"\x80\x24"
    north = NORTH.did
    refused_keys = [
        ("x25519", "a key for something else, of the right length", b"\xec\x01", NORTH.public),
        ("secp256k1", "a curve that is not spoken here", b"\xe7\x01", b"\x02" + NORTH.public),
        ("ed25519-31-bytes", "one byte short", ed, NORTH.public[:31]),
        ("ed25519-33-bytes", "one byte long", ed, NORTH.public + b"\0"),
        ("ed25519-no-key", "the prefix alone", ed, b""),
        ("p256-32-bytes", "one byte short", p256, b"\x02" + NORTH.public[:31]),
        ("p256-uncompressed", "a compressed point starts with 02 or 03", p256, b"\x04" + NORTH.public),
        ("leading-zero-byte", "a leading 1 is a byte more", b"\0" + ed, NORTH.public),
    ]
    return [
        *(accept(f"ed25519-{n}", "a key as it is made", "ed25519", ed, Agent(n).public) for n in (1, 2, 255)),
        accept("ed25519-all-zero", "the codec does not judge points", "ed25519", ed, bytes(32)),
        accept("ed25519-all-ones", "the codec does not judge points", "ed25519", ed, b"\xff" * 32),
        *(accept(f"p256-{n}", "a key as it is made", "p256", p256, oracle.p256_key(n)[1]) for n in (1, 2, 12345)),
        accept("p256-off-curve", "the codec does not judge points", "p256", p256, b"\x02" + b"\xff" * 32),
        *(refuse(name, why, oracle.did_of(codec, key)) for name, why, codec, key in refused_keys),
        refuse("empty", "nothing", ""),
        refuse("prefix-only", "no key", "did:key:z"),
        refuse("other-method", "another method", "did:web:north.example"),
        refuse("other-multibase", "only base58btc", north.replace(":z", ":m")),
        refuse("upper-case-prefix", "one spelling, no case folding", north.replace("did:key", "DID:KEY")),
        refuse("folded-case", "one spelling, no case folding", north.lower()),
        refuse("leading-blank", "no trimming", " " + north),
        refuse("trailing-line-feed", "no trimming", north + "\n"),
        refuse("fragment", "a DID, not a DID URL", f"{north}#{north[8:]}"),
        refuse("letter-outside-the-alphabet", "0, O, I and l are not base58", north[:-1] + "0"),
        refuse("not-ascii", "a look-alike letter", north[:-1] + "\u0430"),
        refuse("too-long", "refused before the quadratic decoder runs", "did:key:z" + "z" * 504),
    ]


# ---------------------------------------------------------------- phrases.json
def phrase_cases():
    words = oracle.phrase(NORTH.seed)
    text = " ".join(words)

    def accept(name, why, phrase, agent=NORTH):
        return case(name, why, {"seedHex": agent.seed.hex(), "did": agent.did}, phrase=phrase)

    def refuse(name, why, expect, words):
        return case(name, why, expect, phrase=words if isinstance(words, str) else " ".join(words))

    full_width = "".join(chr(ord(c) + 0xFEE0) if c.isalpha() else c for c in text)
    swapped = [words[1], words[0], *words[2:]]
    zero, other_end = Agent(0), "zebra"
    assert oracle.phrase(bytes(32))[-1] == "art"
    return [
        *(
            accept(f"seed-{n}", "the seed is the entropy", " ".join(oracle.phrase(Agent(n).seed)), Agent(n))
            for n in (0, 1, 127, 128, 255)
        ),
        accept("capitals", "any case", text.title()),
        accept(
            "white-space", "any run of it, NBSP and line feeds included", "\n  " + "\u00a0\t\r\n ".join(words) + " \n"
        ),
        accept("ideographic-space", "white space of other scripts", "\u3000".join(words)),
        accept("full-width", "NFKD makes them letters", full_width),
        refuse("empty", "no words", "word count", ""),
        refuse("too-few", "23 words", "word count", words[:-1]),
        refuse("too-many", "25 words", "word count", [*words, "art"]),
        refuse("twelve", "half the entropy", "word count", ["abandon"] * 11 + ["about"]),
        refuse("unknown-word", "not in the list", "unknown word", [*words[:4], "zzz", *words[5:]]),
        refuse(
            "abbreviated",
            "four letters are not the word",
            "unknown word",
            [w[:4] for w in oracle.phrase(EAST.seed)[:1]] + ["xyzzy"] * 23,
        ),
        refuse("commas", "punctuation is not white space", "unknown word", ", ".join(words)),
        refuse("last-word", "all words known, checksum wrong", "checksum", [*oracle.phrase(zero.seed)[:-1], other_end]),
        refuse("swapped", "all words known, in another order", "checksum", swapped),
    ]
