//! Bad input: each gets a message that says what, where, and what to do.

use crate::harness::{Config, Exit, Kafka, Link, Postgres, Proxy, Registry, Walferry, eventually};
use crate::workload::pipeline;
use std::time::Duration;

const SOON: Duration = Duration::from_secs(30);

async fn refused(config: &Config) -> Exit {
    let exit = Walferry::to_end(config, "run", SOON).await;
    assert_eq!(exit.code, Some(1), "{}", exit.stderr);
    exit
}

#[tokio::test(flavor = "multi_thread")]
async fn five_faults_in_a_configuration_are_reported_as_five() {
    let (postgres, kafka) = (Postgres::shared(16), Kafka::shared());
    let database = postgres.database().await;
    let config = Config::new(&pipeline(), &database, &kafka)
        .text("postgres.pasword", "hunter2")
        .set("postgres.port", "99999")
        .text("replication.status_interval", "ten seconds")
        .text("delivery.max_in_flight", "64 bananas")
        .text("avro.envelope", "debesium");
    let exit = Walferry::to_end(&config, "run", SOON).await;
    assert_eq!(exit.code, Some(78), "{}", exit.stderr);
    exit.says(&[
        "postgres.pasword",
        "postgres.password",
        "postgres.port",
        "99999",
        "replication.status_interval",
        "ten seconds",
        "delivery.max_in_flight",
        "64 bananas",
        "avro.envelope",
        "debesium",
    ]);
    assert!(!exit.stderr.contains("hunter2"), "{}", exit.stderr);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_wrong_password_names_the_user_and_is_never_printed() {
    let (postgres, kafka) = (Postgres::shared(16), Kafka::shared());
    let database = postgres.database().await;
    for user in ["walferry_scram", "walferry_md5", "walferry_password"] {
        let config = Config::new(&pipeline(), &database, &kafka)
            .text("postgres.user", user)
            .text("postgres.password", "sesame-open");
        let exit = refused(&config).await;
        exit.says(&["28P01", user, "password"]);
        assert!(!exit.stderr.contains("sesame-open"), "{}", exit.stderr);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_missing_database_is_named() {
    let (postgres, kafka) = (Postgres::shared(16), Kafka::shared());
    let database = postgres.database().await;
    let config = Config::new(&pipeline(), &database, &kafka).text("postgres.database", "no_such_database");
    refused(&config)
        .await
        .says(&["3D000", "no_such_database", "postgres.database"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn wal_level_replica_is_refused_with_the_setting_to_change() {
    let postgres = Postgres::private(16, &[("wal_level", "replica")]);
    let kafka = Kafka::shared();
    let database = postgres.database().await;
    database.execute("CREATE TABLE t (id int PRIMARY KEY)").await;
    refused(&Config::new(&pipeline(), &database, &kafka))
        .await
        .says(&["wal_level", "replica", "logical", "restart"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_missing_publication_is_named_with_the_statement_that_makes_it() {
    let (postgres, kafka) = (Postgres::shared(16), Kafka::shared());
    let database = postgres.database().await;
    let config = Config::new(&pipeline(), &database, &kafka)
        .text("replication.publication", "no_such_publication")
        .set("replication.create_publication", "false");
    refused(&config)
        .await
        .says(&["no_such_publication", "CREATE PUBLICATION"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_missing_slot_is_named_when_it_may_not_be_made() {
    let (postgres, kafka) = (Postgres::shared(16), Kafka::shared());
    let database = postgres.database().await;
    database.execute("CREATE TABLE t (id int PRIMARY KEY)").await;
    let config = Config::new(&pipeline(), &database, &kafka)
        .text("replication.slot", "no_such_slot")
        .set("replication.create_slot", "false");
    refused(&config).await.says(&["no_such_slot", "create_slot"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_pooler_is_recognised() {
    let (postgres, kafka) = (Postgres::shared(16), Kafka::shared());
    let database = postgres.database().await;
    database.execute("CREATE TABLE t (id int PRIMARY KEY)").await;
    let proxy = Proxy::pooler(postgres.port).await;
    let config = Config::new(&pipeline(), &database, &kafka)
        .set("postgres.port", &proxy.port.to_string())
        .text("postgres.sslmode", "disable");
    refused(&config).await.says(&["pooler", &proxy.port.to_string()]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_slot_that_was_dropped_and_made_again_is_refused() {
    let (postgres, kafka) = (Postgres::shared(16), Kafka::shared());
    let database = postgres.database().await;
    database.execute("CREATE TABLE t (id int PRIMARY KEY)").await;
    let proxy = Proxy::start(postgres.port).await;
    let name = pipeline();
    let config = Config::new(&name, &database, &kafka).set("postgres.port", &proxy.port.to_string());
    let mut walferry = Walferry::start(&config);
    walferry.ready(SOON).await;
    database.execute("INSERT INTO t VALUES (1)").await;
    database.confirmed(&name, SOON, || walferry.log()).await;

    // What is written in between can never arrive: to go on would lose it without a word.
    proxy.set(Link::Refuse);
    database.walsender_gone(&name).await;
    database.execute("INSERT INTO t VALUES (2)").await;
    database
        .value(&format!("SELECT pg_drop_replication_slot('{name}')"))
        .await;
    database.execute("INSERT INTO t VALUES (3)").await;
    database
        .value(&format!(
            "SELECT pg_create_logical_replication_slot('{name}', 'pgoutput')"
        ))
        .await;
    proxy.set(Link::Forward);
    let exit = walferry.end(SOON).await;
    assert_eq!(exit.code, Some(1), "{}", exit.stderr);
    exit.says(&[&name, "slot"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_slot_that_was_dropped_while_running_is_refused() {
    let (postgres, kafka) = (Postgres::shared(16), Kafka::shared());
    let database = postgres.database().await;
    database.execute("CREATE TABLE t (id int PRIMARY KEY)").await;
    let proxy = Proxy::start(postgres.port).await;
    let name = pipeline();
    let config = Config::new(&name, &database, &kafka).set("postgres.port", &proxy.port.to_string());
    let mut walferry = Walferry::start(&config);
    walferry.ready(SOON).await;
    proxy.set(Link::Refuse);
    database.walsender_gone(&name).await;
    database
        .value(&format!("SELECT pg_drop_replication_slot('{name}')"))
        .await;
    proxy.set(Link::Forward);
    let exit = walferry.end(SOON).await;
    assert_eq!(exit.code, Some(1), "{}", exit.stderr);
    exit.says(&[&name, "slot"]);
    assert_eq!(
        database
            .value(&format!(
                "SELECT 1 FROM pg_replication_slots WHERE slot_name = '{name}'"
            ))
            .await,
        None,
        "a slot made again would hide the loss"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn an_invalidated_slot_is_refused_with_what_to_do() {
    let postgres = Postgres::private(
        16,
        &[
            ("max_slot_wal_keep_size", "1MB"),
            ("max_wal_size", "32MB"),
            ("min_wal_size", "32MB"),
            ("wal_keep_size", "0"),
        ],
    );
    let kafka = Kafka::shared();
    let database = postgres.database().await;
    database
        .execute("CREATE TABLE t (id int PRIMARY KEY, filler text)")
        .await;
    let name = pipeline();
    let config = Config::new(&name, &database, &kafka);
    let mut walferry = Walferry::start(&config);
    walferry.ready(SOON).await;
    let exit = walferry.terminate(SOON).await;
    assert_eq!(exit.code, Some(0), "{}", exit.stderr);

    eventually("Postgres invalidates the slot", Duration::from_secs(60), async || {
        database
            .execute("INSERT INTO t SELECT n, repeat('x', 1000) FROM generate_series(1, 20000) n")
            .await;
        database.execute("TRUNCATE t; SELECT pg_switch_wal(); CHECKPOINT").await;
        database
            .is(&format!(
                "(SELECT wal_status = 'lost' FROM pg_replication_slots WHERE slot_name = '{name}')"
            ))
            .await
            .then_some(())
    })
    .await;
    refused(&config)
        .await
        .says(&[&name, "invalidated", "max_slot_wal_keep_size"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_schema_that_the_registry_refuses_stops_with_the_difference() {
    let (postgres, kafka, registry) = (Postgres::shared(16), Kafka::shared(), Registry::shared());
    let database = postgres.database().await;
    database.execute("CREATE TABLE t (id int PRIMARY KEY, name text)").await;
    let name = pipeline();
    let subject = format!("{name}.public.t-value");
    registry
        .register(
            &subject,
            &serde_json::json!({
                "type": "record", "name": "Envelope", "namespace": format!("{name}.public.t"),
                "fields": [{ "name": "mandatory", "type": "string" }]
            }),
        )
        .await;
    registry.compatibility(&subject, "FULL").await;
    let mut walferry = Walferry::start(&Config::new(&name, &database, &kafka));
    walferry.ready(SOON).await;
    database.execute("INSERT INTO t VALUES (1, 'x')").await;
    let exit = walferry.end(SOON).await;
    assert_eq!(exit.code, Some(1), "{}", exit.stderr);
    exit.says(&[&subject, "incompatible", "mandatory"]);
    assert_eq!(registry.versions(&subject).await, 1);
    assert!(
        database
            .is(&format!(
                "(SELECT count(*) = 1 FROM pg_logical_slot_peek_binary_changes('{name}', NULL, NULL, \
                 'proto_version', '1', 'publication_names', '{name}') WHERE get_byte(data, 0) = ascii('I'))"
            ))
            .await,
        "what was not published is not confirmed"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_missing_topic_is_named_when_it_may_not_be_made() {
    let (postgres, kafka) = (Postgres::shared(16), Kafka::shared());
    let database = postgres.database().await;
    database
        .execute("CREATE TABLE t (id int PRIMARY KEY); CREATE TABLE u (id int PRIMARY KEY)")
        .await;
    let name = pipeline();
    kafka.create_topic(&format!("{name}.public.t"), 1).await;
    let mut walferry = Walferry::start(&Config::new(&name, &database, &kafka).set("kafka.create_topics", "false"));
    walferry.ready(SOON).await;
    database.execute("INSERT INTO t VALUES (1)").await;
    database.confirmed(&name, SOON, || walferry.log()).await;
    database.execute("INSERT INTO u VALUES (1)").await;
    let exit = walferry.end(SOON).await;
    assert_eq!(exit.code, Some(1), "{}", exit.stderr);
    exit.says(&[&format!("{name}.public.u"), "create_topics"]);
}
