//! Text from strangers, made safe to show.

/// Shows a peer's text on one line: control, format and bidi characters escaped, at most `max_chars` characters.
pub fn one_line(_text: &str, _max_chars: usize) -> String {
    todo!()
}
/// Shows a message body: line feeds and tabs kept, every other control, format and bidi character escaped.
pub fn body(_text: &str) -> String {
    todo!()
}
/// A name out of a peer's mouth: control and format characters stripped, cut to 32 characters (6.4).
pub fn peer_name(_text: &str) -> String {
    todo!()
}
