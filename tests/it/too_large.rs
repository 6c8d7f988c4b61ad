//! Records that are larger than a topic or a broker takes: known before they are sent.

use crate::harness::{Config, Database, Kafka, Postgres, Walferry, read_events, read_records};
use crate::workload::pipeline;
use rdkafka::ClientConfig;
use rdkafka::consumer::{BaseConsumer, Consumer};
use rdkafka::error::RDKafkaErrorCode;
use rdkafka::message::{Message, OwnedMessage};
use rdkafka::producer::{FutureProducer, FutureRecord};
use rdkafka::{Offset, TopicPartitionList};
use std::time::Duration;

const SOON: Duration = Duration::from_secs(30);
const LATER: Duration = Duration::from_secs(90);

/// Not compressed, so that what is judged is what is stored.
const PLAIN: &str = "{ \"compression.type\" = \"none\" }";

async fn with_table(database: &Database<'_>) {
    database.execute("CREATE TABLE t (id int PRIMARY KEY, v text)").await;
}

/// The last record of the topic's only partition, as it is.
async fn last_record(kafka: &Kafka, topic: &str) -> OwnedMessage {
    let (address, topic) = (kafka.address.clone(), topic.to_owned());
    tokio::task::spawn_blocking(move || {
        let consumer: BaseConsumer = ClientConfig::new()
            .set("bootstrap.servers", &address)
            .set("group.id", "walferry-last")
            .create()
            .unwrap();
        let (_, end) = consumer.fetch_watermarks(&topic, 0, SOON).unwrap();
        let mut assignment = TopicPartitionList::new();
        assignment
            .add_partition_offset(&topic, 0, Offset::Offset(end - 1))
            .unwrap();
        consumer.assign(&assignment).unwrap();
        consumer.poll(SOON).expect("a record").unwrap().detach()
    })
    .await
    .unwrap()
}

/// What a broker says to this record alone, from a producer that judges nothing itself.
async fn sent_to(kafka: &Kafka, topic: &str, message: &OwnedMessage) -> Option<RDKafkaErrorCode> {
    let producer: FutureProducer = ClientConfig::new()
        .set("bootstrap.servers", &kafka.address)
        .set("compression.type", "none")
        .set("message.max.bytes", "100000000")
        .create()
        .unwrap();
    let record = FutureRecord::to(topic)
        .key(message.key().unwrap())
        .payload(message.payload().unwrap())
        .headers(message.headers().cloned().unwrap_or_default())
        .timestamp(message.timestamp().to_millis().unwrap());
    match producer.send(record, SOON).await {
        Ok(_) => None,
        Err((error, _)) => error.rdkafka_error_code(),
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_record_passes_exactly_up_to_what_the_broker_takes() {
    let (postgres, kafka) = (Postgres::shared(16), Kafka::shared());
    for envelope in ["debezium", "row"] {
        let database = postgres.database().await;
        with_table(&database).await;
        let name = pipeline();
        let topic = format!("{name}.public.t");
        let config = Config::new(&name, &database, &kafka)
            .text("avro.envelope", envelope)
            .set("kafka.properties", PLAIN);
        kafka.create_topic(&topic, 1).await;
        kafka.set_topic_config(&topic, "max.message.bytes", "2000").await;
        let mut walferry = Walferry::start(&config);
        walferry.ready(SOON).await;
        database
            .execute("INSERT INTO t SELECT 1, string_agg(md5(n::text), '') FROM generate_series(1, 100) n")
            .await;
        // The error says how large it is; the stream begins with it again each time.
        let exit = walferry.end(SOON).await;
        assert_eq!(exit.code, Some(1), "{}", exit.stderr);
        exit.says(&["public.t", &format!("topic {topic} takes 2000")]);
        let (_, rest) = exit.stderr.rsplit_once("too large: ").expect("the size");
        let size: u64 = rest.split_whitespace().next().unwrap().parse().unwrap();
        kafka
            .set_topic_config(&topic, "max.message.bytes", &(size - 1).to_string())
            .await;
        let exit = Walferry::to_end(&config, "run", SOON).await;
        exit.says(&[&format!(
            "too large: {size} bytes, and topic {topic} takes {}",
            size - 1
        )]);
        kafka
            .set_topic_config(&topic, "max.message.bytes", &size.to_string())
            .await;
        let mut walferry = Walferry::start(&config);
        walferry.ready(SOON).await;
        database.confirmed(&name, SOON, || walferry.log()).await;
        assert_eq!(
            walferry
                .metrics()
                .await
                .series("walferry_reconnects_total{peer=\"kafka\"}"),
            0.0
        );
        // It is the broker's own measure: the same record is one byte too large for a limit that is one less.
        let record = last_record(&kafka, &topic).await;
        let other = format!("{name}.other");
        kafka.create_topic(&other, 1).await;
        kafka
            .set_topic_config(&other, "max.message.bytes", &size.to_string())
            .await;
        assert_eq!(sent_to(&kafka, &other, &record).await, None);
        kafka
            .set_topic_config(&other, "max.message.bytes", &(size - 1).to_string())
            .await;
        assert_eq!(
            sent_to(&kafka, &other, &record).await,
            Some(RDKafkaErrorCode::MessageSizeTooLarge)
        );
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn many_small_records_never_make_a_batch_that_is_too_large() {
    let (postgres, kafka) = (Postgres::shared(17), Kafka::shared());
    let database = postgres.database().await;
    with_table(&database).await;
    let name = pipeline();
    let topic = format!("{name}.public.t");
    kafka.create_topic(&topic, 1).await;
    kafka.set_topic_config(&topic, "max.message.bytes", "8000").await;
    let config = Config::new(&name, &database, &kafka).set(
        "kafka.properties",
        "{ \"compression.type\" = \"none\", \"linger.ms\" = 50 }",
    );
    let mut walferry = Walferry::start(&config);
    walferry.ready(SOON).await;
    database
        .execute("INSERT INTO t SELECT n, repeat(md5(n::text), 30) FROM generate_series(1, 2000) n")
        .await;
    database.confirmed(&name, LATER, || walferry.log()).await;
    let metrics = walferry.metrics().await;
    assert_eq!(metrics.series("walferry_reconnects_total{peer=\"kafka\"}"), 0.0);
    assert_eq!(
        metrics.series("walferry_delivery_errors_total{kind=\"too_large\"}"),
        0.0
    );
    let reading = read_events(&kafka.address, std::slice::from_ref(&topic)).await;
    reading.is_faultless();
    assert_eq!((reading.changes, reading.duplicates), (2000, 0));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_limit_that_is_lowered_and_raised_while_it_runs_is_noticed() {
    let (postgres, kafka) = (Postgres::shared(18), Kafka::shared());
    let database = postgres.database().await;
    with_table(&database).await;
    let name = pipeline();
    let topic = format!("{name}.public.t");
    let config = Config::new(&name, &database, &kafka)
        .set("kafka.properties", PLAIN)
        .text("delivery.on_bad_row", "dead-letter");
    let mut walferry = Walferry::start(&config);
    walferry.ready(SOON).await;
    let large = |id: u32| format!("INSERT INTO t VALUES ({id}, repeat('x', 100000))");
    database.execute(&large(1)).await;
    database.confirmed(&name, SOON, || walferry.log()).await;

    kafka.set_topic_config(&topic, "max.message.bytes", "50000").await;
    database
        .execute(&format!(
            "BEGIN; INSERT INTO t VALUES (2, 'small'); {}; INSERT INTO t VALUES (4, 'small'); COMMIT",
            large(3)
        ))
        .await;
    database.confirmed(&name, LATER, || walferry.log()).await;
    let metrics = walferry.metrics().await;
    assert!(metrics.series("walferry_reconnects_total{peer=\"kafka\"}") >= 1.0);
    assert!(metrics.series("walferry_delivery_errors_total{kind=\"too_large\"}") >= 1.0);
    assert_eq!(
        metrics.series("walferry_bad_rows_total{reason=\"too_large\",table=\"public.t\"}"),
        1.0
    );
    // What was asked for a moment ago is not asked for again at once.
    tokio::time::sleep(Duration::from_secs(6)).await;
    kafka.set_topic_config(&topic, "max.message.bytes", "200000").await;
    database.execute(&large(5)).await;
    database.confirmed(&name, SOON, || walferry.log()).await;

    let reading = read_events(&kafka.address, std::slice::from_ref(&topic)).await;
    let found: Vec<_> = reading
        .events
        .iter()
        .map(|event| (event.key.as_ref().unwrap()["id"].clone().unwrap(), event.ordinal))
        .collect();
    let expected = [("1", 0), ("2", 0), ("4", 2), ("5", 0)];
    assert_eq!(found, expected.map(|(id, ordinal)| (id.to_owned(), ordinal)));
    let letters = read_records(&kafka.address, &[format!("{name}.dead-letter")]).await;
    assert_eq!(letters.len(), 1);
    let letter = &letters[0];
    assert_eq!(letter.headers["walferry.reason"], "too_large");
    assert_eq!(letter.headers["walferry.complete"], "true");
    assert_eq!(letter.headers["walferry.ordinal"], "1");
    assert_eq!(letter.key.as_ref().unwrap()["id"].as_deref(), Some("3"));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_record_larger_than_a_request_may_be_is_refused_instead_of_being_sent_for_ever() {
    let postgres = Postgres::shared(15);
    let kafka = Kafka::private_with(&[("socket.request.max.bytes", "1000000")]).await;
    let database = postgres.database().await;
    with_table(&database).await;
    let name = pipeline();
    let config = Config::new(&name, &database, &kafka)
        .set("kafka.properties", PLAIN)
        .set("kafka.topic_config", "{ \"max.message.bytes\" = \"5000000\" }");
    let mut walferry = Walferry::start(&config);
    walferry.ready(SOON).await;
    let names = format!("{name}.public.t").len() + format!("walferry-{name}").len();
    database.execute("INSERT INTO t VALUES (1, repeat('x', 990000))").await;
    database.confirmed(&name, SOON, || walferry.log()).await;
    database.execute("INSERT INTO t VALUES (2, repeat('x', 1000000))").await;
    let exit = walferry.end(SOON).await;
    assert_eq!(exit.code, Some(1), "{}", exit.stderr);
    exit.says(&[
        &format!("takes {}", 1_000_000 - 100 - names),
        "socket.request.max.bytes",
    ]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_letter_that_is_too_large_itself_is_cut_and_one_that_fits_nowhere_stops_the_pipeline() {
    let (postgres, kafka) = (Postgres::shared(14), Kafka::shared());
    let database = postgres.database().await;
    database
        .execute("CREATE TABLE t (id int PRIMARY KEY, small text, large text)")
        .await;
    let name = pipeline();
    let letters = format!("{name}.dead-letter");
    kafka.create_topic(&letters, 1).await;
    kafka.set_topic_config(&letters, "max.message.bytes", "5000").await;
    let config = Config::new(&name, &database, &kafka)
        .text("delivery.on_bad_row", "dead-letter")
        .set("kafka.topic_config", "{ \"max.message.bytes\" = \"10000\" }");
    let mut walferry = Walferry::start(&config);
    walferry.ready(SOON).await;
    database
        .execute("INSERT INTO t VALUES (1, repeat('s', 1000), repeat('l', 20000))")
        .await;
    database.confirmed(&name, SOON, || walferry.log()).await;
    let found = read_records(&kafka.address, std::slice::from_ref(&letters)).await;
    assert_eq!(found[0].headers["walferry.complete"], "false");
    let value = found[0].value.as_ref().unwrap();
    assert_eq!(value["complete"], false);
    assert_eq!(value["new"][1]["kind"], "text");
    assert_eq!(
        value["new"][2],
        serde_json::json!({ "kind": "cut", "value": null, "size": 20_000 })
    );
    walferry.terminate(SOON).await;

    kafka.set_topic_config(&letters, "max.message.bytes", "500").await;
    let mut walferry = Walferry::start(&config);
    walferry.ready(SOON).await;
    database
        .execute("INSERT INTO t VALUES (2, 's', repeat('l', 20000))")
        .await;
    let exit = walferry.end(SOON).await;
    assert_eq!(exit.code, Some(1), "{}", exit.stderr);
    exit.says(&["public.t", &letters, "does not fit", "max.message.bytes"]);
}
