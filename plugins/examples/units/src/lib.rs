//! A skill for muretai: converts units. `units 5 km in mi` is answered with `5 km ≈ 3.106855961 mi`.
//!
//! Numbers are exact: fractions of whole numbers, rounded only when they are printed. The owner may set `digits`, how
//! many significant digits an answer has (10 unless set).
#![cfg_attr(test, allow(clippy::unwrap_used))]

mod question;
mod rational;
mod table;

use muretai_plugin::{About, Error, Map, Plugin, Reply, Skill, SkillInfo, SkillRequest, Value};

const ID: &str = "units";

struct Units {
    digits: usize,
}

impl Plugin for Units {
    fn about() -> About {
        let skill =
            SkillInfo::new(ID, "Unit converter", "Converts lengths, masses, temperatures, volumes, data and more")
                .tag("units")
                .tag("conversion")
                .example("5 km in mi")
                .example("72 °F in °C")
                .example("1.5 GiB to MB")
                .example("3 cups in ml")
                .example("list speed");
        About::new("units", env!("CARGO_PKG_VERSION"), "A unit converter").skill(skill)
    }

    fn open(config: &Map<String, Value>) -> Result<Units, Error> {
        let mut units = Units { digits: 10 };
        for (key, value) in config {
            match (key.as_str(), value.as_u64()) {
                ("digits", Some(digits @ 1..=30)) => units.digits = digits as usize,
                ("digits", _) => return Err(Error::new("`digits` must be a number from 1 to 30")),
                _ => return Err(Error(format!("unknown setting `{key}`; there is only `digits`"))),
            }
        }
        Ok(units)
    }

    fn skill(&mut self, id: &str) -> Option<&mut dyn Skill> {
        (id == ID).then_some(self)
    }
}

impl Skill for Units {
    fn answer(&mut self, request: &SkillRequest) -> Result<Reply, Error> {
        let text = request.text.trim();
        let (first, rest) = text.split_once(char::is_whitespace).unwrap_or((text, ""));
        match first.to_lowercase().as_str() {
            "" | "help" | "/help" => Ok(help()),
            "list" => list(rest.trim()),
            _ => Ok(Reply::text(question::answer(text, self.digits)?)),
        }
    }
}

fn help() -> Reply {
    Reply::text("Ask for example `5 km in mi`, `72 °F in °C` or `1.5 GiB to MB`. `list` names all units.")
        .command(ID, "Convert", Some("5 km in mi"))
        .command(ID, "Units of a kind", Some("list length"))
        .command(ID, "Help", Some("help"))
}

fn list(kind: &str) -> Result<Reply, Error> {
    let kinds = table::kinds();
    let chosen: Vec<_> = kinds.iter().filter(|known| kind.is_empty() || known.eq_ignore_ascii_case(kind)).collect();
    if chosen.is_empty() {
        return Err(Error(format!("there is no kind `{}`; there are {}", question::shown(kind), kinds.join(", "))));
    }
    let lines = chosen.iter().map(|kind| {
        let symbols: Vec<_> = table::of_kind(kind).map(|unit| unit.symbol).collect();
        format!("{kind}: {}", symbols.join(" "))
    });
    Ok(Reply::text(lines.collect::<Vec<_>>().join("\n")))
}

muretai_plugin::export_plugin!(Units);

#[cfg(test)]
mod tests {
    use muretai_plugin::testing::{Instance, check_examples};

    use super::*;

    #[test]
    fn the_declared_examples_are_answered() {
        check_examples::<Units>("{}").unwrap();
        assert!(Units::about().skills[0].examples.len() >= 3);
    }

    #[test]
    fn examples_have_these_answers() {
        let mut units = Instance::<Units>::open("{}").unwrap();
        for (question, answer) in [
            ("5 km in mi", "5 km ≈ 3.106855961 mi"),
            ("72 °F in °C", "72 °F ≈ 22.22222222 °C"),
            ("1.5 GiB to MB", "1.5 GiB = 1610.612736 MB"),
            ("3 cups in ml", "3 cup = 709.7647095 ml"),
            ("list speed", "speed: m/s km/h mph kn ft/s"),
        ] {
            assert_eq!(units.skill("units", question).unwrap().text, answer);
        }
    }

    #[test]
    fn help_offers_commands() {
        let mut units = Instance::<Units>::open("{}").unwrap();
        for text in ["", "help", "/help", " HELP "] {
            assert_eq!(units.skill("units", text).unwrap().commands.len(), 3);
        }
        assert_eq!(units.skill("units", "list").unwrap().text.lines().count(), table::kinds().len());
        assert!(units.skill("units", "list colours").unwrap_err().0.contains("length, mass"));
    }

    #[test]
    fn the_owner_sets_the_digits() {
        let mut units = Instance::<Units>::open(r#"{"digits":3}"#).unwrap();
        assert_eq!(units.skill("units", "5 km in mi").unwrap().text, "5 km ≈ 3.11 mi");
        for config in [r#"{"digits":0}"#, r#"{"digits":"3"}"#, r#"{"digit":3}"#] {
            assert!(Instance::<Units>::open(config).is_err(), "{config}");
        }
    }
}
