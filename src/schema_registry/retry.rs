//! How long to wait before the next round.

use std::time::Duration;

const FIRST: Duration = Duration::from_millis(100);
const LONGEST: Duration = Duration::from_secs(10);
/// A server that asks for more than this is asked again nevertheless.
const LONGEST_ASKED: Duration = Duration::from_secs(300);

/// Exponential backoff, 100 ms to 10 s, each pause drawn from its upper half so that many clients spread out.
#[derive(Debug)]
pub(super) struct Backoff(Duration);

impl Backoff {
    pub(super) fn new() -> Self {
        Backoff(FIRST)
    }

    /// The next pause; not shorter than `asked`, which is what the server wanted (`Retry-After`).
    pub(super) fn pause(&mut self, asked: Option<Duration>) -> Duration {
        let pause = self.0.mul_f64(0.5 + fastrand::f64() / 2.0);
        self.0 = (self.0 * 2).min(LONGEST);
        pause.max(asked.unwrap_or_default().min(LONGEST_ASKED))
    }
}

/// `Retry-After` in seconds (RFC 9110, section 10.2.3). The form with a date is left to the backoff: it would need
/// the two clocks to agree.
pub(super) fn retry_after(value: &str) -> Option<Duration> {
    value.trim().parse().ok().map(Duration::from_secs)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pauses_double_up_to_ten_seconds_and_lie_in_their_upper_half() {
        let mut backoff = Backoff::new();
        for whole in [100, 200, 400, 800, 1600, 3200, 6400, 10_000, 10_000] {
            let pause = backoff.pause(None);
            assert!(pause >= Duration::from_millis(whole / 2), "{pause:?} of {whole} ms");
            assert!(pause <= Duration::from_millis(whole), "{pause:?} of {whole} ms");
        }
    }

    #[test]
    fn what_the_server_asks_for_is_the_least_within_reason() {
        assert_eq!(
            Backoff::new().pause(Some(Duration::from_secs(7))),
            Duration::from_secs(7)
        );
        assert_eq!(
            Backoff::new().pause(Some(Duration::from_secs(86_400))),
            Duration::from_secs(300)
        );
    }

    #[test]
    fn retry_after_is_read_in_seconds() {
        assert_eq!(retry_after(" 120 "), Some(Duration::from_secs(120)));
        assert_eq!(retry_after("Wed, 21 Oct 2026 07:28:00 GMT"), None);
        assert_eq!(retry_after("-1"), None);
    }
}
