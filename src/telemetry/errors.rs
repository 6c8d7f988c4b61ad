//! The last few things that went wrong.

use std::collections::VecDeque;
use std::time::SystemTime;

use super::state::LastError;

/// So many are remembered.
const KEPT: usize = 10;

/// Something that went wrong, perhaps again and again: what is tried for ever fails with the same words for hours.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RecentError {
    /// When it went wrong for the first time since it was last forgotten.
    pub first_at: SystemTime,
    /// When it last did.
    pub at: SystemTime,
    /// How often.
    pub times: u64,
    /// What, without secrets and without values of rows.
    pub text: String,
}

/// The last few, each text once.
#[derive(Debug, Clone, Default)]
pub(super) struct RecentErrors {
    /// The oldest first.
    errors: VecDeque<RecentError>,
}

impl RecentErrors {
    pub(super) fn add(&mut self, text: String, at: SystemTime) {
        let known = self.errors.iter().position(|known| known.text == text);
        let error = match known.and_then(|index| self.errors.remove(index)) {
            Some(known) => RecentError {
                at,
                times: known.times.saturating_add(1),
                ..known
            },
            None => RecentError {
                first_at: at,
                at,
                times: 1,
                text,
            },
        };
        if self.errors.len() == KEPT {
            self.errors.pop_front();
        }
        self.errors.push_back(error);
    }

    pub(super) fn last(&self) -> Option<LastError> {
        self.errors.back().map(|last| LastError {
            at: last.at,
            text: last.text.clone(),
        })
    }

    pub(super) fn newest_first(&self) -> Vec<RecentError> {
        self.errors.iter().rev().cloned().collect()
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    fn at(seconds: u64) -> SystemTime {
        SystemTime::UNIX_EPOCH + Duration::from_secs(seconds)
    }

    #[test]
    fn what_comes_again_is_there_once_and_is_the_newest() {
        let mut errors = RecentErrors::default();
        assert_eq!(errors.last(), None);
        errors.add("postgres is away".to_owned(), at(1));
        errors.add("kafka is away".to_owned(), at(2));
        errors.add("postgres is away".to_owned(), at(3));
        let found: Vec<(String, u64, SystemTime, SystemTime)> = errors
            .newest_first()
            .into_iter()
            .map(|error| (error.text, error.times, error.first_at, error.at))
            .collect();
        assert_eq!(
            found,
            [
                ("postgres is away".to_owned(), 2, at(1), at(3)),
                ("kafka is away".to_owned(), 1, at(2), at(2)),
            ]
        );
        assert_eq!(errors.last().unwrap().at, at(3));
    }

    #[test]
    fn of_many_the_oldest_are_forgotten() {
        let mut errors = RecentErrors::default();
        for number in 0..25 {
            errors.add(format!("error {number}"), at(number));
        }
        let found = errors.newest_first();
        assert_eq!(found.len(), KEPT);
        assert_eq!(found.first().unwrap().text, "error 24");
        assert_eq!(found.last().unwrap().text, "error 15");
    }
}
