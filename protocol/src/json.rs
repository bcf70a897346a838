//! Canonical JSON and the parse boundary (section 1). Nothing else in the program parses wire JSON.
use std::collections::BTreeMap;

/// Members of an object, in Unicode code point order of their keys, which is the canonical order.
pub type Object = BTreeMap<String, Value>;

/// A JSON value that passed the parse boundary or was built here.
#[derive(Debug, Clone, PartialEq)]
pub enum Value {
    /// `null`
    Null,
    /// `true` or `false`
    Bool(bool),
    /// A number, its spelling kept.
    Number(Number),
    /// A string of Unicode scalar values.
    String(String),
    /// An array.
    Array(Vec<Value>),
    /// An object; of duplicate keys the last one won.
    Object(Object),
}

/// A number as it was spelled on the wire.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Number {
    /// An integer token within ±`MAX_SAFE_INT` (`-0` reads as 0).
    Integer(i64),
    /// Any other token, kept as received: floats, exponents, integers that are too large.
    Token(Box<str>),
}

/// Why bytes are not a JSON document that may be signed or verified.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ParseError {
    /// To be split into situations.
    #[error("not JSON at byte {at}")]
    NotJson {
        /// Offset of the offending byte.
        at: usize,
    },
}

/// Why a value has no canonical form that may be signed or verified (1.3).
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum CanonicalError {
    /// Signers emit integers only; verifiers cannot agree on this spelling.
    #[error("the number {token} has no agreed canonical form")]
    UnverifiableNumber {
        /// The token as received.
        token: Box<str>,
    },
}

/// Reads one document under the rules of 1.2.
pub fn parse(_bytes: &[u8]) -> Result<Value, ParseError> {
    todo!()
}

/// Canonical JSON for something to be signed: integers only.
pub fn canonical(_value: &Value) -> Result<String, CanonicalError> {
    todo!()
}

/// Canonical JSON for something to be verified: fractional floats as they round-trip, integral floats and exponents
/// in CPython's spelling; non-finite numbers and integers beyond 2^53-1 are refused.
pub fn canonical_as_received(_value: &Value) -> Result<String, CanonicalError> {
    todo!()
}

impl Value {
    /// The value as compact JSON for the wire, numbers spelled as they were received.
    pub fn to_json(&self) -> String {
        todo!()
    }
    /// The string, if it is one.
    pub fn as_str(&self) -> Option<&str> {
        match self {
            Value::String(s) => Some(s),
            _ => None,
        }
    }
    /// The integer, if it is spelled as one and within ±2^53-1.
    pub fn as_i64(&self) -> Option<i64> {
        match self {
            Value::Number(Number::Integer(n)) => Some(*n),
            _ => None,
        }
    }
    /// The boolean, if it is one.
    pub fn as_bool(&self) -> Option<bool> {
        match self {
            Value::Bool(b) => Some(*b),
            _ => None,
        }
    }
    /// The members, if it is an object.
    pub fn as_object(&self) -> Option<&Object> {
        match self {
            Value::Object(o) => Some(o),
            _ => None,
        }
    }
    /// The items, if it is an array.
    pub fn as_array(&self) -> Option<&[Value]> {
        match self {
            Value::Array(a) => Some(a),
            _ => None,
        }
    }
    /// A member of an object; `None` when absent, `null` or not an object (null reads as absent, 3.2).
    pub fn member(&self, key: &str) -> Option<&Value> {
        self.as_object()?.get(key).filter(|v| !matches!(v, Value::Null))
    }
}

impl From<&str> for Value {
    fn from(s: &str) -> Self {
        Value::String(s.to_owned())
    }
}
impl From<String> for Value {
    fn from(s: String) -> Self {
        Value::String(s)
    }
}
impl From<bool> for Value {
    fn from(b: bool) -> Self {
        Value::Bool(b)
    }
}
/// Integers beyond ±`MAX_SAFE_INT` become a token that no signer accepts.
impl From<i64> for Value {
    fn from(_n: i64) -> Self {
        todo!()
    }
}
impl From<Vec<Value>> for Value {
    fn from(v: Vec<Value>) -> Self {
        Value::Array(v)
    }
}
impl From<Object> for Value {
    fn from(o: Object) -> Self {
        Value::Object(o)
    }
}

/// Builds a [`Value`] from literal syntax, like `json!({"v": 1, "did": did.as_str()})`.
#[macro_export]
macro_rules! json {
    (null) => { $crate::json::Value::Null };
    ([ $($item:tt),* $(,)? ]) => { $crate::json::Value::Array(vec![ $( $crate::json!($item) ),* ]) };
    ({ $($key:literal : $value:tt),* $(,)? }) => {{
        #[allow(unused_mut)]
        let mut object = $crate::json::Object::new();
        $( object.insert($key.to_owned(), $crate::json!($value)); )*
        $crate::json::Value::Object(object)
    }};
    ($other:expr) => { $crate::json::Value::from($other) };
}
