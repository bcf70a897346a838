//! One file per subcommand.

pub(crate) mod card;
pub(crate) mod claim;
pub(crate) mod completions;
pub(crate) mod connect;
pub(crate) mod contacts;
pub(crate) mod doctor;
pub(crate) mod domain;
pub(crate) mod identity;
pub(crate) mod inbox;
pub(crate) mod introduce;
pub(crate) mod invite;
pub(crate) mod keygen;
pub(crate) mod man;
pub(crate) mod outbox;
pub(crate) mod plugin;
pub(crate) mod policy;
pub(crate) mod referral;
pub(crate) mod relay;
pub(crate) mod requests;
pub(crate) mod send;
pub(crate) mod serve;
pub(crate) mod tour;
pub(crate) mod trust_status;
