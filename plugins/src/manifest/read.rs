//! The text of `plugins.toml` to entries. Every refusal comes with its line.
use std::{collections::BTreeSet, ops::Range, path::PathBuf, time::Duration};

use muretai_protocol::{
    json::{self, Number, Object, Value as Json},
    limits::MAX_SAFE_INT,
};
use toml_edit::{Array, Document, Item, Table, TableLike, Value};

use super::{Entry, Kind, MAX_PLUGINS, Manifest};
use crate::{
    contract::{MAX_LABEL_BYTES, MAX_SKILLS, is_name},
    engine::Limits,
};

/// Agents that an entry may list.
const MAX_AGENTS: usize = 64;

const KEYS: [&str; 10] =
    ["name", "path", "sha256", "kind", "version", "offers", "agents", "default_skill", "config", "limits"];
const LIMIT_KEYS: [&str; 4] = ["policy_timeout_ms", "skill_timeout_s", "memory_mib", "max_running"];

/// A line, counted from 1, and what is wrong there.
type Refusal = (usize, String);

/// Reads the whole text.
pub(super) fn manifest(text: &str) -> Result<Manifest, Refusal> {
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    let document = Document::parse(text).map_err(|error| (line(text, error.span()), error.message().to_owned()))?;
    let root = document.as_table();
    let reader = Reader { text };
    reader.known(root, &["plugin"], "the file")?;
    let Some(item) = root.get("plugin") else { return Ok(Manifest::default()) };
    let tables = item.as_array_of_tables().ok_or_else(|| reader.at(item, "write each plugin as [[plugin]]"))?;
    if tables.len() > MAX_PLUGINS {
        return Err(reader.at(item, &format!("{} plugins, the limit is {MAX_PLUGINS}", tables.len())));
    }
    let mut names = BTreeSet::new();
    let mut plugins = Vec::new();
    for table in tables {
        let entry = reader.entry(table)?;
        if !names.insert(entry.name.clone()) {
            return Err((line(text, table.span()), format!("a second plugin named {}", entry.name)));
        }
        plugins.push(entry);
    }
    Ok(Manifest { plugins })
}

/// Reads a configuration in TOML.
pub(super) fn toml_config(text: &str) -> Result<Object, String> {
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    let told = |(line, reason): Refusal| format!("line {line}: {reason}");
    let document =
        Document::parse(text).map_err(|error| told((line(text, error.span()), error.message().to_owned())))?;
    match (Reader { text }).json_of_table(document.as_table()).map_err(told)? {
        Json::Object(object) => Ok(object),
        _ => Err("it is no table".to_owned()),
    }
}

/// Reads a configuration in JSON.
pub(super) fn json_config(text: &str) -> Result<Object, String> {
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    match json::parse(text.as_bytes()).map_err(|error| error.to_string())? {
        Json::Object(object) => {
            object.values().try_for_each(check_numbers)?;
            Ok(object)
        }
        _ => Err("it is no JSON object".to_owned()),
    }
}

/// An integer that JSON readers disagree about would be another one after it was written.
fn check_numbers(value: &Json) -> Result<(), String> {
    match value {
        Json::Number(Number::Token(token)) if !token.contains(['.', 'e', 'E']) => {
            Err(format!("{token} is beyond ±{MAX_SAFE_INT}; write it as a string"))
        }
        Json::Array(items) => items.iter().try_for_each(check_numbers),
        Json::Object(members) => members.values().try_for_each(check_numbers),
        _ => Ok(()),
    }
}

fn line(text: &str, span: Option<Range<usize>>) -> usize {
    let at = span.map_or(0, |span| span.start.min(text.len()));
    1 + text.as_bytes()[..at].iter().filter(|&&byte| byte == b'\n').count()
}

struct Reader<'a> {
    text: &'a str,
}

impl Reader<'_> {
    fn at(&self, item: &Item, reason: &str) -> Refusal {
        (line(self.text, item.span()), reason.to_owned())
    }

    /// Refuses keys that mean nothing here.
    fn known(&self, table: &dyn TableLike, keys: &[&str], what: &str) -> Result<(), Refusal> {
        for (name, item) in table.iter() {
            if !keys.contains(&name) {
                let span = table.key(name).and_then(|key| key.span()).or_else(|| item.span());
                let shown = muretai_protocol::text::one_line(name, 40);
                return Err((line(self.text, span), format!("{what} has no key {shown}, only {}", keys.join(", "))));
            }
        }
        Ok(())
    }

    fn entry(&self, table: &Table) -> Result<Entry, Refusal> {
        self.known(table, &KEYS, "a plugin")?;
        let path = self.text_of(table, "path")?;
        let kind = match self.text_of(table, "kind")?.as_str() {
            "native" => Kind::Native,
            "wasm" => Kind::Wasm,
            _ => return Err(self.at(&table["kind"], "kind is native or wasm")),
        };
        let entry = Entry {
            name: self.checked(table, "name", is_name, "1 to 32 of a-z 0-9 -")?,
            path: PathBuf::from(&path),
            sha256: self.checked(table, "sha256", is_sha256, "64 lower-case hex digits")?,
            kind,
            version: self.checked(table, "version", is_label, "one line")?,
            offers: self.offers(table)?,
            agents: table.get("agents").map(|item| self.texts(item, "agents", MAX_AGENTS)).transpose()?,
            default_skill: None,
            config: self.config(table)?,
            limits: self.limits(table, kind)?,
        };
        if !entry.path.is_absolute() {
            return Err(self.at(&table["path"], "path must be absolute"));
        }
        let default_skill = self.default_skill(table, &entry)?;
        Ok(Entry { default_skill, ..entry })
    }

    fn item<'t>(&self, table: &'t Table, key: &str) -> Result<&'t Item, Refusal> {
        table.get(key).ok_or_else(|| (line(self.text, table.span()), format!("this plugin has no {key}")))
    }

    fn text_of(&self, table: &Table, key: &str) -> Result<String, Refusal> {
        let item = self.item(table, key)?;
        item.as_str().map(str::to_owned).ok_or_else(|| self.at(item, &format!("{key} must be a string")))
    }

    fn checked(&self, table: &Table, key: &str, is_good: fn(&str) -> bool, what: &str) -> Result<String, Refusal> {
        let text = self.text_of(table, key)?;
        if is_good(&text) { Ok(text) } else { Err(self.at(&table[key], &format!("{key} must be {what}"))) }
    }

    fn texts(&self, item: &Item, key: &str, max: usize) -> Result<Vec<String>, Refusal> {
        let strings = |array: &Array| -> Option<Vec<String>> {
            array.iter().map(|value| value.as_str().map(str::to_owned)).collect()
        };
        match item.as_array().and_then(strings) {
            Some(texts) if texts.len() <= max => Ok(texts),
            _ => Err(self.at(item, &format!("{key} must be a list of at most {max} strings"))),
        }
    }

    fn offers(&self, table: &Table) -> Result<Vec<String>, Refusal> {
        let item = self.item(table, "offers")?;
        let offers = self.texts(item, "offers", MAX_SKILLS + 1)?;
        for offer in &offers {
            if offer != "policy" && !offer.strip_prefix("skill:").is_some_and(is_name) {
                let shown = muretai_protocol::text::one_line(offer, 40);
                return Err(self.at(item, &format!("an offer is policy or skill:ID, not {shown}")));
            }
        }
        Ok(offers)
    }

    fn default_skill(&self, table: &Table, entry: &Entry) -> Result<Option<String>, Refusal> {
        let Some(item) = table.get("default_skill") else { return Ok(None) };
        match (item.as_bool(), item.as_str()) {
            (Some(false), _) => Ok(None),
            (Some(true), _) => match entry.skills().collect::<Vec<_>>()[..] {
                [only] => Ok(Some(only.to_owned())),
                _ => Err(self.at(item, "default_skill = true needs exactly one skill; name one of several")),
            },
            (_, Some(id)) if entry.skills().any(|skill| skill == id) => Ok(Some(id.to_owned())),
            _ => Err(self.at(item, "default_skill is true, false or the id of a skill that is among the offers")),
        }
    }

    fn limits(&self, table: &Table, kind: Kind) -> Result<Limits, Refusal> {
        let mut limits = kind.default_limits();
        let Some(item) = table.get("limits") else { return Ok(limits) };
        let table = item.as_table_like().ok_or_else(|| self.at(item, "limits must be a table"))?;
        self.known(table, &LIMIT_KEYS, "limits")?;
        let number = |key: &str, min: i64, max: i64| match table.get(key) {
            None => Ok(None),
            Some(item) => match item.as_integer().filter(|number| (min..=max).contains(number)) {
                Some(number) => Ok(Some(number)),
                None => Err(self.at(item, &format!("{key} is a number from {min} to {max}"))),
            },
        };
        if let Some(millis) = number("policy_timeout_ms", 10, 10_000)? {
            limits.policy_timeout = Duration::from_millis(millis as u64);
        }
        if let Some(secs) = number("skill_timeout_s", 1, 600)? {
            limits.skill_timeout = Duration::from_secs(secs as u64);
        }
        if let Some(mib) = number("memory_mib", 1, 4_096)? {
            limits.memory_mib = mib as u32;
        }
        if let Some(count) = number("max_running", 1, 64)? {
            limits.max_running = count as usize;
        }
        Ok(limits)
    }

    fn config(&self, table: &Table) -> Result<Object, Refusal> {
        match table.get("config") {
            None => Ok(Object::new()),
            Some(item) => match self.json_of(item)? {
                Json::Object(object) => Ok(object),
                _ => Err(self.at(item, "config must be a table")),
            },
        }
    }

    fn json_of(&self, item: &Item) -> Result<Json, Refusal> {
        match item {
            Item::None => Ok(Json::Null),
            Item::Value(value) => self.json_of_value(value),
            Item::Table(table) => self.json_of_table(table),
            Item::ArrayOfTables(tables) => {
                tables.iter().map(|table| self.json_of_table(table)).collect::<Result<_, _>>().map(Json::Array)
            }
        }
    }

    fn json_of_table(&self, table: &dyn TableLike) -> Result<Json, Refusal> {
        let members = table.iter().map(|(key, item)| Ok((key.to_owned(), self.json_of(item)?)));
        members.collect::<Result<Object, Refusal>>().map(Json::Object)
    }

    fn json_of_value(&self, value: &Value) -> Result<Json, Refusal> {
        let wrong = |reason: &str| (line(self.text, value.span()), reason.to_owned());
        match value {
            Value::String(text) => Ok(text.value().as_str().into()),
            Value::Boolean(flag) => Ok((*flag.value()).into()),
            Value::Integer(number) if number.value().abs_diff(0) <= MAX_SAFE_INT as u64 => Ok((*number.value()).into()),
            Value::Integer(_) => Err(wrong("an integer beyond ±9007199254740991; write it as a string")),
            Value::Float(number) if number.value().is_finite() => {
                // Rust writes floats as JSON does, for people who debug.
                let token = format!("{:?}", number.value());
                json::parse(token.as_bytes()).map_err(|_| wrong("a number that JSON does not have"))
            }
            Value::Float(_) => Err(wrong("JSON has neither inf nor nan")),
            Value::Datetime(_) => Err(wrong("write a date or a time as a string")),
            Value::Array(array) => {
                array.iter().map(|value| self.json_of_value(value)).collect::<Result<_, _>>().map(Json::Array)
            }
            Value::InlineTable(table) => self.json_of_table(table),
        }
    }
}

fn is_sha256(text: &str) -> bool {
    text.len() == 64 && text.bytes().all(|byte| byte.is_ascii_digit() || (b'a'..=b'f').contains(&byte))
}

fn is_label(text: &str) -> bool {
    text.len() <= MAX_LABEL_BYTES && muretai_protocol::text::one_line(text, usize::MAX) == text
}
