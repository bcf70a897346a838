//! Where somebody stands, here or as a peer says (5.2, `trust/status`).
use muretai_protocol::Did;

mod ask;
mod here;

pub(crate) use here::Evaluated;

/// A relation, as `trust/status` names it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Relation {
    /// The agent itself.
    Own,
    /// Trust both ways.
    Direct,
    /// An introduction stands.
    Introduced,
    /// A request or an introduction waits.
    Pending,
    /// Nothing.
    None,
}

/// The result of `trust/status`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TrustStatus {
    /// About whom.
    pub subject: Did,
    /// Whether its message would pass the gate now.
    pub trusted: bool,
    /// How it stands.
    pub relation: Relation,
    /// 0 to 1000.
    pub trust_level_bp: Option<u16>,
    /// Who vouches.
    pub vouched_by: Vec<Did>,
    /// What it is said to know.
    pub expertise: Vec<String>,
}

impl TrustStatus {
    /// 0 self, 1 direct, 2 introduced.
    pub fn depth(&self) -> Option<u8> {
        match self.relation {
            Relation::Own => Some(0),
            Relation::Direct => Some(1),
            Relation::Introduced => Some(2),
            Relation::Pending | Relation::None => None,
        }
    }
}
