//! The key file's bytes: PEM, PKCS#8, PBES2. No files here; the path is for errors.
use std::path::Path;

use muretai_protocol::{
    did::PublicKey,
    sign::{Seed, SigningKey},
};
use pkcs8::{
    AlgorithmIdentifierRef, EncryptedPrivateKeyInfoRef, LineEnding, ObjectIdentifier, PrivateKeyInfoRef,
    SecretDocument,
    der::asn1::OctetStringRef,
    pkcs5::{
        self,
        pbes2::{self, EncryptionScheme, Kdf, Salt, ScryptParams},
    },
};
use zeroize::Zeroizing;

use super::KeyFileError;

const ED25519: ObjectIdentifier = ObjectIdentifier::new_unwrap("1.3.101.112");
const PLAIN_LABEL: &str = "PRIVATE KEY";
const ENCRYPTED_LABEL: &str = "ENCRYPTED PRIVATE KEY";
/// DER of an octet string of 32 bytes, which is what PKCS#8 wraps for Ed25519 (RFC 8410).
const SEED_PREFIX: [u8; 2] = [0x04, 0x20];

/// scrypt N, r and p of the files that are written: 16 MiB, the most that OpenSSL 3 reads unasked, five times over.
const SCRYPT_N: u64 = 1 << 14;
const SCRYPT_R: u16 = 8;
const SCRYPT_P: u16 = 5;
/// Bounds for files that are read, so that a forged one cannot eat the memory or the day.
const MAX_SCRYPT_BYTES: u64 = 256 << 20;
const MAX_SCRYPT_P: u16 = 16;
const MAX_PBKDF2_ITERATIONS: u32 = 10_000_000;

/// One PEM block of a private key.
pub(super) struct Block<'a> {
    text: &'a str,
    is_encrypted: bool,
}

impl Block<'_> {
    pub(super) fn is_encrypted(&self) -> bool {
        self.is_encrypted
    }
}

/// PKCS#8 v1, without the public key: the v2 form that carries it is refused by older OpenSSL releases.
fn private_key_info(inner: &[u8]) -> PrivateKeyInfoRef<'_> {
    let octets = OctetStringRef::new(inner).expect("34 bytes are within the limits of DER");
    PrivateKeyInfoRef::new(AlgorithmIdentifierRef { oid: ED25519, parameters: None }, octets)
}

fn wrapped(seed: &Seed) -> Zeroizing<[u8; 34]> {
    let mut inner = Zeroizing::new([0; 34]);
    inner[..2].copy_from_slice(&SEED_PREFIX);
    inner[2..].copy_from_slice(seed.expose());
    inner
}

/// The plain form.
pub(super) fn encode(seed: &Seed) -> Zeroizing<String> {
    let inner = wrapped(seed);
    let der = SecretDocument::try_from(private_key_info(&*inner)).expect("a key of fixed size has a DER form");
    der.to_pem(PLAIN_LABEL, LineEnding::LF).expect("DER of fixed size has a PEM form")
}

/// The encrypted form, with fresh salt and initialisation vector.
pub(super) fn encode_encrypted(seed: &Seed, passphrase: &str) -> Zeroizing<String> {
    let inner = wrapped(seed);
    let salt = Salt::new(crate::agent::random::<16>()).expect("16 bytes are within the limit of 32");
    let kdf = ScryptParams {
        salt,
        cost_parameter: SCRYPT_N,
        block_size: SCRYPT_R,
        parallelization: SCRYPT_P,
        key_length: None,
    };
    let scheme =
        pbes2::Parameters { kdf: kdf.into(), encryption: EncryptionScheme::Aes256Cbc { iv: crate::agent::random() } };
    let der =
        private_key_info(&*inner).encrypt_with_params(scheme, passphrase).expect("the constants fit scrypt and AES");
    der.to_pem(ENCRYPTED_LABEL, LineEnding::LF).expect("DER of bounded size has a PEM form")
}

/// Finds the first PEM block and judges it by its label. Text around it is allowed, as OpenSSL writes it.
pub(super) fn block<'a>(path: &Path, text: &'a str) -> Result<Block<'a>, KeyFileError> {
    let not_pem = || KeyFileError::NotPem(path.to_owned());
    let truncated = || KeyFileError::Truncated(path.to_owned());
    const BEGIN: &str = "-----BEGIN ";
    let Some(start) = text.find(BEGIN) else {
        let is_start = text.len() >= 5 && BEGIN.starts_with(text.trim_end());
        return Err(if is_start { truncated() } else { not_pem() });
    };
    let rest = &text[start + BEGIN.len()..];
    let label = rest.split("-----").next().filter(|label| label.len() < rest.len()).ok_or_else(truncated)?;
    if label.contains(['\n', '\r']) {
        return Err(truncated());
    }
    let is_encrypted = match label {
        PLAIN_LABEL => false,
        ENCRYPTED_LABEL => true,
        other => {
            let label = muretai_protocol::text::one_line(other, 64);
            return Err(KeyFileError::OtherPem { path: path.to_owned(), label });
        }
    };
    let end = format!("-----END {label}-----");
    let length = text[start..].find(&end).ok_or_else(truncated)? + end.len();
    Ok(Block { text: &text[start..start + length], is_encrypted })
}

/// The seed in a block.
pub(super) fn decode(path: &Path, block: &Block<'_>, passphrase: Option<&str>) -> Result<Seed, KeyFileError> {
    let damaged = |source: pkcs8::Error| KeyFileError::Damaged { path: path.to_owned(), source };
    let (_, der) = SecretDocument::from_pem(block.text).map_err(|e| damaged(e.into()))?;
    if !block.is_encrypted {
        return seed_of(path, PrivateKeyInfoRef::try_from(der.as_bytes()).map_err(damaged)?);
    }
    let passphrase = passphrase.ok_or_else(|| KeyFileError::NeedsPassphrase(path.to_owned()))?;
    let sealed = EncryptedPrivateKeyInfoRef::try_from(der.as_bytes()).map_err(damaged)?;
    check_cost(path, &sealed.encryption_algorithm)?;
    let wrong = || KeyFileError::WrongPassphrase(path.to_owned());
    let opened = match sealed.decrypt(passphrase) {
        Ok(opened) => opened,
        Err(pkcs8::Error::EncryptedPrivateKey(
            pkcs5::Error::UnsupportedAlgorithm { oid } | pkcs5::Error::AlgorithmParametersInvalid { oid },
        )) => return Err(KeyFileError::UnsupportedEncryption { path: path.to_owned(), scheme: oid.to_string() }),
        // A wrong key leaves wrong padding, or by chance right padding around something that is no DER.
        Err(_) => return Err(wrong()),
    };
    seed_of(path, PrivateKeyInfoRef::try_from(opened.as_bytes()).map_err(|_| wrong())?)
}

/// Refuses costs out of bounds, and values on which the key derivation itself would stumble.
fn check_cost(path: &Path, scheme: &pkcs5::EncryptionScheme) -> Result<(), KeyFileError> {
    let refuse = |scheme: String| Err(KeyFileError::UnsupportedEncryption { path: path.to_owned(), scheme });
    let Some(pbes2) = scheme.pbes2() else { return refuse(format!("the outdated scheme {}", scheme.oid())) };
    match &pbes2.kdf {
        Kdf::Scrypt(p) => {
            let bytes = p.cost_parameter.saturating_mul(128 * u64::from(p.block_size));
            let is_sane = p.cost_parameter.is_power_of_two() && p.cost_parameter > 1 && p.block_size > 0;
            let is_cheap = bytes <= MAX_SCRYPT_BYTES && (1..=MAX_SCRYPT_P).contains(&p.parallelization);
            if !is_sane || !is_cheap {
                let (n, r, p) = (p.cost_parameter, p.block_size, p.parallelization);
                return refuse(format!("scrypt at a cost of N={n} r={r} p={p}"));
            }
        }
        Kdf::Pbkdf2(p) if !(1..=MAX_PBKDF2_ITERATIONS).contains(&p.iteration_count) => {
            return refuse(format!("PBKDF2 with {} iterations", p.iteration_count));
        }
        Kdf::Pbkdf2(p) if p.prf == pbes2::Pbkdf2Prf::HmacWithSha1 => return refuse("PBKDF2 over SHA-1".to_owned()),
        Kdf::Pbkdf2(_) => {}
        other => return refuse(format!("key derivation {}", other.oid())),
    }
    Ok(())
}

fn seed_of(path: &Path, info: PrivateKeyInfoRef<'_>) -> Result<Seed, KeyFileError> {
    if info.algorithm.oid != ED25519 {
        let algorithm = algorithm_name(info.algorithm.oid);
        return Err(KeyFileError::NotEd25519 { path: path.to_owned(), algorithm });
    }
    let damaged = || KeyFileError::Damaged { path: path.to_owned(), source: pkcs8::Error::ParametersMalformed };
    let inner = info.private_key.as_bytes();
    let seed =
        inner.strip_prefix(&SEED_PREFIX).and_then(|bytes| <&[u8; 32]>::try_from(bytes).ok()).ok_or_else(damaged)?;
    let seed = Seed::from_bytes(*seed);
    if let Some(public) = info.public_key {
        let ours = SigningKey::from_seed(&seed).did().key();
        if !matches!(ours, PublicKey::Ed25519(key) if public.as_bytes() == Some(&key[..])) {
            return Err(KeyFileError::HalvesDiffer(path.to_owned()));
        }
    }
    Ok(seed)
}

fn algorithm_name(oid: ObjectIdentifier) -> String {
    match oid.to_string().as_str() {
        "1.2.840.10045.2.1" => "elliptic curve (P-256 or similar)".to_owned(),
        "1.2.840.113549.1.1.1" => "RSA".to_owned(),
        "1.3.101.110" => "X25519".to_owned(),
        "1.3.101.113" => "Ed448".to_owned(),
        other => other.to_owned(),
    }
}
