//! The configuration as a whole.

use std::collections::BTreeMap;
use std::fs;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::time::Duration;

use super::keys::{KEYS, Kind};
use super::*;

type Env = BTreeMap<String, String>;

fn env(variables: &[(&str, &str)]) -> Env {
    variables
        .iter()
        .map(|(name, value)| ((*name).to_owned(), (*value).to_owned()))
        .collect()
}

fn read(text: &str) -> Result<Loaded, ConfigErrors> {
    load_text(Path::new("walferry.toml"), text, &Env::new())
}

fn read_with(text: &str, variables: &[(&str, &str)]) -> Result<Loaded, ConfigErrors> {
    load_text(Path::new("walferry.toml"), text, &env(variables))
}

fn config(text: &str) -> Config {
    read(text).unwrap().config
}

fn faults(text: &str) -> Vec<String> {
    read(text).unwrap_err().faults.iter().map(ToString::to_string).collect()
}

fn only_fault(text: &str) -> String {
    let faults = faults(text);
    assert_eq!(faults.len(), 1, "{faults:#?}");
    faults.into_iter().next().unwrap()
}

/// A directory of this test's own, gone when it ends.
struct Scratch(PathBuf);

impl Scratch {
    fn new(name: &str) -> Self {
        let path = std::env::temp_dir().join(format!("walferry-config-{}-{name}", std::process::id()));
        fs::create_dir_all(&path).unwrap();
        Self(path)
    }

    fn file(&self, name: &str, text: &str) -> String {
        let path = self.0.join(name);
        fs::write(&path, text).unwrap();
        path.to_str().unwrap().to_owned()
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        fs::remove_dir_all(&self.0).unwrap();
    }
}

#[test]
fn a_name_is_enough() {
    assert_eq!(
        config("name = \"Web-Shop\""),
        Config {
            name: "Web-Shop".to_owned(),
            shutdown_timeout: Duration::from_secs(30),
            postgres: Postgres {
                hosts: vec!["127.0.0.1".to_owned()],
                port: 5432,
                database: "Web-Shop".to_owned(),
                user: "walferry".to_owned(),
                password: None,
                sslmode: SslMode::Prefer,
                sslrootcert: None,
                sslcert: None,
                sslkey: None,
                connect_timeout: Duration::from_secs(10),
            },
            replication: Replication {
                slot: "web_shop".to_owned(),
                publication: "web_shop".to_owned(),
                create_slot: true,
                failover: false,
                create_publication: true,
                tables: vec!["public.*".to_owned()],
                exclude_tables: vec![],
                streaming: Streaming::Auto,
                spool_dir: None,
                spool_memory: 32 << 20,
                spool_max_size: None,
                format: Format::Auto,
                status_interval: Duration::from_secs(10),
            },
            snapshot: Snapshot {
                mode: SnapshotMode::Initial,
                new_tables: NewTables::Initial,
                parallelism: 2,
                chunk_rows: 50_000,
                max_rows_per_second: None,
                max_retained_wal: None,
                statement_timeout: Duration::from_secs(300),
                lock_timeout: Duration::from_secs(10),
            },
            kafka: Kafka {
                bootstrap_servers: "127.0.0.1:9092".to_owned(),
                topic: "{name}.{schema}.{table}".to_owned(),
                create_topics: true,
                partitions: 1,
                replication_factor: -1,
                topic_config: BTreeMap::new(),
                properties: BTreeMap::new(),
                tombstones: true,
                truncate: Truncate::Emit,
            },
            delivery: Delivery {
                max_in_flight: 67_108_864,
                guarantee: Guarantee::AtLeastOnce,
                commit_interval: Duration::from_millis(200),
                max_transaction_changes: 500_000,
                state_topic: "walferry.state".to_owned(),
                on_bad_row: OnBadRow::Stop,
                dead_letter_topic: "Web-Shop.dead-letter".to_owned(),
            },
            schema_registry: SchemaRegistry {
                urls: vec!["http://127.0.0.1:8081".to_owned()],
                username: None,
                password: None,
                bearer_token: None,
                ssl_ca: None,
                subject: Subject::TopicName,
                register: true,
                on_incompatible: OnIncompatible::Stop,
            },
            avro: Avro {
                envelope: Envelope::Debezium,
                types: Types::Avro,
                nullability: Nullability::Optional,
                columns: vec![],
            },
            http: Http {
                listen: SocketAddr::from(([127, 0, 0, 1], 8080))
            },
            log: Log {
                level: LogLevel::Info,
                format: LogFormat::Text
            },
        }
    );
}

#[test]
fn every_key_is_read() {
    let scratch = Scratch::new("every-key");
    let password_file = scratch.file("password", "pg secret\n");
    let text = format!(
        "name = \"shop\"\nshutdown_timeout = \"1m\"\n\
         [postgres]\nhost = [\"a\", \"/run/pg\"]\nport = 5433\ndatabase = \"d\"\nuser = \"u\"\n\
         password_file = \"{password_file}\"\nsslmode = \"verify-ca\"\nsslrootcert = \"/ca.pem\"\n\
         sslcert = \"/c.pem\"\nsslkey = \"/k.pem\"\nconnect_timeout = \"500ms\"\n\
         [replication]\nslot = \"s\"\npublication = \"P\"\ncreate_slot = false\nfailover = true\ncreate_publication = false\n\
         tables = [\"a.b\"]\nexclude_tables = [\"a.c\"]\nstreaming = \"on\"\nspool_dir = \"/spool\"\nspool_memory = \"1MiB\"\n\
         spool_max_size = \"10GiB\"\nformat = \"binary\"\nstatus_interval = \"1s\"\n\
         [snapshot]\nmode = \"only\"\nnew_tables = \"ignore\"\nparallelism = 64\nchunk_rows = 10000000\nmax_rows_per_second = 1000\n\
         max_retained_wal = \"10GiB\"\nstatement_timeout = \"1h\"\nlock_timeout = \"0s\"\n\
         [kafka]\nbootstrap_servers = \"k1:9092,k2:9092\"\ntopic = \"x-{{schema}}.{{table}}\"\ncreate_topics = false\n\
         partitions = 12\nreplication_factor = 3\ntopic_config = {{ \"cleanup.policy\" = \"compact\" }}\n\
         properties = {{ \"linger.ms\" = 5, \"socket.keepalive.enable\" = true }}\ntombstones = false\ntruncate = \"skip\"\n\
         [delivery]\nmax_in_flight = \"1GiB\"\nguarantee = \"exactly-once\"\ncommit_interval = \"1s\"\nmax_transaction_changes = 1000\n\
         state_topic = \"positions\"\non_bad_row = \"dead-letter\"\ndead_letter_topic = \"lost.{{name}}\"\n\
         [schema_registry]\nurl = \"http://r1:8081/, https://r2\"\nusername = \"ru\"\npassword = \"rp\"\nssl_ca = \"/rca.pem\"\n\
         subject = \"record-name\"\nregister = true\non_incompatible = \"register\"\n\
         [avro]\nenvelope = \"row\"\ntypes = \"debezium\"\nnullability = \"catalog\"\ncolumns = {{ \"a.b.c\" = {{ exclude = true }} }}\n[http]\nlisten = \"[::1]:9\"\n[log]\nlevel = \"debug\"\nformat = \"json\"\n"
    );
    let strings = |items: &[&str]| items.iter().map(|item| (*item).to_owned()).collect::<Vec<_>>();
    let map = |entries: &[(&str, &str)]| env(entries);
    assert_eq!(
        config(&text),
        Config {
            name: "shop".to_owned(),
            shutdown_timeout: Duration::from_secs(60),
            postgres: Postgres {
                hosts: strings(&["a", "/run/pg"]),
                port: 5433,
                database: "d".to_owned(),
                user: "u".to_owned(),
                password: Some(Secret::new("pg secret")),
                sslmode: SslMode::VerifyCa,
                sslrootcert: Some(RootCert::File("/ca.pem".into())),
                sslcert: Some("/c.pem".into()),
                sslkey: Some("/k.pem".into()),
                connect_timeout: Duration::from_millis(500),
            },
            replication: Replication {
                slot: "s".to_owned(),
                publication: "P".to_owned(),
                create_slot: false,
                failover: true,
                create_publication: false,
                tables: strings(&["a.b"]),
                exclude_tables: strings(&["a.c"]),
                streaming: Streaming::On,
                spool_dir: Some("/spool".into()),
                spool_memory: 1 << 20,
                spool_max_size: Some(10 << 30),
                format: Format::Binary,
                status_interval: Duration::from_secs(1),
            },
            snapshot: Snapshot {
                mode: SnapshotMode::Only,
                new_tables: NewTables::Ignore,
                parallelism: 64,
                chunk_rows: 10_000_000,
                max_rows_per_second: Some(1_000),
                max_retained_wal: Some(10 << 30),
                statement_timeout: Duration::from_secs(3_600),
                lock_timeout: Duration::ZERO,
            },
            kafka: Kafka {
                bootstrap_servers: "k1:9092,k2:9092".to_owned(),
                topic: "x-{schema}.{table}".to_owned(),
                create_topics: false,
                partitions: 12,
                replication_factor: 3,
                topic_config: map(&[("cleanup.policy", "compact")]),
                properties: map(&[("linger.ms", "5"), ("socket.keepalive.enable", "true")]),
                tombstones: false,
                truncate: Truncate::Skip,
            },
            delivery: Delivery {
                max_in_flight: 1 << 30,
                guarantee: Guarantee::ExactlyOnce,
                commit_interval: Duration::from_secs(1),
                max_transaction_changes: 1_000,
                state_topic: "positions".to_owned(),
                on_bad_row: OnBadRow::DeadLetter,
                dead_letter_topic: "lost.shop".to_owned(),
            },
            schema_registry: SchemaRegistry {
                urls: strings(&["http://r1:8081", "https://r2"]),
                username: Some("ru".to_owned()),
                password: Some(Secret::new("rp")),
                bearer_token: None,
                ssl_ca: Some("/rca.pem".into()),
                subject: Subject::RecordName,
                register: true,
                on_incompatible: OnIncompatible::Register,
            },
            avro: Avro {
                envelope: Envelope::Row,
                types: Types::Debezium,
                nullability: Nullability::Catalog,
                columns: vec![ColumnRule {
                    pattern: "a.b.c".to_owned(),
                    action: ColumnAction::Exclude,
                    required: true,
                }],
            },
            http: Http {
                listen: "[::1]:9".parse().unwrap()
            },
            log: Log {
                level: LogLevel::Debug,
                format: LogFormat::Json
            },
        }
    );
}

#[test]
fn a_dead_letter_topic_is_one_for_all_tables_and_none_of_the_others() {
    for (topic, problem) in [
        (
            "{name}.{table}",
            "is no topic: {table} may not stand in it: it is one topic for all tables",
        ),
        ("{name}.message", "is the topic of logical messages"),
        ("", "is no topic: Kafka takes no topic of the name \"\""),
    ] {
        let fault = only_fault(&format!("name = \"shop\"\n[delivery]\ndead_letter_topic = \"{topic}\""));
        assert!(fault.contains(problem), "{fault}");
    }
}

#[test]
fn a_snapshot_is_read_by_one_connection_to_64_in_chunks_of_at_least_a_row() {
    for (line, problem) in [
        (
            "parallelism = 0",
            "is out of range; must be a whole number from 1 to 64",
        ),
        (
            "parallelism = 65",
            "is out of range; must be a whole number from 1 to 64",
        ),
        (
            "chunk_rows = 0",
            "is out of range; must be a whole number from 1 to 10000000",
        ),
        (
            "chunk_rows = 10000001",
            "is out of range; must be a whole number from 1 to 10000000",
        ),
        (
            "max_rows_per_second = -1",
            "is out of range; must be a whole number from 0 to 1000000000",
        ),
        (
            "max_retained_wal = \"15MiB\"",
            "is out of range, as a slot retains a segment of the WAL at any time; must be 0B for no limit, or a size from \
             16MiB on",
        ),
        ("statement_timeout = \"25h\"", "from 0s to 24h"),
        ("mode = \"always\"", "is not known; must be one of initial, never, only"),
        ("new_tables = \"never\"", "is not known; must be one of initial, ignore"),
    ] {
        let fault = only_fault(&format!("name = \"shop\"\n[snapshot]\n{line}"));
        assert!(fault.starts_with(&format!("snapshot.{line} (")), "{fault}");
        assert!(fault.contains(problem), "{fault}");
    }
    let least =
        config("name = \"shop\"\n[snapshot]\nmax_retained_wal = \"16MiB\"\nparallelism = 1\nchunk_rows = 1").snapshot;
    assert_eq!(
        (least.max_retained_wal, least.parallelism, least.chunk_rows),
        (Some(16 << 20), 1, 1)
    );
}

#[test]
fn files_of_the_spool_may_be_as_large_as_what_is_written_at_once() {
    let text =
        |size: &str| format!("name = \"shop\"\n[replication]\nspool_memory = \"2MiB\"\nspool_max_size = \"{size}\"");
    assert_eq!(
        only_fault(&text("1MiB")),
        "replication.spool_max_size = \"1MiB\" (walferry.toml, line 4): is out of range, as all of replication.spool_memory is written \
         at once; must be 0B for no limit, or a size from replication.spool_memory on"
    );
    assert_eq!(config(&text("2MiB")).replication.spool_max_size, Some(2 << 20));
    assert_eq!(config(&text("0B")).replication.spool_max_size, None);
}

#[test]
fn five_faults_are_reported_as_five() {
    let text = "name = \"shop\"\nshutdown_timeout = 30\n\n[postgres]\nport = 99999\nhots = \"db\"\n\n\
                [kafka]\ntruncate = \"ignore\"\n\n[delivery]\nmax_in_flight = \"64Mb\"\n";
    let error = read(text).unwrap_err();
    assert_eq!(
        error.to_string(),
        "the configuration has 5 faults:\n  \
         postgres.hots (walferry.toml, line 6): unknown key; the nearest known one is postgres.host\n  \
         shutdown_timeout = 30 (walferry.toml, line 2): has no unit; must be a duration such as \"10s\", in ms, s, m or h, \
         from 0s to 1h\n  \
         postgres.port = 99999 (walferry.toml, line 5): is out of range; must be a whole number from 1 to 65535\n  \
         kafka.truncate = \"ignore\" (walferry.toml, line 9): is not known; must be one of emit, skip\n  \
         delivery.max_in_flight = \"64Mb\" (walferry.toml, line 12): is not a size; must be a size such as \"64MiB\", in B, \
         kB, MB, GB, KiB, MiB or GiB, from 64KiB to 64GiB"
    );
}

#[test]
fn every_key_refuses_a_value_of_another_type() {
    for key in KEYS {
        let wrong: &[(&str, &str)] = match key.kind {
            Kind::Text | Kind::Secret | Kind::Choice(_) => &[
                ("7", "is an integer"),
                ("true", "is a boolean"),
                ("[\"a\"]", "is an array"),
            ],
            Kind::Bool => &[("\"yes\"", "is a string"), ("1", "is an integer")],
            Kind::Integer(..) => &[
                ("\"1\"", "is a string"),
                ("1.5", "is a float"),
                ("99999999999999999999", "is out of range"),
            ],
            Kind::Duration(..) => &[
                ("10", "has no unit"),
                ("\"10\"", "is not a duration"),
                ("10.5", "is a float"),
                ("\"99h\"", "is out of range"),
            ],
            Kind::Size(..) => &[
                ("64", "has no unit"),
                ("\"64\"", "is not a size"),
                ("\"1B\"", "is out of range"),
                ("true", "is a boolean"),
            ],
            Kind::List => &[("\"public.*\"", "is a string"), ("[1]", "has an item of another type")],
            Kind::ListOrText => &[
                ("1979-05-27", "is a date or time"),
                ("[\"a\", 1]", "has an item of another type"),
            ],
            Kind::Map => &[
                ("\"a=b\"", "is a string"),
                ("[]", "is an array"),
                ("{ a = [1] }", "has an array at \"a\""),
            ],
            Kind::Rules => &[
                ("\"a=b\"", "is a string"),
                ("[]", "is an array"),
                ("{ a = 1 }", "has an integer at \"a\""),
            ],
        };
        for (value, problem) in wrong {
            let (section, name) = key.split();
            let text = match (section, name) {
                ("", "name") => format!("name = {value}"),
                ("", _) => format!("name = \"shop\"\n{name} = {value}"),
                _ => format!("name = \"shop\"\n[{section}]\n{name} = {value}"),
            };
            let faults = faults(&text);
            assert!(
                faults
                    .iter()
                    .any(|fault| fault.starts_with(key.path) && fault.contains(problem)),
                "{text}\n{faults:#?}"
            );
        }
    }
}

#[test]
fn the_environment_lies_over_the_file() {
    let text = "name = \"shop\"\n[postgres]\nhost = \"file\"\nport = 1\n";
    let loaded = read_with(
        text,
        &[
            ("WALFERRY__POSTGRES__PORT", "5433"),
            ("WALFERRY__POSTGRES__PASSWORD", "from env"),
            ("WALFERRY__REPLICATION__TABLES", "public.a, public.b"),
            ("WALFERRY__REPLICATION__EXCLUDE_TABLES", "[\"public.\\\"a,b\\\"\"]"),
            ("WALFERRY__REPLICATION__CREATE_SLOT", "false"),
            ("WALFERRY__KAFKA__PROPERTIES", "{ \"security.protocol\" = \"ssl\" }"),
            ("WALFERRY__SHUTDOWN_TIMEOUT", "5s"),
            ("WALFERRY_CONFIG", "ignored.toml"),
            ("OTHER", "x"),
        ],
    )
    .unwrap();
    let config = loaded.config;
    assert_eq!(config.postgres.hosts, ["file"]);
    assert_eq!(config.postgres.port, 5433);
    assert_eq!(config.postgres.password, Some(Secret::new("from env")));
    assert_eq!(config.replication.tables, ["public.a", "public.b"]);
    assert_eq!(config.replication.exclude_tables, ["public.\"a,b\""]);
    assert!(!config.replication.create_slot);
    assert_eq!(config.kafka.properties, env(&[("security.protocol", "ssl")]));
    assert_eq!(config.shutdown_timeout, Duration::from_secs(5));
}

#[test]
fn a_fault_of_the_environment_names_the_variable() {
    let error = read_with(
        "name = \"shop\"",
        &[
            ("WALFERRY__POSTGRES__PASWORD", "hunter2"),
            ("WALFERRY__POSTGRES__PORT", "many"),
            ("WALFERRY__KAFKA__PROPERTIES__SASL_PASSWORD", "hunter2"),
            ("WALFERRY__KAFKA__TOPIC_CONFIG", "cleanup.policy=compact"),
        ],
    )
    .unwrap_err();
    assert_eq!(
        error.to_string(),
        "the configuration has 4 faults:\n  \
         kafka.properties.sasl_password (environment variable WALFERRY__KAFKA__PROPERTIES__SASL_PASSWORD): unknown key; \
         write the whole table: WALFERRY__KAFKA__PROPERTIES='{ \"name\" = \"value\" }'\n  \
         postgres.pasword (environment variable WALFERRY__POSTGRES__PASWORD): unknown key; \
         the nearest known one is WALFERRY__POSTGRES__PASSWORD\n  \
         postgres.port = \"many\" (environment variable WALFERRY__POSTGRES__PORT): is not a whole number; \
         must be a whole number from 1 to 65535\n  \
         kafka.topic_config (environment variable WALFERRY__KAFKA__TOPIC_CONFIG): is not an inline table in TOML; \
         must be a table of strings, such as { \"linger.ms\" = \"5\" }"
    );
}

#[test]
fn a_key_of_a_feature_that_is_not_there_is_unknown() {
    for text in ["[replication]\ntwo_phase = true", "[snapshot]\ndelay = \"1s\""] {
        assert!(
            only_fault(&format!("name = \"shop\"\n{text}")).contains("unknown key"),
            "{text}"
        );
    }
    assert_eq!(
        only_fault("name = \"shop\"\n[spool]\nmode = \"auto\""),
        "[spool] (walferry.toml, line 2): unknown section; the known ones are postgres, replication, snapshot, \
         kafka, delivery, schema_registry, avro, http, log"
    );
}

#[test]
fn a_fault_of_syntax_names_the_place_and_never_the_line() {
    let error = only_fault("name = \"shop\"\n[postgres]\npassword = \"hunter2\n");
    assert!(
        error.starts_with("walferry.toml, line 3: column 20: invalid TOML: "),
        "{error}"
    );
    assert!(!error.contains("hunter2"));
    for text in [
        "password = hunter2",
        "[postgres]\npassword = 'hunter2",
        "password = \"hunter2\" hunter2",
        "hunter2 = ",
        "a = 1\na = hunter2",
    ] {
        for fault in faults(text) {
            assert!(!fault.contains("hunter2"), "{fault}");
        }
    }
}

#[test]
fn what_excludes_something_else_names_both_and_the_cure() {
    let scratch = Scratch::new("conflicts");
    let file = scratch.file("secret", "s");
    let base = "name = \"shop\"\n";
    for (text, expected) in [
        (
            format!("[postgres]\npassword = \"hunter2\"\npassword_file = \"{file}\""),
            format!("postgres.password_file = \"{file}\" (walferry.toml, line 4): is set, and so is postgres.password; keep one of the two"),
        ),
        (
            "[schema_registry]\nusername = \"u\"\nbearer_token = \"hunter2\"".to_owned(),
            "schema_registry.username = \"u\" (walferry.toml, line 3): is set, and so is schema_registry.bearer_token; \
             keep the username for basic authentication or the token for bearer authentication"
                .to_owned(),
        ),
        (
            "[schema_registry]\npassword = \"hunter2\"".to_owned(),
            "schema_registry.username (not set): is missing, but there is a password; give both, or neither".to_owned(),
        ),
        (
            "[schema_registry]\nurl = \"http://u:hunter2@r\"\nusername = \"u\"".to_owned(),
            "schema_registry.url = \"http://<redacted>@r\" (walferry.toml, line 3): holds credentials, and there are others in \
             schema_registry.username, password or bearer_token; keep one of the two"
                .to_owned(),
        ),
        (
            "[schema_registry]\nregister = false\non_incompatible = \"register\"".to_owned(),
            "schema_registry.on_incompatible = \"register\" (walferry.toml, line 4): is register, but schema_registry.register is \
             false; set it to stop, or register to true"
                .to_owned(),
        ),
        (
            "[postgres]\nsslcert = \"/c.pem\"".to_owned(),
            "postgres.sslcert = \"/c.pem\" (walferry.toml, line 3): is set without postgres.sslkey; give both, or neither"
                .to_owned(),
        ),
        (
            "[postgres]\nsslmode = \"verify-full\"".to_owned(),
            "postgres.sslmode = \"verify-full\" (walferry.toml, line 3): needs postgres.sslrootcert to verify against; \
             set sslrootcert to a PEM file, or to \"system\""
                .to_owned(),
        ),
        (
            "[replication]\ntables = []".to_owned(),
            "replication.tables = [] (walferry.toml, line 3): is empty, but replication.create_publication needs it; \
             name tables, such as [\"public.*\"], or set create_publication = false"
                .to_owned(),
        ),
    ] {
        assert_eq!(only_fault(&format!("{base}{text}")), expected);
    }
    assert_eq!(
        only_fault("name = \"shop\"\n[postgre]\nport = 1"),
        "[postgre] (walferry.toml, line 2): unknown section; the nearest known one is [postgres]"
    );
    let weak = only_fault("name = \"shop\"\n[postgres]\nsslmode = \"require\"\nsslrootcert = \"system\"");
    assert!(weak.contains("set it to verify-full"), "{weak}");
}

#[test]
fn the_systems_certificates_mean_verify_full() {
    let postgres = config("name = \"shop\"\n[postgres]\nsslrootcert = \"system\"").postgres;
    assert_eq!(
        (postgres.sslmode, postgres.sslrootcert),
        (SslMode::VerifyFull, Some(RootCert::System))
    );
}

#[test]
fn what_cannot_be_used_is_refused_with_the_reason() {
    for (text, expected) in [
        (
            "[postgres]\nhost = \"\"",
            "postgres.host = \"\" (walferry.toml, line 3): is empty",
        ),
        (
            "[postgres]\nhost = \"postgres://u:hunter2@db/shop\"",
            "postgres.host = \"postgres://<redacted>@db/shop\"",
        ),
        ("[postgres]\nhost = \"db:5432\"", "give the port in postgres.port"),
        (
            "[postgres]\nuser = \"\"",
            "postgres.user = \"\" (walferry.toml, line 3): is empty",
        ),
        (
            "[postgres]\npassword_file = \"/nowhere/at/all\"",
            "cannot be read: No such file",
        ),
        ("[replication]\nslot = \"Shop\"", "use 1 to 63 of a-z, 0-9 and _"),
        (
            "[replication]\ntables = [\"orders\"]",
            "the pattern \"orders\" names no schema",
        ),
        (
            "[replication]\nexclude_tables = [\"a.\\\"b\"]",
            "has a double quote that is never closed",
        ),
        ("[kafka]\nbootstrap_servers = \"a,,b\"", "has an empty server"),
        (
            "[kafka]\ntopic = \"{name}.{table}\"",
            "{schema} must stand in it exactly once",
        ),
        (
            "[kafka]\ntopic = \"{schema}.{table}.{db}\"",
            "\"{db}\" is not a placeholder",
        ),
        (
            "[kafka]\ntopic = \"{schema}/{table}\"",
            "'/' may not stand in a topic's name",
        ),
        (
            "[kafka]\nreplication_factor = 0",
            "must be -1 for the broker's default, or 1 and more",
        ),
        (
            "[kafka]\nproperties.linger.ms = 5",
            "put the whole name in quotes, such as \"linger.ms\"",
        ),
        ("[schema_registry]\nurl = \"registry:8081\"", "is not a URL"),
        (
            "[schema_registry]\nurl = \"http://a:x@r1,http://r2\"",
            "has not the same credentials in every URL",
        ),
        ("[http]\nlisten = \":8080\"", "is not an address and a port"),
    ] {
        let fault = only_fault(&format!("name = \"shop\"\n{text}"));
        assert!(fault.contains(expected), "{fault}\nlacks: {expected}");
        assert!(!fault.contains("hunter2"), "{fault}");
    }
    assert!(only_fault("name = \"web shop\"").contains("use 1 to 63 of"));
    assert_eq!(
        only_fault(""),
        "name (not set): is missing; give the pipeline a name, such as name = \"shop\""
    );
    assert!(only_fault("postgres = 1\nname = \"shop\"").contains("write [postgres] and its keys below"));
}

#[test]
fn a_property_that_walferry_owns_is_refused_with_the_reason() {
    for property in [
        "enable.idempotence",
        "acks",
        "request.required.acks",
        "partitioner",
        "bootstrap.servers",
        "metadata.broker.list",
        "transactional.id",
        "message.timeout.ms",
        "delivery.timeout.ms",
        "max.in.flight",
        "max.in.flight.requests.per.connection",
        "retries",
        "message.send.max.retries",
        "queue.buffering.max.messages",
        "queue.buffering.max.kbytes",
        "enable.gapless.guarantee",
    ] {
        let fault = only_fault(&format!("name = \"shop\"\n[kafka.properties]\n\"{property}\" = \"1\""));
        assert!(fault.starts_with(&format!(
            "kafka.properties.\"{property}\" = \"1\" (walferry.toml, line 2): walferry owns"
        )));
        assert!(fault.contains("leave it out: "), "{fault}");
    }
}

const SECRETS: &str = "name = \"shop\"\n\
    [postgres]\npassword = \"hunter2\"\n\
    [kafka.properties]\n\"sasl.password\" = \"hunter2\"\n\"ssl.key.password\" = \"hunter2\"\n\"ssl.key.pem\" = \"hunter2\"\n\
    \"ssl.keystore.password\" = \"hunter2\"\n\"sasl.oauthbearer.client.secret\" = \"hunter2\"\n\
    \"sasl.oauthbearer.config\" = \"hunter2\"\n\"sasl.username\" = \"visible\"\n\
    [schema_registry]\nurl = \"https://u:hunter2@r1,https://u:hunter2@r2\"\n";

#[test]
fn no_secret_is_shown_anywhere() {
    let loaded = read(SECRETS).unwrap();
    assert_eq!(loaded.config.schema_registry.urls, ["https://r1", "https://r2"]);
    assert_eq!(loaded.config.schema_registry.password, Some(Secret::new("hunter2")));
    assert_eq!(
        loaded.config.kafka.properties.get("sasl.password").map(String::as_str),
        Some("hunter2")
    );
    let shown = loaded.to_toml();
    assert!(shown.contains("visible"));
    assert!(shown.contains("url = \"https://<redacted>@r1,https://<redacted>@r2\""));
    for text in [
        format!("{:?}", loaded.config),
        format!("{loaded:?}"),
        format!("{:#?}", loaded.config),
        shown,
    ] {
        assert!(!text.contains("hunter2"), "{text}");
        assert!(text.contains("<redacted>"));
    }
    let token = read("name = \"shop\"\n[schema_registry]\nbearer_token = \"hunter2\"").unwrap();
    assert!(!format!("{token:?}{}", token.to_toml()).contains("hunter2"));
}

#[test]
fn no_secret_is_shown_in_a_fault() {
    for text in [
        "[postgres]\npassword = [\"hunter2\"]",
        "[postgres]\npasswrod = \"hunter2\"",
        "[hunter]\npassword = \"hunter2\"",
        "[kafka]\nproperties = \"sasl.password=hunter2\"",
        "[kafka]\nproperties = { \"sasl.password\" = [\"hunter2\"] }",
        "[kafka]\nproperties = { \"sasl.password\" = \"hunter2\", \"sasl.password_file\" = \"/x\" }",
        "[schema_registry]\nurl = \"ftp://u:hunter2@r\"",
        "[schema_registry]\nurl = \"http://u:p,hunter2@r\"",
        "[schema_registry]\nurl = [\"http://u:hunter2@r\", 1]",
        "[schema_registry]\nbearer_token = 1\nurl = \"http://u:hunter2%zz@r\"",
        "[postgres]\nhost = \"host=db password=hunter2\"",
        "[kafka]\nbootstrap_servers = \"sasl://u:hunter2@k,\"",
        "[http]\nlisten = \"http://u:hunter2@h\"",
    ] {
        let text = format!("name = \"shop\"\n{text}");
        let error = read(&text).unwrap_err();
        assert!(!format!("{error} {error:?}").contains("hunter2"), "{error}");
    }
    let error = read_with(
        "name = \"shop\"",
        &[("WALFERRY__KAFKA__PROPERTIES", "{ \"sasl.password\" = hunter2 }")],
    )
    .unwrap_err();
    assert!(!format!("{error} {error:?}").contains("hunter2"), "{error}");
}

#[test]
fn the_effective_configuration_loads_again() {
    let scratch = Scratch::new("effective");
    let file = scratch.file("kafka", "k secret\r\n");
    let text = format!(
        "{SECRETS}register = false\n[delivery]\nmax_in_flight = \"100MB\"\n[replication]\n\
         tables = ['public.\"A.b\"', 'x.*']\n[log]\nlevel = \"warn\"\n"
    );
    let loaded = read(&text).unwrap();
    let shown = loaded.to_toml();
    let again = read(&shown).unwrap();
    assert_eq!(again.to_toml(), shown);
    assert_eq!(again.config.replication, loaded.config.replication);
    assert_eq!(again.config.delivery, loaded.config.delivery);
    assert_eq!(again.config.postgres.password, Some(Secret::new("<redacted>")));

    let text = format!("name = \"shop\"\n[kafka]\nproperties = {{ \"sasl.password_file\" = \"{file}\" }}");
    let loaded = read(&text).unwrap();
    assert_eq!(loaded.config.kafka.properties, env(&[("sasl.password", "k secret")]));
    assert!(
        loaded
            .to_toml()
            .contains(&format!("properties = {{ \"sasl.password_file\" = \"{file}\" }}"))
    );
    assert_eq!(read(&loaded.to_toml()).unwrap().config, loaded.config);
}

#[test]
fn the_example_in_the_repository_is_the_reference_and_loads_as_the_defaults() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("config/example.toml");
    let written = fs::read_to_string(path).unwrap();
    assert_eq!(
        written,
        example(),
        "write it anew: walferry config example > config/example.toml"
    );
    assert_eq!(config(&written), config("name = \"shop\""));
    for key in KEYS {
        assert!(written.contains(&format!("\n{} = ", key.split().1)), "{}", key.path);
    }
    assert!(written.lines().all(|line| line.chars().count() <= 120));
}

#[test]
fn a_password_file_of_libpq_is_asked_when_nothing_else_is_given() {
    use std::os::unix::fs::PermissionsExt;
    let scratch = Scratch::new("pgpass");
    let file = scratch.file(".pgpass", "db:5432:shop:walferry:from file\n");
    let home = scratch.0.to_str().unwrap();
    let text = "name = \"shop\"\n[postgres]\nhost = \"db\"\n";

    let loaded = read_with(text, &[("PGPASSFILE", &file)]).unwrap();
    assert_eq!(loaded.config.postgres.password, None);
    assert_eq!(
        loaded.warnings,
        [format!(
            "the password file {file} is ignored: group or others may use it; chmod 0600 it"
        )]
    );

    fs::set_permissions(&file, fs::Permissions::from_mode(0o600)).unwrap();
    for variables in [[("PGPASSFILE", file.as_str())], [("HOME", home)]] {
        let loaded = read_with(text, &variables).unwrap();
        assert_eq!(loaded.config.postgres.password, Some(Secret::new("from file")));
        assert_eq!(loaded.warnings, Vec::<String>::new());
        assert!(loaded.to_toml().contains("password = \"\"\n"));
    }
    let given = read_with(&format!("{text}password = \"given\""), &[("PGPASSFILE", &file)]).unwrap();
    assert_eq!(given.config.postgres.password, Some(Secret::new("given")));
    let missing = read_with(text, &[("PGPASSFILE", "/nowhere/at/all")]).unwrap();
    assert_eq!(missing.warnings.len(), 1);
}

#[test]
fn the_file_is_found_by_argument_then_variable() {
    let scratch = Scratch::new("files");
    let first = scratch.file("first.toml", "name = \"first\"");
    let second = scratch.file("second.toml", "\u{feff}name = \"second\"");
    let variables = env(&[("WALFERRY_CONFIG", &second)]);
    assert_eq!(load(Some(Path::new(&first)), &variables).unwrap().config.name, "first");
    let loaded = load(None, &variables).unwrap();
    assert_eq!(
        (loaded.config.name.as_str(), loaded.path),
        ("second", Some(PathBuf::from(second)))
    );
    let error = load(Some(Path::new("/nowhere/at.toml")), &variables)
        .unwrap_err()
        .to_string();
    assert!(
        error.contains("/nowhere/at.toml") && error.contains("cannot be read: No such file"),
        "{error}"
    );
    let alone = load(None, &env(&[("WALFERRY__NAME", "alone")])).unwrap();
    assert_eq!((alone.config.name.as_str(), alone.path), ("alone", None));
    let nothing = load(None, &Env::new()).unwrap_err().to_string();
    assert!(nothing.contains("there is no configuration file at walferry.toml or /etc/walferry/walferry.toml"));
    fs::write(&first, b"name = \"\xff\"").unwrap();
    let error = load(Some(Path::new(&first)), &variables).unwrap_err().to_string();
    assert!(error.contains("not valid UTF-8 after byte 8"), "{error}");
}

/// Texts that are often nearly a configuration.
fn nearly_toml() -> impl proptest::strategy::Strategy<Value = String> {
    use proptest::prelude::*;
    let key = prop_oneof![
        proptest::sample::select(KEYS).prop_map(|key| key.split().1.to_owned()),
        proptest::sample::select(KEYS).prop_map(|key| key.path.to_owned()),
        "[a-z.\"]{1,8}",
    ];
    let value = prop_oneof![
        Just("\"\"".to_owned()),
        "\"[^\"\\\\\n]{0,20}\"",
        "-?[0-9]{1,22}",
        "[0-9]{1,20}(ms|s|m|h|MiB|GiB)".prop_map(|text| format!("\"{text}\"")),
        "\\{ \"[a-z._]{1,12}\" = \"[a-z/{}]{0,6}\" \\}",
        "\\[(\"[a-z.*\"]{0,6}\",?){0,3}\\]",
        "\\PC{0,12}",
    ];
    let line = prop_oneof![
        (key, value).prop_map(|(key, value)| format!("{key} = {value}")),
        proptest::sample::select(keys::SECTIONS).prop_map(|(section, _)| format!("[{section}]")),
        "\\PC{0,20}",
    ];
    proptest::collection::vec(line, 0..12).prop_map(|lines| lines.join("\n"))
}

proptest::proptest! {
    #[test]
    fn no_text_panics(text in "\\PC*|[\\x00-\\x7f]{0,200}") {
        let _ = read(&text);
    }

    #[test]
    fn nothing_that_is_nearly_a_configuration_panics_and_what_loads_is_shown_and_loads_again(text in nearly_toml()) {
        if let Ok(loaded) = read(&format!("name = \"shop\"\n{text}")) {
            let shown = loaded.to_toml();
            let again = read(&shown);
            proptest::prop_assert!(again.is_ok(), "{}\n{}", shown, again.unwrap_err());
            proptest::prop_assert_eq!(again.unwrap().to_toml(), shown);
        }
    }

    #[test]
    fn no_environment_panics(key in proptest::sample::select(KEYS), value in "\\PC{0,40}") {
        let _ = read_with("name = \"shop\"", &[(&key.variable(), &value)]);
    }
}
