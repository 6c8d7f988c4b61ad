//! The configuration as it is used: plain values, each of them already judged.

use std::collections::BTreeMap;
use std::fmt;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use super::properties::is_secret_property;
use super::secret::{REDACTED, Secret};

/// A valid configuration. `Debug` shows no secret.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Config {
    /// The pipeline.
    pub name: String,
    /// How long a drain may wait for what is in flight.
    pub shutdown_timeout: Duration,
    /// `[postgres]`
    pub postgres: Postgres,
    /// `[replication]`
    pub replication: Replication,
    /// `[snapshot]`
    pub snapshot: Snapshot,
    /// `[kafka]`
    pub kafka: Kafka,
    /// `[delivery]`
    pub delivery: Delivery,
    /// `[schema_registry]`
    pub schema_registry: SchemaRegistry,
    /// `[avro]`
    pub avro: Avro,
    /// `[http]`
    pub http: Http,
    /// `[log]`
    pub log: Log,
}

/// Where Postgres is and who we are there.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Postgres {
    /// Names, addresses, or directories of unix sockets, to be tried in turn; never empty.
    pub hosts: Vec<String>,
    /// The port, also of a unix socket's name.
    pub port: u16,
    /// The database.
    pub database: String,
    /// The role.
    pub user: String,
    /// From `password`, `password_file`, or the password file of libpq.
    pub password: Option<Secret>,
    /// How much TLS.
    pub sslmode: SslMode,
    /// Whom to trust.
    pub sslrootcert: Option<RootCert>,
    /// Our certificate; always together with `sslkey`.
    pub sslcert: Option<PathBuf>,
    /// Its key.
    pub sslkey: Option<PathBuf>,
    /// The limit of one attempt at one address.
    pub connect_timeout: Duration,
}

/// How far TLS is asked for (manual, "SSL Mode Descriptions").
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SslMode {
    /// Never.
    Disable,
    /// Only if the server refuses a connection without.
    Allow,
    /// If the server can.
    Prefer,
    /// Always, with whomever (but a root certificate that is given is honoured).
    Require,
    /// Always, with a certificate that the root has signed.
    VerifyCa,
    /// Always, with a certificate that the root has signed for this host.
    VerifyFull,
}

/// The certificates that sign a server's.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum RootCert {
    /// Those of the system.
    System,
    /// Those in a PEM file.
    File(PathBuf),
}

/// The slot, the publication, and how they are read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Replication {
    /// The replication slot.
    pub slot: String,
    /// The publication.
    pub publication: String,
    /// Whether a slot that is missing is created.
    pub create_slot: bool,
    /// Whether the slot is copied to standbys.
    pub failover: bool,
    /// Whether a publication that is missing is created.
    pub create_publication: bool,
    /// Patterns of the tables to publish; see [`super::glob::TableFilter`].
    pub tables: Vec<String>,
    /// Patterns of the tables to leave out.
    pub exclude_tables: Vec<String>,
    /// Whether large transactions are taken in while they run.
    pub streaming: Streaming,
    /// Where these wait; none: the system's directory for temporary files.
    pub spool_dir: Option<PathBuf>,
    /// Bytes of them in memory; what comes beyond goes to files.
    pub spool_memory: u64,
    /// Bytes of them in files.
    pub spool_max_size: Option<u64>,
    /// How values are sent.
    pub format: Format,
    /// The time between two standby status updates.
    pub status_interval: Duration,
}

/// Whether large transactions are taken in while they run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Streaming {
    /// Where the server has it; PostgreSQL 14 and later.
    Auto,
    /// Yes.
    On,
    /// No: they come when they have committed.
    Off,
}

/// How Postgres sends the values of a row.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Format {
    /// Binary where the server and every column's type can.
    Auto,
    /// The types' output functions.
    Text,
    /// The types' send functions; PostgreSQL 14 and later.
    Binary,
}

/// Which rows that are there already are read, and how gently.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Snapshot {
    /// When they are read without being asked for.
    pub mode: SnapshotMode,
    /// What becomes of the rows of a table that is added to the publication later.
    pub new_tables: NewTables,
    /// How many connections read at once; from 1 to 64.
    pub parallelism: u32,
    /// The rows of one query; at least 1.
    pub chunk_rows: u64,
    /// All connections together.
    pub max_rows_per_second: Option<u64>,
    /// Bytes that the slot may retain while rows are read.
    pub max_retained_wal: Option<u64>,
    /// Of one query; zero: no limit, as Postgres has it.
    pub statement_timeout: Duration,
    /// Of one query; zero: no limit, as Postgres has it.
    pub lock_timeout: Duration,
}

/// When rows that are there already are read without being asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SnapshotMode {
    /// Once, when the pipeline is new.
    Initial,
    /// Never.
    Never,
    /// Once, and then the pipeline ends.
    Only,
}

/// What becomes of the rows of a table that is added to the publication later.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NewTables {
    /// They are read.
    Initial,
    /// They are not.
    Ignore,
}

/// Where Kafka is and what we make there.
#[derive(Clone, PartialEq, Eq)]
pub struct Kafka {
    /// `host:port`, comma-separated.
    pub bootstrap_servers: String,
    /// The template of a table's topic.
    pub topic: String,
    /// Whether topics that are missing are created.
    pub create_topics: bool,
    /// The partitions of a created topic.
    pub partitions: i32,
    /// The replication factor of a created topic; -1: the broker's default.
    pub replication_factor: i32,
    /// The configuration of a created topic.
    pub topic_config: BTreeMap<String, String>,
    /// Properties for librdkafka; none of them is one that walferry owns.
    pub properties: BTreeMap<String, String>,
    /// Whether a delete is followed by a null value.
    pub tombstones: bool,
    /// What becomes of TRUNCATE.
    pub truncate: Truncate,
}

impl fmt::Debug for Kafka {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let properties: BTreeMap<&str, &str> = self
            .properties
            .iter()
            .map(|(key, value)| {
                (
                    key.as_str(),
                    if is_secret_property(key) {
                        REDACTED
                    } else {
                        value.as_str()
                    },
                )
            })
            .collect();
        f.debug_struct("Kafka")
            .field("bootstrap_servers", &self.bootstrap_servers)
            .field("topic", &self.topic)
            .field("create_topics", &self.create_topics)
            .field("partitions", &self.partitions)
            .field("replication_factor", &self.replication_factor)
            .field("topic_config", &self.topic_config)
            .field("properties", &properties)
            .field("tombstones", &self.tombstones)
            .field("truncate", &self.truncate)
            .finish()
    }
}

/// What becomes of TRUNCATE.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Truncate {
    /// A record with op `t`.
    Emit,
    /// Nothing.
    Skip,
}

/// Limits between the socket and Kafka, and rows that cannot pass.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Delivery {
    /// Bytes handed to Kafka and not yet confirmed, at which reading stops.
    pub max_in_flight: u64,
    /// How often a change may come.
    pub guarantee: Guarantee,
    /// How long a Kafka transaction stays open.
    pub commit_interval: Duration,
    /// How many changes a Kafka transaction holds at most.
    pub max_transaction_changes: u64,
    /// The topic of positions.
    pub state_topic: String,
    /// What becomes of a row that cannot be published.
    pub on_bad_row: OnBadRow,
    /// The topic of dead letters, with the pipeline's name in its place.
    pub dead_letter_topic: String,
}

/// How often a change may come.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Guarantee {
    /// Twice, after a crash.
    AtLeastOnce,
    /// Once, to readers of what is committed.
    ExactlyOnce,
}

/// What becomes of a row that cannot be published.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OnBadRow {
    /// The pipeline stops.
    Stop,
    /// It goes to the dead-letter topic.
    DeadLetter,
}

/// Where the schema registry is and how it is used.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SchemaRegistry {
    /// Base URLs without credentials, to be tried in turn; never empty.
    pub urls: Vec<String>,
    /// For basic authentication.
    pub username: Option<String>,
    /// For basic authentication.
    pub password: Option<Secret>,
    /// For bearer authentication; never together with `username`.
    pub bearer_token: Option<Secret>,
    /// PEM certificates to trust instead of the system's.
    pub ssl_ca: Option<PathBuf>,
    /// How a subject is named.
    pub subject: Subject,
    /// Whether schemas are registered; otherwise they must be there already.
    pub register: bool,
    /// What becomes of a schema that the subject's compatibility level forbids.
    pub on_incompatible: OnIncompatible,
}

/// What becomes of a schema that the subject's compatibility level forbids.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OnIncompatible {
    /// It stops the pipeline.
    Stop,
    /// It is registered all the same.
    Register,
}

/// How a subject is named.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Subject {
    /// `<topic>-key`, `<topic>-value`
    TopicName,
    /// The record's full name.
    RecordName,
    /// `<topic>-<the record's full name>`
    TopicRecordName,
}

/// What the records look like.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Avro {
    /// What stands around the row.
    pub envelope: Envelope,
    /// Which types the columns have.
    pub types: Types,
    /// Which columns can be null.
    pub nullability: Nullability,
    /// `avro.columns`, in the order of the patterns' text.
    pub columns: Vec<ColumnRule>,
}

/// Which types the columns have.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Types {
    /// Avro's own.
    Avro,
    /// Those of Debezium's Postgres connector.
    Debezium,
}

/// Which columns can be null.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Nullability {
    /// All outside of the key.
    Optional,
    /// Those that are not NOT NULL in the catalog.
    Catalog,
}

/// A rule for the columns that a pattern covers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ColumnRule {
    /// A pattern over `schema.table.column`; see [`super::glob::ColumnPattern`].
    pub pattern: String,
    /// What becomes of them.
    pub action: ColumnAction,
    /// Whether it is an error if no published column is covered.
    pub required: bool,
}

/// What becomes of a column.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ColumnAction {
    /// It stays as it is, though another pattern covers it.
    Keep,
    /// It is left out.
    Exclude,
    /// It becomes the SHA-256 of salt and value.
    Sha256 {
        /// Never empty.
        salt: Secret,
    },
    /// It becomes this text.
    Fixed {
        /// The text.
        with: String,
    },
    /// It becomes Postgres's text, cut after so many characters if there is a number.
    Text {
        /// At least 1.
        truncate: Option<u32>,
    },
    /// It is text already, and is cut.
    Truncate {
        /// At least 1.
        characters: u32,
    },
}

/// What stands around the row.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Envelope {
    /// Debezium's fields.
    Debezium,
    /// Nothing; the rest is in headers.
    Row,
}

/// Metrics, health and status.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Http {
    /// The address to listen on.
    pub listen: SocketAddr,
}

/// The log on stderr.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Log {
    /// The least severe level that is written.
    pub level: LogLevel,
    /// Its form.
    pub format: LogFormat,
}

/// The least severe level that is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LogLevel {
    /// Only what stops the pipeline or loses something.
    Error,
    /// And what somebody should look at.
    Warn,
    /// And what happens seldom.
    Info,
    /// And what happens often.
    Debug,
    /// And every message.
    Trace,
}

impl LogLevel {
    /// As the configuration writes it.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Error => "error",
            Self::Warn => "warn",
            Self::Info => "info",
            Self::Debug => "debug",
            Self::Trace => "trace",
        }
    }
}

/// The form of a log line.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LogFormat {
    /// For people.
    Text,
    /// One object a line.
    Json,
}
