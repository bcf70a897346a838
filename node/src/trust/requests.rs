//! The owner's decisions about what waits.
use std::time::Duration;

use muretai_store::{
    contacts::Contact,
    requests::{Decision, RequestRow},
};

use super::TrustError;
use crate::Agent;

/// What `requests accept` and `reject` are told.
#[derive(Debug, Clone)]
pub struct DecideRequest {
    /// The number of the row.
    pub id: i64,
    /// Yes or no.
    pub decision: Decision,
    /// A local name for whom it lets in.
    pub name: Option<String>,
    /// For a referral: which contacts to name; empty takes those whose tags fit.
    pub refer: Vec<String>,
    /// For telling the peer.
    pub timeout: Duration,
}

/// What it did.
#[derive(Debug, Clone)]
pub struct DecidedRequest {
    /// The row as it is now.
    pub row: RequestRow,
    /// Nothing changed: it was decided so before.
    pub was_decided: bool,
    /// Who is trusted now.
    pub contact: Option<Contact>,
    /// Messages that moved to the inbox.
    pub delivered: u32,
    /// Everybody who must know was told now. Otherwise `serve` goes on trying.
    pub is_told: bool,
    /// What did not go as wished and does not matter much, one sentence each.
    pub notes: Vec<String>,
}

impl Agent {
    /// What waits, newest last; with `all` also what was decided.
    pub async fn requests(&self, all: bool) -> Result<Vec<RequestRow>, TrustError> {
        let _ = all;
        todo!()
    }

    /// Carries out the owner's decision and tells the peers.
    pub async fn decide(&self, request: &DecideRequest) -> Result<DecidedRequest, TrustError> {
        let _ = request;
        todo!()
    }

    /// Takes back a request of ours.
    pub async fn withdraw(&self, id: i64) -> Result<RequestRow, TrustError> {
        let _ = id;
        todo!()
    }
}
