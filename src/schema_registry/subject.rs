//! How the subject of a schema is named.

use std::fmt;
use std::str::FromStr;

/// Confluent's three subject name strategies ("Schema Registry serializers", section "Subject name strategy").
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum SubjectStrategy {
    /// `<topic>-key` and `<topic>-value`.
    #[default]
    TopicName,
    /// The record's full name.
    RecordName,
    /// `<topic>-<the record's full name>`.
    TopicRecordName,
}

impl SubjectStrategy {
    /// The subject of a key's (`is_key`) or a value's schema.
    pub fn subject(self, topic: &str, record_name: &str, is_key: bool) -> String {
        match (self, is_key) {
            (SubjectStrategy::TopicName, true) => format!("{topic}-key"),
            (SubjectStrategy::TopicName, false) => format!("{topic}-value"),
            (SubjectStrategy::RecordName, _) => record_name.to_owned(),
            (SubjectStrategy::TopicRecordName, _) => format!("{topic}-{record_name}"),
        }
    }

    /// The name in the configuration.
    pub const fn as_str(self) -> &'static str {
        match self {
            SubjectStrategy::TopicName => "topic-name",
            SubjectStrategy::RecordName => "record-name",
            SubjectStrategy::TopicRecordName => "topic-record-name",
        }
    }
}

impl fmt::Display for SubjectStrategy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// Text that names no strategy.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0:?} is not a subject name strategy: expected topic-name, record-name or topic-record-name")]
pub struct ParseSubjectStrategyError(String);

impl FromStr for SubjectStrategy {
    type Err = ParseSubjectStrategyError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        [
            SubjectStrategy::TopicName,
            SubjectStrategy::RecordName,
            SubjectStrategy::TopicRecordName,
        ]
        .into_iter()
        .find(|strategy| strategy.as_str() == text)
        .ok_or_else(|| ParseSubjectStrategyError(text.to_owned()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_strategy_names_key_and_value() {
        let subjects = |strategy: SubjectStrategy| {
            [true, false].map(|is_key| strategy.subject("shop.public.orders", "shop.public.orders.Value", is_key))
        };
        assert_eq!(
            subjects(SubjectStrategy::TopicName),
            ["shop.public.orders-key", "shop.public.orders-value"]
        );
        assert_eq!(
            subjects(SubjectStrategy::RecordName),
            ["shop.public.orders.Value", "shop.public.orders.Value"]
        );
        assert_eq!(
            subjects(SubjectStrategy::TopicRecordName),
            [
                "shop.public.orders-shop.public.orders.Value",
                "shop.public.orders-shop.public.orders.Value"
            ]
        );
    }

    #[test]
    fn a_strategy_is_read_by_its_name_alone() {
        assert_eq!("record-name".parse(), Ok(SubjectStrategy::RecordName));
        assert!("RecordName".parse::<SubjectStrategy>().is_err());
    }
}
