//! Changes to the text of `plugins.toml` that leave the rest of it as it is.
use muretai_protocol::json::{Number, Object, Value as Json};
use toml_edit::{Array, ArrayOfTables, DocumentMut, InlineTable, Item, Table, Value, value};

use super::Entry;

const HEADER: &str = "\
# Plugins of the agents of this home. Their trust policies run in the order of this file.
# `muretai plugin add` and `remove` change it; it is yours to edit.

";

/// The text with one more entry at its end.
pub(super) fn with(text: &str, entry: &Entry) -> String {
    let mut document = parse(text);
    let is_new = document.is_empty();
    let before = document.trailing().as_str().unwrap_or_default().to_owned();
    document.set_trailing("");
    let mut table = table_of(entry);
    let prefix = match (is_new && before.trim().is_empty(), before.is_empty()) {
        (true, _) => HEADER.to_owned(),
        (false, true) => "\n".to_owned(),
        (false, false) => format!("{}\n\n", before.trim_end()),
    };
    table.decor_mut().set_prefix(prefix);
    let plugins = document.entry("plugin").or_insert(Item::ArrayOfTables(ArrayOfTables::new()));
    if let Some(plugins) = plugins.as_array_of_tables_mut() {
        plugins.push(table);
    }
    document.to_string()
}

/// The text with what is new of an entry in the place of what was `old` of it.
pub(super) fn replaced(text: &str, old: &Entry, entry: &Entry) -> String {
    let mut document = parse(text);
    let plugins = document.get_mut("plugin").and_then(Item::as_array_of_tables_mut);
    let is_it = |table: &&mut Table| table.get("name").and_then(Item::as_str) == Some(entry.name.as_str());
    let Some(table) = plugins.and_then(|plugins| plugins.iter_mut().find(is_it)) else {
        return text.to_owned();
    };
    let new = table_of(entry);
    for key in ["path", "sha256", "kind", "version", "offers", "agents", "default_skill"] {
        match new.get(key).and_then(Item::as_value) {
            Some(value) => put(table, key, value.clone()),
            None => drop(table.remove(key)),
        }
    }
    if entry.config != old.config {
        match new.get("config") {
            Some(config) => drop(table.insert("config", config.clone())),
            None => drop(table.remove("config")),
        }
    }
    document.to_string()
}

/// Changes a value and leaves what the owner wrote around it.
fn put(table: &mut Table, key: &str, mut value: Value) {
    match table.get_mut(key) {
        Some(Item::Value(old)) => {
            *value.decor_mut() = old.decor().clone();
            *old = value;
        }
        _ => drop(table.insert(key, Item::Value(value))),
    }
}

/// The text without an entry. What stands above it and is parted from it by a blank line stays.
pub(super) fn without(text: &str, name: &str) -> String {
    let mut document = parse(text);
    let Some(plugins) = document.get_mut("plugin").and_then(Item::as_array_of_tables_mut) else {
        return text.to_owned();
    };
    let Some(at) = plugins.iter().position(|table| table.get("name").and_then(Item::as_str) == Some(name)) else {
        return text.to_owned();
    };
    let above = prefix_of(plugins.get(at));
    let kept = above.rfind("\n\n").map_or(String::new(), |end| above[..end + 2].to_owned());
    plugins.remove(at);
    match plugins.get_mut(at) {
        Some(next) => {
            let own = prefix_of(Some(next));
            let own = if kept.is_empty() { own.as_str() } else { own.trim_start_matches('\n') };
            let prefix = format!("{kept}{own}");
            next.decor_mut().set_prefix(if at == 0 { prefix.trim_start_matches('\n') } else { &prefix });
        }
        None => {
            let trailing = document.trailing().as_str().unwrap_or_default().to_owned();
            let kept = kept.trim_end();
            let gap = if kept.is_empty() { "" } else { "\n" };
            document.set_trailing(format!("{kept}{gap}{trailing}"));
        }
    }
    document.to_string()
}

/// The caller has read this text before.
fn parse(text: &str) -> DocumentMut {
    text.strip_prefix('\u{feff}').unwrap_or(text).parse().unwrap_or_default()
}

fn prefix_of(table: Option<&Table>) -> String {
    table.and_then(|table| table.decor().prefix()?.as_str()).unwrap_or_default().to_owned()
}

fn table_of(entry: &Entry) -> Table {
    let mut table = Table::new();
    table.insert("name", value(entry.name.as_str()));
    table.insert("path", value(entry.path.to_string_lossy().as_ref()));
    table.insert("sha256", value(entry.sha256.as_str()));
    table.insert("kind", value(entry.kind.word()));
    table.insert("version", value(entry.version.as_str()));
    table.insert("offers", value(list(&entry.offers)));
    if let Some(agents) = &entry.agents {
        table.insert("agents", value(list(agents)));
    }
    if let Some(id) = &entry.default_skill {
        table.insert("default_skill", value(id.as_str()));
    }
    if !entry.config.is_empty() {
        table.insert("config", Item::Table(config(&entry.config)));
    }
    table
}

fn list(texts: &[String]) -> Array {
    texts.iter().map(String::as_str).collect()
}

fn config(object: &Object) -> Table {
    let mut table = Table::new();
    for (key, member) in object {
        match member {
            Json::Object(inner) => table.insert(key, Item::Table(config(inner))),
            other => match toml(other) {
                Some(member) => table.insert(key, Item::Value(member)),
                None => None,
            },
        };
    }
    table
}

/// TOML has no null: such a member is left out, which a plugin reads as the same.
fn toml(json: &Json) -> Option<Value> {
    Some(match json {
        Json::Null => return None,
        Json::Bool(flag) => (*flag).into(),
        Json::String(text) => text.as_str().into(),
        Json::Number(Number::Integer(number)) => (*number).into(),
        Json::Number(number) => number.as_f64()?.into(),
        Json::Array(items) => Value::Array(items.iter().filter_map(toml).collect()),
        Json::Object(members) => {
            let members = members.iter().filter_map(|(key, member)| Some((key.as_str(), toml(member)?)));
            Value::InlineTable(members.collect::<InlineTable>())
        }
    })
}
