//! {{name}}: a skill for muretai. It counts the words of a message: `{{name}} one two` is answered with `2 words`.
use muretai_plugin::{About, Error, Map, Plugin, Reply, Skill, SkillInfo, SkillRequest, Value};

const ID: &str = "{{name}}";

struct Words;

impl Plugin for Words {
    fn about() -> About {
        let skill = SkillInfo::new(ID, ID, "Counts the words of a text").tag("text").example("one two three");
        About::new(ID, env!("CARGO_PKG_VERSION"), "Counts words").skill(skill)
    }

    fn open(config: &Map<String, Value>) -> Result<Words, Error> {
        match config.keys().next() {
            None => Ok(Words),
            Some(key) => Err(Error::new(&format!("there is nothing to configure, and `{key}` is set"))),
        }
    }

    fn skill(&mut self, id: &str) -> Option<&mut dyn Skill> {
        (id == ID).then_some(self)
    }
}

impl Skill for Words {
    fn answer(&mut self, request: &SkillRequest) -> Result<Reply, Error> {
        match request.text.split_whitespace().count() {
            // The sender reads this.
            0 => Err(Error::new("there are no words to count")),
            1 => Ok(Reply::text("1 word")),
            words => Ok(Reply::text(format!("{words} words"))),
        }
    }
}

muretai_plugin::export_plugin!(Words);

#[cfg(test)]
mod tests {
    use muretai_plugin::testing::{self, Instance};

    use super::*;

    #[test]
    fn counts_words() {
        let mut words = Instance::<Words>::open("{}").unwrap();
        assert_eq!(words.skill(ID, "one two three").unwrap().text, "3 words");
        assert_eq!(words.skill(ID, " one ").unwrap().text, "1 word");
        assert!(words.skill(ID, " ").is_err());
    }

    #[test]
    fn answers_its_examples() {
        testing::check_examples::<Words>("{}").unwrap();
    }
}
