//! What a reply offers to choose from: the additive metadata member `commands`, an array of `{keyword, label, params?}`.
//!
//! It is unsigned and shown to a person, so all of it is bounded and made safe here; what is not of its shape is left
//! out, and never a reason to doubt the reply.
use muretai_protocol::{json::Value, text::one_line};

use crate::send::ReplyCommand;

/// Commands of one reply; nobody chooses among more.
const MAX_COMMANDS: usize = 32;
/// Characters of a keyword, which is typed.
const MAX_KEYWORD_CHARS: usize = 64;
/// Characters of a label, and of what is said about the params.
const MAX_WORDS_CHARS: usize = 200;

/// Reads the member.
pub(super) fn read(commands: &Value) -> Vec<ReplyCommand> {
    let commands = commands.as_array().unwrap_or_default();
    commands.iter().take(MAX_COMMANDS).filter_map(command).collect()
}

fn command(value: &Value) -> Option<ReplyCommand> {
    let words = |key: &str| {
        let words = one_line(value.member(key)?.as_str()?.trim(), MAX_WORDS_CHARS);
        Some(words).filter(|words| !words.is_empty())
    };
    let keyword = value.member("keyword")?.as_str()?;
    // What a person is to type has to be typable as it is shown.
    let is_typable = !keyword.is_empty()
        && keyword.chars().count() <= MAX_KEYWORD_CHARS
        && !keyword.contains(char::is_whitespace)
        && one_line(keyword, MAX_KEYWORD_CHARS) == keyword;
    is_typable.then(|| ReplyCommand {
        keyword: keyword.to_owned(),
        label: words("label").unwrap_or_else(|| keyword.to_owned()),
        params: words("params"),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use muretai_protocol::json;

    #[test]
    fn what_is_offered_is_read() {
        let commands = json!([
            {"keyword": "convert", "label": "Convert units", "params": "3 km to miles", "more": 1},
            {"keyword": "help"},
        ]);
        let read = read(&commands);
        assert_eq!(read.len(), 2);
        assert_eq!((read[0].label.as_str(), read[0].params.as_deref()), ("Convert units", Some("3 km to miles")));
        assert_eq!((read[1].label.as_str(), read[1].params.as_deref()), ("help", None));
    }

    #[test]
    fn what_is_hostile_is_left_out_or_made_safe() {
        for shape in [json!(null), json!({}), json!("x"), json!(1), json!([[], 1, null, "x", {}])] {
            assert!(read(&shape).is_empty());
        }
        for keyword in ["", "a b", "a\nb", "\u{202e}abc", "\u{1b}[2J", &"x".repeat(65)] {
            let commands = json!([{"keyword": keyword, "label": "x"}]);
            assert!(read(&commands).is_empty(), "{keyword:?}");
        }
        let commands = json!([{"keyword": "x", "label": "a\u{1b}[2K", "params": ["x"]}]);
        let read_one = read(&commands);
        assert_eq!((read_one[0].label.as_str(), &read_one[0].params), ("a\\u{1b}[2K", &None));
        let many = Value::from(vec![json!({"keyword": "x"}); 1_000]);
        assert_eq!(read(&many).len(), MAX_COMMANDS);
        let long = json!([{"keyword": "x", "label": (&"y".repeat(100_000))}]);
        assert!(read(&long)[0].label.chars().count() <= MAX_WORDS_CHARS);
    }
}
