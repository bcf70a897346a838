"""A second opinion on the wire format, written from the specification and not from the Rust code.

Only the standard library and `cryptography`: canonical JSON is CPython's own `json`, signatures and boxes are
OpenSSL's.
The few lines of curve arithmetic are for keys and signatures that no library agrees to make.
"""

import base64
import hashlib
import json
import pathlib

from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec, ed25519, x25519
from cryptography.hazmat.primitives.asymmetric.utils import decode_dss_signature
from cryptography.hazmat.primitives.ciphers.aead import ChaCha20Poly1305
from cryptography.hazmat.primitives.kdf.hkdf import HKDF

HERE = pathlib.Path(__file__).parent


# ---------------------------------------------------------------- canonical JSON (1.1)
def canonical(value):
    return json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=False, allow_nan=False)


# ---------------------------------------------------------------- did:key (2.1)
ALPHABET = "123456789ABCDEFGHJKLMNPQRSTUVWXYZabcdefghijkmnopqrstuvwxyz"


def base58(data):
    number, text = int.from_bytes(data, "big"), ""
    while number:
        number, digit = divmod(number, 58)
        text = ALPHABET[digit] + text
    return "1" * (len(data) - len(data.lstrip(b"\0"))) + text


def did_of(codec, key):
    return "did:key:z" + base58(codec + key)


def ed25519_did(key):
    return did_of(b"\xed\x01", key)


class Agent:
    """An identity made of 32 equal bytes."""

    def __init__(self, byte):
        self.seed = bytes([byte]) * 32
        self.key = ed25519.Ed25519PrivateKey.from_private_bytes(self.seed)
        self.public = self.key.public_key().public_bytes_raw()
        self.did = ed25519_did(self.public)
        box_seed = hashlib.sha256(b"agentnet-x25519:" + self.seed).digest()
        self.box_key = x25519.X25519PrivateKey.from_private_bytes(box_seed)
        self.enc_pub = self.box_key.public_key().public_bytes_raw().hex()

    def sign(self, text):
        return b64(self.key.sign(text.encode()))


def p256_key(secret):
    """A P-256 key pair with a compressed public half that does not depend on chance."""
    key = ec.derive_private_key(secret, ec.SECP256R1())
    form = serialization.PublicFormat.CompressedPoint
    return key, key.public_key().public_bytes(serialization.Encoding.X962, form)


def p256_sign(key, data):
    """ES256 in DER; the nonce is that of RFC 6979, so that the same vectors come out every time."""
    return key.sign(data, ec.ECDSA(hashes.SHA256(), deterministic_signing=True))


def raw_p256(der):
    return b"".join(number.to_bytes(32, "big") for number in decode_dss_signature(der))


def b64(data):
    return base64.b64encode(data).decode()


def b64url(data):
    return base64.urlsafe_b64encode(data).decode().rstrip("=")


# ---------------------------------------------------------------- sealed letters, v1 (9.4)
def box_key(mine, theirs):
    shared = mine.box_key.exchange(theirs.box_key.public_key())
    return HKDF(hashes.SHA256(), 32, salt=bytes(32), info=b"agentnet-box-v1").derive(shared)


def seal(mine, theirs, plaintext, ad, nonce):
    return nonce + ChaCha20Poly1305(box_key(mine, theirs)).encrypt(nonce, plaintext, ad)


# ---------------------------------------------------------------- recovery phrase (2.3)
WORDS = (HERE / "bip39-english.txt").read_text().split()
assert hashlib.sha256("".join(word + "\n" for word in WORDS).encode()).hexdigest() == (
    "2f5eed53a4727b4bf8880d8f3f199efc90e58503646d9ff8eff3a2ed3b24dbda"
)


def phrase(seed):
    bits = int.from_bytes(seed + hashlib.sha256(seed).digest()[:1], "big")
    return [WORDS[bits >> shift & 2047] for shift in range(253, -1, -11)]


# ---------------------------------------------------------------- edwards25519, slowly
P = 2**255 - 19
L = 2**252 + 27742317777372353535851937790883648493
D = -121665 * pow(121666, -1, P) % P
SQRT_M1 = pow(2, (P - 1) // 4, P)


def recover_x(y, sign):
    square = (y * y - 1) * pow(D * y * y + 1, -1, P) % P
    x = pow(square, (P + 3) // 8, P)
    if (x * x - square) % P:
        x = x * SQRT_M1 % P
    assert (x * x - square) % P == 0, "not on the curve"
    return P - x if x % 2 != sign else x


def add(a, b):
    (x1, y1), (x2, y2) = a, b
    cross = D * x1 * x2 * y1 * y2 % P
    x = (x1 * y2 + x2 * y1) * pow(1 + cross, -1, P) % P
    return x, (y1 * y2 + x1 * x2) * pow(1 - cross, -1, P) % P


def multiply(scalar, point):
    result = (0, 1)
    while scalar:
        if scalar & 1:
            result = add(result, point)
        point, scalar = add(point, point), scalar >> 1
    return result


def compress(point):
    x, y = point
    return (y | (x & 1) << 255).to_bytes(32, "little")


def decompress(data):
    y = int.from_bytes(data, "little")
    return recover_x(y & (1 << 255) - 1, y >> 255), y & (1 << 255) - 1


BASE = decompress(bytes([0x58]) + bytes([0x66]) * 31)
# A point of order eight; its encoding is in the table of section 2.2.
TORSION = decompress(bytes.fromhex("26e8958fc2b227b045c3f489f2ef98f0d5dfac05d3c63339b13802886d53fc05"))
assert multiply(8, TORSION) == (0, 1) != multiply(4, TORSION)


def secret_scalar(agent):
    digest = bytearray(hashlib.sha512(agent.seed).digest()[:32])
    digest[0] &= 248
    digest[31] = digest[31] & 127 | 64
    return int.from_bytes(digest, "little")


def challenge(r, public, payload):
    return int.from_bytes(hashlib.sha512(r + public + payload).digest(), "little") % L


def sign_with(scalar, public, payload, r_offset=(0, 1)):
    """A signature under any key and nonce point; honest ones come from OpenSSL."""
    nonce = int.from_bytes(hashlib.sha512(b"nonce" + public + payload).digest(), "little") % L
    r = compress(add(multiply(nonce, BASE), r_offset))
    return r + ((nonce + challenge(r, public, payload) * scalar) % L).to_bytes(32, "little")


# ---------------------------------------------------------------- what the cases are made of
NOW = 1_785_000_000
NORTH, SOUTH, EAST = Agent(1), Agent(2), Agent(3)


def case(name, why, expect, **members):
    return {"name": name, "why": why, **members, "expect": expect}
