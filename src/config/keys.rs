//! Every key there is: its name, type, default and meaning. The reference, the effective configuration, the nearest
//! known key and the reading itself all come from this table.

use std::time::Duration;

/// A key of the configuration.
#[derive(Debug, Clone, Copy)]
pub struct Key {
    /// `section.key`, or `key` at the top.
    pub path: &'static str,
    /// What its value must be.
    pub kind: Kind,
    /// Its value where none is given.
    pub default: Default,
    /// What it means, in a sentence or two.
    pub doc: &'static str,
}

impl Key {
    /// The section, and the name in it.
    pub fn split(&self) -> (&'static str, &'static str) {
        self.path.split_once('.').unwrap_or(("", self.path))
    }

    /// The environment variable that overrides it.
    pub fn variable(&self) -> String {
        let path = self.path.to_ascii_uppercase().replace('.', SEPARATOR);
        format!("{PREFIX}{SEPARATOR}{path}")
    }
}

/// What the environment variables begin with.
pub const PREFIX: &str = "WALFERRY";

/// What stands between prefix, section and key in an environment variable.
pub const SEPARATOR: &str = "__";

/// What a value must be.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// A string.
    Text,
    /// A string that is never shown.
    Secret,
    /// `true` or `false`.
    Bool,
    /// A whole number in a range.
    Integer(i64, i64),
    /// A time in a range.
    Duration(Duration, Duration),
    /// A number of bytes in a range.
    Size(u64, u64),
    /// One of these strings.
    Choice(&'static [&'static str]),
    /// An array of strings.
    List,
    /// An array of strings, or one string with commas.
    ListOrText,
    /// A table of strings.
    Map,
    /// A table of tables, by the columns that they are about.
    Rules,
}

/// The value of a key that is not given.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Default {
    /// This, written as in an environment variable.
    Is(&'static str),
    /// The pipeline's name, in the characters that the key may have.
    Name {
        /// What the reference shows.
        example: &'static str,
    },
    /// There is none.
    Required {
        /// What the reference shows.
        example: &'static str,
    },
}

/// The sections, in order, with what they are about.
pub const SECTIONS: &[(&str, &str)] = &[
    ("", ""),
    ("postgres", "Where Postgres is."),
    ("replication", "The slot, the publication, and how they are read."),
    (
        "snapshot",
        "The rows that are there already, which are read beside the stream.",
    ),
    ("kafka", "Where Kafka is, and the topics."),
    (
        "delivery",
        "Limits between Postgres and Kafka, and rows that cannot pass.",
    ),
    (
        "schema_registry",
        "Where the schema registry is, and how subjects are named.",
    ),
    ("avro", "What the records look like."),
    ("http", "Metrics, health and status."),
    ("log", "The log on stderr."),
];

const fn millis(count: u64) -> Duration {
    Duration::from_millis(count)
}

const fn seconds(count: u64) -> Duration {
    Duration::from_secs(count)
}

const fn key(path: &'static str, kind: Kind, default: &'static str, doc: &'static str) -> Key {
    Key {
        path,
        kind,
        default: Default::Is(default),
        doc,
    }
}

const fn named(path: &'static str, example: &'static str, doc: &'static str) -> Key {
    Key {
        path,
        kind: Kind::Text,
        default: Default::Name { example },
        doc,
    }
}

/// Every key, section by section.
pub const KEYS: &[Key] = &[
    Key {
        path: "name",
        kind: Kind::Text,
        default: Default::Required { example: "shop" },
        doc: "The pipeline: one slot, one publication, one Kafka cluster. The default for the database, slot and \
              publication, and the prefix of the topics. Required.",
    },
    key(
        "shutdown_timeout",
        Kind::Duration(seconds(0), seconds(3600)),
        "30s",
        "How long a stop may wait for what is in flight to be confirmed.",
    ),
    key(
        "postgres.host",
        Kind::ListOrText,
        "127.0.0.1",
        "A name, an address, or the directory of a unix socket. Several, as a list or comma-separated, are tried in turn.",
    ),
    key(
        "postgres.port",
        Kind::Integer(1, 65_535),
        "5432",
        "The port, also of a unix socket.",
    ),
    named(
        "postgres.database",
        "shop",
        "The database. Default: the pipeline's name.",
    ),
    key(
        "postgres.user",
        Kind::Text,
        "walferry",
        "The role; it needs REPLICATION, and SELECT on the tables.",
    ),
    key(
        "postgres.password",
        Kind::Secret,
        "",
        "The password. Where neither it nor password_file is given, the password file of libpq is asked: \
         $PGPASSFILE, or ~/.pgpass.",
    ),
    key(
        "postgres.password_file",
        Kind::Text,
        "",
        "A file that holds the password; a newline at its end is not part of it.",
    ),
    key(
        "postgres.sslmode",
        Kind::Choice(&["disable", "allow", "prefer", "require", "verify-ca", "verify-full"]),
        "prefer",
        "disable, allow, prefer, require, verify-ca or verify-full, with the meanings that libpq gives them.",
    ),
    key(
        "postgres.sslrootcert",
        Kind::Text,
        "",
        "A PEM file of the certificates to trust, or \"system\" for those of the system, which makes sslmode \
         verify-full. verify-ca and verify-full need it.",
    ),
    key(
        "postgres.sslcert",
        Kind::Text,
        "",
        "A PEM file of the client's certificate; together with sslkey.",
    ),
    key("postgres.sslkey", Kind::Text, "", "A PEM file of its key."),
    key(
        "postgres.connect_timeout",
        Kind::Duration(millis(100), seconds(3600)),
        "10s",
        "The limit of one attempt at one address.",
    ),
    named(
        "replication.slot",
        "shop",
        "The replication slot. Default: the pipeline's name in lower case, with _ for what a slot's name may not hold.",
    ),
    named(
        "replication.publication",
        "shop",
        "The publication. Default: as for the slot.",
    ),
    key(
        "replication.create_slot",
        Kind::Bool,
        "true",
        "Create the slot if it is not there. It starts at the present.",
    ),
    key(
        "replication.failover",
        Kind::Bool,
        "false",
        "Have the slot copied to standbys, so that a promoted one goes on with it. Needs Postgres 17, and its own settings.",
    ),
    key(
        "replication.create_publication",
        Kind::Bool,
        "true",
        "Create the publication, for `tables`, if it is not there. One that is there is used as it is.",
    ),
    key(
        "replication.tables",
        Kind::List,
        "public.*",
        "The tables of a publication that is created: schema.table, with * and ?. Letters fold to lower case; a name \
         with capitals or dots stands in double quotes: 'public.\"Order.Items\"'.",
    ),
    key(
        "replication.exclude_tables",
        Kind::List,
        "",
        "The tables to leave out of it, in the same form.",
    ),
    key(
        "replication.streaming",
        Kind::Choice(&["auto", "on", "off"]),
        "auto",
        "Take large transactions in while they run, and publish them when they commit. auto: where the server has it (Postgres 14). off: \
         Postgres keeps them on its own disk until they commit.",
    ),
    key(
        "replication.spool_dir",
        Kind::Text,
        "",
        "Where a large running transaction waits, in files that nobody else may read. Default: the system's directory for temporary \
         files.",
    ),
    key(
        "replication.spool_memory",
        Kind::Size(64 << 10, 1 << 40),
        "32MiB",
        "Bytes of all running transactions that wait in memory; what comes beyond goes to files.",
    ),
    key(
        "replication.spool_max_size",
        Kind::Size(0, 1 << 50),
        "0B",
        "Bytes of these files, at which the pipeline stops; 0B: no limit but the disk.",
    ),
    key(
        "replication.format",
        Kind::Choice(&["auto", "text", "binary"]),
        "auto",
        "How Postgres sends values. auto: as text, which every type has. binary needs Postgres 14 and types that all have such a form.",
    ),
    key(
        "replication.status_interval",
        Kind::Duration(millis(100), seconds(3600)),
        "10s",
        "The time between two standby status updates; a third of wal_sender_timeout where that is shorter.",
    ),
    key(
        "snapshot.mode",
        Kind::Choice(&["initial", "never", "only"]),
        "initial",
        "When the rows that are there already are read. initial: once, when the pipeline is new. never: only where \
         `walferry snapshot` asks for it. only: as initial, and then the pipeline ends.",
    ),
    key(
        "snapshot.new_tables",
        Kind::Choice(&["initial", "ignore"]),
        "initial",
        "A table that is added to the publication later. initial: its rows are read too. ignore: only its changes come.",
    ),
    key(
        "snapshot.parallelism",
        Kind::Integer(1, 64),
        "2",
        "How many connections read at once, each a table or a range of a large one.",
    ),
    key(
        "snapshot.chunk_rows",
        Kind::Integer(1, 10_000_000),
        "50000",
        "The rows of one query. Each has a snapshot of its own, which keeps VACUUM waiting while it lasts.",
    ),
    key(
        "snapshot.max_rows_per_second",
        Kind::Integer(0, 1_000_000_000),
        "0",
        "How fast rows are read at most, all connections together; 0: no limit.",
    ),
    key(
        "snapshot.max_retained_wal",
        Kind::Size(0, 1 << 50),
        "0B",
        "While the slot retains more WAL than this, no rows are read; 0B: no limit.",
    ),
    key(
        "snapshot.statement_timeout",
        Kind::Duration(seconds(0), seconds(86_400)),
        "5m",
        "The limit of one query, after which it is tried again; 0s: none.",
    ),
    key(
        "snapshot.lock_timeout",
        Kind::Duration(seconds(0), seconds(86_400)),
        "10s",
        "How long a query may wait for its table, such as behind an ALTER TABLE, after which it is tried again; 0s: no limit.",
    ),
    key(
        "kafka.bootstrap_servers",
        Kind::Text,
        "127.0.0.1:9092",
        "host:port, comma-separated.",
    ),
    key(
        "kafka.topic",
        Kind::Text,
        "{name}.{schema}.{table}",
        "The topic of a table. {schema} and {table} must be in it, with a dot between; characters that Kafka forbids are escaped.",
    ),
    key(
        "kafka.create_topics",
        Kind::Bool,
        "true",
        "Create topics that are not there, before their first record.",
    ),
    key(
        "kafka.partitions",
        Kind::Integer(1, 100_000),
        "1",
        "The partitions of a created topic.",
    ),
    key(
        "kafka.replication_factor",
        Kind::Integer(-1, 32_767),
        "-1",
        "The replication factor of a created topic; -1: the broker's default.",
    ),
    key(
        "kafka.topic_config",
        Kind::Map,
        "",
        "The configuration of a created topic, such as { \"cleanup.policy\" = \"compact\" }.",
    ),
    key(
        "kafka.properties",
        Kind::Map,
        "",
        "Any property of librdkafka, such as { \"security.protocol\" = \"SASL_SSL\" }, but those that walferry owns. \
         A secret may come from a file: { \"sasl.password_file\" = \"/run/secrets/kafka\" }.",
    ),
    key(
        "kafka.tombstones",
        Kind::Bool,
        "true",
        "A null value after each delete, for compacted topics.",
    ),
    key(
        "kafka.truncate",
        Kind::Choice(&["emit", "skip"]),
        "emit",
        "What becomes of TRUNCATE: emit or skip.",
    ),
    key(
        "delivery.max_in_flight",
        Kind::Size(64 << 10, 64 << 30),
        "64MiB",
        "Bytes handed to Kafka and not yet confirmed, at which reading from Postgres stops. It bounds the memory.",
    ),
    key(
        "delivery.guarantee",
        Kind::Choice(&["at-least-once", "exactly-once"]),
        "at-least-once",
        "at-least-once: a change may come twice after a crash, with the same position. exactly-once: changes and their position are \
         committed together in Kafka transactions, and readers with isolation.level = read_committed see each change once.",
    ),
    key(
        "delivery.commit_interval",
        Kind::Duration(millis(1), seconds(60)),
        "200ms",
        "exactly-once: how long a Kafka transaction stays open at most, if the Postgres transaction in it ends by then.",
    ),
    key(
        "delivery.max_transaction_changes",
        Kind::Integer(1, 1_000_000_000),
        "500000",
        "exactly-once: a Postgres transaction with more changes than that is split over several Kafka transactions.",
    ),
    key(
        "delivery.state_topic",
        Kind::Text,
        "walferry.state",
        "The topic where the published position is recorded, compacted and of one partition. Pipelines share it.",
    ),
    key(
        "delivery.on_bad_row",
        Kind::Choice(&["stop", "dead-letter"]),
        "stop",
        "What becomes of a row that cannot be converted or is too large for Kafka. stop: the pipeline stops, and names \
         table and column. dead-letter: the row goes to the dead-letter topic as Postgres sent it, and the stream goes on.",
    ),
    key(
        "delivery.dead_letter_topic",
        Kind::Text,
        "{name}.dead-letter",
        "The topic of dead letters, one for all tables; created like the others, but to be kept for ever.",
    ),
    key(
        "schema_registry.url",
        Kind::ListOrText,
        "http://127.0.0.1:8081",
        "The registry. Several, as a list or comma-separated, are tried in turn.",
    ),
    key("schema_registry.username", Kind::Text, "", "For basic authentication."),
    key("schema_registry.password", Kind::Secret, "", "Its password."),
    key("schema_registry.password_file", Kind::Text, "", "A file that holds it."),
    key(
        "schema_registry.bearer_token",
        Kind::Secret,
        "",
        "For bearer authentication, instead of a username.",
    ),
    key(
        "schema_registry.bearer_token_file",
        Kind::Text,
        "",
        "A file that holds it.",
    ),
    key(
        "schema_registry.ssl_ca",
        Kind::Text,
        "",
        "A PEM file of the certificates to trust instead of the system's.",
    ),
    key(
        "schema_registry.subject",
        Kind::Choice(&["topic-name", "record-name", "topic-record-name"]),
        "topic-name",
        "How subjects are named: topic-name, record-name or topic-record-name.",
    ),
    key(
        "schema_registry.register",
        Kind::Bool,
        "true",
        "Register schemas. false: they must be there already.",
    ),
    key(
        "schema_registry.on_incompatible",
        Kind::Choice(&["stop", "register"]),
        "stop",
        "What becomes of a schema that the subject's compatibility level forbids. stop: it ends the pipeline. register: it is \
         registered, with the subject's level at NONE for as long as that takes.",
    ),
    key(
        "avro.envelope",
        Kind::Choice(&["debezium", "row"]),
        "debezium",
        "debezium: before, after, source, op and the rest in Debezium's fields. row: the columns alone, everything \
         else in headers.",
    ),
    key(
        "avro.types",
        Kind::Choice(&["avro", "debezium"]),
        "avro",
        "avro: Avro's own types. debezium: the semantic types of Debezium's Postgres connector, which its consumers \
         know.",
    ),
    key(
        "avro.nullability",
        Kind::Choice(&["auto", "optional", "catalog"]),
        "auto",
        "optional: every column outside of the key can be null. catalog: NOT NULL columns cannot, where every record \
         has their value. auto: optional; with types = \"debezium\" catalog, as Debezium has it.",
    ),
    key(
        "avro.columns",
        Kind::Rules,
        "",
        "Rules for columns, by patterns over schema.table.column: { 'public.users.password' = { exclude = true } }. \
         docs/records.md has all of them.",
    ),
    key(
        "http.listen",
        Kind::Text,
        "127.0.0.1:8080",
        "The address and port of /, /metrics, /health/live, /health/ready and /status.",
    ),
    key(
        "log.level",
        Kind::Choice(&["error", "warn", "info", "debug", "trace"]),
        "info",
        "error, warn, info, debug or trace. RUST_LOG wins over it.",
    ),
    key("log.format", Kind::Choice(&["text", "json"]), "text", "text or json."),
];

/// The key at `path`.
pub fn find(path: &str) -> Option<&'static Key> {
    KEYS.iter().find(|key| key.path == path)
}

/// The known key that `path` most resembles; one of the same section if any comes close.
pub fn nearest(path: &str) -> &'static str {
    let (section, name) = path.split_once('.').unwrap_or(("", path));
    let score = |key: &Key| {
        let (known_section, known_name) = key.split();
        let whole = strsim::jaro_winkler(path, key.path);
        let part = strsim::jaro_winkler(name, known_name) + if section == known_section { 0.2 } else { 0.0 };
        whole.max(part)
    };
    let best = KEYS
        .iter()
        .map(|key| (score(key), key.path))
        .max_by(|a, b| a.0.total_cmp(&b.0));
    best.map_or("name", |(_, path)| path)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_key_belongs_to_a_section_and_stands_there_once() {
        for key in KEYS {
            assert!(
                SECTIONS.iter().any(|(section, _)| *section == key.split().0),
                "{}",
                key.path
            );
            assert_eq!(
                KEYS.iter().filter(|other| other.path == key.path).count(),
                1,
                "{}",
                key.path
            );
        }
    }

    #[test]
    fn the_nearest_key_is_the_one_that_was_meant() {
        assert_eq!(nearest("postgres.pasword"), "postgres.password");
        assert_eq!(nearest("postgres.hots"), "postgres.host");
        assert_eq!(nearest("kafka.bootstrap.servers"), "kafka.bootstrap_servers");
        assert_eq!(nearest("kafka.bootstrapservers"), "kafka.bootstrap_servers");
        assert_eq!(nearest("replicaton.slot"), "replication.slot");
        assert_eq!(nearest("slot"), "replication.slot");
        assert_eq!(nearest("shutdown_timout"), "shutdown_timeout");
        assert_eq!(nearest("schema_registry.token"), "schema_registry.bearer_token");
    }

    #[test]
    fn variables_are_named_after_section_and_key() {
        assert_eq!(
            find("postgres.password").unwrap().variable(),
            "WALFERRY__POSTGRES__PASSWORD"
        );
        assert_eq!(find("name").unwrap().variable(), "WALFERRY__NAME");
    }
}
