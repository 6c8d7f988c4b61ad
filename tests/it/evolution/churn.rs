//! Tables that change and come and go for ever take no more memory than those that are there.

use super::{LATER, SOON};
use crate::harness::{Config, Kafka, Postgres, Walferry, heavy, http, read_events};
use crate::workload::pipeline;
use std::collections::BTreeSet;

/// What a process may grow by while nothing of it should: allocators and the server's own buffers are never quite still.
const STILL_MIB: u64 = 24;

#[tokio::test(flavor = "multi_thread")]
async fn ten_thousand_changes_of_one_table_take_no_memory() {
    let _heavy = heavy().await;
    let (postgres, kafka) = (Postgres::shared(17), Kafka::shared());
    let database = postgres.database().await;
    database
        .execute("CREATE TABLE t (id serial PRIMARY KEY, v varchar(9))")
        .await;
    let name = pipeline();
    let mut walferry = Walferry::start(&Config::new(&name, &database, &kafka));
    walferry.ready(SOON).await;
    let mut sizes = Vec::new();
    for thousand in 0..10 {
        for hundred in 0..10 {
            let from = 10 + thousand * 1000 + hundred * 100;
            database
                .execute(&format!(
                    "DO $$ BEGIN FOR n IN {from}..{from} + 99 LOOP \
                     EXECUTE 'ALTER TABLE t ALTER v TYPE varchar(' || n || ')'; INSERT INTO t (v) VALUES (n); \
                     END LOOP; END $$"
                ))
                .await;
        }
        database.confirmed(&name, LATER, || walferry.log()).await;
        sizes.push(walferry.resident_memory_mib());
    }
    eprintln!("MiB after each thousand of 10,000 ALTERs: {sizes:?}");
    assert!(sizes[9] <= sizes[1] + STILL_MIB, "{sizes:?}");
    assert_eq!(walferry.metrics().await.value("walferry_records_total"), 10_000.0);
    assert_eq!(walferry.terminate(SOON).await.code, Some(0));
    let topic = format!("{name}.public.t");
    let reading = read_events(&kafka.address, std::slice::from_ref(&topic)).await;
    reading.is_faultless();
    assert_eq!((reading.changes, reading.duplicates), (10_000, 0));
    reading.equals(&database, "t", &topic).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn thousands_of_tables_that_come_and_go_take_no_memory() {
    let _heavy = heavy().await;
    let (postgres, kafka) = (Postgres::shared(18), Kafka::shared());
    let database = postgres.database().await;
    let name = pipeline();
    database
        .execute(&format!(
            "CREATE TABLE kept (id int PRIMARY KEY, v text); CREATE PUBLICATION {name} FOR ALL TABLES; INSERT INTO kept VALUES (0)"
        ))
        .await;
    let mut walferry = Walferry::start(&Config::new(&name, &database, &kafka).text("log.level", "debug"));
    walferry.ready(SOON).await;
    let mut sizes = Vec::new();
    for thousand in 0..5 {
        // Wide, so that a thousand of them would be seen; and with a type of their own.
        database
            .execute(&format!(
                "DO $$ DECLARE wide text := (SELECT string_agg('c' || n || ' text', ', ') FROM generate_series(1, 100) n); \
                 BEGIN FOR n IN 1..1000 LOOP CREATE TYPE mood AS ENUM ('well'); \
                 EXECUTE 'CREATE TABLE brief (id int PRIMARY KEY, m mood, ' || wide || ')'; \
                 INSERT INTO brief VALUES (1, 'well'); DROP TABLE brief; DROP TYPE mood; \
                 UPDATE kept SET v = {thousand} || ' ' || n; COMMIT; END LOOP; END $$"
            ))
            .await;
        database.confirmed(&name, LATER, || walferry.log()).await;
        sizes.push(walferry.resident_memory_mib());
    }
    eprintln!("MiB after each thousand of 5,000 tables of 102 columns: {sizes:?}");
    assert!(sizes[4] <= sizes[1] + STILL_MIB, "{sizes:?}");
    let exit = walferry.terminate(SOON).await;
    assert_eq!(exit.code, Some(0), "{}", exit.stderr);
    exit.says(&["tables that are gone are forgotten"]);
    let topics = ["brief", "kept"].map(|table| format!("{name}.public.{table}"));
    let reading = read_events(&kafka.address, &topics).await;
    assert_eq!((reading.changes, reading.duplicates), (10_000, 0));
    assert_eq!(reading.topics[&topics[0]].counts["op_c"], 5000);
    reading.equals(&database, "kept", &topics[1]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn tables_that_are_gone_leave_the_metrics_and_those_that_stay_do_not() {
    let _heavy = heavy().await;
    let (postgres, kafka) = (Postgres::shared(16), Kafka::shared());
    let database = postgres.database().await;
    let name = pipeline();
    database
        .execute(&format!(
            "CREATE TABLE kept (id int PRIMARY KEY); CREATE PUBLICATION {name} FOR ALL TABLES"
        ))
        .await;
    // A truncate that is skipped describes its table, and needs no topic.
    let config = Config::new(&name, &database, &kafka).text("kafka.truncate", "skip");
    let mut walferry = Walferry::start(&config);
    walferry.ready(SOON).await;
    database.execute("INSERT INTO kept VALUES (0)").await;
    // One table under a thousand names, and a thousand tables.
    database
        .execute(
            "DO $$ BEGIN CREATE TABLE named_0 (id int PRIMARY KEY); COMMIT; FOR n IN 1..1000 LOOP \
             EXECUTE format('ALTER TABLE %I RENAME TO %I', 'named_' || n - 1, 'named_' || n); \
             EXECUTE format('TRUNCATE %I', 'named_' || n); COMMIT; \
             EXECUTE format('CREATE TABLE %I (id int PRIMARY KEY)', 'brief_' || n); COMMIT; \
             EXECUTE format('TRUNCATE %I', 'brief_' || n); COMMIT; \
             EXECUTE format('DROP TABLE %I', 'brief_' || n); COMMIT; END LOOP; END $$",
        )
        .await;
    database
        .execute("INSERT INTO kept VALUES (1); INSERT INTO named_1000 VALUES (7)")
        .await;
    database.confirmed(&name, LATER, || walferry.log()).await;
    let (status, text) = http("GET", &walferry.url("/metrics"), None).await.unwrap();
    assert_eq!(status, 200);
    let tables: BTreeSet<&str> = text
        .lines()
        .filter_map(|line| line.split_once("table=\"")?.1.split('"').next())
        .collect();
    eprintln!("tables in the metrics after 2,001 names: {}", tables.len());
    assert!(tables.len() <= 512, "{}", tables.len());
    assert!(tables.contains("public.kept") && tables.contains("public.named_1000"));
    let kept = "walferry_records_total{op=\"c\",table=\"public.kept\"}";
    assert_eq!(walferry.metrics().await.series(kept), 2.0);
    assert_eq!(walferry.terminate(SOON).await.code, Some(0));
    let topics = ["kept", "named_1000"].map(|table| format!("{name}.public.{table}"));
    assert_eq!(kafka.topics(&format!("{name}.")).await, topics);
    let reading = read_events(&kafka.address, &topics).await;
    reading.is_faultless();
    assert_eq!((reading.changes, reading.duplicates), (3, 0));
    reading.equals(&database, "kept", &topics[0]).await;
    reading.equals(&database, "named_1000", &topics[1]).await;
}
