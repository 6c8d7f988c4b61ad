//! `walferry schema`, `tail` and `demo`: what they print is what `run` registers and publishes. What `check` and `snapshot` say.

use crate::harness::{Config, Database, Env, Exit, Kafka, Postgres, Registry, Walferry, eventually, http};
use crate::workload::pipeline;
use serde_json::{Value, json};
use std::collections::BTreeSet;
use std::process::{Command, Stdio};
use std::time::Duration;

const SOON: Duration = Duration::from_secs(30);

// --- schema -----------------------------------------------------------------------------------------------------------

async fn command(config: &Config, command: &str, code: i32) -> Exit {
    let exit = Walferry::to_end(config, command, SOON).await;
    assert_eq!(exit.code, Some(code), "{command}\n{}{}", exit.stdout, exit.stderr);
    exit
}

/// Subject, text and standing of every schema that is printed.
async fn printed(config: &Config, arguments: &str, code: i32) -> Vec<(String, String, Value)> {
    let exit = command(config, &format!("schema --json {arguments}"), code).await;
    let tables: Vec<Value> = serde_json::from_str(&exit.stdout).unwrap();
    let subjects = tables.iter().flat_map(|table| [&table["key"], &table["value"]]);
    subjects
        .filter(|subject| !subject.is_null())
        .map(|subject| {
            let text = |name: &str| subject[name].as_str().unwrap().to_owned();
            (text("subject"), text("schema"), subject["registry"].clone())
        })
        .collect()
}

/// The text of the latest schema of a subject, as the registry was given it.
async fn latest(subject: &str) -> String {
    let url = format!("{}/subjects/{subject}/versions/latest", Registry::shared().url);
    let (status, answer) = http("GET", &url, None).await.unwrap();
    assert_eq!(status, 200, "{subject}: {answer}");
    let answer: Value = serde_json::from_str(&answer).unwrap();
    answer["schema"].as_str().unwrap().to_owned()
}

/// Tables of many shapes, and a row for each.
fn shapes(version: u32) -> (String, Vec<&'static str>) {
    let mut sql = "CREATE TYPE mood AS ENUM ('well', 'ill'); CREATE TYPE home AS (street text, no int); \
        CREATE DOMAIN price AS numeric(12,2); \
        CREATE TABLE plain (id int PRIMARY KEY, \"größe\" mood, home home, homes home[], price price, at timestamptz(3)); \
        ALTER TABLE plain ADD COLUMN gone text; ALTER TABLE plain DROP COLUMN gone; ALTER TABLE plain ADD COLUMN late bit(3); \
        CREATE TABLE keyed (a int, v text, b text, PRIMARY KEY (b, a)); \
        CREATE TABLE by_full (a int, v text, b varchar(9), PRIMARY KEY (b, a)); ALTER TABLE by_full REPLICA IDENTITY FULL; \
        CREATE TABLE keyless (a int, v text); ALTER TABLE keyless REPLICA IDENTITY FULL; \
        CREATE TABLE by_index (id int PRIMARY KEY, code text NOT NULL); \
        CREATE UNIQUE INDEX by_index_code ON by_index (code); ALTER TABLE by_index REPLICA IDENTITY USING INDEX by_index_code;"
        .to_owned();
    let mut rows = vec![
        "INSERT INTO plain (id) VALUES (1)",
        "INSERT INTO keyed VALUES (1, 'v', 'b')",
        "INSERT INTO by_full VALUES (1, 'v', 'b')",
        "INSERT INTO keyless VALUES (1, 'v')",
        "INSERT INTO by_index VALUES (1, 'c')",
    ];
    if version >= 11 {
        sql += "CREATE TABLE covered (id int NOT NULL, code text NOT NULL, extra text NOT NULL); \
            CREATE UNIQUE INDEX covered_code ON covered (code) INCLUDE (extra); \
            ALTER TABLE covered REPLICA IDENTITY USING INDEX covered_code;";
        rows.push("INSERT INTO covered VALUES (1, 'c', 'x')");
        sql += "CREATE TABLE parted (id int, part int, v text, PRIMARY KEY (id, part)) PARTITION BY LIST (part); \
            CREATE TABLE parted_1 (v text, part int NOT NULL, id int NOT NULL); \
            ALTER TABLE parted ATTACH PARTITION parted_1 FOR VALUES IN (1);";
        rows.push("INSERT INTO parted VALUES (1, 1, 'v')");
    }
    if version >= 12 {
        sql += "CREATE TABLE generated (id int PRIMARY KEY, twice int GENERATED ALWAYS AS (id * 2) STORED, v text);";
        rows.push("INSERT INTO generated (id) VALUES (1)");
    }
    (sql, rows)
}

/// What `schema` prints beforehand is, byte for byte, what `run` then registers, and nothing else is.
async fn prints_what_run_registers(database: &Database<'_>, config: &Config, rows: &[&str]) {
    let before = printed(config, "", 0).await;
    assert!(
        before
            .iter()
            .all(|(_, _, standing)| *standing == json!({ "state": "new" })),
        "{before:#?}"
    );
    let mut walferry = Walferry::start(config);
    walferry.ready(SOON).await;
    for row in rows {
        database.execute(row).await;
    }
    database.confirmed(&config.name(), SOON, || walferry.log()).await;
    assert_eq!(walferry.terminate(SOON).await.code, Some(0));
    for (subject, schema, _) in &before {
        assert_eq!(latest(subject).await, *schema, "{subject}");
    }
    let expected: BTreeSet<&str> = before.iter().map(|(subject, ..)| subject.as_str()).collect();
    let topics = Kafka::shared().topics(&format!("{}.", config.name())).await;
    for topic in &topics {
        for subject in ["key", "value"].map(|what| format!("{topic}-{what}")) {
            let registered = Registry::shared().versions(&subject).await > 0;
            assert_eq!(registered, expected.contains(subject.as_str()), "{subject}");
        }
    }
    assert_eq!(
        topics.len(),
        expected.iter().filter(|subject| subject.ends_with("-value")).count()
    );
    for (_, _, standing) in printed(config, "", 0).await {
        assert_eq!(standing["state"], "registered", "{standing}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn schema_prints_byte_for_byte_what_run_registers() {
    for version in [10, 12, 14, 15, 16, 18] {
        for (envelope, types) in [("debezium", "avro"), ("row", "avro"), ("debezium", "debezium")] {
            let (postgres, kafka) = (Postgres::shared(version), Kafka::shared());
            let database = postgres.database().await;
            let (sql, rows) = shapes(version);
            database.execute(&sql).await;
            let config = Config::new(&pipeline(), &database, &kafka)
                .text("avro.envelope", envelope)
                .text("avro.types", types);
            prints_what_run_registers(&database, &config, &rows).await;
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn schema_knows_column_lists_partition_roots_generated_columns_and_column_rules() {
    for (version, with) in [
        (13, "publish_via_partition_root"),
        (15, "publish_via_partition_root"),
        (18, "publish_via_partition_root, publish_generated_columns = stored"),
    ] {
        let (postgres, kafka) = (Postgres::shared(version), Kafka::shared());
        let database = postgres.database().await;
        let (sql, _) = shapes(version);
        database.execute(&sql).await;
        let name = pipeline();
        let listed = if version >= 15 { "plain (home, id)" } else { "plain" };
        let mut rows = vec![
            "INSERT INTO plain (id) VALUES (1)",
            "INSERT INTO parted VALUES (1, 1, 'v')",
            "INSERT INTO generated (id) VALUES (1)",
        ];
        let mut tables = format!("{listed}, parted, generated");
        if version >= 18 {
            database
                .execute(
                    "CREATE TABLE mixed (id int PRIMARY KEY, s int GENERATED ALWAYS AS (id + 1) STORED, \
                     v int GENERATED ALWAYS AS (id + 2) VIRTUAL)",
                )
                .await;
            tables += ", mixed";
            rows.push("INSERT INTO mixed (id) VALUES (1)");
        }
        database
            .execute(&format!("CREATE PUBLICATION {name} FOR TABLE {tables} WITH ({with})"))
            .await;
        let config = Config::new(&name, &database, &kafka).set(
            "avro.columns",
            "{ 'public.parted.v' = { exclude = true }, 'public.*.id' = { mask = \"sha256\", salt = \"pepper\" } }",
        );
        prints_what_run_registers(&database, &config, &rows).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn schema_says_what_the_registry_would_say() {
    let (postgres, kafka, registry) = (Postgres::shared(17), Kafka::shared(), Registry::shared());
    let database = postgres.database().await;
    database
        .execute("CREATE TABLE t (id int PRIMARY KEY, n int); CREATE TABLE u (id int PRIMARY KEY)")
        .await;
    let name = pipeline();
    let config = Config::new(&name, &database, &kafka).text("avro.envelope", "row");
    let mut walferry = Walferry::start(&config);
    walferry.ready(SOON).await;
    database.execute("INSERT INTO t VALUES (1, 1)").await;
    database.confirmed(&name, SOON, || walferry.log()).await;
    assert_eq!(walferry.terminate(SOON).await.code, Some(0));
    let subject = format!("{name}.public.t-value");
    registry.compatibility(&subject, "FULL").await;

    let exit = command(&config, "schema", 0).await;
    for line in [
        format!("table public.t, topic {name}.public.t"),
        format!("key: subject {name}.public.t-key: registered, version 1, id "),
        format!("value: subject {subject}: registered, version 1, id "),
        format!("key: subject {name}.public.u-key: new, would be the first version"),
    ] {
        assert!(exit.stdout.contains(&line), "no {line:?} in\n{}", exit.stdout);
    }
    assert!(
        exit.stdout
            .contains("{ \"name\": \"id\", \"type\": \"int\", \"walferry.identity\": true }"),
        "{}",
        exit.stdout
    );
    let exit = command(&config, "schema public.t", 0).await;
    assert!(!exit.stdout.contains("public.u"), "{}", exit.stdout);
    let exit = command(&config, "schema public.none", 1).await;
    assert!(exit.stderr.contains("no published table"), "{}", exit.stderr);
    assert_eq!(Walferry::to_end(&config, "schema t", SOON).await.code, Some(64));

    // What the level allows, what it does not, and what nobody registers.
    database.execute("ALTER TABLE t ADD COLUMN added text").await;
    let exit = command(&config, "schema public.t", 0).await;
    for line in [
        "differs from version 1; it would be registered",
        "  field added: added, type [null, string], with a default",
    ] {
        assert!(exit.stdout.contains(line), "no {line:?} in\n{}", exit.stdout);
    }
    let never = config.clone().set("schema_registry.register", "false");
    let exit = command(&never, "schema public.t", 1).await;
    assert!(
        exit.stdout.contains("schema_registry.register is false"),
        "{}",
        exit.stdout
    );
    database.execute("ALTER TABLE t ALTER n TYPE text").await;
    let exit = command(&config, "schema public.t", 1).await;
    for line in [
        "differs from version 1; it would be refused as incompatible",
        "  field n: type changed from [null, int] to [null, string]",
    ] {
        assert!(exit.stdout.contains(line), "no {line:?} in\n{}", exit.stdout);
    }
    assert_eq!(registry.versions(&subject).await, 1, "nothing was registered");

    let nobody = config.text("schema_registry.url", "http://127.0.0.1:1");
    let exit = command(&nobody, "schema public.t", 1).await;
    assert!(
        exit.stdout.contains("the registry could not be asked"),
        "{}",
        exit.stdout
    );
    assert!(exit.stdout.contains("\"walferry.table\": \"t\""), "{}", exit.stdout);
}

// --- tail -------------------------------------------------------------------------------------------------------------

/// Waits until changes are shown.
async fn shows(walferry: &mut Walferry) {
    eventually("tail has its slot", SOON, async || {
        assert!(walferry.is_running(), "{}", walferry.log());
        walferry.log().contains("is shown").then_some(())
    })
    .await;
}

fn lines(exit: &Exit) -> Vec<Value> {
    exit.stdout
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect()
}

/// No Kafka and no registry listen there.
fn without_servers(database: &Database<'_>) -> Config {
    Config::new(&pipeline(), database, &Kafka::shared())
        .text("kafka.bootstrap_servers", "127.0.0.1:1")
        .text("schema_registry.url", "http://127.0.0.1:1")
}

async fn slots(database: &Database<'_>) -> Option<String> {
    database
        .value("SELECT string_agg(slot_name, ',') FROM pg_replication_slots WHERE database = current_database()")
        .await
}

#[tokio::test(flavor = "multi_thread")]
async fn tail_prints_what_consumers_would_get_and_leaves_nothing_behind() {
    for version in [10, 14, 18] {
        for format in if version >= 14 {
            &["text", "binary"][..]
        } else {
            &["text"]
        } {
            let postgres = Postgres::shared(version);
            let database = postgres.database().await;
            let config = without_servers(&database).text("replication.format", format).set(
                "avro.columns",
                "{ 'public.t.secret' = { exclude = true }, 'public.t.mail' = { mask = \"fixed\", with = \"***\" } }",
            );
            database
                .execute(&format!(
                    "CREATE TABLE t (id int PRIMARY KEY, price numeric(10,2), at timestamptz, mail text, secret text, bits bit(3)); \
                     CREATE TABLE u (id int PRIMARY KEY); CREATE PUBLICATION {} FOR TABLE t, u",
                    config.name()
                ))
                .await;
            let mut tail = Walferry::spawn(&config, "tail --limit 6");
            shows(&mut tail).await;
            assert!(slots(&database).await.unwrap().starts_with("walferry_tail_"));
            for sql in [
                "BEGIN; INSERT INTO t VALUES (1, -7.90, '2024-02-29 12:00:00.5+00', 'hunter2', 'hunter2', B'101'); \
                 INSERT INTO u VALUES (1); COMMIT",
                "UPDATE t SET id = 2",
                "UPDATE t SET price = NULL",
                "TRUNCATE u",
            ] {
                database.execute(sql).await;
            }
            let exit = tail.end(SOON).await;
            assert_eq!(exit.code, Some(0), "{}", exit.stderr);
            assert!(!format!("{}{}", exit.stdout, exit.stderr).contains("hunter2"));
            let shown: Vec<Value> = lines(&exit)
                .into_iter()
                .map(|line| {
                    json!([
                        line["topic"],
                        line["key"],
                        line["value"]["op"],
                        line["value"]["before"],
                        line["value"]["after"]
                    ])
                })
                .collect();
            let name = config.name();
            let (t, u) = (format!("{name}.public.t"), format!("{name}.public.u"));
            let row = |id: i32, price: Option<&str>| json!({ "id": id, "price": price, "at": "2024-02-29T12:00:00.5Z", "mail": "***", "bits": "101" });
            let old = json!({ "id": 1, "price": null, "at": null, "mail": null, "bits": null });
            assert_eq!(
                shown,
                [
                    json!([t, { "id": 1 }, "c", null, row(1, Some("-7.90"))]),
                    json!([u, { "id": 1 }, "c", null, { "id": 1 }]),
                    json!([t, { "id": 1 }, "d", old, null]),
                    json!([t, { "id": 1 }, null, null, null]),
                    json!([t, { "id": 2 }, "c", null, row(2, Some("-7.90"))]),
                    json!([t, { "id": 2 }, "u", null, row(2, None)]),
                ],
                "Postgres {version}, {format}"
            );
            let first = exit.stdout.lines().next().unwrap();
            assert!(
                first.starts_with(&format!(
                    "{{\"topic\":\"{t}\",\"key\":{{\"id\":1}},\"value\":{{\"before\":null,\"after\":{{\"id\":1,"
                )),
                "{first}"
            );
            eventually("the slot is gone", SOON, async || {
                slots(&database).await.is_none().then_some(())
            })
            .await;
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn tail_shows_the_tables_that_are_asked_for_until_it_is_stopped() {
    let postgres = Postgres::shared(16);
    let database = postgres.database().await;
    let config = without_servers(&database).text("avro.envelope", "row");
    database
        .execute(&format!(
            "CREATE TABLE t (id int PRIMARY KEY); CREATE TABLE u (id int PRIMARY KEY, a numeric(3,1)); \
             CREATE PUBLICATION {} FOR TABLE t, u",
            config.name()
        ))
        .await;
    let mut tail = Walferry::spawn(&config, "tail public.u");
    shows(&mut tail).await;
    for sql in [
        "INSERT INTO t VALUES (1)",
        "SELECT pg_logical_emit_message(true, 'p', 'c')",
        // A bad row is passed over.
        "INSERT INTO u VALUES (1, 'NaN')",
        "INSERT INTO u VALUES (2, 2.5)",
        "BEGIN; INSERT INTO t VALUES (2); UPDATE t SET id = 3 WHERE id = 2; INSERT INTO u VALUES (3, 'NaN'); \
         SELECT pg_logical_emit_message(true, 'p', 'c'); DELETE FROM u WHERE id = 2; COMMIT",
    ] {
        database.execute(sql).await;
    }
    eventually("the last change is shown", SOON, async || {
        tail.stdout().contains("\"walferry.op\":\"d\"").then_some(())
    })
    .await;
    let exit = tail.terminate(SOON).await;
    assert_eq!(exit.code, Some(0), "{}", exit.stderr);
    exit.says(&["public.u", "of type numeric", "passed over"]);
    let shown = lines(&exit);
    let values: Vec<&Value> = shown.iter().map(|line| &line["value"]).collect();
    assert_eq!(values, [&json!({ "id": 2, "a": "2.5" }), &json!(null)]);
    let headers = shown[1]["headers"].as_object().unwrap();
    assert_eq!(
        headers["walferry.ordinal"], "5",
        "what is not shown has its place all the same"
    );
    assert_eq!(
        headers.keys().map(String::as_str).collect::<Vec<_>>(),
        [
            "walferry.commit_lsn",
            "walferry.lsn",
            "walferry.op",
            "walferry.ordinal",
            "walferry.ts_us",
            "walferry.unchanged",
            "walferry.xid"
        ]
    );
    assert!(!exit.stdout.contains('\u{1b}'), "no colours where no terminal is");
}

/// The catalog says NOT NULL when the row is read: it was altered in the same transaction.
#[tokio::test(flavor = "multi_thread")]
async fn tail_shows_a_null_from_before_a_not_null_as_run_publishes_it() {
    for (types, envelope) in [("debezium", "debezium"), ("debezium", "row"), ("avro", "row")] {
        let postgres = Postgres::shared(17);
        let database = postgres.database().await;
        let config = without_servers(&database)
            .text("avro.types", types)
            .text("avro.envelope", envelope)
            .text("avro.nullability", "catalog");
        database
            .execute(&format!(
                "CREATE TABLE t (id int PRIMARY KEY, v int, w int NOT NULL); CREATE PUBLICATION {} FOR TABLE t",
                config.name()
            ))
            .await;
        let mut tail = Walferry::spawn(&config, "tail --limit 3");
        shows(&mut tail).await;
        database
            .execute(
                "BEGIN; INSERT INTO t VALUES (1, NULL, 1); UPDATE t SET v = 10; ALTER TABLE t ALTER v SET NOT NULL; \
                 INSERT INTO t VALUES (2, 20, 2); COMMIT",
            )
            .await;
        let exit = tail.end(SOON).await;
        assert_eq!(exit.code, Some(0), "{}", exit.stderr);
        exit.says(&["public.t", "column=\"v\"", "NOT NULL"]);
        assert!(!exit.stderr.contains("passed over"), "{}", exit.stderr);
        let rows: Vec<Value> = lines(&exit)
            .into_iter()
            .map(|line| match envelope {
                "row" => line["value"].clone(),
                _ => line["value"]["after"].clone(),
            })
            .collect();
        assert_eq!(
            rows,
            [
                json!({ "id": 1, "v": null, "w": 1 }),
                json!({ "id": 1, "v": 10, "w": 1 }),
                json!({ "id": 2, "v": 20, "w": 2 }),
            ],
            "types = {types}, envelope = {envelope}"
        );
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn tail_ends_quietly_after_its_time_and_when_its_reader_has_gone() {
    let postgres = Postgres::shared(15);
    let database = postgres.database().await;
    let config = without_servers(&database);
    database
        .execute(&format!(
            "CREATE TABLE t (id int PRIMARY KEY); CREATE PUBLICATION {} FOR TABLE t",
            config.name()
        ))
        .await;
    let exit = command(&config, "tail --for 1s", 0).await;
    assert_eq!(exit.stdout, "");

    let file = Env::get().private_dir(&config.name()).join("walferry.toml");
    std::fs::write(&file, config.to_toml()).unwrap();
    let pipe = format!(
        "{} tail -c {} | head -n 1; echo \"${{PIPESTATUS[0]}}\"",
        env!("CARGO_BIN_EXE_walferry"),
        file.display()
    );
    let piped = tokio::process::Command::new("bash").args(["-c", &pipe]).output();
    let writing = async {
        for id in 0.. {
            database.execute(&format!("INSERT INTO t VALUES ({id})")).await;
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    };
    let output = tokio::select! {
        output = tokio::time::timeout(SOON, piped) => output.expect("an end").unwrap(),
        () = writing => unreachable!("there are always more rows"),
    };
    let stdout = String::from_utf8(output.stdout).unwrap();
    let said: Vec<&str> = stdout.lines().collect();
    assert_eq!(said.len(), 2, "{stdout}{}", String::from_utf8_lossy(&output.stderr));
    assert!(said[0].starts_with("{\"topic\":"), "{stdout}");
    assert_eq!(said[1], "0", "{stdout}{}", String::from_utf8_lossy(&output.stderr));
}

#[tokio::test(flavor = "multi_thread")]
async fn tail_makes_no_publication() {
    let postgres = Postgres::shared(16);
    let database = postgres.database().await;
    database.execute("CREATE TABLE t (id int PRIMARY KEY)").await;
    let config = without_servers(&database);
    let exit = command(&config, "tail --for 1s", 1).await;
    exit.says(&[&config.name(), "does not exist", "CREATE PUBLICATION"]);
    assert!(!database.is("EXISTS (SELECT FROM pg_publication)").await);
    assert_eq!(slots(&database).await, None);
}

// --- snapshot ---------------------------------------------------------------------------------------------------------

#[tokio::test(flavor = "multi_thread")]
async fn check_names_the_tables_whose_rows_cannot_be_read() {
    for version in [10, 18] {
        let server = Postgres::shared(version);
        let database = server.database().await;
        let name = pipeline();
        database
            .execute(&format!(
                "CREATE TABLE whole (id int PRIMARY KEY); CREATE TABLE columns (id int PRIMARY KEY, a text); \
                 CREATE TABLE denied (id int PRIMARY KEY, a text); CREATE TABLE policies (id int PRIMARY KEY); \
                 CREATE PUBLICATION {name} FOR TABLE whole, columns, denied, policies; CREATE ROLE {name} LOGIN REPLICATION; \
                 GRANT SELECT ON whole TO {name}; GRANT SELECT (id, a) ON columns TO {name}; GRANT SELECT (id) ON denied TO {name}; \
                 GRANT SELECT ON policies TO {name}; ALTER TABLE policies ENABLE ROW LEVEL SECURITY"
            ))
            .await;
        let config = Config::new(&name, &database, &Kafka::shared()).text("postgres.user", &name);
        let initial = config.clone().text("snapshot.mode", "initial");
        let finding = async |config: &Config, code| {
            let exit = command(config, "check --json", code).await;
            let report: Value = serde_json::from_str(&exit.stdout).unwrap();
            let checks = report["checks"].as_array().unwrap();
            checks
                .iter()
                .find(|check| check["subject"] == "snapshot")
                .unwrap()
                .clone()
        };
        // SELECT on every column does not let it lock the table.
        let denied = finding(&initial, 1).await;
        assert_eq!(
            denied["reason"],
            "the rows of tables public.columns, public.denied cannot be read: the role has no right to",
            "{denied}"
        );
        assert!(denied["remedy"].as_str().unwrap().starts_with("GRANT"), "{denied}");
        // The stream itself needs no right.
        assert_eq!(finding(&config, 0).await["outcome"], "passed");

        database
            .execute(&format!("GRANT SELECT ON columns, denied TO {name}"))
            .await;
        let partly = finding(&initial, 1).await;
        assert_eq!(
            partly["reason"],
            "not all rows of table public.policies can be read: row security shows the role only some",
            "{partly}"
        );
        database.execute(&format!("ALTER ROLE {name} BYPASSRLS")).await;
        assert_eq!(finding(&initial, 0).await["outcome"], "passed");
        database.execute("REVOKE USAGE ON SCHEMA public FROM PUBLIC").await;
        let all = finding(&initial, 1).await;
        assert!(
            all["reason"]
                .as_str()
                .unwrap()
                .contains("public.columns, public.denied"),
            "{all}"
        );
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn snapshot_says_who_does_not_stream_and_takes_nothing_from_elsewhere() {
    let server = Postgres::shared(17);
    let database = server.database().await;
    database.execute("CREATE TABLE t (id int PRIMARY KEY)").await;
    // It never streams: the port of Postgres is nobody's.
    let mut waiting = Walferry::start(&without_servers(&database).set("postgres.port", "1"));
    eventually("it listens", SOON, async || {
        http("GET", &waiting.url("/status"), None).await.ok()
    })
    .await;
    let status = waiting.beside(&["snapshot", "--status"]).await;
    assert_eq!(
        (status.code, status.stdout.as_str()),
        (Some(0), "nothing is read, and nothing waits to be\n")
    );
    let refused = waiting.beside(&["snapshot", "public.t", "--wait"]).await;
    assert_eq!(refused.code, Some(1));
    refused.says(&["refused: it does not stream now: connecting"]);
    let exit = waiting.terminate(SOON).await;
    assert_eq!(exit.code, Some(0), "{}", exit.stderr);
    let alone = command(&without_servers(&database), "snapshot --pause", 1).await;
    alone.says(&["no answer from 127.0.0.1", "walferry run"]);
}

/// What the README's first command shows, as somebody sees it who has nothing but Postgres's programs.
#[tokio::test(flavor = "multi_thread")]
async fn demo_shows_what_arrives_and_ends_after_its_time() {
    let programs = Env::get().postgres_bin.join("17/bin");
    let path = format!("{}:{}", programs.display(), std::env::var("PATH").unwrap());
    let demo = tokio::task::spawn_blocking(move || {
        Command::new(env!("CARGO_BIN_EXE_walferry"))
            .args(["demo", "--for", "5s"])
            .env("PATH", path)
            .env_remove("RUST_LOG")
            .stdin(Stdio::null())
            .output()
    });
    let ended = demo.await.unwrap().unwrap();
    let (out, log) = (
        String::from_utf8_lossy(&ended.stdout),
        String::from_utf8_lossy(&ended.stderr),
    );
    assert_eq!(ended.status.code(), Some(0), "{out}{log}");
    let arrived = out
        .lines()
        .filter(|line| line.starts_with("demo.shop.") && line.contains('@'))
        .count();
    assert!(arrived > 10, "{out}{log}");
}
