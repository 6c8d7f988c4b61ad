//! How long to wait before the next try.

use std::time::Duration;

/// Waits that double from `first` up to `last`, each shortened by a random part, so that many clients of a server that
/// comes back do not come back together.
#[derive(Debug, Clone)]
pub(super) struct Backoff {
    first: Duration,
    last: Duration,
    next: Duration,
}

impl Backoff {
    pub(super) fn new(first: Duration, last: Duration) -> Self {
        Backoff {
            first,
            last,
            next: first,
        }
    }

    /// The wait before the next try: between half and all of the current step.
    pub(super) fn next(&mut self) -> Duration {
        let step = self.next;
        self.next = step.saturating_mul(2).min(self.last);
        step.mul_f64(0.5 + fastrand::f64() / 2.0)
    }

    /// A try has succeeded.
    pub(super) fn reset(&mut self) {
        self.next = self.first;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn waits_double_up_to_the_last_and_start_anew_after_a_success() {
        let (first, last) = (Duration::from_millis(100), Duration::from_secs(1));
        let mut backoff = Backoff::new(first, last);
        for step in [100, 200, 400, 800, 1_000, 1_000] {
            let wait = backoff.next();
            let step = Duration::from_millis(step);
            assert!(step / 2 <= wait && wait <= step, "{wait:?} is not within {step:?}");
        }
        backoff.reset();
        assert!(backoff.next() <= first);
    }
}
