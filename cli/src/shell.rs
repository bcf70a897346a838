//! Words as a person would type them at a shell.

/// A word, quoted when a shell would read it as something else than one word.
pub(crate) fn quoted(word: &str) -> String {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "-_./:@%+=,[]".contains(c);
    if !word.is_empty() && word.chars().all(is_plain) {
        return word.to_owned();
    }
    format!("'{}'", word.replace('\'', "'\\''"))
}

/// Puts flags behind the program's name in each command of a sentence that takes them, so that the command can be typed
/// as it is shown. Commands are written between backticks.
pub(crate) fn with_flags(text: &str, home: Option<&str>, agent: Option<&str>) -> String {
    const NAME: &str = "`muretai ";
    /// Commands in which no agent acts.
    const NOBODY: [&str; 9] =
        ["keygen", "tour", "completions", "man", "help", "identity list", "plugin", "relay", "--as"];
    let mut pieces = text.split(NAME);
    let mut shown = pieces.next().unwrap_or_default().to_owned();
    for rest in pieces {
        shown.push_str(NAME);
        if let Some(home) = home.filter(|_| !rest.starts_with("tour")) {
            shown.push_str(&format!("--home {} ", quoted(home)));
        }
        if let Some(agent) = agent.filter(|_| !NOBODY.iter().any(|command| rest.starts_with(command))) {
            shown.push_str(&format!("--as {} ", quoted(agent)));
        }
        shown.push_str(rest);
    }
    shown
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quotes_what_a_shell_would_split_or_obey() {
        assert_eq!(quoted("south-2"), "south-2");
        assert_eq!(quoted("tr a-z A-Z"), "'tr a-z A-Z'");
        assert_eq!(quoted("it's"), r"'it'\''s'");
        assert_eq!(quoted(""), "''");
    }

    #[test]
    fn commands_in_a_sentence_get_the_flags_that_were_typed() {
        let hint = "`muretai contacts list` shows them; `muretai keygen NAME` or `muretai --as east serve`";
        assert_eq!(with_flags(hint, None, None), hint);
        assert_eq!(
            with_flags(hint, Some("my home"), Some("north")),
            "`muretai --home 'my home' --as north contacts list` shows them; \
             `muretai --home 'my home' keygen NAME` or `muretai --home 'my home' --as east serve`"
        );
    }
}
