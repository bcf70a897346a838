//! Errands: what this agent owes to peers, carried out at once when that works, and by `serve` later when it does not.
use muretai_protocol::{Did, UnixSeconds};
use muretai_store::{errands::NewErrand, requests::Decision};

use crate::Agent;

/// An act that is owed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Errand {
    /// `connect/respond` to whoever asked; `request` is our row, for undoing when it is no longer wanted.
    ConnectRespond { request: i64, request_id: Option<String>, decision: Decision },
    /// `introduce/respond` to the introducer.
    IntroduceRespond { introduction_id: String, decision: Decision },
    /// `introduce/propose` of an introduction that we issued, to its target.
    Propose { introduction_id: String },
    /// A `message/send` with `held_vc…` that gives the subject what we issued.
    HandOver { introduction_id: String },
    /// A notice with our revocation list, to the target of what was revoked.
    Revoked,
}

impl Errand {
    /// As the store keeps it; gives up after 7 days.
    pub(crate) fn to_store(&self, peer: &Did, now: UnixSeconds) -> NewErrand {
        let _ = (peer, now);
        todo!()
    }
}

impl Agent {
    /// Carries out what is due, a few at a time; failures are put off with growing pauses. Gives how many are done.
    pub async fn run_errands(&self) -> usize {
        todo!()
    }
}
