//! One file per subcommand.

pub(crate) mod card;
pub(crate) mod claim;
pub(crate) mod completions;
pub(crate) mod contacts;
pub(crate) mod doctor;
pub(crate) mod identity;
pub(crate) mod inbox;
pub(crate) mod invite;
pub(crate) mod keygen;
pub(crate) mod man;
pub(crate) mod send;
pub(crate) mod serve;
pub(crate) mod tour;
