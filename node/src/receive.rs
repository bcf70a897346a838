//! Receiving: the ladder in its fixed order (section 4.1), then the gate, then the method.
pub mod gate;
pub mod ladder;
pub mod methods;
pub mod rate;
pub mod replay;
pub mod responder;
pub mod service;
