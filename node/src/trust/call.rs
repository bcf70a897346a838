//! One signed call of a method that is not `message/send`, and its unsigned result.
use std::time::Duration;

use muretai_protocol::json::{Object, Value};

use super::TrustError;
use crate::{Agent, send::ResolvedPeer};

/// A call.
#[derive(Debug)]
pub(crate) struct Call<'a> {
    /// The method.
    pub(crate) method: &'static str,
    /// The signed text (5.1): the method's name, and a note after a line feed.
    pub(crate) text: &'a str,
    /// The params beside `message`.
    pub(crate) params: Object,
    /// For everything together, repeats after a broken connection among it.
    pub(crate) timeout: Duration,
}

impl Agent {
    /// Makes the call. A refusal is [`crate::send::SendError::Refused`] with the peer's code; `-32601` names the peer's build.
    pub(crate) async fn call(&self, peer: &ResolvedPeer, call: Call<'_>) -> Result<Value, TrustError> {
        let _ = (peer, call);
        todo!()
    }
}
