//! Small facts about this agent, by key: the URL it serves at, its display name, its defaults.
use crate::{Store, StoreError};
impl Store {
    /// The value of a key.
    pub async fn setting(&self, _key: &str) -> Result<Option<String>, StoreError> {
        todo!()
    }
    /// Sets or, with `None`, forgets a key.
    pub async fn set_setting(&self, _key: &str, _value: Option<&str>) -> Result<(), StoreError> {
        todo!()
    }
}
