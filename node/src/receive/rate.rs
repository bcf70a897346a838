//! Rate limits (12.4): per account first, then in total.

/// Signed replies per minute.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RateLimit {
    /// Per account.
    pub per_account: u32,
    /// In total.
    pub total: u32,
}
impl Default for RateLimit {
    fn default() -> Self {
        RateLimit { per_account: 60, total: 600 }
    }
}
