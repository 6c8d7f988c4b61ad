//! The stream under stress: stopped in a burst, idle for long, with a huge value, with its walsender ended.

use crate::harness::{Config, Kafka, Postgres, Walferry, eventually, fresh, read};
use crate::workload::{Workload, create_tables, pipeline, seed, verify};
use rdkafka::ClientConfig;
use rdkafka::consumer::{BaseConsumer, Consumer};
use rdkafka::message::Message;
use rdkafka::{Offset, TopicPartitionList};
use std::time::Duration;
use walferry::config::secret::Secret;
use walferry::lsn::Lsn;
use walferry::replication::{
    CreateSlot, PostgresSettings, ReplicationClient, SslMode, StartReplication, StreamMessage, protocol_version,
};

const SOON: Duration = Duration::from_secs(30);
const LATER: Duration = Duration::from_secs(120);

#[tokio::test(flavor = "multi_thread")]
async fn a_stop_in_the_middle_of_a_burst_loses_no_row_and_sends_none_twice() {
    for version in [10, 18] {
        let (postgres, kafka) = (Postgres::shared(version), Kafka::shared());
        let database = postgres.database().await;
        create_tables(&database).await;
        let name = pipeline();
        let config = Config::new(&name, &database, &kafka);
        let mut walferry = Walferry::start(&config);
        walferry.ready(SOON).await;
        let workload = Workload::endless(&database, 2, seed()).await;
        for round in 1..=3 {
            eventually("the workload goes on", SOON, async || {
                (workload.committed() > round * 1_000).then_some(())
            })
            .await;
            let exit = walferry.terminate(SOON).await;
            assert_eq!(exit.code, Some(0), "{}", exit.stderr);
            walferry = Walferry::start(&config);
            walferry.ready(SOON).await;
        }
        let committed = workload.stop().await;
        database.confirmed(&name, LATER, || walferry.log()).await;
        let reading = verify(&database, &kafka.address, &name, committed).await;
        assert_eq!(
            reading.duplicates, 0,
            "Postgres {version}: what was confirmed is not sent again"
        );
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_idle_connection_outlives_a_short_wal_sender_timeout() {
    let kafka = Kafka::shared();
    // Since 12 a role may have one of its own.
    for version in [12, 18] {
        let postgres = Postgres::shared(version);
        let database = postgres.database().await;
        let role = fresh("role");
        database
            .execute(&format!(
                "CREATE TABLE t (id int PRIMARY KEY); CREATE ROLE {role} LOGIN SUPERUSER REPLICATION; \
                 ALTER ROLE {role} SET wal_sender_timeout = '3s'"
            ))
            .await;
        let name = pipeline();
        let config = Config::new(&name, &database, &kafka)
            .text("postgres.user", &role)
            .text("replication.status_interval", "10m");
        let mut walferry = Walferry::start(&config);
        walferry.ready(SOON).await;
        let walsender = database.walsender(&name).await.unwrap();
        tokio::time::sleep(Duration::from_secs(7)).await;
        assert_eq!(
            database.walsender(&name).await,
            Some(walsender),
            "Postgres {version}: the same walsender\n{}",
            walferry.log()
        );
        database.execute("INSERT INTO t VALUES (1)").await;
        database.confirmed(&name, SOON, || walferry.log()).await;
        assert_eq!(
            walferry
                .metrics()
                .await
                .series("walferry_reconnects_total{peer=\"postgres\"}"),
            0.0
        );
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_walsender_that_was_terminated_is_replaced_and_nothing_is_lost() {
    for version in [10, 14, 18] {
        let (postgres, kafka) = (Postgres::shared(version), Kafka::shared());
        let database = postgres.database().await;
        create_tables(&database).await;
        let name = pipeline();
        let mut walferry = Walferry::start(&Config::new(&name, &database, &kafka));
        walferry.ready(SOON).await;
        let workload = Workload::endless(&database, 2, seed()).await;
        for round in 1..=2 {
            eventually("the workload goes on", SOON, async || {
                (workload.committed() > round * 1_000).then_some(())
            })
            .await;
            let ended = eventually("someone is on the slot", SOON, async || database.walsender(&name).await).await;
            assert!(database.is(&format!("pg_terminate_backend({ended})")).await);
            eventually("another walsender has taken over", SOON, async || {
                database.walsender(&name).await.filter(|pid| *pid != ended)
            })
            .await;
            walferry.ready(SOON).await;
        }
        let committed = workload.stop().await;
        database.confirmed(&name, LATER, || walferry.log()).await;
        assert_eq!(
            walferry
                .metrics()
                .await
                .series("walferry_reconnects_total{peer=\"postgres\"}"),
            2.0
        );
        verify(&database, &kafka.address, &name, committed).await;
    }
}

const HUGE: usize = 100_000_000;

#[tokio::test(flavor = "multi_thread")]
async fn a_value_of_100_mb_arrives_and_memory_stays_bounded() {
    let _alone = crate::harness::heavy().await;
    let (postgres, kafka) = (Postgres::shared(16), Kafka::shared());
    let database = postgres.database().await;
    database.execute("CREATE TABLE t (id int PRIMARY KEY, v text)").await;
    let name = pipeline();
    let config = Config::new(&name, &database, &kafka)
        .set("kafka.properties", "{ \"message.max.bytes\" = \"104000000\" }")
        .set("kafka.topic_config", "{ \"max.message.bytes\" = \"104000000\" }");
    let mut walferry = Walferry::start(&config);
    walferry.ready(SOON).await;
    let before = walferry.peak_memory_mib();
    database
        .execute(&format!("INSERT INTO t VALUES (1, repeat('x', {HUGE}))"))
        .await;
    database.execute("INSERT INTO t VALUES (2, 'y')").await;
    database.confirmed(&name, LATER, || walferry.log()).await;
    let peak = walferry.peak_memory_mib();
    // As received, as encoded, as handed to Kafka; and buffers that have grown past what they hold.
    assert!(peak < before + 450, "{peak} MiB, {before} MiB before");
    for id in 3..6 {
        database.execute(&format!("INSERT INTO t VALUES ({id}, 'z')")).await;
        database.confirmed(&name, LATER, || walferry.log()).await;
    }
    let resident = walferry.resident_memory_mib();
    assert!(resident < before + 60, "{resident} MiB are kept, {before} MiB before");

    let topic = format!("{name}.public.t");
    let address = kafka.address.clone();
    let sizes = tokio::task::spawn_blocking(move || {
        let consumer: BaseConsumer = ClientConfig::new()
            .set("bootstrap.servers", &address)
            .set("group.id", "walferry-huge")
            .set("enable.auto.commit", "false")
            .set("fetch.max.bytes", "110000000")
            .set("receive.message.max.bytes", "120000000")
            .create()
            .unwrap();
        let mut assignment = TopicPartitionList::new();
        assignment.add_partition_offset(&topic, 0, Offset::Beginning).unwrap();
        consumer.assign(&assignment).unwrap();
        let mut sizes = Vec::new();
        while sizes.len() < 2 {
            let message = consumer.poll(LATER).expect("both records").unwrap();
            let payload = message.payload().unwrap();
            sizes.push((payload.len(), payload.iter().filter(|byte| **byte == b'x').count()));
        }
        sizes
    })
    .await
    .unwrap();
    assert!(sizes[0].1 >= HUGE && sizes[0].0 < HUGE + 1000, "{sizes:?}");
    assert!(sizes[1].0 < 1000, "{sizes:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_row_larger_than_kafka_takes_is_named_by_table_and_size_and_stays_in_the_log() {
    let (postgres, kafka) = (Postgres::shared(16), Kafka::shared());
    let database = postgres.database().await;
    database.execute("CREATE TABLE t (id int PRIMARY KEY, v text)").await;
    let name = pipeline();
    let config = Config::new(&name, &database, &kafka);
    let mut walferry = Walferry::start(&config);
    walferry.ready(SOON).await;
    database.execute("INSERT INTO t VALUES (1, 'x')").await;
    database.confirmed(&name, SOON, || walferry.log()).await;
    database
        .execute("INSERT INTO t VALUES (2, repeat('secret', 500000))")
        .await;
    database.execute("INSERT INTO t VALUES (3, 'x')").await;
    let exit = walferry.end(SOON).await;
    assert_eq!(exit.code, Some(1), "{}", exit.stderr);
    exit.says(&["public.t", "3000", "message.max.bytes", "max.message.bytes"]);
    assert!(!exit.stderr.contains("secret"), "{}", exit.stderr);

    // With what the hint says, it goes on from there.
    let limit = "{ \"LIMIT\" = \"4000000\" }";
    let config = config.set("kafka.properties", &limit.replace("LIMIT", "message.max.bytes"));
    kafka
        .set_topic_config(&format!("{name}.public.t"), "max.message.bytes", "4000000")
        .await;
    let mut walferry = Walferry::start(&config);
    walferry.ready(SOON).await;
    database.confirmed(&name, SOON, || walferry.log()).await;
    let topic = format!("{name}.public.t");
    let reading = read(&kafka.address, std::slice::from_ref(&topic)).await;
    reading.is_faultless();
    assert_eq!((reading.changes, reading.duplicates), (3, 0));
    reading.equals(&database, "t", &topic).await;
}

/// What the library gives to a program of its own: transactions whole and in order, and a position that it chooses.
#[tokio::test(flavor = "multi_thread")]
async fn a_final_status_update_moves_the_slot_to_exactly_what_was_confirmed() {
    for version in [10, 18] {
        let postgres = Postgres::shared(version);
        let database = postgres.database().await;
        let name = fresh("slot");
        database
            .execute(&format!(
                "CREATE TABLE t (id int PRIMARY KEY); CREATE PUBLICATION {name} FOR TABLE t"
            ))
            .await;
        let settings = PostgresSettings {
            hosts: vec!["127.0.0.1".to_owned()],
            port: postgres.port,
            database: database.name.clone(),
            user: "walferry_scram".to_owned(),
            password: Some(Secret::new("scram secret")),
            sslmode: SslMode::Require,
            sslrootcert: None,
            sslcert: None,
            sslkey: None,
            connect_timeout: Duration::from_secs(10),
            application_name: name.clone(),
        };
        let mut client = ReplicationClient::connect(&settings).await.unwrap();
        assert_eq!(client.server_version() / 10_000, version);
        client.create_slot(&name, &CreateSlot::default()).await.unwrap();
        for id in 1..=20 {
            database.execute(&format!("INSERT INTO t VALUES ({id})")).await;
        }

        // Leaves after every fifth transaction, having confirmed that one; no interval would tell it in time.
        let mut seen = Vec::new();
        while seen.len() < 20 {
            let client = ReplicationClient::connect(&settings).await.unwrap();
            let (confirm, confirmed) = tokio::sync::watch::channel(Lsn::ZERO);
            let options = StartReplication {
                slot: name.clone(),
                start_lsn: Lsn::ZERO,
                publications: vec![name.clone()],
                protocol_version: protocol_version(client.server_version()),
                binary: false,
                messages: false,
                streaming: false,
                status_interval: Duration::from_secs(600),
                wal_sender_timeout: None,
                confirmed,
            };
            let (mut reader, sender) = client.start(&options).await.unwrap();
            let mut taken = 0;
            while taken < 5 {
                let message = tokio::time::timeout(SOON, reader.next()).await.unwrap().unwrap();
                let StreamMessage::XLogData { data, .. } = message else {
                    continue;
                };
                match data[0] {
                    // One text column: its length in 4 bytes, then its digits.
                    b'I' => seen.push(String::from_utf8(data[13..].to_vec()).unwrap()),
                    b'C' => {
                        let end = u64::from_be_bytes(data[10..18].try_into().unwrap());
                        confirm.send_replace(Lsn::new(end));
                        taken += 1;
                    }
                    _ => {}
                }
            }
            // More is on its way, and is left there.
            drop(reader);
            sender.finish().await.unwrap();
            let expected = confirm.borrow().to_string();
            database.confirmed_to(&name, &expected, SOON, String::new).await;
            assert!(
                database
                    .is(&format!(
                        "(SELECT confirmed_flush_lsn = '{expected}' FROM pg_replication_slots \
                         WHERE slot_name = '{name}')"
                    ))
                    .await,
                "Postgres {version}: confirmed to {expected} and not beyond"
            );
            database.walsender_gone(&name).await;
        }
        let expected: Vec<String> = (1..=20).map(|id| id.to_string()).collect();
        assert_eq!(seen, expected, "Postgres {version}");
        database
            .value(&format!("SELECT pg_drop_replication_slot('{name}')"))
            .await;
    }
}
