//! base64 in its strict spellings (section 2.4).

/// Standard alphabet with padding.
pub fn encode(_bytes: &[u8]) -> String {
    todo!()
}
/// Strict: decoding and encoding again gives the identical string. `None` otherwise.
pub fn decode(_text: &str) -> Option<Vec<u8>> {
    todo!()
}
/// base64url without padding.
pub fn encode_url(_bytes: &[u8]) -> String {
    todo!()
}
/// Strict base64url without padding.
pub fn decode_url(_text: &str) -> Option<Vec<u8>> {
    todo!()
}
/// base64url with or without padding, for invite tokens (7.2).
pub fn decode_url_lenient(_text: &str) -> Option<Vec<u8>> {
    todo!()
}
