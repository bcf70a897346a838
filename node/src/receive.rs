//! Receiving: the frame, the ladder in its fixed order (section 4.1), then the gate, then the method.
//!
//! A request passes these modules from top to bottom: [`frame`] reads bytes (rows b to g) and touches nothing else;
//! [`ladder`] proves who speaks (steps 1 to 5') with the help of [`replay`]; [`methods`] ask the [`gate`], the [`rate`]
//! limits and the [`responder`], store, and answer. [`refusals`] holds every sentence that a refusal may say.
pub(crate) mod extra;
pub mod frame;
pub mod gate;
pub(crate) mod in_hand;
pub mod ladder;
pub mod methods;
pub mod rate;
pub mod refusals;
pub mod replay;
pub mod responder;
pub(crate) mod return_address;
mod senders;
pub mod service;
mod settings;
#[cfg(test)]
pub(crate) mod testing;
