//! What ends a session, and whether the next one may do better.

use crate::avro::{BadRow, CompileError, DoesNotFit};
use crate::config::glob::PatternError;
use crate::envelope::{Position, TopicTemplateError};
use crate::kafka::KafkaError;
use crate::lsn::Lsn;
use crate::pgoutput::DecodeError;
use crate::progress::{Failure, OutOfOrder};
use crate::recovery::{RecordError, TimelineHistoryError, Vanished};
use crate::relation::RelationError;
use crate::replication::{ConnectError, ReplicationError, ServerError};
use crate::schema_registry::RegistryError;
use crate::snapshot;
use crate::spool::SpoolError;

use super::refusal::Refusal;
use super::rules::RuleError;

/// What ended a session with Postgres, or the pipeline. `Display` is the primary message; the rest is in the chain of
/// sources and in [`hint`](PipelineError::hint).
#[derive(Debug, thiserror::Error)]
pub enum PipelineError {
    /// Streaming would lose changes or break the source.
    #[error(transparent)]
    Refused(#[from] Refusal),
    /// Postgres could not be reached.
    #[error("cannot connect to postgres")]
    Connect(#[from] ConnectError),
    /// The replication connection failed.
    #[error("the replication connection{} failed", at(server.as_deref()))]
    Replication {
        /// `host:port`, once it is known which connection it was.
        server: Option<String>,
        /// How.
        #[source]
        source: ReplicationError,
    },
    /// A query of the catalog failed.
    #[error("a query of the catalog failed")]
    Catalog(#[from] tokio_postgres::Error),
    /// A message that is not pgoutput's.
    #[error("a message of the stream at {lsn} cannot be understood")]
    Decode {
        /// Where it stands.
        lsn: Lsn,
        /// What is wrong with it.
        #[source]
        source: DecodeError,
    },
    /// A message that has no business where it came.
    #[error("the stream at {lsn} has {found} where none may stand")]
    Unexpected {
        /// Where it stands.
        lsn: Lsn,
        /// What came.
        found: &'static str,
    },
    /// A change of a relation that was never described.
    #[error("the stream at {lsn} changes relation {relation}, which it has not described")]
    UnknownRelation {
        /// Where it stands.
        lsn: Lsn,
        /// The relation's oid.
        relation: u32,
    },
    /// A change of a relation that was taken for gone. A new session describes it again.
    #[error("the stream at {lsn} changes relation {relation}, which the catalog said was gone")]
    Forgotten {
        /// Where it stands.
        lsn: Lsn,
        /// The relation's oid.
        relation: u32,
    },
    /// A Relation message that makes no sense.
    #[error("the stream at {lsn} describes a relation that cannot be")]
    Relation {
        /// Where it stands.
        lsn: Lsn,
        /// What is wrong with it.
        #[source]
        source: RelationError,
    },
    /// Transactions out of order.
    #[error("the stream is out of order")]
    OutOfOrder(#[from] OutOfOrder),
    /// The rest of a transaction did not come.
    #[error("the stream does not go on where the published changes end")]
    Vanished(#[from] Vanished),
    /// A timeline's history that makes no sense.
    #[error("postgres's timeline history cannot be understood")]
    TimelineHistory(#[from] TimelineHistoryError),
    /// What is recorded of the pipeline cannot be understood.
    #[error("what topic {topic} has under key {pipeline:?} cannot be understood")]
    State {
        /// The topic.
        topic: String,
        /// The key.
        pipeline: String,
        /// What is wrong with it.
        #[source]
        source: RecordError,
    },
    /// What is recorded of the pipeline's snapshots cannot be understood.
    #[error("what topic {topic} has of the snapshots of {pipeline:?} cannot be understood")]
    Snapshots {
        /// The topic.
        topic: String,
        /// The pipeline.
        pipeline: String,
        /// What is wrong with it.
        #[source]
        source: snapshot::RecordError,
    },
    /// A table's rows cannot be read, and nothing else was asked for.
    #[error("the rows of table {table} cannot be read")]
    Unreadable {
        /// `schema.table`
        table: String,
        /// Why.
        #[source]
        source: snapshot::ReadError,
    },
    /// A table has no schema or no encoder.
    #[error("table {table} cannot be written as Avro")]
    Compile {
        /// `schema.table`
        table: String,
        /// Why.
        #[source]
        source: CompileError,
    },
    /// `kafka.topic` is not a template.
    #[error("kafka.topic is no template for topics")]
    Topic(#[from] TopicTemplateError),
    /// Rules of `avro.columns` that cannot be kept.
    #[error("{}", list(.0))]
    Rules(Vec<RuleError>),
    /// A pattern of `replication.tables`, `exclude_tables` or `avro.columns` is none.
    #[error("{pattern:?} is no pattern for tables or columns")]
    Pattern {
        /// The pattern.
        pattern: String,
        /// Why.
        #[source]
        source: PatternError,
    },
    /// A row that cannot be converted.
    #[error("the change at commit LSN {} ordinal {} cannot be published", position.commit_lsn, position.ordinal)]
    BadRow {
        /// Its change.
        position: Position,
        /// The table, the column, the type and the reason, never the value.
        #[source]
        source: BadRow,
    },
    /// A record that Kafka would not take.
    #[error(
        "a record of table {table} at commit LSN {} ordinal {} is too large: {size} bytes, and topic {topic} takes {limit}",
        position.commit_lsn, position.ordinal
    )]
    TooLarge {
        /// `schema.table`, or the topic of logical messages.
        table: String,
        /// Its change.
        position: Position,
        /// Where it was to go.
        topic: String,
        /// Bytes of the record, with all that Kafka adds, not compressed.
        size: u64,
        /// Bytes that are taken.
        limit: u64,
    },
    /// A dead letter that is too large even without any value of its row.
    #[error(
        "the dead letter for a row of table {table} at commit LSN {} ordinal {} does not fit into topic {topic}",
        position.commit_lsn, position.ordinal
    )]
    DeadLetter {
        /// `schema.table`, or the topic of logical messages.
        table: String,
        /// The row's change.
        position: Position,
        /// The dead-letter topic.
        topic: String,
        /// How large it is.
        #[source]
        source: DoesNotFit,
    },
    /// A table whose topic is that of the dead letters.
    #[error("the topic of table {table} is {topic}, which is that of the dead letters")]
    SharedTopic {
        /// `schema.table`
        table: String,
        /// The topic.
        topic: String,
    },
    /// Kafka said no.
    #[error(transparent)]
    Kafka(#[from] KafkaError),
    /// The schema registry said no.
    #[error(transparent)]
    Registry(#[from] RegistryError),
    /// A table's schema has no id.
    #[error("table {table} cannot be published: its schema has no id")]
    Schema {
        /// `schema.table`, or the topic of logical messages.
        table: String,
        /// What the registry said, or what speaks against it.
        #[source]
        source: RegistryError,
    },
    /// A running transaction could not be kept.
    #[error(transparent)]
    Spool(#[from] SpoolError),
    /// Records were not delivered.
    #[error("records were not delivered: {}", .0.reason())]
    Undelivered(Failure),
    /// The slot is a copy on a standby, of which nobody can stream before the standby is promoted.
    #[error("the server is a standby, and keeps its copy of slot {slot:?} for the time when it is promoted")]
    Standby {
        /// The slot.
        slot: String,
    },
    /// Postgres is shutting down, and waits for us.
    #[error("postgres is shutting down")]
    ServerStopping,
    /// The server ended the stream.
    #[error("postgres ended the stream")]
    StreamEnded,
}

impl PipelineError {
    /// Whether a new session may do better without anybody doing anything.
    pub fn is_transient(&self) -> bool {
        match self {
            PipelineError::Connect(error) => error.is_transient(),
            PipelineError::Replication { source, .. } => source.is_transient(),
            PipelineError::Catalog(error) => is_transient_sql(error),
            PipelineError::Kafka(error) => error.is_transient(),
            PipelineError::Spool(error) => error.is_transient(),
            PipelineError::Undelivered(failure) => matches!(failure, Failure::Passing(_)),
            PipelineError::Forgotten { .. }
            | PipelineError::Standby { .. }
            | PipelineError::ServerStopping
            | PipelineError::StreamEnded => true,
            _ => false,
        }
    }

    /// What to do about it.
    pub fn hint(&self) -> Option<String> {
        match self {
            PipelineError::Refused(refusal) => Some(refusal.remedy()),
            PipelineError::Connect(error) => error.hint(),
            PipelineError::Replication { source, .. } => source.hint(),
            PipelineError::Catalog(error) => server_error(error).and_then(|error| error.remedy()),
            PipelineError::Compile { source, .. } => source.hint(),
            PipelineError::Rules(errors) => {
                let mut hints: Vec<String> = errors.iter().filter_map(RuleError::hint).collect();
                hints.dedup();
                Some(hints.join(" "))
            }
            PipelineError::BadRow { .. } => Some(
                "Set delivery.on_bad_row = \"dead-letter\" to put such rows aside and go on, or leave the table or column out of the \
                 publication; the change itself stays in the log, and is met again at the next start."
                    .into(),
            ),
            PipelineError::TooLarge { .. } => Some(
                "Raise max.message.bytes of the topic (or message.max.bytes of the brokers; message.max.bytes in kafka.properties \
                 where that is set; socket.request.max.bytes of the brokers) to that or more and start again, or set \
                 delivery.on_bad_row = \"dead-letter\" to put such rows aside and go on."
                    .into(),
            ),
            PipelineError::DeadLetter { .. } => {
                Some("Raise max.message.bytes of the dead-letter topic: even the names of the columns do not fit.".into())
            }
            PipelineError::SharedTopic { .. } => Some("Choose another delivery.dead_letter_topic.".into()),
            PipelineError::Kafka(error) => error.hint(),
            PipelineError::Spool(error) => error.hint(),
            PipelineError::Registry(error) | PipelineError::Schema { source: error, .. } => error.hint(),
            PipelineError::Decode { source, .. } => Some(source.hint().into()),
            PipelineError::Undelivered(Failure::Final(_)) => Some(
                "A record that is not allowed: give walferry's user WRITE on the topic (kafka-acls). It is sent again at the next \
                 start."
                    .into(),
            ),
            PipelineError::Standby { .. } => {
                Some("Put the primary into postgres.host, before or beside this one.".into())
            }
            PipelineError::Vanished(vanished) => Some(format!(
                "Was the publication changed or another one chosen? Change it back until that transaction is through. If the rest of \
                 it is lost for good, write a tombstone under the pipeline's name into delivery.state_topic: the stream then goes \
                 on from the slot, and the transaction at {} stays cut.",
                vanished.missing
            )),
            PipelineError::State { source, .. } => Some(match source {
                RecordError::Version(_) => "Start the walferry that wrote it, or a later one.".into(),
                RecordError::Malformed(_) => "Was it written by something else? Choose another delivery.state_topic, or correct \
                                              the record: while it stands, nobody can tell whether the slot hides a gap."
                    .into(),
            }),
            PipelineError::Unreadable { source, .. } => source.hint().map(Into::into),
            PipelineError::Snapshots { source, .. } => Some(match source {
                snapshot::RecordError::Version(_) => "Start the walferry that wrote it, or a later one.".into(),
                snapshot::RecordError::Malformed(_) => "Was it written by something else? Choose another delivery.state_topic, or \
                                                        write a tombstone under that key: the tables are then taken for read."
                    .into(),
            }),
            PipelineError::Topic(_)
            | PipelineError::TimelineHistory(_)
            | PipelineError::Undelivered(Failure::Passing(_))
            | PipelineError::Pattern { .. }
            | PipelineError::Unexpected { .. }
            | PipelineError::UnknownRelation { .. }
            | PipelineError::Forgotten { .. }
            | PipelineError::Relation { .. }
            | PipelineError::OutOfOrder(_)
            | PipelineError::ServerStopping
            | PipelineError::StreamEnded => None,
        }
    }

    /// Whether the producer cannot go on, and the next session is to have a new one.
    pub(super) fn is_of_the_producer(&self) -> bool {
        matches!(self, PipelineError::Undelivered(_) | PipelineError::Kafka(_))
    }

    /// The SQLSTATE of what Postgres said, if it said anything.
    pub(super) fn sqlstate(&self) -> Option<&str> {
        match self {
            PipelineError::Connect(error) => error.sqlstate(),
            PipelineError::Replication { source, .. } => source.sqlstate(),
            PipelineError::Catalog(error) => error.code().map(tokio_postgres::error::SqlState::code),
            _ => None,
        }
    }

    /// The same error, with the server that it came from.
    pub(super) fn with_server(self, address: &str) -> Self {
        match self {
            PipelineError::Replication { server: None, source } => PipelineError::Replication {
                server: Some(address.to_owned()),
                source,
            },
            other => other,
        }
    }

    /// The message with its whole chain of sources, on one line.
    pub fn chain(&self) -> String {
        chain(self)
    }
}

impl From<ReplicationError> for PipelineError {
    fn from(source: ReplicationError) -> Self {
        PipelineError::Replication { server: None, source }
    }
}

fn list(errors: &[RuleError]) -> String {
    let errors: Vec<String> = errors.iter().map(ToString::to_string).collect();
    errors.join("; ")
}

fn at(server: Option<&str>) -> String {
    server.map_or_else(String::new, |server| format!(" to {server}"))
}

/// An error with its whole chain of sources, on one line.
pub fn chain(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(cause) = source {
        text.push_str(": ");
        text.push_str(&cause.to_string());
        source = cause.source();
    }
    text
}

fn server_error(error: &tokio_postgres::Error) -> Option<ServerError> {
    error.as_db_error().map(ServerError::from_sql)
}

/// What the server did not say came from the connection, and a new one may do.
pub(super) fn is_transient_sql(error: &tokio_postgres::Error) -> bool {
    server_error(error).is_none_or(|error| error.is_transient())
}
