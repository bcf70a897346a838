//! How much one sender may leave here in a minute. The senders are proven; keys cost nothing, so the table is bounded.
use std::{
    collections::HashMap,
    sync::{Mutex, PoisonError},
};

use muretai_protocol::{Did, UnixSeconds};

/// Senders that are counted in a minute. Whoever comes beyond that is not counted: one who has so many keys has no need
/// to use one often.
const MAX_SENDERS: usize = 100_000;

/// Counts by sender and minute.
#[derive(Debug)]
pub(crate) struct Rates {
    per_minute: Option<u32>,
    window: Mutex<Window>,
}

#[derive(Debug, Default)]
struct Window {
    minute: i64,
    counts: HashMap<Did, u32>,
}

impl Rates {
    pub(crate) fn new(per_minute: Option<u32>) -> Rates {
        Rates { per_minute, window: Mutex::default() }
    }

    /// Counts one act.
    ///
    /// # Errors
    /// The limit, and in how many seconds the next one may be tried.
    pub(crate) fn count(&self, sender: &Did, now: UnixSeconds) -> Result<(), (u32, u64)> {
        let Some(limit) = self.per_minute else { return Ok(()) };
        let minute = now.0.div_euclid(60);
        let mut window = self.window.lock().unwrap_or_else(PoisonError::into_inner);
        if window.minute != minute {
            *window = Window { minute, counts: HashMap::new() };
        }
        match window.counts.get_mut(sender) {
            Some(count) if *count >= limit => Err((limit, now.0.rem_euclid(60).abs_diff(60))),
            Some(count) => {
                *count += 1;
                Ok(())
            }
            None if limit == 0 => Err((limit, 60)),
            None => {
                if window.counts.len() < MAX_SENDERS {
                    window.counts.insert(sender.clone(), 1);
                }
                Ok(())
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::key;

    #[test]
    fn one_sender_over_the_limit_harms_no_other() {
        let rates = Rates::new(Some(2));
        let now = UnixSeconds(600);
        let (north, south) = (key(1), key(2));
        assert_eq!([0; 3].map(|_| rates.count(north.did(), now)), [Ok(()), Ok(()), Err((2, 60))]);
        assert_eq!(rates.count(north.did(), UnixSeconds(650)), Err((2, 10)));
        assert_eq!(rates.count(south.did(), now), Ok(()));
        assert_eq!(rates.count(north.did(), UnixSeconds(660)), Ok(()));
        assert_eq!(Rates::new(None).count(north.did(), now), Ok(()));
        assert!(Rates::new(Some(0)).count(north.did(), now).is_err());
    }
}
