//! Reading a plugin's answer member by member, within bounds.
use muretai_protocol::{
    json::{self, Object, Value},
    text::one_line,
};

use super::is_name;
use crate::engine::{MAX_DOCUMENT_BYTES, PluginFault};

/// Characters of a plugin's own error that are kept for the log.
const MAX_ERROR_CHARS: usize = 200;

/// Why an answer is not what the contract says.
pub(super) fn bad(what: impl Into<String>) -> PluginFault {
    PluginFault::BadAnswer(what.into())
}

/// One document: an object within the size limit. One that has `error` is the plugin's own failure.
pub(super) fn document(bytes: &[u8]) -> Result<Object, PluginFault> {
    if bytes.len() > MAX_DOCUMENT_BYTES {
        return Err(bad(format!("{} bytes, the limit is {MAX_DOCUMENT_BYTES}", bytes.len())));
    }
    let value = json::parse(bytes).map_err(|error| bad(format!("no JSON: {error}")))?;
    let Value::Object(object) = value else { return Err(bad("no JSON object")) };
    match object.get("error").filter(|error| !error.is_null()) {
        None => Ok(object),
        Some(Value::String(error)) => Err(PluginFault::Failed(one_line(error, MAX_ERROR_CHARS))),
        Some(_) => Err(bad("error is no string")),
    }
}

/// A member that is there and not null.
fn member<'a>(object: &'a Object, name: &str) -> Option<&'a Value> {
    object.get(name).filter(|value| !value.is_null())
}

/// A string of at most so many bytes, `None` when absent.
pub(super) fn optional_text(object: &Object, name: &str, max_bytes: usize) -> Result<Option<String>, PluginFault> {
    match member(object, name) {
        None => Ok(None),
        Some(Value::String(text)) if text.len() <= max_bytes => Ok(Some(text.clone())),
        Some(Value::String(text)) => Err(bad(format!("{name} is {} bytes, the limit is {max_bytes}", text.len()))),
        Some(_) => Err(bad(format!("{name} is no string"))),
    }
}

/// A string of at most so many bytes that must be there.
pub(super) fn text(object: &Object, name: &str, max_bytes: usize) -> Result<String, PluginFault> {
    optional_text(object, name, max_bytes)?.ok_or_else(|| bad(format!("{name} is missing")))
}

/// A string that says something and holds neither control characters nor characters that act on their neighbours.
pub(super) fn line(object: &Object, name: &str, max_bytes: usize) -> Result<String, PluginFault> {
    let text = text(object, name, max_bytes)?;
    check_line(name, &text)?;
    Ok(text)
}

/// Refuses what a terminal would obey, or would not show.
pub(super) fn check_line(name: &str, text: &str) -> Result<(), PluginFault> {
    if text.trim().is_empty() {
        return Err(bad(format!("{name} is empty")));
    }
    if one_line(text, usize::MAX) != text {
        return Err(bad(format!("{name} holds control characters or blanks in a row")));
    }
    Ok(())
}

/// A name: `[a-z0-9][a-z0-9-]{0,31}`.
pub(super) fn name(object: &Object, member: &str) -> Result<String, PluginFault> {
    let name = text(object, member, super::MAX_NAME_CHARS)?;
    if is_name(&name) { Ok(name) } else { Err(bad(format!("{member} is not of a-z 0-9 -, or begins with -"))) }
}

/// A boolean, false when absent.
pub(super) fn flag(object: &Object, name: &str) -> Result<bool, PluginFault> {
    member(object, name).map_or(Ok(false), |value| value.as_bool().ok_or_else(|| bad(format!("{name} is no boolean"))))
}

/// An integer, `None` when absent.
pub(super) fn integer(object: &Object, name: &str) -> Result<Option<i64>, PluginFault> {
    member(object, name).map(|value| value.as_i64().ok_or_else(|| bad(format!("{name} is no integer")))).transpose()
}

/// The items of an array of at most so many, none when absent.
pub(super) fn items<'a>(object: &'a Object, name: &str, max: usize) -> Result<&'a [Value], PluginFault> {
    let Some(value) = member(object, name) else { return Ok(&[]) };
    let items = value.as_array().ok_or_else(|| bad(format!("{name} is no array")))?;
    if items.len() > max {
        return Err(bad(format!("{name} has {} items, the limit is {max}", items.len())));
    }
    Ok(items)
}

/// An array of at most so many lines, none when absent.
pub(super) fn lines(object: &Object, name: &str, max: usize, max_bytes: usize) -> Result<Vec<String>, PluginFault> {
    let line = |item: &Value| {
        let line = item.as_str().ok_or_else(|| bad(format!("{name} holds something that is no string")))?;
        if line.len() > max_bytes {
            return Err(bad(format!("{name} holds {} bytes, the limit is {max_bytes}", line.len())));
        }
        check_line(name, line)?;
        Ok(line.to_owned())
    };
    items(object, name, max)?.iter().map(line).collect()
}
