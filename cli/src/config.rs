//! `config.toml` in the home: defaults that a flag or a variable beats.

use std::{fs, io, path::Path, time::Duration};

use serde::Deserialize;

use crate::{failure::Failure, parse};

/// Bytes of the file that are read: some lines, not a data file.
const MAX_CONFIG_BYTES: u64 = 65_536;

/// What the file says. An unknown key is an error that names it, so that a misspelt one is not silently without effect.
#[derive(Debug, Default, Deserialize, PartialEq, Eq)]
#[serde(deny_unknown_fields)]
pub(crate) struct Config {
    /// The agent that acts when `--as` and `MURETAI_AS` are silent.
    #[serde(rename = "as")]
    pub(crate) agent: Option<String>,
    /// Default of `--timeout`.
    #[serde(default, deserialize_with = "span")]
    pub(crate) timeout: Option<Duration>,
    /// Default of `--allow-private`.
    #[serde(default)]
    pub(crate) allow_private: bool,
    /// Relays of this home, where `serve` and `inbox --sync` look for mail and where cards are asked for; the first is
    /// the one of `invite create --relay`.
    #[serde(default, deserialize_with = "relays")]
    pub(crate) relay: Vec<String>,
}

/// One URL, or several.
#[derive(Deserialize)]
#[serde(untagged, expecting = "expected the URL of a relay, or a list of them")]
enum OneOrMore {
    One(String),
    More(Vec<String>),
}

fn relays<'de, D: serde::Deserializer<'de>>(deserializer: D) -> Result<Vec<String>, D::Error> {
    let relays = match OneOrMore::deserialize(deserializer)? {
        OneOrMore::One(relay) => vec![relay],
        OneOrMore::More(relays) => relays,
    };
    let relays = relays.iter().map(|relay| {
        parse::relay(relay).map_err(|reason| serde::de::Error::custom(format!("relay {relay:?}: {reason}")))
    });
    relays.collect()
}

fn span<'de, D: serde::Deserializer<'de>>(deserializer: D) -> Result<Option<Duration>, D::Error> {
    let text = String::deserialize(deserializer)?;
    parse::duration(&text).map(Some).map_err(serde::de::Error::custom)
}

/// Reads the file of a home; one that is not there says nothing.
pub(crate) fn read(home: &Path) -> Result<Config, Failure> {
    let path = home.join("config.toml");
    let attempt = || format!("cannot read {}", path.display());
    match fs::metadata(&path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Config::default()),
        Ok(facts) if facts.len() > MAX_CONFIG_BYTES => {
            let message = format!("{}: it is {} bytes, the limit is {MAX_CONFIG_BYTES}", attempt(), facts.len());
            return Err(Failure::failed(message));
        }
        _ => {}
    }
    let text = fs::read_to_string(&path).map_err(|error| Failure::io(attempt(), &error))?;
    parse_text(&text).map_err(|error| {
        Failure::failed(format!("{}: {}", attempt(), error.trim_end().replace('\n', " ")))
            .hint("it knows the keys `as`, `timeout`, `allow_private` and `relay`")
    })
}

fn parse_text(text: &str) -> Result<Config, String> {
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    toml::from_str(text).map_err(|error| match error.span() {
        Some(span) => {
            let line = text[..span.start.min(text.len())].matches('\n').count() + 1;
            format!("line {line}: {}", error.message())
        }
        None => error.message().to_owned(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_its_keys_behind_a_byte_order_mark() {
        let text = "\u{feff}as = \"north\"\ntimeout = \"45s\"\nallow_private = true\n";
        let expected = Config {
            agent: Some("north".to_owned()),
            timeout: Some(Duration::from_secs(45)),
            allow_private: true,
            relay: Vec::new(),
        };
        assert_eq!(parse_text(text), Ok(expected));
        assert_eq!(parse_text(""), Ok(Config::default()));
    }

    #[test]
    fn relays_are_one_or_several_and_are_addresses() {
        let relays = |text: &str| parse_text(text).map(|config| config.relay);
        assert_eq!(relays("relay = \"https://Relay.example/\""), Ok(vec!["https://relay.example".to_owned()]));
        assert_eq!(relays("relay = [\"http://127.0.0.1:8421\", \"https://relay.example\"]").unwrap().len(), 2);
        assert!(relays("relay = \"relay.example\"").unwrap_err().contains("relay.example"));
        assert!(relays("relay = 5").unwrap_err().contains("the URL of a relay"));
    }

    #[test]
    fn names_the_key_that_it_does_not_know() {
        let error = parse_text("as = \"north\"\ntimeuot = \"5s\"\n").unwrap_err();
        assert!(error.contains("line 2") && error.contains("timeuot"), "{error}");
        assert!(parse_text("timeout = \"soon\"").unwrap_err().contains("30s"));
        assert!(parse_text("as = 5").is_err());
    }
}
