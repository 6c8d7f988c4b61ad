//! Which rows are read, and what stands in them.

use super::{LATER, SOON, all_read, is_faultless_but_for, name, reading, rows_read};
use crate::harness::{Kafka, Postgres, Walferry, connect_to, eventually, heavy, read, read_events, read_records};
use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

#[tokio::test(flavor = "multi_thread")]
async fn long_values_that_updates_leave_alone_arrive_though_the_rows_change_while_they_are_read() {
    let _alone = heavy().await;
    let (postgres, kafka) = (Postgres::shared(17), Kafka::shared());
    let database = postgres.database().await;
    database
        .execute(
            "CREATE TABLE t (id int PRIMARY KEY, n int NOT NULL, body text); ALTER TABLE t ALTER body SET STORAGE EXTERNAL; \
             INSERT INTO t SELECT n, 0, repeat(md5(n::text), 100) FROM generate_series(1, 1500) n",
        )
        .await;
    let name = name();
    let config = reading(&name, &database, &kafka, "exactly-once")
        .set("snapshot.chunk_rows", "300")
        .set("snapshot.max_rows_per_second", "600");
    let stop = Arc::new(AtomicBool::new(false));
    let (client, stopped) = (connect_to(postgres.port, &database.name).await.unwrap(), stop.clone());
    let writer = tokio::spawn(async move {
        let mut rng = fastrand::Rng::with_seed(7);
        let mut changes = 0;
        while !stopped.load(Ordering::Relaxed) {
            let id = rng.u32(1..1500);
            let sql = match changes % 100 {
                // Another key: the row goes where everything is read, or where nothing is.
                0 => format!("UPDATE t SET id = -id WHERE id = {id}"),
                _ => format!("UPDATE t SET n = n + 1 WHERE id BETWEEN {id} AND {}", id + 30),
            };
            client.batch_execute(&sql).await.unwrap();
            changes += 1;
            // Paced: a row that is read alone is read again if it changes just then.
            tokio::time::sleep(Duration::from_millis(4)).await;
        }
        changes
    });
    let mut walferry = Walferry::start(&config);
    walferry.ready(SOON).await;
    all_read(&walferry, LATER).await;
    stop.store(true, Ordering::Relaxed);
    let changes = writer.await.unwrap();
    database.confirmed(walferry.slot(), LATER, || walferry.log()).await;
    let topic = format!("{name}.public.t");
    let mut found = read(&kafka.address, std::slice::from_ref(&topic)).await;
    is_faultless_but_for(&[], &mut found);
    found.equals(&database, "t", &topic).await;
    eprintln!(
        "{} rows read, {changes} transactions meanwhile",
        rows_read(&found, &topic)
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn column_lists_row_filters_and_partition_roots_hold_for_rows_too() {
    let (postgres, kafka) = (Postgres::shared(18), Kafka::shared());
    let database = postgres.database().await;
    database
        .execute(
            "CREATE TABLE listed (id int PRIMARY KEY, secret text, v int, twice int GENERATED ALWAYS AS (v * 2) STORED); \
             INSERT INTO listed SELECT n, 'secret', n FROM generate_series(1, 1000) n; \
             CREATE TABLE parent (region text, id int, v text, PRIMARY KEY (region, id)) PARTITION BY LIST (region); \
             CREATE TABLE north PARTITION OF parent FOR VALUES IN ('n'); \
             CREATE TABLE south (v text, id int NOT NULL, region text NOT NULL, PRIMARY KEY (region, id)); \
             ALTER TABLE parent ATTACH PARTITION south FOR VALUES IN ('s'); \
             INSERT INTO parent SELECT CASE n % 2 WHEN 0 THEN 'n' ELSE 's' END, n, 'v' || n FROM generate_series(1, 700) n",
        )
        .await;
    let name = name();
    database
        .execute(&format!(
            "CREATE PUBLICATION {name} FOR TABLE listed (id, v, twice) WHERE (id > 400), parent WITH (publish_via_partition_root = true)"
        ))
        .await;
    let config = reading(&name, &database, &kafka, "at-least-once");
    let mut walferry = Walferry::start(&config);
    walferry.ready(SOON).await;
    all_read(&walferry, LATER).await;
    let topics = [format!("{name}.public.listed"), format!("{name}.public.parent")];
    let found = read(&kafka.address, &topics).await;
    found.is_faultless();
    found
        .equals(
            &database,
            "(SELECT id, v, twice FROM listed WHERE id > 400) s",
            &topics[0],
        )
        .await;
    found.equals(&database, "parent", &topics[1]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_row_has_the_same_bytes_whether_it_was_there_or_came_later() {
    let (postgres, kafka) = (Postgres::shared(16), Kafka::shared());
    for format in ["text", "binary"] {
        let database = postgres.database().await;
        database
            .execute(
                "CREATE TABLE t (id int PRIMARY KEY, n numeric(20,4), f float8, d date, ts timestamptz, b bytea, u uuid, a int[], j jsonb, \
                 i interval, s text, c char(5)); \
                 INSERT INTO t SELECT n, n / 7.0, n / 3.0, date '2000-01-01' + n, timestamptz '1970-01-01Z' + n * interval '1 hour', \
                 decode(md5(n::text), 'hex'), md5(n::text)::uuid, ARRAY[n, NULL, -n], jsonb_build_object('n', n), \
                 n * interval '1 day 2 seconds', E'a\\tb\\\\n' || n, 'c' FROM generate_series(1, 200) n",
            )
            .await;
        let name = name();
        let config = reading(&name, &database, &kafka, "at-least-once")
            .text("avro.envelope", "row")
            .text("replication.format", format);
        let mut walferry = Walferry::start(&config);
        walferry.ready(SOON).await;
        all_read(&walferry, LATER).await;
        database
            .execute("CREATE TABLE copy AS TABLE t; TRUNCATE t; INSERT INTO t TABLE copy")
            .await;
        database.confirmed(walferry.slot(), LATER, || walferry.log()).await;
        let records = read_records(&kafka.address, &[format!("{name}.public.t")]).await;
        let bytes = |op: &str| -> BTreeSet<String> {
            let of = records.iter().filter(|record| record.headers["walferry.op"] == op);
            of.map(|record| record.avro.clone().unwrap()).collect()
        };
        assert_eq!(bytes("r").len(), 200, "{format}");
        assert_eq!(bytes("r"), bytes("c"), "{format}");
    }
}

/// It is in the rows of its table, which has no key, and not published again. What came with it has the position that it would have had.
#[tokio::test(flavor = "multi_thread")]
async fn a_change_that_is_in_the_rows_of_a_table_without_a_key_keeps_its_place() {
    let (postgres, kafka) = (Postgres::shared(16), Kafka::shared());
    let database = postgres.database().await;
    database
        .execute(
            "CREATE TABLE bare (v int); ALTER TABLE bare REPLICA IDENTITY FULL; INSERT INTO bare VALUES (1); \
             CREATE TABLE t (id int PRIMARY KEY)",
        )
        .await;
    for guarantee in ["at-least-once", "exactly-once"] {
        let name = name();
        let config = reading(&name, &database, &kafka, guarantee);
        let exit = Walferry::to_end(&config, "slot create", SOON).await;
        assert_eq!(exit.code, Some(0), "{}", exit.stderr);
        database
            .execute(
                "BEGIN; INSERT INTO bare VALUES (2); UPDATE bare SET v = 3 WHERE v = 1; TRUNCATE t; INSERT INTO t VALUES (7); \
                 DELETE FROM bare WHERE v = 2; INSERT INTO t VALUES (8); COMMIT",
            )
            .await;
        let mut walferry = Walferry::start(&config);
        walferry.ready(SOON).await;
        all_read(&walferry, LATER).await;
        database.confirmed(walferry.slot(), LATER, || walferry.log()).await;
        let topics = [format!("{name}.public.bare"), format!("{name}.public.t")];
        let found = read_events(&kafka.address, &topics).await;
        let places = |topic, op| {
            found
                .events_of(topic, op)
                .map(|event| event.ordinal)
                .collect::<Vec<_>>()
        };
        assert_eq!(places(&topics[1], "c"), [3, 5], "{guarantee}: {:?}", found.events);
        for op in ["c", "u", "d"] {
            assert!(places(&topics[0], op).is_empty(), "{guarantee}: {:?}", found.events);
        }
        found.equals(&database, "bare", &topics[0]).await;
        found.equals(&database, "t", &topics[1]).await;
        let exit = walferry.terminate(SOON).await;
        assert_eq!(exit.code, Some(0), "{}", exit.stderr);
        database.execute("DELETE FROM bare; INSERT INTO bare VALUES (1)").await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_table_that_comes_to_the_publication_later_is_read_and_only_ends_when_all_is_read() {
    let (postgres, kafka) = (Postgres::shared(14), Kafka::shared());
    let database = postgres.database().await;
    database
        .execute("CREATE TABLE a (id int PRIMARY KEY); INSERT INTO a SELECT generate_series(1, 500)")
        .await;
    let name = name();
    let config = reading(&name, &database, &kafka, "at-least-once");
    let only = config.clone().text("snapshot.mode", "only");
    let exit = Walferry::to_end(&only, "run", LATER).await;
    assert_eq!(exit.code, Some(0), "{}", exit.stderr);
    database
        .execute("INSERT INTO a VALUES (501); CREATE TABLE b (id int PRIMARY KEY); INSERT INTO b SELECT generate_series(1, 400)")
        .await;
    database.execute(&format!("ALTER PUBLICATION {name} ADD TABLE b")).await;
    let mut walferry = Walferry::start(&config);
    walferry.ready(SOON).await;
    let topics = [format!("{name}.public.a"), format!("{name}.public.b")];
    eventually(&format!("b is read\n{}", walferry.log()), SOON, async || {
        let status = walferry.status().await;
        let tables = status["snapshot"]["tables"].as_array()?.clone();
        tables
            .iter()
            .any(|table| table["table"] == "public.b" && table["state"] == "done")
            .then_some(())
    })
    .await;
    database.confirmed(walferry.slot(), LATER, || walferry.log()).await;
    let found = read(&kafka.address, &topics).await;
    found.is_faultless();
    for (table, topic, rows) in [("a", &topics[0], 500), ("b", &topics[1], 400)] {
        found.equals(&database, table, topic).await;
        assert_eq!(rows_read(&found, topic), rows);
    }
}
