//! Column rules: what they leave out, mask, print and cut, in both formats; where they are refused.

use crate::harness::{Config, Database, Exit, Kafka, Postgres, Record, Walferry, read_records};
use crate::workload::pipeline;
use serde_json::json;
use std::time::Duration;

const SOON: Duration = Duration::from_secs(30);

/// A value that no rule may let through.
const SECRET: &str = "hunter2";

/// Text, and binary where the server has it.
fn formats(version: u32) -> &'static [&'static str] {
    if version >= 14 { &["text", "binary"] } else { &["text"] }
}

fn config(database: &Database<'_>, kafka: &Kafka, format: &str, rules: &str) -> Config {
    Config::new(&pipeline(), database, kafka)
        .text("replication.format", format)
        .text("log.level", "trace")
        .set("avro.columns", rules)
}

/// Runs the pipeline over these statements, each its own transaction, until all is confirmed; all that it logged.
async fn publish(database: &Database<'_>, config: &Config, statements: &[&str]) -> Exit {
    let mut walferry = Walferry::start(config);
    walferry.ready(SOON).await;
    for sql in statements {
        database.execute(sql).await;
    }
    database.confirmed(walferry.slot(), SOON, || walferry.log()).await;
    let status = walferry.status().await.to_string();
    assert!(!status.contains(SECRET), "{status}");
    let exit = walferry.terminate(SOON).await;
    assert_eq!(exit.code, Some(0), "{}", exit.stderr);
    exit
}

/// No byte of any record, and no line of the log, has it.
#[track_caller]
fn nothing_has(secret: &str, records: &[Record], exit: &Exit) {
    let hexadecimal: String = secret.bytes().map(|byte| format!("{byte:02x}")).collect();
    for record in records {
        let shown = format!("{record:?}");
        assert!(!shown.contains(secret), "{shown}");
        assert!(
            !record.avro.as_deref().unwrap_or_default().contains(&hexadecimal),
            "{shown}"
        );
    }
    assert!(!exit.stderr.contains(secret), "{}", exit.stderr);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_column_under_a_rule_is_what_the_rule_makes_of_it_in_both_formats() {
    for version in [11, 14, 18] {
        for format in formats(version) {
            let (postgres, kafka) = (Postgres::shared(version), Kafka::shared());
            let database = postgres.database().await;
            database
                .execute(
                    "CREATE TABLE users (gone text, id int PRIMARY KEY, email text, name text, born date, amount numeric(10,2), \
                     seen timestamp, notes jsonb, big text); ALTER TABLE users ALTER big SET STORAGE EXTERNAL",
                )
                .await;
            let rules = "{ 'public.users.gone' = { exclude = true }, \
                           'public.users.email' = { mask = \"sha256\", salt = \"pepper\" }, \
                           'public.users.name' = { truncate = 3 }, \
                           'public.users.born' = { mask = \"fixed\", with = \"***\" }, \
                           'public.u*.amount' = { type = \"string\" }, \
                           'public.u*.seen' = { type = \"string\" }, \
                           'public.users.big' = { mask = \"sha256\", salt = \"pepper\" }, \
                           '*.*.notes' = { type = \"string\", truncate = 6 } }";
            let config = config(&database, &kafka, format, rules).text("avro.envelope", "row");
            let exit = publish(
                &database,
                &config,
                &[
                    "INSERT INTO users VALUES ('hunter2', 1, 'hunter2', 'größehunter2', '2000-01-01', 'NaN', \
                     '294276-12-31 23:59:59', '{\"a\": \"hunter2\"}', repeat('hunter2', 3000))",
                    "INSERT INTO users VALUES (NULL, 2, NULL, NULL, NULL, NULL, NULL, NULL, NULL)",
                    "UPDATE users SET gone = 'hunter2', name = 'ö' WHERE id = 1",
                ],
            )
            .await;
            let topic = format!("{}.public.users", config.name());
            let records = read_records(&kafka.address, std::slice::from_ref(&topic)).await;
            nothing_has(SECRET, &records, &exit);
            // printf pepperhunter2 | sha256sum; the same of 3000 times hunter2.
            let email = "ca458f67a1e64e60f40414c062c57abbfc1d41b5d0c30cd07d12704540067f21";
            let big = "794625d1bd1cc6bf92e313f57978405aa2fd4bfc7d77694631477cebb3673ad1";
            let row = |name: &str, big: Option<&str>| {
                json!({
                    "id": "1", "email": email, "name": name, "born": "***", "amount": "NaN",
                    "seen": "294276-12-31 23:59:59", "notes": "{\"a\": ", "big": big,
                })
            };
            let nothing = json!({
                "id": "2", "email": null, "name": null, "born": null, "amount": null, "seen": null, "notes": null, "big": null,
            });
            let found: Vec<_> = records.iter().map(|record| record.value.clone().unwrap()).collect();
            assert_eq!(
                found,
                [row("grö", Some(big)), nothing, row("ö", None)],
                "Postgres {version}, {format}"
            );
            assert_eq!(records[2].headers["walferry.unchanged"], "[\"big\"]");
            let fields: Vec<String> = records[0].schema.as_ref().unwrap()["fields"]
                .as_array()
                .unwrap()
                .iter()
                .map(|field| format!("{}: {}", field["name"].as_str().unwrap(), field["type"]))
                .collect();
            assert_eq!(
                fields,
                [
                    "id: \"int\"",
                    "email: [\"null\",\"string\"]",
                    "name: [\"null\",\"string\"]",
                    "born: [\"null\",\"string\"]",
                    "amount: [\"null\",\"string\"]",
                    "seen: [\"null\",\"string\"]",
                    "notes: [\"null\",\"string\"]",
                    "big: [\"null\",\"string\"]",
                ]
            );
            // The whole of the second record: its id, and a null for each other column.
            assert_eq!(records[1].avro.as_deref(), Some("0400000000000000"), "{format}");
            if version >= 11 {
                let hash =
                    "SELECT encode(sha256(convert_to('pepper' || email, 'UTF8')), 'hex') FROM users WHERE id = 1";
                assert_eq!(database.value(hash).await.as_deref(), Some(email));
            }
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_old_row_is_under_the_rules_too() {
    for format in formats(18) {
        let (postgres, kafka) = (Postgres::shared(18), Kafka::shared());
        let database = postgres.database().await;
        database
            .execute(
                "CREATE TABLE t (id int PRIMARY KEY, gone text, masked text, big text); ALTER TABLE t REPLICA IDENTITY FULL; \
                 ALTER TABLE t ALTER big SET STORAGE EXTERNAL",
            )
            .await;
        let rules = "{ 'public.t.gone' = { exclude = true }, 'public.t.masked' = { mask = \"fixed\", with = \"x\" }, \
                       'public.t.big' = { truncate = 2 } }";
        let config = config(&database, &kafka, format, rules);
        let exit = publish(
            &database,
            &config,
            &[
                "INSERT INTO t VALUES (1, 'hunter2', 'hunter2', repeat('hunter2', 3000))",
                "UPDATE t SET masked = NULL",
                "DELETE FROM t",
            ],
        )
        .await;
        let topic = format!("{}.public.t", config.name());
        let records = read_records(&kafka.address, std::slice::from_ref(&topic)).await;
        nothing_has(SECRET, &records, &exit);
        let rows: Vec<_> = records
            .iter()
            .filter_map(|record| record.value.as_ref())
            .map(|value| {
                (
                    value["before"].clone(),
                    value["after"].clone(),
                    value["unchanged"].clone(),
                )
            })
            .collect();
        let row = |masked: Option<&str>| json!({ "id": 1, "masked": masked, "big": "hu" });
        assert_eq!(
            rows,
            [
                (json!(null), row(Some("x")), json!([])),
                (row(Some("x")), row(None), json!([])),
                (row(None), json!(null), json!([])),
            ],
            "{format}"
        );
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn rules_hold_in_debeziums_types_and_a_default_is_not_seen_either() {
    for format in formats(18) {
        let (postgres, kafka) = (Postgres::shared(18), Kafka::shared());
        let database = postgres.database().await;
        database
            .execute(
                "CREATE TABLE t (id int PRIMARY KEY, gone text NOT NULL DEFAULT 'hunter2', masked text NOT NULL DEFAULT 'hunter2', \
                 born date, n int); ALTER TABLE t REPLICA IDENTITY FULL",
            )
            .await;
        let rules = "{ 'public.t.gone' = { exclude = true }, 'public.t.masked' = { mask = \"fixed\", with = \"x\" }, \
                       'public.t.born' = { type = \"string\" } }";
        let config = config(&database, &kafka, format, rules).text("avro.types", "debezium");
        let exit = publish(
            &database,
            &config,
            &[
                "INSERT INTO t (id, born) VALUES (1, '2024-02-29')",
                "UPDATE t SET n = 2",
                "DELETE FROM t",
            ],
        )
        .await;
        let topic = format!("{}.public.t", config.name());
        let records = read_records(&kafka.address, std::slice::from_ref(&topic)).await;
        nothing_has(SECRET, &records, &exit);
        let rows: Vec<_> = records
            .iter()
            .filter_map(|record| record.value.as_ref())
            .map(|value| (value["before"].clone(), value["after"].clone()))
            .collect();
        let row = |n: Option<i32>| json!({ "id": 1, "masked": "x", "born": "2024-02-29", "n": n });
        assert_eq!(
            rows,
            [
                (json!(null), row(None)),
                (row(None), row(Some(2))),
                (row(Some(2)), json!(null))
            ],
            "{format}"
        );
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_dead_letter_has_nothing_of_what_a_rule_hides() {
    for format in formats(18) {
        let (postgres, kafka) = (Postgres::shared(18), Kafka::shared());
        let database = postgres.database().await;
        database
            .execute(
                "CREATE TABLE t (name text PRIMARY KEY, gone text, masked text, cut text, kept text, n numeric(10,2)); \
                 ALTER TABLE t REPLICA IDENTITY FULL",
            )
            .await;
        let rules = "{ 'public.t.gone' = { exclude = true }, 'public.t.masked' = { mask = \"fixed\", with = \"x\" }, \
                       'public.t.cut' = { truncate = 2 }, 'public.t.name' = { mask = \"sha256\", salt = \"pepper\" }, \
                       'public.t.kept' = { type = \"string\" } }";
        let config = config(&database, &kafka, format, rules).text("delivery.on_bad_row", "dead-letter");
        let exit = publish(
            &database,
            &config,
            &[
                "INSERT INTO t VALUES ('hunter2', 'hunter2', 'hunter2', 'hunter2', 'visible', 'NaN')",
                "UPDATE t SET masked = 'hunter2 too'",
                "DELETE FROM t",
            ],
        )
        .await;
        let topic = format!("{}.dead-letter", config.name());
        let letters = read_records(&kafka.address, std::slice::from_ref(&topic)).await;
        assert_eq!(letters.len(), 3, "{format}");
        nothing_has(SECRET, &letters, &exit);
        let visible: String = "visible".bytes().map(|byte| format!("{byte:02x}")).collect();
        for letter in &letters {
            assert!(letter.avro.as_ref().unwrap().contains(&visible), "{letter:?}");
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_masked_key_stays_a_working_key() {
    // printf pepperada | sha256sum, printf peppergrace | sha256sum
    let (ada, grace) = (
        "d4c84e6cc66d90fd098be9436cdad8d9de3099bddd5f2298e98e10d7b9ff1672",
        "0be78096e050adcee6addf74e8f956a92aa13e46cd8c3fb1433c53fda13442ff",
    );
    let mut bytes = Vec::new();
    for format in formats(17) {
        let (postgres, kafka) = (Postgres::shared(17), Kafka::shared());
        let database = postgres.database().await;
        database
            .execute("CREATE TABLE t (v int, name text, n int, PRIMARY KEY (name, n))")
            .await;
        let rules = "{ 'public.t.name' = { mask = \"sha256\", salt = \"pepper\" } }";
        let config = config(&database, &kafka, format, rules).text("avro.envelope", "row");
        let exit = publish(
            &database,
            &config,
            &[
                "INSERT INTO t VALUES (1, 'ada', 1)",
                "UPDATE t SET v = 2",
                "UPDATE t SET name = 'grace'",
                "DELETE FROM t",
            ],
        )
        .await;
        let topic = format!("{}.public.t", config.name());
        let records = read_records(&kafka.address, std::slice::from_ref(&topic)).await;
        nothing_has("grace", &records, &exit);
        let found: Vec<_> = records
            .iter()
            .map(|record| {
                let key = record.key.as_ref().unwrap();
                let name = record.value.as_ref().map(|value| value["name"].as_str().unwrap());
                (
                    record.headers["walferry.op"].as_str(),
                    key["name"].as_deref().unwrap(),
                    key["n"].as_deref().unwrap(),
                    name,
                )
            })
            .collect();
        assert_eq!(
            found,
            [
                ("c", ada, "1", Some(ada)),
                ("u", ada, "1", Some(ada)),
                ("d", ada, "1", None),
                ("c", grace, "1", Some(grace)),
                ("d", grace, "1", None),
            ],
            "{format}"
        );
        bytes.push(records.iter().map(|record| record.avro.clone()).collect::<Vec<_>>());
    }
    assert_eq!(bytes[0], bytes[1], "text and binary give the same bytes");
}

/// Values of every type that is printed, and one of each that is not.
const TYPES: &[(&str, &[&str])] = &[
    ("bool", &["t", "f"]),
    ("int2", &["-32768", "7"]),
    ("int4", &["2147483647"]),
    ("int8", &["-9223372036854775808"]),
    ("oid", &["4294967295"]),
    ("xid8", &["18446744073709551615"]),
    ("float4", &["0.1", "-0", "NaN", "Infinity", "1e-40", "16777216"]),
    (
        "float8",
        &["0.1", "-0", "NaN", "-Infinity", "1e22", "1e-7", "123456789012345680"],
    ),
    (
        "numeric",
        &["NaN", "Infinity", "-0.00", "1e-20", "123456789012345678901234567890.5"],
    ),
    ("numeric(10,2)", &["NaN", "-0.01", "99999999.99"]),
    ("text", &["", "größe", "a\\b\"c"]),
    ("varchar(9)", &["x "]),
    ("char(5)", &["x"]),
    ("name", &["n"]),
    ("\"char\"", &["x", "\\344"]),
    ("json", &["{\"a\":1,  \"a\":2}"]),
    ("jsonb", &["{\"b\": [1, null], \"a\": 1.50}"]),
    ("xml", &["<a/>"]),
    ("bytea", &["\\x", "\\xdeadbeef"]),
    ("uuid", &["a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11"]),
    (
        "date",
        &["infinity", "-infinity", "4713-01-01 BC", "10000-01-01", "1582-10-14"],
    ),
    ("time", &["24:00:00", "00:00:00.000001"]),
    ("timetz", &["12:34:56.5+02", "00:00:00-15:59"]),
    (
        "timestamp",
        &["infinity", "294276-12-31 23:59:59.999999", "4713-01-01 00:00:00 BC"],
    ),
    (
        "timestamptz",
        &["-infinity", "1969-12-31 23:59:59.999999+00", "294276-12-31 23:59:59+00"],
    ),
    ("interval", &["P1Y2M-3DT-4H5M6.7S", "PT0S", "P-1Y-1M"]),
    ("inet", &["10.0.0.1", "10.0.0.0/8", "::1"]),
    ("cidr", &["10.0.0.0/8"]),
    ("macaddr", &["08:00:2b:01:02:03"]),
    ("bit(9)", &["101000001"]),
    ("varbit", &["", "1"]),
    ("point", &["(1,2.5)"]),
    ("tsvector", &["'a':1A 'b''c'"]),
    ("tsquery", &["'a' & !'b'"]),
    ("pg_lsn", &["16/374D848"]),
    ("int4range", &["[1,5)", "empty"]),
    ("tstzrange", &["[\"2024-01-01 00:00:00+00\",infinity)"]),
    ("nummultirange", &["{[1.5,2),[3,)}"]),
    ("tid", &["(5,6)"]),
];

#[tokio::test(flavor = "multi_thread")]
async fn a_hash_is_that_of_the_text_that_postgres_prints_for_every_type_that_has_one_in_both_formats() {
    for version in [14, 18] {
        for format in formats(version) {
            let (postgres, kafka) = (Postgres::shared(version), Kafka::shared());
            let database = postgres.database().await;
            let columns: Vec<String> = TYPES
                .iter()
                .enumerate()
                .map(|(index, (ty, _))| format!("c{index} {ty}"))
                .collect();
            database
                .execute(&format!("CREATE TABLE t (id int PRIMARY KEY, {})", columns.join(", ")))
                .await;
            let rules = "{ 'public.t.c*' = { mask = \"sha256\", salt = \"pepper\" } }";
            let config = config(&database, &kafka, format, rules).text("avro.envelope", "row");
            let mut statements = Vec::new();
            for (index, (_, values)) in TYPES.iter().enumerate() {
                for value in *values {
                    let id = statements.len();
                    let quoted = value.replace('\'', "''");
                    statements.push(format!("INSERT INTO t (id, c{index}) VALUES ({id}, '{quoted}')"));
                }
            }
            let statements: Vec<&str> = statements.iter().map(String::as_str).collect();
            publish(&database, &config, &statements).await;
            let topic = format!("{}.public.t", config.name());
            let records = read_records(&kafka.address, std::slice::from_ref(&topic)).await;
            assert_eq!(records.len(), statements.len());
            let hashes: Vec<String> = (0..TYPES.len())
                .map(|index| {
                    format!("encode(sha256(convert_to('pepper' || format('%s', c{index}), 'UTF8')), 'hex') AS c{index}")
                })
                .collect();
            let shown: Vec<String> = (0..TYPES.len())
                .map(|index| format!("c{index}::text AS t{index}"))
                .collect();
            let sql = format!(
                "SELECT id, {}, {} FROM t ORDER BY id",
                hashes.join(", "),
                shown.join(", ")
            );
            for (expected, record) in database.rows(&sql).await.iter().zip(&records) {
                for (index, (ty, _)) in TYPES.iter().enumerate() {
                    let expected_hash = match &expected[&format!("t{index}")] {
                        Some(_) => expected[&format!("c{index}")].as_deref(),
                        None => None,
                    };
                    assert_eq!(
                        record.column(&format!("c{index}")),
                        expected_hash,
                        "Postgres {version}, {format}, {ty}: {:?}",
                        expected[&format!("t{index}")]
                    );
                }
            }
        }
    }
}

// --- refused --------------------------------------------------------------------------------------------------------------

async fn refused(config: &Config, command: &str, words: &[&str]) {
    let exit = Walferry::to_end(config, command, SOON).await;
    assert_eq!(exit.code, Some(1), "{}{}", exit.stdout, exit.stderr);
    let said = format!("{}{}", exit.stdout, exit.stderr).to_lowercase();
    for word in words {
        assert!(said.contains(&word.to_lowercase()), "no {word:?} in:\n{said}");
    }
    assert!(!said.contains("sesame"), "{said}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_rule_that_does_not_fit_the_tables_is_refused_at_the_start_and_told_by_check() {
    let (postgres, kafka) = (Postgres::shared(16), Kafka::shared());
    let database = postgres.database().await;
    database
        .execute("CREATE TABLE t (id int PRIMARY KEY, a text, b int, m money, tags text[])")
        .await;
    for (rules, format, words) in [
        (
            "{ 'public.t.nothing' = { exclude = true }, '*.*.b' = { truncate = 2 } }",
            "text",
            &[
                "public.t.nothing",
                "covers no column",
                "*.*.b",
                "only text can be truncated",
            ][..],
        ),
        (
            "{ '*.*.id' = { exclude = true } }",
            "text",
            &["*.*.id", "public.t", "part of the key", "sha256"],
        ),
        (
            "{ 'public.t.id' = { mask = \"fixed\", with = \"x\" } }",
            "text",
            &["public.t.id", "part of the key", "sha256"],
        ),
        (
            "{ 'public.*.a' = { exclude = true }, 'public.t.?' = { mask = \"sha256\", salt = \"sesame\" } }",
            "text",
            &["public.*.a", "public.t.?", "differ"],
        ),
        (
            "{ 'public.t.tags' = { mask = \"sha256\", salt = \"sesame\" } }",
            "binary",
            &["public.t.tags", "binary form", "format = \"text\""],
        ),
    ] {
        for command in ["check", "run"] {
            refused(&config(&database, &kafka, format, rules), command, words).await;
        }
    }
    // Before anything was made.
    assert!(
        !database
            .is("EXISTS (SELECT FROM pg_replication_slots WHERE database = current_database())")
            .await
    );
    let fitting = "{ 'public.t.m' = { exclude = true }, 'public.t.tags' = { exclude = true }, \
                     'public.t.gone' = { exclude = true, required = false } }";
    let exit = Walferry::to_end(&config(&database, &kafka, "binary", fitting), "check", SOON).await;
    assert_eq!(exit.code, Some(0), "{}{}", exit.stdout, exit.stderr);
    assert!(exit.stdout.contains("column rules"), "{}", exit.stdout);
    assert!(exit.stdout.contains("3, which fit"), "{}", exit.stdout);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_table_that_comes_later_is_judged_when_it_is_described() {
    let (postgres, kafka) = (Postgres::shared(15), Kafka::shared());
    let database = postgres.database().await;
    let rules = "{ '*.*.a' = { exclude = true } }";
    let config = config(&database, &kafka, "text", rules);
    let name = config.name();
    database
        .execute(&format!(
            "CREATE TABLE t (id int PRIMARY KEY, a text); CREATE TABLE later (a int PRIMARY KEY); \
             CREATE PUBLICATION {name} FOR TABLE t"
        ))
        .await;
    let mut walferry = Walferry::start(&config);
    walferry.ready(SOON).await;
    database
        .execute(&format!("ALTER PUBLICATION {name} ADD TABLE later"))
        .await;
    database.execute("INSERT INTO later VALUES (1)").await;
    let exit = walferry.end(SOON).await;
    assert_eq!(exit.code, Some(1), "{}", exit.stderr);
    exit.says(&["*.*.a", "public.later", "part of the key", "sha256"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_hidden_column_that_is_renamed_is_not_seen() {
    for (rename, now) in [
        ("ALTER TABLE t RENAME secret TO mail", "public.t.mail"),
        ("ALTER TABLE t RENAME TO u", "public.u.secret"),
    ] {
        let (postgres, kafka) = (Postgres::shared(16), Kafka::shared());
        let database = postgres.database().await;
        database
            .execute("CREATE TABLE t (id int PRIMARY KEY, secret text, n int)")
            .await;
        let config = config(&database, &kafka, "text", "{ 'public.t.secret' = { exclude = true } }");
        let mut walferry = Walferry::start(&config);
        walferry.ready(SOON).await;
        database.execute("INSERT INTO t VALUES (1, 'hunter2', 1)").await;
        let table = now.rsplit_once('.').unwrap().0;
        database.execute(rename).await;
        database
            .execute(&format!("INSERT INTO {table} VALUES (2, 'hunter2', 2)"))
            .await;
        let exit = walferry.end(SOON).await;
        assert_eq!(exit.code, Some(1), "{}", exit.stderr);
        exit.says(&["public.t.secret", now, "no rule covers", "exclude = false"]);
        // Also when it starts again from before the rename: the start finds a rule that covers nothing.
        refused(
            &config,
            "run",
            &["public.t.secret", "covers no column", "required = false"],
        )
        .await;

        let rules =
            format!("{{ 'public.t.secret' = {{ exclude = true, required = false }}, '{now}' = {{ exclude = true }} }}");
        let config = config.set("avro.columns", &rules);
        let mut walferry = Walferry::start(&config);
        walferry.ready(SOON).await;
        database.confirmed(walferry.slot(), SOON, || walferry.log()).await;
        let exit = walferry.terminate(SOON).await;
        let mut topics = vec![format!("{}.public.t", config.name())];
        if table != "public.t" {
            topics.push(format!("{}.{table}", config.name()));
        }
        let records = read_records(&kafka.address, &topics).await;
        assert_eq!(records.len(), 2);
        nothing_has(SECRET, &records, &exit);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_salt_from_a_file_gives_the_same_mask_and_is_never_shown() {
    let (postgres, kafka) = (Postgres::shared(16), Kafka::shared());
    let database = postgres.database().await;
    database.execute("CREATE TABLE t (id int PRIMARY KEY, a text)").await;
    let file = std::env::temp_dir().join(format!("{}-salt", pipeline()));
    std::fs::write(&file, "sesame\n").unwrap();
    let mut masks = Vec::new();
    for salt in [
        "salt = \"sesame\"".to_owned(),
        format!("salt_file = '{}'", file.display()),
    ] {
        let rules = format!("{{ 'public.t.a' = {{ mask = \"sha256\", {salt} }} }}");
        let config = config(&database, &kafka, "text", &rules).text("avro.envelope", "row");
        let exit = publish(&database, &config, &["INSERT INTO t VALUES (1, 'x')", "DELETE FROM t"]).await;
        assert!(!exit.stderr.contains("sesame"), "{}", exit.stderr);
        let topic = format!("{}.public.t", config.name());
        let records = read_records(&kafka.address, std::slice::from_ref(&topic)).await;
        masks.push(records[0].column("a").unwrap().to_owned());
    }
    std::fs::remove_file(&file).unwrap();
    // printf sesamex | sha256sum
    assert_eq!(
        masks,
        [
            "f7c2420f74789fe8ad9cd04c2456d8a1239e8eb81e6b85bf48a210f8def6a967",
            "f7c2420f74789fe8ad9cd04c2456d8a1239e8eb81e6b85bf48a210f8def6a967"
        ]
    );
}
