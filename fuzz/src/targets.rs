//! The bodies. A body takes any bytes, calls what production code calls, and checks what must hold for every input.
pub mod card;
pub mod did;
pub mod envelope;
pub mod http_body;
pub mod introduction;
pub mod invite_link;
pub mod linkage;
pub mod parse;
pub mod relay;
