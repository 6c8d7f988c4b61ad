//! librdkafka's properties: which are walferry's, which are the user's, and what stands where nobody says anything.

use std::time::Duration;

use rdkafka::config::{ClientConfig, RDKafkaLogLevel};

use super::shape::{LARGEST, Shape};
use super::{KafkaError, KafkaSettings};

/// What no user may set, and why. Aliases are listed with their properties: librdkafka takes either.
const REFUSED: &[(&[&str], &str)] = &[
    (
        &["bootstrap.servers", "metadata.broker.list"],
        "set kafka.bootstrap_servers",
    ),
    (
        &["enable.idempotence"],
        "without it a retry could write a record twice or change the order of a key",
    ),
    (
        &["enable.gapless.guarantee"],
        "a refused record stops the pipeline anyway, and this would make it fatal",
    ),
    (
        &["acks", "request.required.acks"],
        "a position is acknowledged only when all in-sync replicas have the record",
    ),
    (
        &["max.in.flight", "max.in.flight.requests.per.connection"],
        "the idempotent producer keeps the order with up to 5 requests, which is the setting",
    ),
    (
        &[
            "retries",
            "message.send.max.retries",
            "message.timeout.ms",
            "delivery.timeout.ms",
        ],
        "a record is tried until Kafka takes it or refuses it for good",
    ),
    (
        &["partitioner", "msg_order_cmp", "queuing.strategy"],
        "records go to the partition that Java clients choose, in the order of commit",
    ),
    (
        &["transactional.id"],
        "it is the pipeline's name, under delivery.guarantee = \"exactly-once\"",
    ),
    (
        &["queue.buffering.max.messages", "queue.buffering.max.kbytes"],
        "the queue is bounded by delivery.max_in_flight",
    ),
    (
        &["delivery.report.only.error", "dr_cb", "dr_msg_cb"],
        "the acknowledged position follows the delivery reports",
    ),
    (
        &["allow.auto.create.topics"],
        "topics are created as kafka.create_topics says, never as a side effect",
    ),
    (
        &[
            "log.queue",
            "log_level",
            "log_cb",
            "error_cb",
            "stats_cb",
            "throttle_cb",
            "opaque",
            "enabled_events",
        ],
        "librdkafka's log and events are taken in by walferry; set log.level",
    ),
    (
        &["test.mock.num.brokers", "test.mock.broker.rtt"],
        "a mock cluster forgets every record; `walferry demo` is there for trying out",
    ),
];

/// Why this property cannot be set, if it cannot.
pub fn refused_property(key: &str) -> Option<&'static str> {
    let (_, reason) = REFUSED.iter().find(|(keys, _)| keys.contains(&key))?;
    Some(reason)
}

/// What stands unless the user says otherwise, under either name.
const DEFAULTS: &[(&[&str], &str)] = &[
    (&["compression.type", "compression.codec"], "lz4"),
    (&["linger.ms", "queue.buffering.max.ms"], "5"),
    // A broker that vanishes without a word is noticed also on a connection that only waits.
    (&["socket.keepalive.enable"], "true"),
];

const OWNED: &[(&str, &str)] = &[
    ("enable.idempotence", "true"),
    ("acks", "all"),
    ("max.in.flight.requests.per.connection", "5"),
    ("partitioner", "murmur2_random"),
    // No limit of its own beside max_in_flight.
    ("queue.buffering.max.messages", "0"),
    ("queue.buffering.max.kbytes", "2147483647"),
    ("allow.auto.create.topics", "false"),
];

/// Kafka aborts a transaction that is open for longer; librdkafka's default.
const TRANSACTION_TIMEOUT: Duration = Duration::from_secs(60);

/// How long a Kafka transaction may be open.
pub(super) fn transaction_timeout(settings: &KafkaSettings) -> Duration {
    let written = settings.properties.get("transaction.timeout.ms");
    // A text that is no number is for librdkafka to refuse.
    written
        .and_then(|text| text.parse().ok())
        .map_or(TRANSACTION_TIMEOUT, Duration::from_millis)
}

/// How to reach the cluster: for the producer, and for the client that creates topics.
pub(super) fn connection_config(settings: &KafkaSettings) -> Result<ClientConfig, KafkaError> {
    let mut config = ClientConfig::new();
    config.set("client.id", &settings.client_id);
    for (key, value) in &settings.properties {
        if let Some(reason) = refused_property(key) {
            return Err(KafkaError::RefusedProperty {
                key: key.clone(),
                reason,
            });
        }
        config.set(key, value);
    }
    config.set("bootstrap.servers", &settings.bootstrap_servers);
    // librdkafka says what `debug` asks for at its own debug level only.
    config.set_log_level(match settings.properties.contains_key("debug") {
        true => RDKafkaLogLevel::Debug,
        false => RDKafkaLogLevel::Info,
    });
    Ok(config)
}

/// A consumer of what is committed, in a group that it does not join.
pub(super) fn consumer_config(settings: &KafkaSettings, group: &str) -> Result<ClientConfig, KafkaError> {
    let mut config = connection_config(settings)?;
    for (key, value) in [
        ("group.id", group),
        ("enable.auto.commit", "false"),
        ("isolation.level", "read_committed"),
        ("allow.auto.create.topics", "false"),
    ] {
        config.set(key, value);
    }
    Ok(config)
}

/// The user's own bound on a record.
pub(super) fn user_limit(settings: &KafkaSettings) -> Option<u64> {
    settings.properties.get("message.max.bytes")?.parse().ok()
}

pub(super) fn producer_config(settings: &KafkaSettings, shape: Shape) -> Result<ClientConfig, KafkaError> {
    let mut config = connection_config(settings)?;
    for (keys, value) in DEFAULTS {
        if let Some(key) = keys
            .first()
            .filter(|_| !keys.iter().any(|&key| settings.properties.contains_key(key)))
        {
            config.set(*key, *value);
        }
    }
    for (key, value) in OWNED {
        config.set(*key, *value);
    }
    // What librdkafka would not take of the user's is left for it to refuse.
    for (key, value, takes) in [
        ("message.max.bytes", shape.record(), 1_000..=LARGEST),
        ("batch.size", shape.batch(), 1..=i32::MAX as u64),
    ] {
        let written = settings.properties.get(key);
        if written.is_none_or(|text| text.parse().is_ok_and(|number| takes.contains(&number))) {
            config.set(key, value.to_string());
        }
    }
    match &settings.transactional_id {
        // What has waited for so long is of a transaction that Kafka has aborted; librdkafka gives up at that time by itself.
        Some(id) => config.set("transactional.id", id),
        // No limit: what waits for a cluster that is away is not given up.
        None => config.set("message.timeout.ms", "0"),
    };
    if shape.is_alone() {
        config.set("batch.num.messages", "1");
    }
    Ok(config)
}

#[cfg(test)]
mod tests {
    use super::super::tests::settings;
    use super::*;

    fn config(settings: &KafkaSettings) -> Result<ClientConfig, KafkaError> {
        producer_config(settings, Shape::first(settings, false))
    }

    #[test]
    fn what_walferry_sets_is_refused_under_either_name() {
        for (key, _) in OWNED {
            assert!(refused_property(key).is_some(), "{key} could be overridden");
        }
        for key in [
            "request.required.acks",
            "delivery.timeout.ms",
            "metadata.broker.list",
            "transactional.id",
        ] {
            assert!(refused_property(key).is_some(), "{key} could be set");
        }
        assert_eq!(refused_property("client.id"), None);
        assert_eq!(refused_property("compression.type"), None);
        let mut settings = settings("127.0.0.1:1");
        settings.properties.insert("acks".into(), "1".into());
        assert_eq!(
            config(&settings).unwrap_err().to_string(),
            "kafka property acks is walferry's own: a position is acknowledged only when all in-sync replicas have the \
             record"
        );
    }

    #[test]
    fn a_default_gives_way_also_to_its_alias() {
        let mut settings = settings("127.0.0.1:1");
        assert_eq!(config(&settings).unwrap().get("compression.type"), Some("lz4"));
        settings.properties.insert("compression.codec".into(), "zstd".into());
        let config = config(&settings).unwrap();
        assert_eq!(
            (config.get("compression.type"), config.get("compression.codec")),
            (None, Some("zstd"))
        );
    }

    #[test]
    fn librdkafka_accepts_every_property_that_is_set() {
        let settings = settings("127.0.0.1:1");
        for shape in [
            Shape::first(&settings, false),
            Shape::first(&settings, true)
                .with_batches_below(0)
                .with_records_up_to(LARGEST),
        ] {
            let config = producer_config(&settings, shape).unwrap();
            config.create_native_config().unwrap();
        }
    }

    #[test]
    fn records_and_batches_are_bounded_by_what_topics_take_and_the_user_may_say_less() {
        let bounds = |shape: Shape, settings: &KafkaSettings| {
            let config = producer_config(settings, shape).unwrap();
            ["message.max.bytes", "batch.size", "batch.num.messages"].map(|key| config.get(key).map(str::to_owned))
        };
        let some = |text: &str| Some(text.to_owned());
        let mut settings = settings("127.0.0.1:1");
        let shape = Shape::first(&settings, false);
        assert_eq!(bounds(shape, &settings), [some("1048588"), some("1000000"), None]);
        let shape = shape.with_batches_below(5_000).with_batches_below(6_000);
        let shape = shape.with_records_up_to(1_048_588).with_records_up_to(1_048_589);
        assert_eq!(bounds(shape, &settings), [some("2097152"), some("5000"), None]);
        settings.properties.insert("batch.size".into(), "70000".into());
        settings.properties.insert("message.max.bytes".into(), "3000".into());
        assert_eq!(user_limit(&settings), Some(3_000));
        let shape = Shape::first(&settings, true).with_batches_below(80_000);
        assert_eq!(bounds(shape, &settings), [some("1048588"), some("70000"), some("1")]);
        settings.properties.insert("message.max.bytes".into(), "999".into());
        let error = config(&settings).unwrap().create_native_config().err().unwrap();
        assert!(error.to_string().contains("message.max.bytes"), "{error}");
    }
}
