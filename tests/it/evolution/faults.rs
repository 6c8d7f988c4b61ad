//! The registry fails while tables change: what passes is waited out, what does not stops with the table's name.

use super::{LATER, SOON};
use crate::harness::{Config, Fault, HttpProxy, Kafka, Postgres, Registry, Walferry, read_events};
use crate::workload::pipeline;
use serde_json::json;

#[tokio::test(flavor = "multi_thread")]
async fn a_409_for_one_table_stops_with_its_name_and_what_came_before_it_is_confirmed() {
    let (postgres, kafka, registry) = (Postgres::shared(16), Kafka::shared(), Registry::shared());
    let database = postgres.database().await;
    database
        .execute("CREATE TABLE fine (id int PRIMARY KEY, v text); CREATE TABLE taken (id int PRIMARY KEY, v text)")
        .await;
    let name = pipeline();
    let config = Config::new(&name, &database, &kafka);
    // Somebody else's schema stands where the table's should.
    let subject = format!("{name}.public.taken-value");
    let other = json!({ "type": "record", "name": "Other", "fields": [{ "name": "id", "type": "int" }] });
    registry.register(&subject, &other).await;
    registry.compatibility(&subject, "BACKWARD").await;

    let mut walferry = Walferry::start(&config);
    walferry.ready(SOON).await;
    database.execute("INSERT INTO fine VALUES (1, 'a')").await;
    database.confirmed(&name, SOON, || walferry.log()).await;
    database
        .execute("BEGIN; INSERT INTO fine VALUES (2, 'b'); INSERT INTO taken VALUES (1, 'a'); INSERT INTO fine VALUES (3, 'c'); COMMIT")
        .await;
    let exit = walferry.end(SOON).await;
    assert_eq!(exit.code, Some(1), "{}", exit.stderr);
    exit.says(&["table public.taken", &subject, "incompatible", "Other", "Envelope"]);

    registry.compatibility(&subject, "NONE").await;
    let mut walferry = Walferry::start(&config);
    walferry.ready(SOON).await;
    database.confirmed(&name, SOON, || walferry.log()).await;
    assert_eq!(walferry.terminate(SOON).await.code, Some(0));
    let topics = ["fine", "taken"].map(|table| format!("{name}.public.{table}"));
    let reading = read_events(&kafka.address, &topics).await;
    reading.is_faultless();
    // The transaction was cut in its middle: what it had published comes again, at the same place.
    assert_eq!((reading.changes, reading.duplicates), (4, 1));
    reading.equals(&database, "fine", &topics[0]).await;
    reading.equals(&database, "taken", &topics[1]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_registry_that_answers_500_429_or_nothing_while_a_table_changes_is_waited_for() {
    let (postgres, kafka, registry) = (Postgres::shared(17), Kafka::shared(), Registry::shared());
    let proxy = HttpProxy::start(&registry).await;
    let database = postgres.database().await;
    database
        .execute("CREATE TABLE t (id int PRIMARY KEY, c int); CREATE TABLE other (id int PRIMARY KEY)")
        .await;
    let name = pipeline();
    let config = Config::new(&name, &database, &kafka).text("schema_registry.url", &registry.url_through(proxy.port));
    let mut walferry = Walferry::start(&config);
    walferry.ready(SOON).await;
    database
        .execute("INSERT INTO t VALUES (1, 1); INSERT INTO other VALUES (1)")
        .await;
    database.confirmed(&name, SOON, || walferry.log()).await;
    registry.compatibility(&format!("{name}.public.t-value"), "FULL").await;

    // Every request that a changed table makes (latest version, level, registration) fails in each way.
    for (n, faults) in [
        vec![Fault::Status(500), Fault::TooMany(1), Fault::Status(503)],
        vec![Fault::Silent],
        vec![Fault::TooMany(0), Fault::Status(429), Fault::Status(500)],
    ]
    .into_iter()
    .enumerate()
    {
        let before = proxy.asked().len();
        for skipped in 0..3 {
            proxy.fail_after(skipped, &faults);
            database
                .execute(&format!("ALTER TABLE t ADD c{n}{skipped} int DEFAULT {n}"))
                .await;
            database
                .execute(&format!(
                    "BEGIN; INSERT INTO t VALUES ({n}{skipped}2, 2); INSERT INTO other VALUES ({n}{skipped}2); COMMIT"
                ))
                .await;
            database.confirmed(&name, LATER, || walferry.log()).await;
        }
        let failed = proxy.asked()[before..].iter().filter(|asked| !asked.forwarded).count();
        assert_eq!(failed, 3 * faults.len(), "every fault was reached");
    }
    let exit = walferry.terminate(SOON).await;
    assert_eq!(exit.code, Some(0), "{}", exit.stderr);
    let topics = ["t", "other"].map(|table| format!("{name}.public.{table}"));
    let reading = read_events(&kafka.address, &topics).await;
    reading.is_faultless();
    assert_eq!((reading.changes, reading.duplicates), (2 + 2 * 9, 0));
    reading.equals(&database, "other", &topics[1]).await;
    assert_eq!(registry.versions(&format!("{name}.public.t-value")).await, 10);
}
