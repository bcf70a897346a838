//! Letters that were handed out and are not acknowledged.
use muretai_store::mailboxes::Qid;
use tokio::time::Instant;

/// What one listener has in hand. Empty it owns no memory.
#[derive(Debug, Default)]
pub(crate) struct Hand(Vec<Held>);

#[derive(Debug)]
struct Held {
    qid: Qid,
    bytes: u64,
    until: Instant,
}

/// A look at a hand.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct InHand {
    pub(crate) qids: Vec<Qid>,
    pub(crate) bytes: u64,
    /// When the first of them is handed out again.
    pub(crate) next_due: Option<Instant>,
}

impl Hand {
    /// What is in hand now; what is there for too long falls out of it.
    pub(crate) fn look(&mut self, now: Instant) -> InHand {
        self.0.retain(|held| held.until > now);
        self.shrink();
        InHand {
            qids: self.0.iter().map(|held| held.qid).collect(),
            bytes: self.0.iter().map(|held| held.bytes).sum(),
            next_due: self.0.iter().map(|held| held.until).min(),
        }
    }

    pub(crate) fn give(&mut self, letters: &[(Qid, u64)], until: Instant) {
        for (qid, bytes) in letters {
            self.0.retain(|held| held.qid != *qid);
            self.0.push(Held { qid: *qid, bytes: *bytes, until });
        }
    }

    /// Takes letters out of it, and says how many were there.
    pub(crate) fn acked(&mut self, qids: &[Qid]) -> usize {
        let before = self.0.len();
        self.0.retain(|held| !qids.contains(&held.qid));
        let gone = before - self.0.len();
        self.shrink();
        gone
    }

    pub(crate) fn has(&self, qids: &[Qid]) -> bool {
        qids.iter().all(|qid| self.0.iter().any(|held| held.qid == *qid))
    }

    pub(crate) fn clear(&mut self) {
        self.0 = Vec::new();
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    fn shrink(&mut self) {
        if self.0.is_empty() {
            self.0 = Vec::new();
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn letters_fall_out_when_acknowledged_or_too_old() {
        let now = Instant::now();
        let later = now + Duration::from_secs(60);
        let mut hand = Hand::default();
        assert_eq!(hand.look(now), InHand::default());
        hand.give(&[(1, 10), (2, 20)], later);
        hand.give(&[(3, 30)], later + Duration::from_secs(1));
        assert_eq!(hand.look(now), InHand { qids: vec![1, 2, 3], bytes: 60, next_due: Some(later) });
        assert_eq!(hand.acked(&[2, 9]), 1);
        assert_eq!(hand.look(later).qids, [3]);
        hand.give(&[(3, 30)], later);
        assert_eq!(hand.look(now).bytes, 30, "given again, it counts once");
        hand.clear();
        assert!(hand.is_empty());
    }
}
