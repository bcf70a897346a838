//! Where somebody stands here: what the gate would go by, put in words.
use muretai_protocol::{
    Did, UnixSeconds,
    json::{Number, Object, Value},
};
use muretai_store::{StoreError, contacts::Relation as ContactRelation, introductions::IntroductionRow};

use super::{Relation, TrustStatus};
use crate::{
    Agent,
    trust::{
        Policies, TrustError,
        policies::{DOMAIN_LIFE_SECS, DomainPolicy, GatePolicy},
    },
};

impl Relation {
    /// As the wire has it.
    fn word(self) -> &'static str {
        match self {
            Relation::Own => "self",
            Relation::Direct => "direct",
            Relation::Introduced => "introduced",
            Relation::Pending => "pending",
            Relation::None => "none",
        }
    }
}

impl TrustStatus {
    /// Says nothing of somebody.
    fn none(subject: &Did) -> TrustStatus {
        TrustStatus {
            subject: subject.clone(),
            trusted: false,
            relation: Relation::None,
            trust_level_bp: None,
            vouched_by: Vec::new(),
            expertise: Vec::new(),
        }
    }

    /// The wire's object.
    pub fn to_json(&self) -> Value {
        let list = |items: Vec<Value>| Value::Array(items);
        let mut object = Object::new();
        object.insert("subject".to_owned(), self.subject.as_str().into());
        object.insert("trusted".to_owned(), self.trusted.into());
        object.insert("relation".to_owned(), self.relation.word().into());
        object.insert("depth".to_owned(), self.depth().map(i64::from).into());
        object.insert("trustLevel".to_owned(), self.trust_level_bp.map_or(Value::Null, level));
        object.insert("trustLevelBp".to_owned(), self.trust_level_bp.map(i64::from).into());
        object.insert("vouchedBy".to_owned(), list(self.vouched_by.iter().map(Value::from).collect()));
        object.insert("expertise".to_owned(), list(self.expertise.iter().map(Value::from).collect()));
        object.into()
    }
}

/// Basis points as a number from 0 to 1, spelled as short as it goes.
fn level(bp: u16) -> Value {
    match bp {
        0 => 0.into(),
        1_000.. => 1.into(),
        bp => Value::Number(Number::Token(format!("0.{bp:03}").trim_end_matches('0').into())),
    }
}

/// Where somebody stands, and what is told to nobody.
#[derive(Debug)]
pub(crate) struct Evaluated {
    pub(crate) status: TrustStatus,
    pub(crate) is_blocked: bool,
}

impl Agent {
    /// Where a DID stands here. Asks for revocations as the gate would. What policies of plugins say is not in it: they
    /// are known to a running `serve` alone.
    pub async fn trust_status(&self, subject: &Did) -> Result<TrustStatus, TrustError> {
        let policies = self.policies().await?;
        let is_open = policies.gate == GatePolicy::Open;
        Ok(self.evaluate(subject, is_open, &policies, crate::agent::now()).await?.status)
    }

    /// The same under policies that are known, at a gate that is open or not.
    pub(crate) async fn evaluate(
        &self,
        subject: &Did,
        is_open: bool,
        policies: &Policies,
        now: UnixSeconds,
    ) -> Result<Evaluated, StoreError> {
        let mut status = TrustStatus::none(subject);
        if subject == self.did() {
            status.relation = Relation::Own;
            status.trusted = true;
            return Ok(Evaluated { status, is_blocked: false });
        }
        let contact = self.store().contact(subject).await?;
        if contact.as_ref().is_some_and(|contact| contact.is_blocked) {
            return Ok(Evaluated { status, is_blocked: true });
        }
        match contact.map(|contact| (contact.relation, contact.expertise)) {
            Some((ContactRelation::Direct, expertise)) => {
                status.relation = Relation::Direct;
                status.trusted = true;
                status.expertise = expertise;
                return Ok(Evaluated { status, is_blocked: false });
            }
            Some((ContactRelation::Introduced, _)) => {
                let standing = self.standing_introductions(subject, policies.revocation, now).await?;
                status.introduced_by(&standing.rows);
            }
            _ => {}
        }
        if status.relation == Relation::None && self.store().pending_with(subject, now).await?.is_some() {
            status.relation = Relation::Pending;
        }
        let has_domain = policies.domain == DomainPolicy::Any || self.has_domain(subject, now).await?;
        status.trusted = has_domain && (is_open || status.relation == Relation::Introduced);
        Ok(Evaluated { status, is_blocked: false })
    }

    async fn has_domain(&self, subject: &Did, now: UnixSeconds) -> Result<bool, StoreError> {
        let since = UnixSeconds(now.0.saturating_sub(DOMAIN_LIFE_SECS));
        Ok(self.store().domain_of(subject, since).await?.is_some())
    }
}

impl TrustStatus {
    /// Takes the introductions that stand, the best first.
    fn introduced_by(&mut self, rows: &[IntroductionRow]) {
        let Some(best) = rows.first() else { return };
        self.relation = Relation::Introduced;
        self.trust_level_bp = best.trust_level_bp;
        self.expertise.clone_from(&best.expertise);
        for row in rows {
            if !self.vouched_by.contains(&row.issuer) {
                self.vouched_by.push(row.issuer.clone());
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_level_is_spelled_as_people_would() {
        let spelled = |bp| level(bp).to_json();
        assert_eq!([0, 1, 50, 850, 999, 1_000].map(spelled), ["0", "0.001", "0.05", "0.85", "0.999", "1"]);
    }
}
