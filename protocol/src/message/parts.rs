//! The parts of a message: which of them are text (3.1, 3.2).
use super::ShapeError;
use crate::json::Value;

/// How a part says that it is text.
#[derive(PartialEq)]
enum Discriminator {
    /// `kind:"text"`, the one spelling of our wire.
    Kind,
    /// `type:"text"` or a bare `{text}`, as other A2A versions write it.
    Foreign,
    /// It is something else.
    NotText,
}

/// The joined text and the parts that do not enter it.
///
/// Parts of `kind:"text"` are the text. Only when there is none, parts in the foreign spellings are: a stray one beside
/// them is not in the signed text of anybody, and must not break the signature of a message that a relay decorated.
pub(super) fn read(parts: Option<Value>) -> Result<(String, Vec<Value>), ShapeError> {
    let parts = match parts {
        None | Some(Value::Null) => Vec::new(),
        Some(Value::Array(parts)) => parts,
        Some(_) => return Err(ShapeError("parts is not an array")),
    };
    let text = match parts.iter().any(|part| discriminator(part) == Discriminator::Kind) {
        true => Discriminator::Kind,
        false => Discriminator::Foreign,
    };
    let mut joined: Option<String> = None;
    let mut others = Vec::new();
    for part in parts {
        if discriminator(&part) != text {
            others.push(part);
            continue;
        }
        let piece = match part.member("text") {
            None => "",
            Some(Value::String(piece)) => piece,
            Some(_) => return Err(ShapeError("the text of a text part is not a string")),
        };
        match &mut joined {
            None => joined = Some(piece.to_owned()),
            Some(joined) => {
                joined.push('\n');
                joined.push_str(piece);
            }
        }
    }
    Ok((joined.unwrap_or_default(), others))
}

fn discriminator(part: &Value) -> Discriminator {
    let is_text = |value: &Value| value.as_str() == Some("text");
    match (part.member("kind"), part.member("type")) {
        (Some(kind), _) if is_text(kind) => Discriminator::Kind,
        (Some(_), _) => Discriminator::NotText,
        (None, Some(other)) if is_text(other) => Discriminator::Foreign,
        (None, None) if part.member("text").is_some_and(|text| text.as_str().is_some()) => Discriminator::Foreign,
        (None, _) => Discriminator::NotText,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::json;

    #[test]
    fn text_parts_are_joined_with_line_feeds() {
        let parts = json!([{"kind": "text", "text": "a"}, {"kind": "text"}, {"kind": "text", "text": null}, {"kind": "text", "text": "b"}]);
        assert_eq!(read(Some(parts)).unwrap(), ("a\n\n\nb".to_owned(), vec![]));
    }

    #[test]
    fn no_parts_are_no_text() {
        for parts in [None, Some(json!(null)), Some(json!([]))] {
            assert_eq!(read(parts).unwrap(), (String::new(), vec![]));
        }
    }

    #[test]
    fn other_spellings_of_a_text_part_are_read_as_text() {
        for part in
            [json!({"kind": "text", "text": "hi"}), json!({"type": "text", "text": "hi"}), json!({"text": "hi"})]
        {
            assert_eq!(read(Some(json!([part]))).unwrap(), ("hi".to_owned(), vec![]));
        }
        let mixed = json!([{"type": "text", "text": "a"}, {"text": "b"}]);
        assert_eq!(read(Some(mixed)).unwrap().0, "a\nb");
    }

    #[test]
    fn a_foreign_spelling_beside_the_usual_one_stays_out_of_the_text() {
        let parts = json!([{"text": "unsigned"}, {"kind": "text", "text": "signed"}, {"type": "text", "text": "too"}]);
        let (text, others) = read(Some(parts)).unwrap();
        assert_eq!((text.as_str(), others.len()), ("signed", 2));
    }

    #[test]
    fn files_and_data_are_kept_and_are_no_text() {
        let others = vec![
            json!({"kind": "file", "file": {"uri": "https://north.example/a"}, "text": "not mine"}),
            json!({"kind": "data", "data": {}}),
            json!({"type": "data", "text": "not mine"}),
            json!({"kind": 5, "text": "not mine"}),
            json!({"text": 5}),
            json!("text"),
            json!(null),
        ];
        let mut parts = others.clone();
        parts.insert(3, json!({"kind": "text", "text": "hi"}));
        assert_eq!(read(Some(Value::Array(parts))).unwrap(), ("hi".to_owned(), others));
    }

    #[test]
    fn text_must_be_a_string() {
        for part in [json!({"kind": "text", "text": 5}), json!({"type": "text", "text": ["hi"]})] {
            assert_eq!(read(Some(json!([part]))).unwrap_err().0, "the text of a text part is not a string");
        }
    }
}
