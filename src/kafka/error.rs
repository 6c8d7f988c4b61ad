//! What can go wrong with topics and records.

use std::collections::BTreeMap;

use rdkafka::error::RDKafkaErrorCode;

use super::transaction;
use crate::progress::Ticket;

/// A failure that is not of one record.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum KafkaError {
    /// A property that walferry sets itself.
    #[error("kafka property {key} is walferry's own: {reason}")]
    RefusedProperty {
        /// Its name.
        key: String,
        /// Why it cannot be chosen.
        reason: &'static str,
    },
    /// A property that librdkafka does not know, or not with this value, which is not shown.
    #[error("kafka property {key} is not accepted: {reason}")]
    Property {
        /// Its name.
        key: String,
        /// What librdkafka says.
        reason: String,
    },
    /// Properties that do not go together.
    #[error("the kafka client cannot be set up: {reason}")]
    Client {
        /// What librdkafka says.
        reason: String,
    },
    /// The operating system gave no thread.
    #[error("the thread for delivery reports cannot be started")]
    Thread {
        /// Why.
        #[source]
        source: std::io::Error,
    },
    /// The cluster did not answer.
    #[error("kafka did not answer a request for metadata: {}", Last(last, *code))]
    Metadata {
        /// How the request ended.
        code: RDKafkaErrorCode,
        /// What the last connection failed with.
        last: Option<String>,
    },
    /// A name that no topic can have.
    #[error("{topic:?} is not a name that kafka takes for a topic: {reason}")]
    TopicName {
        /// The name.
        topic: String,
        /// What is wrong with it.
        reason: &'static str,
    },
    /// The topic does not exist and is not to be created.
    #[error("topic {topic} does not exist, or this user may not see it")]
    TopicMissing {
        /// The topic.
        topic: String,
    },
    /// The topic could not be created.
    #[error(
        "topic {topic} cannot be created with {partitions} partitions, replication factor {replication_factor}{}: {code}",
        Configured(config)
    )]
    TopicCreation {
        /// The topic.
        topic: String,
        /// How many partitions were asked for.
        partitions: i32,
        /// How many replicas were asked for.
        replication_factor: i32,
        /// The configuration asked for.
        config: BTreeMap<String, String>,
        /// What the cluster says.
        code: RDKafkaErrorCode,
    },
    /// The request to create the topic could not even be made.
    #[error("topic {topic} cannot be created: {reason}")]
    TopicRequest {
        /// The topic.
        topic: String,
        /// What librdkafka says.
        reason: String,
    },
    /// The cluster says that the topic is there, and does not list it.
    #[error("topic {topic} was created or exists, but does not show in the cluster's metadata")]
    TopicHidden {
        /// The topic.
        topic: String,
    },
    /// A topic for dead letters that is compacted: of several letters for one key only the last would stay.
    #[error("topic {topic} is compacted, and dead letters would be lost in it")]
    Compacted {
        /// The topic.
        topic: String,
    },
    /// The configuration of a topic or a broker could not be asked for.
    #[error("kafka did not answer a request for the configuration of a topic or broker: {reason}")]
    Description {
        /// What librdkafka says.
        reason: String,
    },
    /// A topic for positions from which they would expire.
    #[error("topic {topic} is not compacted, and a position in it would expire")]
    NotCompacted {
        /// The topic.
        topic: String,
    },
    /// A record that is not one of a table's was not taken.
    #[error("kafka did not take a record for topic {topic}: {reason}")]
    Delivery {
        /// The topic.
        topic: String,
        /// Why.
        reason: String,
        /// Whether it may be taken later.
        passing: bool,
    },
    /// The recorded position does not show.
    #[error("the position in topic {topic} cannot be read yet: {reason}")]
    Position {
        /// The topic.
        topic: String,
        /// Why.
        reason: String,
    },
    /// Another producer has the transactional id now, or Kafka has given up on this one's transaction.
    #[error(
        "another producer has taken over transactional id {id:?}, or kafka has aborted a transaction of it that was open for too long"
    )]
    Fenced {
        /// The id.
        id: String,
    },
    /// A transaction cannot go on.
    #[error("a kafka transaction failed while {doing}: {reason} ({code:?})")]
    Transaction {
        /// Which step.
        doing: &'static str,
        /// What librdkafka says.
        reason: String,
        /// Its code.
        code: RDKafkaErrorCode,
    },
    /// A record needs a producer of another shape, which cannot take over in the middle of a transaction.
    #[error("records are larger, or batches must be smaller, than this producer was made for; another takes over")]
    Shape,
    /// A topic could not be read, or what was done of it not be committed.
    #[error("topic {topic} cannot be read: {reason}")]
    Reading {
        /// The topic.
        topic: String,
        /// Why.
        reason: String,
    },
    /// The runtime is shutting down.
    #[error("the request was given up, since the process is stopping")]
    Stopping,
}

/// The last connection's failure says more than that a request for want of one timed out.
struct Last<'a>(&'a Option<String>, RDKafkaErrorCode);

impl std::fmt::Display for Last<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self.0 {
            Some(last) => f.write_str(last),
            None => write!(f, "{}", self.1),
        }
    }
}

struct Configured<'a>(&'a BTreeMap<String, String>);

impl std::fmt::Display for Configured<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.0.iter().try_for_each(|(key, value)| write!(f, ", {key}={value}"))
    }
}

impl KafkaError {
    pub(super) fn from_client(error: rdkafka::error::KafkaError) -> Self {
        match error {
            rdkafka::error::KafkaError::ClientConfig(_, reason, key, _) => KafkaError::Property { key, reason },
            rdkafka::error::KafkaError::ClientCreation(reason) => KafkaError::Client { reason },
            other => KafkaError::Client {
                reason: other.to_string(),
            },
        }
    }

    pub(super) fn reading(topic: &str, reason: impl std::fmt::Display) -> Self {
        KafkaError::Reading {
            topic: topic.to_owned(),
            reason: reason.to_string(),
        }
    }

    /// Whether the same may succeed later.
    pub fn is_transient(&self) -> bool {
        match self {
            KafkaError::Metadata { .. }
            | KafkaError::TopicHidden { .. }
            | KafkaError::Description { .. }
            | KafkaError::Position { .. }
            | KafkaError::Fenced { .. }
            | KafkaError::Shape => true,
            KafkaError::TopicCreation { code, .. } => !is_definite(*code),
            KafkaError::Transaction { code, .. } => !transaction::is_definite(*code),
            KafkaError::Delivery { passing, .. } => *passing,
            _ => false,
        }
    }

    /// What to do about it.
    pub fn hint(&self) -> Option<String> {
        use RDKafkaErrorCode::*;
        let hint = match self {
            KafkaError::RefusedProperty { key, .. } => return Some(format!("Remove {key} from kafka.properties.")),
            KafkaError::Property { key, .. } => {
                return Some(format!(
                    "Compare kafka.properties.\"{key}\" with librdkafka's CONFIGURATION.md."
                ));
            }
            KafkaError::Client { .. } => "Check kafka.properties.",
            KafkaError::Metadata { .. } => {
                "Check that the brokers run, that kafka.bootstrap_servers names them, and that security.protocol and \
                 the sasl properties are theirs."
            }
            KafkaError::TopicName { .. } => "Change kafka.topic or name: at most 249 of a-z A-Z 0-9 . _ - are taken.",
            KafkaError::TopicMissing { .. } => {
                "Create it, or set kafka.create_topics = true; if it exists, grant this user DESCRIBE and WRITE on it."
            }
            KafkaError::Compacted { .. } => {
                "Set its cleanup.policy to delete, or choose another delivery.dead_letter_topic."
            }
            KafkaError::NotCompacted { .. } => {
                "Set its cleanup.policy to compact, or choose another delivery.state_topic."
            }
            KafkaError::Delivery { passing: false, .. } => "Grant this user WRITE on the topic.",
            KafkaError::Position { .. } => "Check that the brokers answer, and grant this user READ on the topic.",
            KafkaError::Fenced { .. } => {
                "If two pipelines have the same name, rename one. If they are a pair, nothing is to be done: the slot decides which \
                 of them streams."
            }
            KafkaError::Transaction { code, .. } => match code {
                TransactionalIdAuthorizationFailed => {
                    "Grant this user WRITE and DESCRIBE on the transactional id, which is the pipeline's name."
                }
                InvalidTransactionTimeout => {
                    "Set transaction.timeout.ms in kafka.properties to at most the brokers' transaction.max.timeout.ms."
                }
                _ => return None,
            },
            KafkaError::Reading { .. } => {
                "Check that the brokers answer, and grant this user READ on the topic and on the consumer group <name>.replay."
            }
            KafkaError::TopicHidden { .. } => "Grant this user DESCRIBE and WRITE on it.",
            KafkaError::TopicCreation { code, .. } => match code {
                TopicAuthorizationFailed | ClusterAuthorizationFailed => {
                    "Grant this user CREATE on the topic, or create it beforehand."
                }
                InvalidReplicationFactor => {
                    "Set kafka.replication_factor to at most the number of brokers, or to -1 for their default."
                }
                InvalidTopic => {
                    "Kafka takes '.' and '_' for the same when it compares names: see whether another topic differs in these alone. \
                     If so, set kafka.topic to one that keeps them apart, as \"{name}.{schema}-.{table}\"."
                }
                InvalidPartitions => "Set kafka.partitions to 1 or more.",
                InvalidConfig => "Check the names and values in kafka.topic_config.",
                PolicyViolation => {
                    "The cluster's create.topic.policy.class.name forbids it: create the topic as it demands."
                }
                UnsupportedFeature | UnsupportedVersion => {
                    "This cluster creates no topics for clients: create it beforehand."
                }
                _ => return None,
            },
            _ => return None,
        };
        Some(hint.to_owned())
    }
}

/// Whether the cluster's refusal to create a topic is for good.
fn is_definite(code: RDKafkaErrorCode) -> bool {
    use RDKafkaErrorCode::*;
    matches!(
        code,
        TopicAuthorizationFailed
            | ClusterAuthorizationFailed
            | InvalidTopic
            | InvalidPartitions
            | InvalidReplicationFactor
            | InvalidReplicaAssignment
            | InvalidConfig
            | InvalidRequest
            | InvalidArgument
            | PolicyViolation
            | SaslAuthenticationFailed
            | UnsupportedFeature
            | UnsupportedVersion
            | SecurityDisabled
    )
}

/// A record that was not taken, with its ticket.
#[derive(Debug, thiserror::Error)]
#[error("kafka producer did not take a record for topic {topic}: {kind}")]
pub struct SendError {
    /// Why.
    pub kind: SendErrorKind,
    /// The topic it was for.
    pub topic: String,
    /// Still to be resolved.
    pub ticket: Ticket,
}

/// Why a record was not taken.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SendErrorKind {
    /// librdkafka's queue is full: send it again when there is capacity.
    #[error("its queue is full")]
    QueueFull,
    /// The record is larger than `message.max.bytes`.
    #[error("{size} bytes are more than message.max.bytes allows")]
    TooLarge {
        /// Bytes of the record, with all that Kafka adds.
        size: u64,
    },
    /// The producer has failed for good, or its transaction has.
    #[error("{reason}")]
    Fatal {
        /// The first fatal error.
        reason: String,
    },
    /// Any other reason.
    #[error("{}", Code(source))]
    Refused {
        /// What librdkafka says.
        source: rdkafka::error::KafkaError,
    },
}

struct Code<'a>(&'a rdkafka::error::KafkaError);

impl std::fmt::Display for Code<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self.0.rdkafka_error_code() {
            Some(code) => write!(f, "{code}"),
            None => write!(f, "{}", self.0),
        }
    }
}

impl SendErrorKind {
    /// The same label as of a failed delivery.
    pub fn as_str(&self) -> &'static str {
        match self {
            SendErrorKind::QueueFull => "queue_full",
            SendErrorKind::TooLarge { .. } => "too_large",
            SendErrorKind::Fatal { .. } => "fatal",
            SendErrorKind::Refused { source } => super::context::failure_kind(source.rdkafka_error_code()),
        }
    }

    /// What to do about it.
    pub fn hint(&self) -> Option<String> {
        match self {
            SendErrorKind::TooLarge { .. } => Some(
                "Raise max.message.bytes of the topic, and message.max.bytes in kafka.properties where it is set; both must stay \
                 below the brokers' socket.request.max.bytes."
                    .to_owned(),
            ),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_creation_that_is_forbidden_is_final_and_one_that_was_not_heard_is_not() {
        use RDKafkaErrorCode::*;
        let creation = |code| KafkaError::TopicCreation {
            topic: "t".to_owned(),
            partitions: 1,
            replication_factor: 3,
            config: BTreeMap::from([("cleanup.policy".to_owned(), "compact".to_owned())]),
            code,
        };
        for code in [
            TopicAuthorizationFailed,
            InvalidReplicationFactor,
            InvalidConfig,
            PolicyViolation,
        ] {
            assert!(
                !creation(code).is_transient() && creation(code).hint().is_some(),
                "{code:?}"
            );
        }
        for code in [
            OperationTimedOut,
            NotController,
            BrokerTransportFailure,
            ThrottlingQuotaExceeded,
        ] {
            assert!(creation(code).is_transient(), "{code:?}");
        }
        assert_eq!(
            creation(InvalidReplicationFactor).to_string(),
            "topic t cannot be created with 1 partitions, replication factor 3, cleanup.policy=compact: \
             InvalidReplicationFactor (Broker: Invalid replication factor)"
        );
    }
}
