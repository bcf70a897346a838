//! How a failure is told: to a person in up to four kinds of lines, to a program in one JSON object.

use muretai_protocol::{rpc::Code, text::one_line};
use serde_json::{Value, json};

use super::{ERROR, HINT, MAX_ERROR_CHARS, paint};
use crate::failure::Failure;

/// `error:`, `caused by:` and `hint:` lines, safe for a terminal.
pub(super) fn text(failure: &Failure) -> String {
    let line = |text: &str| one_line(text, MAX_ERROR_CHARS);
    let mut shown = format!("{} {}", paint(ERROR, "error:"), line(&failure.message));
    for cause in causes(failure) {
        shown.push_str(&format!("\n  caused by: {}", line(&cause)));
    }
    if let Some(hint) = &failure.hint {
        shown.push_str(&format!("\n{} {}", paint(HINT, "hint:"), line(hint)));
    }
    shown
}

/// What stood behind the message, outermost first, without what the line before it says already.
fn causes(failure: &Failure) -> Vec<String> {
    let mut told = Vec::new();
    if let Some(refusal) = &failure.refusal {
        if !failure.message.contains(&refusal.code.to_string()) {
            told.push(format!("the peer refused: {} {}", refusal.code, refusal.message));
        }
        // The advice of a peer that does not know us is what our own hint says too.
        let is_told = failure.hint.is_some() && refusal.code == Code::IntroductionRequired.number();
        told.extend(refusal.detail().filter(|_| !is_told).map(str::to_owned));
    }
    told.extend(failure.causes.iter().cloned());
    without_echoes(&failure.message, told)
}

/// Leaves out each cause that the line before it has word for word.
fn without_echoes(message: &str, causes: Vec<String>) -> Vec<String> {
    let mut told: Vec<String> = Vec::new();
    for cause in causes {
        if !told.last().map_or(message, String::as_str).contains(cause.as_str()) {
            told.push(cause);
        }
    }
    told
}

/// The message and its causes as one sentence, as they are.
pub(crate) fn in_one_line(failure: &Failure) -> String {
    let mut told = failure.message.clone();
    for cause in causes(failure) {
        told.push_str(&format!(": {cause}"));
    }
    told
}

/// The same as an object whose members are always there.
pub(super) fn json(failure: &Failure) -> Value {
    let refusal = failure.refusal.as_deref();
    let data = refusal.and_then(|refusal| serde_json::from_str::<Value>(&refusal.data.as_ref()?.to_json()).ok());
    json!({
        "error": failure.message,
        "causes": without_echoes(&failure.message, failure.causes.clone()),
        "hint": failure.hint,
        "code": refusal.map(|refusal| refusal.code),
        "message": refusal.map(|refusal| refusal.message.as_str()),
        "data": data,
        "messageId": failure.message_id,
    })
}

/// What clap says about a command line: its first paragraph, and its tips as the hint.
pub(super) fn usage(error: &clap::Error, command: &str) -> Failure {
    let shown = error.render().to_string();
    let help = format!("`{command} --help` shows how it is written");
    if error.kind() == clap::error::ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand {
        return Failure::usage("the command is missing").hint(help);
    }
    let first = shown.split("\n\n").next().unwrap_or_default();
    let line = first.split_whitespace().collect::<Vec<_>>().join(" ");
    let tips = shown.lines().filter_map(|line| line.trim_start().strip_prefix("tip: "));
    let hint = tips.chain([help.as_str()]).collect::<Vec<_>>().join("; ");
    Failure::usage(line.strip_prefix("error: ").unwrap_or(&line)).hint(hint)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{exit::Exit, failure::PeerRefusal};

    fn refused() -> Failure {
        Failure {
            causes: vec!["a\u{1b}[2Kcause".to_owned()],
            refusal: Some(Box::new(PeerRefusal {
                code: -32010,
                message: "introduction required".to_owned(),
                data: None,
            })),
            ..Failure::new(Exit::PeerRefused, "cannot send to `south`").hint("`muretai claim LINK` first")
        }
    }

    #[test]
    fn a_failure_shows_no_control_characters_to_a_terminal() {
        let shown = text(&refused());
        let plain = anstream::adapter::strip_str(&shown).to_string();
        assert!(!plain.contains('\u{1b}'), "{plain:?}");
        assert!(plain.starts_with("error: cannot send to `south`\n  caused by: "), "{plain}");
        assert!(plain.ends_with("\nhint: `muretai claim LINK` first"), "{plain}");
    }

    #[test]
    fn no_line_repeats_the_one_before_it() {
        let causes = ["the disk is full", "No space left", "No space left"].map(str::to_owned).to_vec();
        assert_eq!(without_echoes("cannot write: the disk is full", causes), ["No space left"]);
    }

    #[test]
    fn a_json_failure_carries_the_refusal_and_every_member() {
        let value = json(&refused());
        assert_eq!(value["code"], -32010);
        assert_eq!(value["message"], "introduction required");
        assert_eq!(value["error"], "cannot send to `south`");
        let plain = json(&Failure::failed("no"));
        for name in ["causes", "hint", "code", "message", "data"] {
            assert!(plain.get(name).is_some(), "{name}");
        }
    }
}
