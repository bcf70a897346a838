//! URL shapes that the protocol itself judges (sections 9.3, 12.2, 12.5). No name is resolved here.

/// The plain URL shape of 12.2, as a whole string.
pub fn is_plain_url(_url: &str) -> bool {
    todo!()
}
/// The origin of 9.3; the empty string when invalid, which matches nothing.
pub fn origin(_url: &str) -> String {
    todo!()
}
/// Why a URL is not a canonical base (12.5).
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum BaseUrlError {
    /// It would be, if it were spelled like this.
    #[error("the canonical spelling is {corrected}")]
    NotCanonical {
        /// What to write instead.
        corrected: String,
    },
    /// It cannot be one.
    #[error("{0}")]
    Invalid(&'static str),
}
/// Checks that `url` is a canonical base; the error carries the corrected value where there is one.
pub fn check_base(_url: &str) -> Result<(), BaseUrlError> {
    todo!()
}
/// Makes a canonical base out of what a person typed, or says why it cannot.
pub fn canonical_base(_url: &str) -> Result<String, BaseUrlError> {
    todo!()
}
/// The scope match of 12.5. An empty or unparsable `card_url` matches nothing.
pub fn same_scope(_card_url: &str, _dialled: &str) -> bool {
    todo!()
}
