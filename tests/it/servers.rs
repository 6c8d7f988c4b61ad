//! The harness holds what the other tests take for granted.

use crate::harness::{Kafka, Link, Postgres, Proxy, Registry, Stop};
use crate::workload::{Workload, create_tables, seed};
use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

/// Postgres's own plugin is the oracle: the workload counts what it has committed, neither more nor less.
async fn the_workload_counts_right(version: u32) {
    let postgres = Postgres::shared(version);
    let database = postgres.database().await;
    create_tables(&database).await;
    let slot = crate::harness::fresh("count");
    database
        .value(&format!(
            "SELECT pg_create_logical_replication_slot('{slot}', 'test_decoding')"
        ))
        .await;
    let committed = Workload::start(&database, 4, 3_000, seed()).await.done().await;
    let decoded = database
        .value(&format!(
            "SELECT sum(CASE WHEN data LIKE 'table %: UPDATE: old-key: %' AND data NOT LIKE 'table public.events:%' \
             THEN 2 ELSE 1 END) FROM pg_logical_slot_get_changes('{slot}', NULL, NULL) WHERE data LIKE 'table %'"
        ))
        .await
        .unwrap();
    assert_eq!(decoded, committed.to_string());
    database
        .value(&format!("SELECT pg_drop_replication_slot('{slot}')"))
        .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_workload_counts_right_on_postgres_10() {
    the_workload_counts_right(10).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_workload_counts_right_on_postgres_18() {
    the_workload_counts_right(18).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_servers_settings_are_foreign() {
    for version in [10, 11, 12, 13, 14, 15, 16, 17, 18] {
        let postgres = Postgres::shared(version);
        let (client, connection) = tokio_postgres::Config::new()
            .host(postgres.dir.to_str().unwrap())
            .port(postgres.port)
            .user("postgres")
            .connect(tokio_postgres::NoTls)
            .await
            .unwrap();
        tokio::spawn(connection);
        for (setting, value) in [
            ("TimeZone", "Asia/Kolkata"),
            ("DateStyle", "German, DMY"),
            ("IntervalStyle", "sql_standard"),
            ("bytea_output", "escape"),
            ("lc_monetary", "de_DE.UTF-8"),
            ("wal_level", "logical"),
            ("ssl", "on"),
        ] {
            let row = client
                .query_one("SELECT current_setting($1)", &[&setting])
                .await
                .unwrap();
            assert_eq!(row.get::<_, String>(0), value, "{setting} of Postgres {version}");
        }
        let row = client
            .query_one("SELECT current_setting('server_version_num')::int / 10000", &[])
            .await
            .unwrap();
        assert_eq!(row.get::<_, i32>(0), i32::try_from(version).unwrap());
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_private_postgres_stops_and_starts_with_its_settings_and_data() {
    let postgres = Postgres::private(17, &[("wal_sender_timeout", "7s")]);
    let mut database = postgres.database().await;
    database.execute("CREATE TABLE t AS SELECT 1 AS a").await;
    for how in [Stop::Fast, Stop::Immediate] {
        let took = postgres.stop(how);
        assert!(took < Duration::from_secs(20), "{took:?}");
        postgres.start();
        database.reconnect().await;
    }
    assert_eq!(database.value("SHOW wal_sender_timeout").await.as_deref(), Some("7s"));
    assert_eq!(database.value("SELECT a FROM t").await.as_deref(), Some("1"));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_private_broker_keeps_its_topics_over_a_kill_and_a_freeze() {
    let mut kafka = Kafka::private().await;
    kafka.create_topic("kept", 2).await;
    kafka.kill();
    kafka.start();
    kafka.ready().await;
    kafka.freeze();
    kafka.thaw();
    kafka.ready().await;
    assert_eq!(kafka.topics("ke").await, ["kept"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn the_shared_registry_refuses_what_is_incompatible() {
    let registry = Registry::shared();
    let subject = crate::harness::fresh("subject");
    let schema =
        |kind: &str| serde_json::json!({"type": "record", "name": "R", "fields": [{"name": "a", "type": kind}]});
    registry.register(&subject, &schema("int")).await;
    registry.compatibility(&subject, "FULL").await;
    let body = serde_json::json!({ "schema": schema("string").to_string() });
    let url = format!("{}/subjects/{subject}/versions", registry.url);
    let (status, _) = crate::harness::http("POST", &url, Some(&body)).await.unwrap();
    assert_eq!(status, 409);
    assert_eq!(registry.versions(&subject).await, 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_proxy_forwards_swallows_and_refuses() {
    let server = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let proxy = Proxy::start(server.local_addr().unwrap().port()).await;
    tokio::spawn(async move {
        while let Ok((mut stream, _)) = server.accept().await {
            tokio::spawn(async move {
                let (mut read, mut write) = stream.split();
                let _ = tokio::io::copy(&mut read, &mut write).await;
            });
        }
    });
    let mut client = TcpStream::connect(("127.0.0.1", proxy.port)).await.unwrap();
    let mut byte = [0];
    client.write_all(b"a").await.unwrap();
    client.read_exact(&mut byte).await.unwrap();
    assert_eq!(byte, *b"a");

    proxy.set(Link::BlackHole);
    client.write_all(b"b").await.unwrap();
    let silent = tokio::time::timeout(Duration::from_millis(300), client.read_exact(&mut byte)).await;
    assert!(silent.is_err(), "nothing passes a black hole");
    proxy.set(Link::Forward);
    client.read_exact(&mut byte).await.unwrap();
    assert_eq!(byte, *b"b");

    proxy.set(Link::Refuse);
    assert_eq!(client.read(&mut byte).await.unwrap_or(0), 0, "the connection has ended");
    let mut another = TcpStream::connect(("127.0.0.1", proxy.port)).await.unwrap();
    assert_eq!(
        another.read(&mut byte).await.unwrap_or(0),
        0,
        "and a new one ends at once"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn the_pooler_knows_nothing_of_replication() {
    let postgres = Postgres::shared(16);
    let proxy = Proxy::pooler(postgres.port).await;
    let mut startup = Vec::new();
    let parameters = "user\0postgres\0database\0postgres\0replication\0database\0\0".as_bytes();
    startup.extend_from_slice(&(u32::try_from(parameters.len()).unwrap() + 8).to_be_bytes());
    startup.extend_from_slice(&196_608_u32.to_be_bytes());
    startup.extend_from_slice(parameters);
    let mut stream = TcpStream::connect(("127.0.0.1", proxy.port)).await.unwrap();
    stream.write_all(&startup).await.unwrap();
    let query = b"IDENTIFY_SYSTEM\0";
    stream.write_all(b"Q").await.unwrap();
    stream.write_u32(u32::try_from(query.len()).unwrap() + 4).await.unwrap();
    stream.write_all(query).await.unwrap();
    let mut answer = Vec::new();
    tokio::time::timeout(Duration::from_secs(10), async {
        while !String::from_utf8_lossy(&answer).contains("42601") {
            assert_ne!(
                stream.read_buf(&mut answer).await.unwrap(),
                0,
                "{}",
                String::from_utf8_lossy(&answer)
            );
        }
    })
    .await
    .unwrap();
}
