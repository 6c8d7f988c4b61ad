//! `walferry replay`: dead letters, published after all.

use crate::harness::{
    Config, Database, Exit, Kafka, Postgres, Record, Registry, Walferry, http, read_events, read_records,
};
use crate::workload::pipeline;
use std::collections::BTreeSet;
use std::time::Duration;

const SOON: Duration = Duration::from_secs(30);
const LATER: Duration = Duration::from_secs(90);

fn dead_lettering(config: Config) -> Config {
    config.text("delivery.on_bad_row", "dead-letter")
}

/// Runs the pipeline over these statements until all is confirmed.
async fn publish(database: &Database<'_>, config: &Config, statements: &[&str]) {
    let mut walferry = Walferry::start(config);
    walferry.ready(SOON).await;
    for sql in statements {
        database.execute(sql).await;
    }
    database.confirmed(walferry.slot(), LATER, || walferry.log()).await;
    let exit = walferry.terminate(SOON).await;
    assert_eq!(exit.code, Some(0), "{}", exit.stderr);
}

async fn replay(config: &Config, arguments: &str) -> Exit {
    Walferry::to_end(config, format!("replay {arguments}").trim(), LATER).await
}

fn positions(records: &[Record]) -> Vec<(String, String)> {
    records
        .iter()
        .map(|record| {
            let header = |name: &str| record.headers[name].clone();
            (header("walferry.commit_lsn"), header("walferry.ordinal"))
        })
        .collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn letters_are_published_with_their_positions_once_what_was_wrong_is_mended() {
    let (postgres, kafka) = (Postgres::shared(17), Kafka::shared());
    for format in ["text", "binary"] {
        let database = postgres.database().await;
        database
            .execute(
                "CREATE TYPE mood AS ENUM ('glad', 'sad'); CREATE TYPE pair AS (a int, m mood); \
                 CREATE TABLE t (id int PRIMARY KEY, v text, n numeric(5,2), p pair)",
            )
            .await;
        let name = pipeline();
        let config = dead_lettering(Config::new(&name, &database, &kafka))
            .text("avro.envelope", "row")
            .text("replication.format", format);
        publish(
            &database,
            &config,
            &[
                "INSERT INTO t VALUES (1, 'a', 1.5, '(1,glad)'), (2, 'b', 'NaN', '(2,sad)'), (3, 'c', 2.5, NULL)",
                "UPDATE t SET id = 4, n = 'NaN' WHERE id = 3",
            ],
        )
        .await;
        let topic = format!("{name}.public.t");
        let before = read_records(&kafka.address, std::slice::from_ref(&topic)).await;
        assert_eq!(before.len(), 2);

        // As things stand nothing of it can be published: it stays, and is met again.
        for _ in 0..2 {
            let exit = replay(&config, "").await;
            assert_eq!(exit.code, Some(1), "{}", exit.stderr);
            let lines: Vec<&str> = exit.stdout.lines().collect();
            assert_eq!(lines.len(), 3, "{}", exit.stdout);
            for (offset, line) in lines[..2].iter().enumerate() {
                let place = format!("failed   {name}.dead-letter[0]@{offset}  public.t  ");
                assert!(line.starts_with(&place), "{line}");
                assert!(line.contains("column \"n\"") && line.contains("NaN"), "{line}");
            }
            assert_eq!(lines[2], "0 published, 2 failed");
        }

        let mended = config
            .clone()
            .set("avro.columns", "{ \"public.t.n\" = { type = \"string\" } }");
        let exit = replay(&mended, "--dry-run").await;
        assert_eq!(
            (exit.code, exit.stdout.as_str()),
            (Some(0), "2 could be published, 0 failed\n")
        );
        let untouched = read_records(&kafka.address, std::slice::from_ref(&topic)).await;
        assert_eq!(untouched.len(), 2);

        let exit = replay(&mended, "").await;
        assert_eq!(
            (exit.code, exit.stdout.as_str()),
            (Some(0), "2 published, 0 failed\n"),
            "{}",
            exit.stderr
        );
        let letters = read_records(&kafka.address, &[format!("{name}.dead-letter")]).await;
        let after = read_records(&kafka.address, std::slice::from_ref(&topic)).await;
        let late = &after[2..];
        let found: Vec<_> = late
            .iter()
            .map(|record| {
                let value = record.value.as_ref();
                let id = record.key.as_ref().unwrap()["id"].clone().unwrap();
                (
                    record.headers["walferry.op"].as_str(),
                    id,
                    value.map(|value| value["n"].as_str().unwrap().to_owned()),
                )
            })
            .collect();
        let nan = Some("NaN".to_owned());
        assert_eq!(
            found,
            [
                ("c", "2".to_owned(), nan.clone()),
                ("d", "3".to_owned(), None),
                ("c", "4".to_owned(), nan)
            ]
        );
        let (first, second) = (&positions(&letters)[0], &positions(&letters)[1]);
        let next = (second.0.clone(), "1".to_owned());
        assert_eq!(positions(late), [first.clone(), second.clone(), next]);
        for record in late {
            let replayed: i64 = record.headers["walferry.replayed"].parse().unwrap();
            let committed: i64 = record.headers["walferry.ts_us"].parse().unwrap();
            assert!(replayed > committed);
        }
        // Once is enough.
        let exit = replay(&mended, "").await;
        assert_eq!((exit.code, exit.stdout.as_str()), (Some(0), "0 published, 0 failed\n"));
        let exit = replay(&mended, "--all").await;
        assert_eq!((exit.code, exit.stdout.as_str()), (Some(0), "2 published, 0 failed\n"));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn what_fails_is_left_behind_and_what_passes_is_not_published_again() {
    let (postgres, kafka) = (Postgres::shared(16), Kafka::shared());
    let database = postgres.database().await;
    database
        .execute(
            "CREATE TABLE t (id int PRIMARY KEY, v text); CREATE TABLE bad (id int PRIMARY KEY, n numeric(5,2)); \
             ALTER TABLE t ALTER v SET STORAGE EXTERNAL",
        )
        .await;
    let name = pipeline();
    let config = dead_lettering(Config::new(&name, &database, &kafka))
        .set("kafka.properties", "{ \"compression.type\" = \"none\" }")
        .set("kafka.topic_config", "{ \"max.message.bytes\" = \"20000\" }");
    kafka.create_topic(&format!("{name}.dead-letter"), 1).await;
    publish(
        &database,
        &config,
        &[
            "INSERT INTO bad VALUES (1, 'NaN')",
            "INSERT INTO t VALUES (1, repeat('x', 30000))",
            "INSERT INTO t VALUES (2, 'small')",
            "INSERT INTO bad VALUES (2, 'NaN')",
            "UPDATE t SET id = 3 WHERE id = 1",
        ],
    )
    .await;
    let topic = format!("{name}.public.t");
    kafka.set_topic_config(&topic, "max.message.bytes", "100000").await;
    let exit = replay(&config, "--dry-run public.t").await;
    assert_eq!(
        (exit.code, exit.stdout.as_str()),
        (Some(0), "1 could be published, 0 failed, 2 of other tables left\n"),
        "{}",
        exit.stderr
    );
    let exit = replay(&config, "").await;
    assert_eq!(exit.code, Some(1), "{}", exit.stderr);
    assert!(exit.stdout.ends_with("1 published, 2 failed\n"), "{}", exit.stdout);
    // The one in the middle is done, the ones around it are not.
    let exit = replay(&config, "").await;
    assert!(exit.stdout.ends_with("0 published, 2 failed\n"), "{}", exit.stdout);
    assert_eq!(exit.code, Some(1));
    let reading = read_events(&kafka.address, std::slice::from_ref(&topic)).await;
    assert_eq!(reading.duplicates, 0);
    // The changed key left the value out, which is as large as it was: only the insert was too large.
    let ops: Vec<_> = reading.events.iter().map(|event| event.op.as_str()).collect();
    assert_eq!(ops, ["c", "c", "d", "c"]);
    reading.equals(&database, "t", &topic).await;

    let exit = replay(&config, "--give-up").await;
    assert!(exit.stdout.ends_with("0 published, 2 failed\n"), "{}", exit.stdout);
    assert_eq!(exit.code, Some(1));
    let exit = replay(&config, "").await;
    assert_eq!((exit.code, exit.stdout.as_str()), (Some(0), "0 published, 0 failed\n"));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_letter_that_was_cut_cannot_be_replayed_and_says_so() {
    let (postgres, kafka) = (Postgres::shared(15), Kafka::shared());
    let database = postgres.database().await;
    database.execute("CREATE TABLE t (id int PRIMARY KEY, v text)").await;
    let name = pipeline();
    let config = dead_lettering(Config::new(&name, &database, &kafka))
        .set("kafka.topic_config", "{ \"max.message.bytes\" = \"5000\" }");
    publish(&database, &config, &["INSERT INTO t VALUES (1, repeat('x', 30000))"]).await;
    kafka
        .set_topic_config(&format!("{name}.public.t"), "max.message.bytes", "100000")
        .await;
    let exit = replay(&config, "").await;
    assert_eq!(exit.code, Some(1), "{}", exit.stderr);
    assert!(
        exit.stdout.contains("a value of 30000 bytes was left out"),
        "{}",
        exit.stdout
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_replay_that_is_killed_repeats_and_loses_nothing() {
    let (postgres, kafka) = (Postgres::shared(18), Kafka::shared());
    let database = postgres.database().await;
    database
        .execute("CREATE TABLE t (id int PRIMARY KEY, n numeric(5,2))")
        .await;
    let name = pipeline();
    let config = dead_lettering(Config::new(&name, &database, &kafka)).text("avro.envelope", "row");
    const ROWS: u32 = 6_000;
    publish(
        &database,
        &config,
        &[&format!(
            "INSERT INTO t SELECT id, 'NaN' FROM generate_series(1, {ROWS}) id"
        )],
    )
    .await;
    let mended = config.set("avro.columns", "{ \"public.t.n\" = { type = \"string\" } }");
    let mut pause = fastrand::Rng::with_seed(crate::workload::seed());
    let mut killed = 0;
    let exit = loop {
        let mut replaying = Walferry::spawn(&mended, "replay");
        if killed < 4 {
            tokio::time::sleep(Duration::from_millis(pause.u64(200..900))).await;
            if replaying.is_running() {
                replaying.kill();
                killed += 1;
                continue;
            }
        }
        break replaying.end(LATER).await;
    };
    assert_eq!(exit.code, Some(0), "{}{}", exit.stdout, exit.stderr);
    assert!(killed > 0, "no replay was killed");
    let records = read_records(&kafka.address, &[format!("{name}.public.t")]).await;
    let places: BTreeSet<_> = positions(&records).into_iter().collect();
    let commit = records[0].headers["walferry.commit_lsn"].clone();
    let expected: BTreeSet<_> = (0..ROWS).map(|ordinal| (commit.clone(), ordinal.to_string())).collect();
    assert_eq!(places, expected);
    let exit = replay(&mended, "").await;
    assert_eq!((exit.code, exit.stdout.as_str()), (Some(0), "0 published, 0 failed\n"));
}

#[tokio::test(flavor = "multi_thread")]
async fn no_letter_holds_what_a_rule_hides_and_a_replay_gives_what_the_rule_gave() {
    let (postgres, kafka) = (Postgres::shared(17), Kafka::shared());
    for format in ["text", "binary"] {
        let database = postgres.database().await;
        database
            .execute("CREATE TABLE t (id int PRIMARY KEY, email text, note text, pin int, n numeric(5,2))")
            .await;
        let name = pipeline();
        let rules = "\"public.t.email\" = { mask = \"sha256\", salt = \"pepper\" }, \"public.t.note\" = { truncate = 3 }, \
                     \"public.t.pin\" = { exclude = true }";
        let config = dead_lettering(Config::new(&name, &database, &kafka))
            .text("avro.envelope", "row")
            .text("replication.format", format)
            .set("avro.columns", &format!("{{ {rules} }}"));
        publish(
            &database,
            &config,
            &[
                "INSERT INTO t VALUES (1, 'ada@example.org', 'secretive', 4711, 1)",
                "INSERT INTO t VALUES (2, 'ada@example.org', 'secretive', 4711, 'NaN'), (3, NULL, NULL, NULL, 'NaN')",
            ],
        )
        .await;
        let letters = read_records(&kafka.address, &[format!("{name}.dead-letter")]).await;
        let row = &letters[0].value.as_ref().unwrap()["new"];
        let kinds: Vec<&str> = (0..5).map(|index| row[index]["kind"].as_str().unwrap()).collect();
        assert_eq!(kinds, [format, "masked", "masked", "hidden", format]);
        let raw = letters[0].avro.as_ref().unwrap();
        for hidden in ["ada@example", "retive", "4711"] {
            let hex: String = hidden.bytes().map(|byte| format!("{byte:02x}")).collect();
            assert!(!raw.contains(&hex), "{hidden} is in the letter");
        }

        let exit = replay(
            &config
                .clone()
                .set("avro.columns", "{ \"public.t.n\" = { type = \"string\" } }"),
            "",
        )
        .await;
        assert_eq!(exit.code, Some(1), "a rule that is gone would show what it hid");
        assert!(exit.stdout.contains("column \"email\""), "{}", exit.stdout);
        let mended = config.set(
            "avro.columns",
            &format!("{{ {rules}, \"public.t.n\" = {{ type = \"string\" }} }}"),
        );
        let exit = replay(&mended, "").await;
        assert_eq!(
            (exit.code, exit.stdout.as_str()),
            (Some(0), "2 published, 0 failed\n"),
            "{}",
            exit.stderr
        );
        let records = read_records(&kafka.address, &[format!("{name}.public.t")]).await;
        assert_eq!(records.len(), 3);
        assert_eq!(records[1].column("email"), records[0].column("email"));
        assert_eq!(records[1].column("email").unwrap().len(), 64);
        assert_eq!(records[1].column("note"), Some("sec"));
        assert_eq!((records[2].column("email"), records[2].column("note")), (None, None));
        assert_eq!(records[1].value.as_ref().unwrap().get("pin"), None);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn without_a_dead_letter_there_is_nothing_to_replay() {
    let (postgres, kafka) = (Postgres::shared(14), Kafka::shared());
    let database = postgres.database().await;
    let name = pipeline();
    let config = Config::new(&name, &database, &kafka);
    let exit = replay(&config, "").await;
    assert_eq!(
        (exit.code, exit.stdout),
        (
            Some(0),
            format!("topic {name}.dead-letter does not exist: there are no dead letters\n")
        )
    );
    assert_eq!(kafka.topics(&name).await, Vec::<String>::new());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_replay_writes_the_schemas_of_the_stream_also_where_these_follow_from_the_catalog() {
    let (postgres, kafka) = (Postgres::shared(16), Kafka::shared());
    for (types, nullability) in [("debezium", "optional"), ("avro", "catalog")] {
        let database = postgres.database().await;
        database
            .execute(
                "CREATE TYPE mood AS ENUM ('glad', 'sad'); \
                 CREATE TABLE t (id int PRIMARY KEY, v text NOT NULL, n int NOT NULL DEFAULT 7, m mood NOT NULL, d date); \
                 ALTER TABLE t REPLICA IDENTITY FULL",
            )
            .await;
        let name = pipeline();
        let config = dead_lettering(Config::new(&name, &database, &kafka))
            .text("avro.types", types)
            .text("avro.nullability", nullability)
            .set("kafka.topic_config", "{ \"max.message.bytes\" = \"20000\" }");
        kafka.create_topic(&format!("{name}.dead-letter"), 1).await;
        publish(
            &database,
            &config,
            &["INSERT INTO t VALUES (1, 'small', 1, 'glad', '2024-02-29'), (2, repeat('x', 30000), 2, 'sad', NULL)"],
        )
        .await;
        let topic = format!("{name}.public.t");
        kafka.set_topic_config(&topic, "max.message.bytes", "100000").await;
        let exit = replay(&config, "").await;
        assert_eq!(
            (exit.code, exit.stdout.as_str()),
            (Some(0), "1 published, 0 failed\n"),
            "{}",
            exit.stderr
        );
        let records = read_records(&kafka.address, std::slice::from_ref(&topic)).await;
        assert_eq!(records.len(), 2);
        assert_eq!(records[0].schema, records[1].schema, "{types}");
        let subject = format!("{}/subjects/{topic}-value/versions", Registry::shared().url);
        let (status, versions) = http("GET", &subject, None).await.unwrap();
        assert_eq!((status, versions.as_str()), (200, "[1]"), "{types}");
    }
}
