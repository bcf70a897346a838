//! Canonical JSON and the parse boundary (section 1). Nothing else in the program parses wire JSON.
//!
//! [`parse`] turns bytes into a [`Value`] or refuses them; it never repairs. A number keeps its spelling, because a
//! signature covers spellings: `1` and `1.0` are different documents. [`canonical`], [`canonical_as_received`] and
//! [`Value::to_json`] are one writer that differs in its treatment of numbers only.
mod float;
mod object;
mod parse;
mod write;

pub use object::{Members, Object};
pub use parse::{ParseError, parse};
pub use write::{CanonicalError, canonical, canonical_as_received};

pub(crate) use write::write_string; // the message payload is written member by member

use crate::{Did, limits::MAX_SAFE_INT};

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
    /// An integer token within ±[`MAX_SAFE_INT`] (`-0` reads as 0).
    Integer(i64),
    /// Any other token, kept as received: floats, exponents, integers that are too large.
    Token(Box<str>),
}

impl Number {
    /// The integer that this number equals, be it spelled `5`, `5.0` or `5e0`; `None` beyond ±[`MAX_SAFE_INT`].
    ///
    /// For the one place that forgives an integral float, a message's timestamp (1.3).
    pub fn as_integral(&self) -> Option<i64> {
        match self {
            Number::Integer(n) => Some(*n),
            Number::Token(token) => float::integral(token),
        }
    }
    /// The nearest float, for comparisons; `None` for what is not finite.
    pub fn as_f64(&self) -> Option<f64> {
        match self {
            Number::Integer(n) => Some(*n as f64),
            Number::Token(token) => token.parse().ok().filter(|float: &f64| float.is_finite()),
        }
    }
}

impl Value {
    /// The value as compact JSON for the wire, numbers spelled as they were received.
    pub fn to_json(&self) -> String {
        write::as_received(self)
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
    /// Whether it is `null`.
    pub fn is_null(&self) -> bool {
        matches!(self, Value::Null)
    }
    /// A member of an object; `None` when absent, `null` or not an object (null reads as absent, 3.2).
    pub fn member(&self, key: &str) -> Option<&Value> {
        self.as_object()?.get(key).filter(|v| !v.is_null())
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
impl From<&String> for Value {
    fn from(s: &String) -> Self {
        Value::String(s.clone())
    }
}
impl From<&Did> for Value {
    fn from(did: &Did) -> Self {
        Value::String(did.as_str().to_owned())
    }
}
impl From<bool> for Value {
    fn from(b: bool) -> Self {
        Value::Bool(b)
    }
}
/// Integers beyond ±`MAX_SAFE_INT` become a token that no signer accepts.
impl From<i64> for Value {
    fn from(n: i64) -> Self {
        Value::Number(match (-MAX_SAFE_INT..=MAX_SAFE_INT).contains(&n) {
            true => Number::Integer(n),
            false => Number::Token(n.to_string().into()),
        })
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
/// `None` becomes `null`.
impl<T: Into<Value>> From<Option<T>> for Value {
    fn from(value: Option<T>) -> Self {
        value.map_or(Value::Null, Into::into)
    }
}

/// Builds a [`Value`] from literal syntax, like `json!({"v": 1, "did": did.as_str()})`.
///
/// Keys are literals; values are nested literals, `null`, or any expression that is `Into<Value>`.
#[macro_export]
macro_rules! json {
    (null) => { $crate::json::Value::Null };
    ([ $($items:tt)* ]) => { $crate::json::Value::Array($crate::json_items!([] $($items)*)) };
    ({ $($members:tt)* }) => {{
        #[allow(unused_mut)]
        let mut object = $crate::json::Object::new();
        $crate::json_members!(object; $($members)*);
        $crate::json::Value::Object(object)
    }};
    ($other:expr) => { $crate::json::Value::from($other) };
}

/// The items of an array in [`json!`], those that are done first.
#[doc(hidden)]
#[macro_export]
macro_rules! json_items {
    ([ $($done:expr),* ]) => { vec![ $($done),* ] };
    ([ $($done:expr),* ] null $(, $($rest:tt)*)?) => {
        $crate::json_items!([ $($done,)* $crate::json!(null) ] $($($rest)*)?)
    };
    ([ $($done:expr),* ] [ $($inner:tt)* ] $(, $($rest:tt)*)?) => {
        $crate::json_items!([ $($done,)* $crate::json!([ $($inner)* ]) ] $($($rest)*)?)
    };
    ([ $($done:expr),* ] { $($inner:tt)* } $(, $($rest:tt)*)?) => {
        $crate::json_items!([ $($done,)* $crate::json!({ $($inner)* }) ] $($($rest)*)?)
    };
    ([ $($done:expr),* ] $item:expr $(, $($rest:tt)*)?) => {
        $crate::json_items!([ $($done,)* $crate::json!($item) ] $($($rest)*)?)
    };
}

/// The members of an object in [`json!`].
#[doc(hidden)]
#[macro_export]
macro_rules! json_members {
    ($object:ident;) => {};
    ($object:ident; $key:literal : null $(, $($rest:tt)*)?) => {
        $object.insert($key.to_owned(), $crate::json!(null));
        $crate::json_members!($object; $($($rest)*)?);
    };
    ($object:ident; $key:literal : [ $($inner:tt)* ] $(, $($rest:tt)*)?) => {
        $object.insert($key.to_owned(), $crate::json!([ $($inner)* ]));
        $crate::json_members!($object; $($($rest)*)?);
    };
    ($object:ident; $key:literal : { $($inner:tt)* } $(, $($rest:tt)*)?) => {
        $object.insert($key.to_owned(), $crate::json!({ $($inner)* }));
        $crate::json_members!($object; $($($rest)*)?);
    };
    ($object:ident; $key:literal : $value:expr $(, $($rest:tt)*)?) => {
        $object.insert($key.to_owned(), $crate::json!($value));
        $crate::json_members!($object; $($($rest)*)?);
    };
}
