//! Who listens, and the token that proves it (9.3).
use muretai_protocol::{
    Did,
    json::Value,
    relay::{Epoch, verify_token},
};

use crate::{answer::Refusal, metrics::Count, query, shared::Shared};

/// A listener's words about itself, of the right shape.
#[derive(Debug)]
pub(crate) struct Proof {
    pub(crate) did: Did,
    pub(crate) epoch: Epoch,
    minute: i64,
    token: String,
}

impl Proof {
    /// Out of a query, together with `wait`.
    pub(crate) fn from_query(query: &str) -> Result<(Proof, Option<u64>), Refusal> {
        let values = query::read(query, ["did", "minute", "epoch", "token", "wait"]);
        let [did, minute, epoch, token, wait] =
            values.map_err(|name| Refusal::shape(format!("`{name}` must be there once, percent-encoded")))?;
        let minute = minute.as_deref().and_then(number);
        let proof = Proof::new(did.as_deref(), minute, epoch.as_deref(), token)?;
        let wait = match wait.as_deref().map(number) {
            None => None,
            Some(Some(secs)) => Some(u64::try_from(secs).map_err(|_| BAD_WAIT).map_err(Refusal::shape)?),
            Some(None) => return Err(Refusal::shape(BAD_WAIT)),
        };
        Ok((proof, wait))
    }

    /// Out of a JSON body.
    pub(crate) fn from_json(body: &Value) -> Result<Proof, Refusal> {
        let text = |member: &str| body.member(member).and_then(Value::as_str);
        let minute = body.member("minute").and_then(Value::as_i64);
        Proof::new(text("did"), minute, text("epoch"), text("token").map(str::to_owned))
    }

    fn new(
        did: Option<&str>,
        minute: Option<i64>,
        epoch: Option<&str>,
        token: Option<String>,
    ) -> Result<Proof, Refusal> {
        let did = did.and_then(|did| did.parse().ok()).ok_or_else(|| Refusal::shape("`did` must be a did:key"))?;
        let minute = minute.ok_or_else(|| Refusal::shape("`minute` must be an integer"))?;
        let epoch = epoch.and_then(Epoch::parse);
        let epoch = epoch.ok_or_else(|| Refusal::shape("`epoch` must be 1 to 64 printable ASCII characters"))?;
        let token = token.ok_or_else(|| Refusal::shape("`token` must be a string"))?;
        Ok(Proof { did, epoch, minute, token })
    }

    /// Whether the token is good now, for one of the relay's own origins.
    pub(crate) fn check(&self, shared: &Shared) -> Result<(), Refusal> {
        let now = shared.now();
        let is_good = |origin: &String| verify_token(&self.did, self.minute, origin, &self.token, now);
        if shared.origins.iter().any(is_good) {
            return Ok(());
        }
        shared.metrics.add(Count::BadTokens, 1);
        Err(Refusal::token(now.0))
    }
}

const BAD_WAIT: &str = "`wait` must be a number of seconds";

/// Digits, perhaps with a minus in front.
fn number(text: &str) -> Option<i64> {
    let digits = text.strip_prefix('-').unwrap_or(text);
    (!digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit())).then(|| text.parse().ok())?
}
