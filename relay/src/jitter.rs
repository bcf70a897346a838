//! Moments that are not everybody's at once.
use std::time::Duration;

/// Up to a tenth shorter, so that listeners that came together do not all come back together.
pub(crate) fn shortened(life: Duration) -> Duration {
    life - up_to(life / 10)
}

/// Anything up to this; all of it where the system has no random bytes.
pub(crate) fn up_to(most: Duration) -> Duration {
    let mut random = [0; 2];
    if getrandom::fill(&mut random).is_err() {
        return most;
    }
    most.mul_f64(f64::from(u16::from_le_bytes(random)) / 65_536.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn moments_differ_within_their_bounds() {
        let hour = Duration::from_secs(3_600);
        let lives: Vec<Duration> = (0..100).map(|_| shortened(hour)).collect();
        assert!(lives.iter().all(|life| *life <= hour && *life >= hour.mul_f64(0.9)));
        assert!(lives.iter().any(|life| *life != lives[0]));
        assert_eq!(up_to(Duration::ZERO), Duration::ZERO);
    }
}
