//! Short lists of texts, kept in one column as JSON.
use muretai_protocol::json::{self, Value};

use crate::StoreError;

/// As a column holds it.
pub(crate) fn encode(list: &[String]) -> String {
    Value::from(list.iter().map(|text| Value::from(text.as_str())).collect::<Vec<_>>()).to_json()
}

/// Reads a column.
pub(crate) fn decode(text: &str) -> Result<Vec<String>, StoreError> {
    let Ok(Value::Array(list)) = json::parse(text.as_bytes()) else { return Err(StoreError::Damaged) };
    let text = |value| if let Value::String(text) = value { Ok(text) } else { Err(StoreError::Damaged) };
    list.into_iter().map(text).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn any_texts_survive(list in prop::collection::vec(any::<String>(), 0..8)) {
            prop_assert_eq!(decode(&encode(&list)).unwrap(), list);
        }
    }

    #[test]
    fn anything_else_is_damage() {
        for text in ["", "{}", "[1]", "[\"a\"", "null"] {
            assert!(matches!(decode(text), Err(StoreError::Damaged)), "{text}");
        }
    }
}
