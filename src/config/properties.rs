//! Which properties of librdkafka walferry owns, and which hold secrets.

/// Why `kafka.properties` may not hold `key`; `None` where it may.
///
/// Delivery without loss and in order rests on these properties. An override would be a different guarantee.
pub fn refused_property(key: &str) -> Option<&'static str> {
    Some(match key {
        "bootstrap.servers" | "metadata.broker.list" => "kafka.bootstrap_servers sets it",
        "enable.idempotence" => "the producer is always idempotent: a retry must neither duplicate nor reorder records",
        "acks" | "request.required.acks" => {
            "it is always all: a position is confirmed only when every replica in sync has the record"
        }
        "partitioner" => "it is always murmur2_random, so that a key has the partition that Java clients choose",
        "transactional.id" => "delivery is at least once; there are no Kafka transactions",
        "message.timeout.ms" | "delivery.timeout.ms" => {
            "records never time out: one that was given up would be a gap in the topic"
        }
        "max.in.flight" | "max.in.flight.requests.per.connection" => {
            "the idempotent producer sets it, so that retries keep the order"
        }
        "retries" | "message.send.max.retries" => "records are retried for as long as it takes",
        "queue.buffering.max.messages" | "queue.buffering.max.kbytes" | "queue.buffering.backpressure.threshold" => {
            "delivery.max_in_flight is the limit"
        }
        "enable.gapless.guarantee" => "a failed record stops the pipeline already",
        "dr_msg_cb" | "dr_cb" | "delivery.report.only.error" => "every record's delivery report is needed",
        _ => return None,
    })
}

/// Whether the value of a property is never shown.
pub fn is_secret_property(key: &str) -> bool {
    let key = key.to_ascii_lowercase();
    let file = key.ends_with("_file");
    let named = ["password", "secret", "token", "credential", "passphrase"]
        .iter()
        .any(|word| key.contains(word))
        && !key.ends_with(".url")
        && !key.ends_with(".ms");
    !file && (named || key.ends_with(".pem") || matches!(key.as_str(), "sasl.jaas.config" | "sasl.oauthbearer.config"))
}
