//! Against librdkafka's mock cluster.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use rdkafka::consumer::{BaseConsumer, Consumer};
use rdkafka::message::{Headers, Message};
use rdkafka::mocking::MockCluster;
use rdkafka::producer::DefaultProducerContext;
use rdkafka::types::{RDKafkaApiKey, RDKafkaRespErr};
use rdkafka::{ClientConfig, TopicPartitionList};

use super::*;
use crate::lsn::Lsn;
use crate::progress::{Event, Failure, Progress, Transaction};

pub(super) fn settings(bootstrap_servers: &str) -> KafkaSettings {
    KafkaSettings {
        bootstrap_servers: bootstrap_servers.to_owned(),
        client_id: "test".to_owned(),
        properties: BTreeMap::new(),
        create_topics: false,
        partitions: 1,
        replication_factor: -1,
        topic_config: BTreeMap::new(),
        max_in_flight: 1 << 20,
        transactional_id: None,
    }
}

/// Everything that was told to the observers, in its order; deliveries as sums.
#[derive(Default)]
struct Seen {
    told: Mutex<Vec<String>>,
    delivered: Mutex<(u64, u64)>,
    changed: tokio::sync::Notify,
}

impl Seen {
    fn tell(&self, what: String) {
        self.told.lock().unwrap().push(what);
        self.changed.notify_one();
    }

    fn told(&self) -> Vec<String> {
        self.told.lock().unwrap().clone()
    }

    async fn until(&self, reached: impl Fn(&[String]) -> bool) {
        let wait = async {
            while !reached(&self.told()) {
                self.changed.notified().await;
            }
        };
        let in_time = tokio::time::timeout(Duration::from_secs(30), wait).await.is_ok();
        assert!(in_time, "only {:?} was told", self.told());
    }
}

impl DeliveryObserver for Seen {
    fn delivered(&self, records: u64, bytes: u64) {
        let mut delivered = self.delivered.lock().unwrap();
        *delivered = (delivered.0 + records, delivered.1 + bytes);
    }
    fn failed(&self, kind: &'static str) {
        self.tell(format!("failed {kind}"));
    }
    fn brokers_down(&self, _: &str) {
        self.tell("down".to_owned());
    }
    fn brokers_up(&self) {
        self.tell("up".to_owned());
    }
    fn fatal(&self, reason: &str) {
        self.tell(format!("fatal {reason}"));
    }
    fn fence_retry(&self, error: &KafkaError) {
        self.tell(format!("fence {error}"));
    }
    fn topic_retry(&self, topic: &str, _: &KafkaError) {
        self.tell(format!("retry {topic}"));
    }
}

struct Bench {
    producer: Producer,
    seen: Arc<Seen>,
    progress: Progress,
    cluster: MockCluster<'static, DefaultProducerContext>,
}

impl Bench {
    fn new(topics: &[(&str, i32)], change: impl FnOnce(&mut KafkaSettings)) -> Self {
        let cluster = MockCluster::new(3).unwrap();
        for &(topic, partitions) in topics {
            cluster.create_topic(topic, partitions, 3).unwrap();
        }
        let mut settings = settings(&cluster.bootstrap_servers());
        change(&mut settings);
        let seen = Arc::new(Seen::default());
        let observer = seen.clone();
        let progress = Progress::new(
            Lsn::ZERO,
            Box::new(move |event| {
                if let Event::Broken(failure) = event {
                    observer.tell(format!("broken: {}", failure.reason()));
                }
            }),
        );
        Bench {
            producer: Producer::new(&settings, seen.clone()).unwrap(),
            seen,
            progress,
            cluster,
        }
    }

    fn begin(&self) -> Transaction {
        self.progress.begin(Lsn::new(16), 0).unwrap()
    }

    async fn settle(&self) {
        assert!(
            self.producer.flush(Duration::from_secs(30)).await,
            "{:?} left",
            self.producer.in_flight()
        );
    }

    /// Everything in a topic: partition, key, value; in each partition's order.
    fn read(&self, topic: &str, partitions: i32, count: usize) -> Vec<(i32, Option<String>, Option<String>)> {
        let consumer = consumer(&self.cluster.bootstrap_servers(), topic, partitions);
        let deadline = Instant::now() + Duration::from_secs(30);
        let mut records = Vec::new();
        while records.len() < count && Instant::now() < deadline {
            if let Some(message) = consumer.poll(Duration::from_millis(200)) {
                let message = message.unwrap();
                let text = |bytes: Option<&[u8]>| bytes.map(|b| String::from_utf8(b.to_vec()).unwrap());
                records.push((message.partition(), text(message.key()), text(message.payload())));
            }
        }
        assert_eq!(records.len(), count);
        records
    }
}

fn consumer(bootstrap_servers: &str, topic: &str, partitions: i32) -> BaseConsumer {
    let consumer: BaseConsumer = ClientConfig::new()
        .set("bootstrap.servers", bootstrap_servers)
        .set("group.id", "reader")
        .create()
        .unwrap();
    let mut assignment = TopicPartitionList::new();
    for partition in 0..partitions {
        assignment
            .add_partition_offset(topic, partition, rdkafka::Offset::Beginning)
            .unwrap();
    }
    consumer.assign(&assignment).unwrap();
    consumer
}

fn record<'a>(key: &'a str, value: &'a str) -> OutRecord<'a> {
    OutRecord {
        key: Some(key.as_bytes()),
        value: Some(value.as_bytes()),
        headers: &[],
        timestamp_ms: 1,
    }
}

#[tokio::test]
async fn the_confirmed_lsn_follows_the_deliveries() {
    let bench = Bench::new(&[("t", 4)], |_| ());
    bench.producer.ensure_topic("t", TopicUse::Table).await.unwrap();
    let transaction = bench.begin();
    for n in 0..1000 {
        let key = n.to_string();
        bench
            .producer
            .send("t", &record(&key, "value"), transaction.ticket())
            .unwrap();
    }
    transaction.commit(Lsn::new(32)).unwrap();
    bench.settle().await;
    assert_eq!(bench.progress.confirmed(), Lsn::new(32));
    assert_eq!(bench.producer.in_flight(), InFlight::default());
    let seen = bench.seen.clone();
    drop(bench);
    // 10 keys of 1 digit, 90 of 2, 900 of 3, and values of 5 bytes.
    assert_eq!(*seen.delivered.lock().unwrap(), (1000, 10 + 180 + 2700 + 5000));
    assert_eq!(seen.told(), Vec::<String>::new());
}

#[tokio::test]
async fn keys_go_to_the_partition_that_java_clients_choose() {
    let bench = Bench::new(&[("t", 12)], |_| ());
    // Kafka's own vectors (org.apache.kafka.common.utils.UtilsTest, testMurmur2), made positive, modulo 12.
    let expected = [
        ("21", 0),                                               // -973932308
        ("foobar", 6),                                           // -790332482
        ("a-little-bit-long-string", 8),                         // -985981536
        ("a-little-bit-longer-string", 11),                      // -1486304829
        ("lkjh234lh9fiuh90y23oiuhsafujhadof229phr9h19h89h8", 5), // -58897971
        ("abc", 3),                                              // 479470107
    ];
    let transaction = bench.begin();
    for (key, _) in expected {
        bench
            .producer
            .send("t", &record(key, ""), transaction.ticket())
            .unwrap();
    }
    let mut records = bench.read("t", 12, expected.len());
    records.sort();
    let mut expected = expected.map(|(key, partition)| (partition, Some(key.to_owned()), Some(String::new())));
    expected.sort();
    assert_eq!(records, expected);
    bench.settle().await;
}

#[tokio::test]
async fn key_tombstone_headers_and_timestamp_arrive_as_given() {
    let bench = Bench::new(&[("t", 1)], |_| ());
    let transaction = bench.begin();
    let headers: [(&str, &[u8]); 2] = [("walferry.op", b"d"), ("walferry.lsn", b"")];
    let out = OutRecord {
        key: Some(b""),
        value: None,
        headers: &headers,
        timestamp_ms: 1_700_000_000_123,
    };
    assert_eq!(out.size(), 11 + 1 + 12);
    bench.producer.send("t", &out, transaction.ticket()).unwrap();
    assert_eq!(
        bench.producer.in_flight(),
        InFlight {
            records: 1,
            bytes: 256 + 24
        }
    );
    let consumer = consumer(&bench.cluster.bootstrap_servers(), "t", 1);
    let message = consumer.poll(Duration::from_secs(30)).unwrap().unwrap();
    assert_eq!((message.key(), message.payload()), (Some(&b""[..]), None));
    assert_eq!(message.timestamp().to_millis(), Some(1_700_000_000_123));
    let read = message.headers().unwrap();
    let read: Vec<_> = read.iter().map(|h| (h.key, h.value.unwrap_or(b"none"))).collect();
    assert_eq!(read, headers);
    bench.settle().await;
    assert_eq!(bench.producer.in_flight(), InFlight::default());
}

#[tokio::test]
async fn the_order_of_a_key_survives_retries_and_lost_responses() {
    let bench = Bench::new(&[("t", 3)], |settings| {
        // Small batches, so that several requests are in flight when one fails.
        settings.properties.insert("batch.num.messages".into(), "10".into());
    });
    use RDKafkaRespErr::*;
    let errors = [
        RD_KAFKA_RESP_ERR_NOT_LEADER_FOR_PARTITION,
        RD_KAFKA_RESP_ERR__TRANSPORT,
        RD_KAFKA_RESP_ERR_REQUEST_TIMED_OUT,
        RD_KAFKA_RESP_ERR_NOT_ENOUGH_REPLICAS,
        RD_KAFKA_RESP_ERR__TRANSPORT,
    ];
    bench.cluster.request_errors(RDKafkaApiKey::Produce, &errors);
    let transaction = bench.begin();
    let count = 600;
    for n in 0..count {
        let (key, value) = (format!("key {}", n % 5), n.to_string());
        bench
            .producer
            .send("t", &record(&key, &value), transaction.ticket())
            .unwrap();
    }
    transaction.commit(Lsn::new(32)).unwrap();
    bench.settle().await;
    assert_eq!(bench.progress.confirmed(), Lsn::new(32));
    let mut by_key: BTreeMap<String, Vec<i32>> = BTreeMap::new();
    for (_, key, value) in bench.read("t", 3, count) {
        by_key
            .entry(key.unwrap())
            .or_default()
            .push(value.unwrap().parse().unwrap());
    }
    for (key, values) in by_key {
        let first = values[0];
        assert_eq!(values, (0..120).map(|n| first + 5 * n).collect::<Vec<_>>(), "{key}");
    }
}

#[tokio::test]
async fn capacity_ends_at_the_limit_and_comes_back_with_the_deliveries() {
    let bench = Bench::new(&[("t", 1)], |settings| settings.max_in_flight = 10_000);
    for broker in 1..=3 {
        bench.cluster.broker_down(broker).unwrap();
    }
    let transaction = bench.begin();
    let value = "v".repeat(243);
    let mut sent = 0;
    while bench.producer.has_capacity() {
        bench
            .producer
            .send("t", &record("k", &value), transaction.ticket())
            .unwrap();
        sent += 1;
    }
    // 256 + 1 + 243 = 500 bytes each.
    assert_eq!(
        (sent, bench.producer.in_flight()),
        (
            20,
            InFlight {
                records: 20,
                bytes: 10_000
            }
        )
    );
    let waited = tokio::time::timeout(Duration::from_millis(300), bench.producer.capacity()).await;
    assert!(waited.is_err(), "there was capacity while nothing could be delivered");
    for broker in 1..=3 {
        bench.cluster.broker_up(broker).unwrap();
    }
    tokio::time::timeout(Duration::from_secs(30), bench.producer.capacity())
        .await
        .unwrap();
    assert!(bench.producer.in_flight().bytes < 8_750);
    bench.settle().await;
}

#[tokio::test]
async fn a_record_over_the_limit_gives_its_ticket_back() {
    let bench = Bench::new(&[("t", 1)], |_| ());
    let transaction = bench.begin();
    let value = "v".repeat(1_100_000);
    let error = bench
        .producer
        .send("t", &record("k", &value), transaction.ticket())
        .unwrap_err();
    assert!(
        matches!(error.kind, SendErrorKind::TooLarge { size: 1_100_075 }),
        "{error}"
    );
    assert_eq!(
        error.to_string(),
        "kafka producer did not take a record for topic t: 1100075 bytes are more than message.max.bytes allows"
    );
    assert_eq!(bench.producer.in_flight(), InFlight::default());
    error.ticket.failed(Failure::Final("too large".into()));
    assert_eq!(
        bench.seen.told(),
        ["broken: too large, in the transaction that committed at 0/10"]
    );
}

#[tokio::test]
async fn a_record_that_the_broker_refuses_fails_its_ticket_by_kind() {
    for (error, kind, why) in [
        (
            RDKafkaRespErr::RD_KAFKA_RESP_ERR_MSG_SIZE_TOO_LARGE,
            "too_large",
            "MessageSizeTooLarge (Broker: Message size too large)",
        ),
        (
            RDKafkaRespErr::RD_KAFKA_RESP_ERR_TOPIC_AUTHORIZATION_FAILED,
            "authorization",
            "TopicAuthorizationFailed (Broker: Topic authorization failed)",
        ),
    ] {
        let bench = Bench::new(&[("t", 1)], |_| ());
        bench.cluster.request_errors(RDKafkaApiKey::Produce, &[error; 8]);
        let transaction = bench.begin();
        bench
            .producer
            .send("t", &record("k", "secret"), transaction.ticket())
            .unwrap();
        transaction.commit(Lsn::new(32)).unwrap();
        bench.settle().await;
        assert_eq!(
            bench.seen.told(),
            [
                format!(
                    "broken: kafka did not take a record of 7 bytes for topic t, partition 0: {why}, \
                     in the transaction that committed at 0/10"
                ),
                format!("failed {kind}"),
            ]
        );
        assert_eq!(bench.progress.confirmed(), Lsn::ZERO);
    }
}

#[tokio::test]
async fn a_large_record_is_taken_once_there_is_room_for_it_and_comes_after_those_before_it() {
    let bench = Bench::new(&[("t", 1)], |_| ());
    let limit = bench.producer.ensure_topic("t", TopicUse::Table).await.unwrap();
    assert_eq!(limit, 1_048_588, "Kafka's default, where the cluster shows nothing");
    let transaction = bench.begin();
    let large = "v".repeat(3_000_000);
    for (key, value) in [("first", "v"), ("second", large.as_str()), ("third", "v")] {
        let record = record(key, value);
        bench.producer.make_room(record.batch_size()).await.unwrap();
        bench.producer.send("t", &record, transaction.ticket()).unwrap();
    }
    transaction.commit(Lsn::new(32)).unwrap();
    bench.settle().await;
    assert_eq!(bench.progress.confirmed(), Lsn::new(32));
    let keys: Vec<_> = bench
        .read("t", 1, 3)
        .into_iter()
        .map(|(_, key, _)| key.unwrap())
        .collect();
    assert_eq!(keys, ["first", "second", "third"]);
    assert_eq!(bench.seen.told(), Vec::<String>::new());
}

#[tokio::test]
async fn a_limit_that_nobody_shows_is_learned_from_a_record_that_was_refused_alone() {
    let cluster = MockCluster::new(1).unwrap();
    cluster.create_topic("t", 1, 1).unwrap();
    let settings = settings(&cluster.bootstrap_servers());
    let refusals = Arc::new(Refusals::default());
    let mut limits = Vec::new();
    for _ in 0..3 {
        let seen = Arc::new(Seen::default());
        let producer = Producer::with_refusals(&settings, seen.clone(), refusals.clone()).unwrap();
        limits.push(producer.ensure_topic("t", TopicUse::Table).await.unwrap());
        let refused = [RDKafkaRespErr::RD_KAFKA_RESP_ERR_MSG_SIZE_TOO_LARGE];
        cluster.request_errors(RDKafkaApiKey::Produce, &refused);
        let progress = Progress::new(Lsn::ZERO, Box::new(|_| ()));
        let transaction = progress.begin(Lsn::new(16), 0).unwrap();
        producer.send("t", &record("k", "v"), transaction.ticket()).unwrap();
        seen.until(|told| told.contains(&"failed too_large".to_owned())).await;
    }
    let producer = Producer::with_refusals(&settings, Arc::new(Seen::default()), refusals).unwrap();
    limits.push(producer.ensure_topic("t", TopicUse::Table).await.unwrap());
    let size = record("k", "v").batch_size();
    assert_eq!(limits, [1_048_588, 1_048_588, 1_048_588, size - 1]);
}

#[tokio::test]
async fn a_fatal_error_is_told_once_and_ends_the_taking_of_records() {
    let cluster = MockCluster::new(1).unwrap();
    cluster.create_topic("t", 1, 1).unwrap();
    let refused = [RDKafkaRespErr::RD_KAFKA_RESP_ERR_CLUSTER_AUTHORIZATION_FAILED; 8];
    cluster.request_errors(RDKafkaApiKey::InitProducerId, &refused);
    let seen = Arc::new(Seen::default());
    let producer = Producer::new(&settings(&cluster.bootstrap_servers()), seen.clone()).unwrap();
    seen.until(|told| !told.is_empty()).await;
    let told = seen.told();
    assert!(told.len() == 1 && told[0].starts_with("fatal "), "{told:?}");
    let progress = Progress::new(Lsn::ZERO, Box::new(|_| ()));
    let transaction = progress.begin(Lsn::new(16), 0).unwrap();
    let error = producer.send("t", &record("k", "v"), transaction.ticket()).unwrap_err();
    assert!(error.to_string().contains("Cluster authorization failed"), "{error}");
    assert_eq!(error.kind.as_str(), "fatal");
    error.ticket.failed(Failure::Passing("fatal".into()));
}

#[tokio::test]
async fn a_transaction_that_waited_too_long_takes_no_more_and_another_producer_may() {
    let bench = Bench::new(&[("t", 1)], |settings| {
        settings.transactional_id = Some("pipeline".to_owned());
        let timeout = ("transaction.timeout.ms".to_owned(), "1000".to_owned());
        settings.properties.extend([timeout]);
    });
    bench.producer.fence().await.unwrap();
    let transaction = bench.begin();
    let send = || bench.producer.send("t", &record("k", "v"), transaction.ticket());
    send().unwrap();
    bench.settle().await;
    // Silent, and not gone: of brokers that the cluster does not know any more nothing waits too long, it just fails.
    for broker in 1..=3 {
        let silence = Duration::from_secs(10);
        bench.cluster.broker_round_trip_time(broker, silence).unwrap();
    }
    // The first that waits too long ends the transaction; those that were taken meanwhile fail with it.
    let error = loop {
        match send() {
            Ok(()) => bench.settle().await,
            Err(error) => break error,
        }
    };
    // As of a fatal error, and not as of a record that is never taken: the session ends, and the next has a new producer.
    assert_eq!(error.kind.as_str(), "fatal");
    assert!(
        matches!(&error.kind, SendErrorKind::Fatal { reason } if reason.contains("State")),
        "{error}"
    );
    error.ticket.failed(Failure::Passing("aborted".into()));
}

#[tokio::test]
async fn a_dropped_producer_fails_what_was_not_delivered() {
    let bench = Bench::new(&[("t", 1)], |_| ());
    for broker in 1..=3 {
        bench.cluster.broker_down(broker).unwrap();
    }
    let transaction = bench.begin();
    for _ in 0..3 {
        bench
            .producer
            .send("t", &record("k", "v"), transaction.ticket())
            .unwrap();
    }
    transaction.commit(Lsn::new(32)).unwrap();
    assert!(!bench.producer.flush(Duration::from_millis(100)).await);
    let start = Instant::now();
    drop(bench.producer);
    assert!(
        start.elapsed() < Duration::from_secs(5),
        "it took {:?}",
        start.elapsed()
    );
    let told = bench.seen.told();
    assert_eq!(
        told.iter().filter(|told| *told == "failed purged").count(),
        3,
        "{told:?}"
    );
    assert_eq!(
        told.iter().filter(|told| told.starts_with("broken: ")).count(),
        3,
        "{told:?}"
    );
    assert_eq!(bench.progress.confirmed(), Lsn::ZERO);
    assert_eq!(*bench.seen.delivered.lock().unwrap(), (0, 0));
}

#[tokio::test]
async fn brokers_that_go_and_come_back_are_noticed_without_traffic() {
    let bench = Bench::new(&[("t", 1)], |_| ());
    bench.producer.ensure_topic("t", TopicUse::Table).await.unwrap();
    for broker in 1..=3 {
        bench.cluster.broker_down(broker).unwrap();
    }
    bench.seen.until(|told| told == ["down"]).await;
    for broker in 1..=3 {
        bench.cluster.broker_up(broker).unwrap();
    }
    bench.seen.until(|told| told == ["down", "up"]).await;
}

#[tokio::test]
async fn a_missing_topic_is_an_error_that_names_it_and_is_not_created() {
    let bench = Bench::new(&[("other", 1)], |_| ());
    let error = bench
        .producer
        .ensure_topic("shop.public.orders", TopicUse::Table)
        .await
        .unwrap_err();
    assert_eq!(
        error.to_string(),
        "topic shop.public.orders does not exist, or this user may not see it"
    );
    assert!(error.hint().unwrap().contains("kafka.create_topics = true"));
    let info = bench.producer.probe().await.unwrap();
    assert_eq!(info.topics.into_iter().collect::<Vec<_>>(), ["other"]);
    assert_eq!(info.brokers.len(), 3);
    bench.producer.ensure_topic("other", TopicUse::Table).await.unwrap();
}

#[tokio::test]
async fn a_cluster_that_is_away_is_waited_for() {
    let bench = Bench::new(&[("t", 1)], |_| ());
    for broker in 1..=3 {
        bench.cluster.broker_down(broker).unwrap();
    }
    let comes_back = async {
        bench.seen.until(|told| told.contains(&"retry t".to_owned())).await;
        for broker in 1..=3 {
            bench.cluster.broker_up(broker).unwrap();
        }
    };
    let (ensured, ()) = tokio::join!(bench.producer.ensure_topic("t", TopicUse::Table), comes_back);
    ensured.unwrap();
}

#[tokio::test]
async fn a_name_that_no_topic_can_have_is_refused_before_kafka_is_asked() {
    let bench = Bench::new(&[], |settings| settings.bootstrap_servers = "127.0.0.1:1".to_owned());
    for name in ["", ".", "..", "a b", "größe", "a/b", &"x".repeat(250)] {
        let error = bench.producer.ensure_topic(name, TopicUse::Table).await.unwrap_err();
        assert!(matches!(error, KafkaError::TopicName { .. }), "{error}");
    }
}

#[test]
fn a_wrong_property_is_named_and_its_value_is_not() {
    for (key, value) in [("sasl.passwort", "sesame"), ("linger.ms", "sesame")] {
        let mut settings = settings("127.0.0.1:1");
        settings.properties.insert(key.into(), value.into());
        let error = Producer::new(&settings, Arc::new(Seen::default())).unwrap_err();
        assert!(
            matches!(&error, KafkaError::Property { key: named, .. } if named == key),
            "{error}"
        );
        assert!(
            !format!("{error} {error:?} {settings:?}").contains("sesame"),
            "{error:?}"
        );
    }
}

#[test]
fn a_producer_can_be_shared_and_its_futures_moved_between_threads() {
    fn shared<T: Send + Sync>(_: &T) {}
    fn moved<T: Send>(_: T) {}
    let producer = Producer::new(&settings("127.0.0.1:1"), Arc::new(Seen::default())).unwrap();
    shared(&producer);
    moved(producer.ensure_topic("t", TopicUse::Table));
    moved(producer.capacity());
    moved(producer.flush(Duration::ZERO));
    moved(producer.probe());
}
