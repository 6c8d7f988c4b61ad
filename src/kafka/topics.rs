//! Topics: looked for, and made as configured before their first record.
//!
//! Whether a topic exists is read from the list of all topics, never asked for by name: brokers with
//! `auto.create.topics.enable` would create it by that, with their own settings.

use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use rdkafka::admin::{AdminClient, AdminOptions, NewTopic, TopicReplication};
use rdkafka::config::{ClientConfig, FromClientConfigAndContext};
use rdkafka::error::RDKafkaErrorCode;
use rdkafka::metadata::Metadata;
use rdkafka::producer::Producer as _;
use tokio::sync::OnceCell;

use super::context::AdminContext;
use super::{ClusterInfo, KafkaError, KafkaSettings, Native, properties};

const METADATA_TIMEOUT: Duration = Duration::from_secs(5);
const PROBE_TIMEOUT: Duration = Duration::from_secs(10);
const CREATION_TIMEOUT: Duration = Duration::from_secs(15);
/// How long a created topic may take to show on the broker that is asked.
const VISIBLE_TIMEOUT: Duration = Duration::from_secs(30);
/// A topic that is missing and not to be created is looked for once more after this: the broker asked may lag.
const SECOND_LOOK: Duration = Duration::from_secs(1);
const FIRST_PAUSE: Duration = Duration::from_millis(200);
const LONGEST_PAUSE: Duration = Duration::from_secs(10);

pub(super) struct Topics {
    create: bool,
    partitions: i32,
    replication_factor: i32,
    config: BTreeMap<String, String>,
    connection: ClientConfig,
    /// Made when the first topic is missing, and kept: the futures of one that is dropped may never resolve.
    admin: OnceCell<AdminClient<AdminContext>>,
    known: Mutex<HashSet<String>>,
}

impl Topics {
    pub(super) fn new(settings: &KafkaSettings) -> Result<Self, KafkaError> {
        Ok(Topics {
            create: settings.create_topics,
            partitions: settings.partitions,
            replication_factor: settings.replication_factor,
            config: settings.topic_config.clone(),
            connection: properties::connection_config(settings)?,
            admin: OnceCell::new(),
            known: Mutex::default(),
        })
    }

    pub(super) async fn ensure(&self, native: &Arc<Native>, topic: &str) -> Result<(), KafkaError> {
        if self.is_known(topic) {
            return Ok(());
        }
        check_name(topic)?;
        let mut pause = FIRST_PAUSE;
        loop {
            match self.attempt(native, topic).await {
                Err(error) if error.is_transient() => {
                    native.client().context().observer.topic_retry(topic, &error);
                    tokio::time::sleep(pause.mul_f64(0.5 + fastrand::f64() / 2.0)).await;
                    pause = (pause * 2).min(LONGEST_PAUSE);
                }
                settled => return settled,
            }
        }
    }

    fn is_known(&self, topic: &str) -> bool {
        self.known
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .contains(topic)
    }

    /// Whether the cluster lists the topic; all that it lists is remembered.
    async fn look(&self, native: &Arc<Native>, topic: &str) -> Result<bool, KafkaError> {
        let metadata = metadata(native, METADATA_TIMEOUT).await?;
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        known.extend(names(&metadata));
        Ok(known.contains(topic))
    }

    async fn attempt(&self, native: &Arc<Native>, topic: &str) -> Result<(), KafkaError> {
        if self.look(native, topic).await? {
            return Ok(());
        }
        if !self.create {
            tokio::time::sleep(SECOND_LOOK).await;
            return match self.look(native, topic).await? {
                true => Ok(()),
                false => Err(KafkaError::TopicMissing {
                    topic: topic.to_owned(),
                }),
            };
        }
        if self.create(topic).await? {
            tracing::info!(topic, partitions = self.partitions, "topic created");
        }
        let created = Instant::now();
        let mut pause = Duration::from_millis(20);
        while created.elapsed() < VISIBLE_TIMEOUT {
            if self.look(native, topic).await? {
                return Ok(());
            }
            tokio::time::sleep(pause).await;
            pause = (pause * 2).min(Duration::from_secs(1));
        }
        Err(KafkaError::TopicHidden {
            topic: topic.to_owned(),
        })
    }

    /// Whether it was this call that created it.
    async fn create(&self, topic: &str) -> Result<bool, KafkaError> {
        let request_failed = |error| match error {
            // The binding's own `rdkafka_error_code` does not know this one.
            rdkafka::error::KafkaError::AdminOp(code) => self.refused(topic, code),
            other => KafkaError::TopicRequest {
                topic: topic.to_owned(),
                reason: other.to_string(),
            },
        };
        let admin = self.admin.get_or_try_init(async || {
            AdminClient::from_config_and_context(&self.connection, AdminContext::default())
                .map_err(KafkaError::from_client)
        });
        let admin = admin.await?;
        let mut new = NewTopic::new(topic, self.partitions, TopicReplication::Fixed(self.replication_factor));
        new.config = self
            .config
            .iter()
            .map(|(key, value)| (key.as_str(), value.as_str()))
            .collect();
        let options = AdminOptions::new()
            .request_timeout(Some(CREATION_TIMEOUT))
            .operation_timeout(Some(CREATION_TIMEOUT));
        let limit = CREATION_TIMEOUT + Duration::from_secs(5);
        let Ok(results) = tokio::time::timeout(limit, admin.create_topics([&new], &options)).await else {
            return Err(self.refused(topic, RDKafkaErrorCode::OperationTimedOut));
        };
        match results.map_err(request_failed)?.into_iter().next() {
            Some(Ok(_)) => Ok(true),
            Some(Err((_, RDKafkaErrorCode::TopicAlreadyExists))) => Ok(false),
            Some(Err((_, code))) => Err(self.refused(topic, code)),
            None => Err(self.refused(topic, RDKafkaErrorCode::BadMessage)),
        }
    }

    fn refused(&self, topic: &str, code: RDKafkaErrorCode) -> KafkaError {
        KafkaError::TopicCreation {
            topic: topic.to_owned(),
            partitions: self.partitions,
            replication_factor: self.replication_factor,
            config: self.config.clone(),
            code,
        }
    }
}

fn names(metadata: &Metadata) -> impl Iterator<Item = String> + '_ {
    metadata
        .topics()
        .iter()
        .filter(|topic| !topic.partitions().is_empty())
        .map(|topic| topic.name().to_owned())
}

/// The list of all topics. librdkafka blocks for it.
async fn metadata(native: &Arc<Native>, timeout: Duration) -> Result<Metadata, KafkaError> {
    let client = native.clone();
    let fetched = tokio::task::spawn_blocking(move || client.client().fetch_metadata(None, timeout));
    let context = native.client().context();
    match fetched.await.map_err(|_| KafkaError::Stopping)? {
        Ok(metadata) => {
            context.brokers_answer();
            Ok(metadata)
        }
        Err(error) => Err(KafkaError::Metadata {
            code: error.rdkafka_error_code().unwrap_or(RDKafkaErrorCode::Fail),
            last: context.broker_error(),
        }),
    }
}

pub(super) async fn probe(native: &Arc<Native>) -> Result<ClusterInfo, KafkaError> {
    let metadata = metadata(native, PROBE_TIMEOUT).await?;
    Ok(ClusterInfo {
        // Known since the metadata came, so this does not block.
        cluster_id: native.client().fetch_cluster_id(Duration::ZERO),
        brokers: metadata
            .brokers()
            .iter()
            .map(|broker| format!("{}:{}", broker.host(), broker.port()))
            .collect(),
        topics: names(&metadata).collect::<BTreeSet<_>>(),
    })
}

/// Kafka's rule for topic names (`org.apache.kafka.common.internals.Topic`), so that a wrong one is told as such and
/// not by the code of a refused request.
fn check_name(topic: &str) -> Result<(), KafkaError> {
    let reason = match topic {
        "" => "it is empty",
        "." | ".." => "it is a directory's",
        _ if topic.len() > 249 => "it is longer than 249 characters",
        _ if !topic.bytes().all(|b| b.is_ascii_alphanumeric() || b"._-".contains(&b)) => {
            "it has a character other than letters, digits, '.', '_' and '-'"
        }
        _ => return Ok(()),
    };
    Err(KafkaError::TopicName {
        topic: topic.to_owned(),
        reason,
    })
}
