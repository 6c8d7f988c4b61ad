//! Topics: looked for, and made as configured before their first record.
//!
//! Whether a topic exists is read from the list of all topics, never asked for by name: brokers with
//! `auto.create.topics.enable` would create it by that, with their own settings.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use futures_util::future::join_all;
use rdkafka::admin::{
    AdminClient, AdminOptions, ConfigEntry, ConfigSource, NewTopic, ResourceSpecifier, TopicReplication,
};
use rdkafka::config::{ClientConfig, FromClientConfigAndContext};
use rdkafka::error::RDKafkaErrorCode;
use rdkafka::metadata::Metadata;
use rdkafka::producer::Producer as _;
use tokio::sync::OnceCell;

use super::context::AdminContext;
use super::limits::Configured;
use super::{ClusterInfo, KafkaError, KafkaSettings, Native, properties};

const METADATA_TIMEOUT: Duration = Duration::from_secs(5);
const PROBE_TIMEOUT: Duration = Duration::from_secs(10);
const CREATION_TIMEOUT: Duration = Duration::from_secs(15);
/// How long a created topic may take to show on the broker that is asked.
const VISIBLE_TIMEOUT: Duration = Duration::from_secs(30);
/// A topic that is missing and not to be created is looked for once more after this: the broker asked may lag.
const SECOND_LOOK: Duration = Duration::from_secs(1);
/// How long a topic or a broker may take to show its configuration.
const DESCRIPTION_TIMEOUT: Duration = Duration::from_secs(5);
/// Between questions for the configuration of a topic that is not shown, which is also so for who may not see it.
const SETTLING: [Duration; 2] = [Duration::from_millis(100), Duration::from_millis(500)];
/// Limits that were asked for this short a time ago are not asked for again.
const ASKED_LATELY: Duration = Duration::from_secs(5);
/// The brokers' own limits change when they are configured anew, and are the same for every topic.
const BROKERS_ASKED_LATELY: Duration = Duration::from_secs(60);
const FIRST_PAUSE: Duration = Duration::from_millis(200);
const LONGEST_PAUSE: Duration = Duration::from_secs(10);

/// What a topic is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TopicUse {
    /// The changes of a table, or logical messages.
    Table,
    /// Where the published changes end, one record a pipeline. All but the last of each may be compacted away, and nothing may expire.
    State,
    /// Rows that could not be published. Nothing may be compacted away there, nor expire: it is all that there is of them.
    DeadLetters,
}

/// Of a created topic of dead letters, over the configuration of all topics.
const DEAD_LETTERS: &[(&str, &str)] = &[
    ("cleanup.policy", "delete"),
    ("retention.ms", "-1"),
    ("retention.bytes", "-1"),
];

/// Of a created topic of positions. Compaction leaves the present segment alone, so segments end soon: a start reads what is not
/// compacted. When a position was written is for the broker to say: it comes without a time.
const STATE: &[(&str, &str)] = &[
    ("cleanup.policy", "compact"),
    ("message.timestamp.type", "LogAppendTime"),
    ("segment.ms", "3600000"),
    ("min.cleanable.dirty.ratio", "0.1"),
];

/// `max.message.bytes` of a created topic of dead letters, unless that of all topics is given: a letter is larger than the
/// row that was too large for its own topic.
const LETTER_BYTES: &str = "100000000";

pub(super) struct Topics {
    create: bool,
    partitions: i32,
    replication_factor: i32,
    config: BTreeMap<String, String>,
    connection: ClientConfig,
    /// Made when the first topic is missing, and kept: the futures of one that is dropped may never resolve.
    admin: OnceCell<AdminClient<AdminContext>>,
    known: Mutex<HashSet<String>>,
    /// The brokers by their ids, as they were last listed.
    brokers: Mutex<BTreeSet<i32>>,
    limits: Mutex<HashMap<String, Described>>,
    broker_limits: Mutex<Option<Described>>,
}

/// What was found out of a topic's limits, and when.
#[derive(Debug, Clone, Copy)]
struct Described {
    configured: Configured,
    at: Instant,
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
            brokers: Mutex::default(),
            limits: Mutex::default(),
            broker_limits: Mutex::default(),
        })
    }

    pub(super) async fn ensure(&self, native: &Arc<Native>, topic: &str, purpose: TopicUse) -> Result<(), KafkaError> {
        if self.described(topic).is_some() {
            return Ok(());
        }
        check_name(topic)?;
        let mut pause = FIRST_PAUSE;
        loop {
            match self.attempt(native, topic, purpose).await {
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
        lock(&self.known).contains(topic)
    }

    /// Whether the cluster lists the topic; all that it lists is remembered.
    async fn look(&self, native: &Arc<Native>, topic: &str) -> Result<bool, KafkaError> {
        let metadata = metadata(native, METADATA_TIMEOUT).await?;
        *lock(&self.brokers) = metadata.brokers().iter().map(|broker| broker.id()).collect();
        let mut known = lock(&self.known);
        known.extend(names(&metadata));
        Ok(known.contains(topic))
    }

    async fn attempt(&self, native: &Arc<Native>, topic: &str, purpose: TopicUse) -> Result<(), KafkaError> {
        if !self.is_known(topic) {
            self.find(native, topic, purpose).await?;
        }
        self.describe(topic, purpose).await
    }

    async fn find(&self, native: &Arc<Native>, topic: &str, purpose: TopicUse) -> Result<(), KafkaError> {
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
        if self.create_for(topic, purpose).await? {
            tracing::info!(topic, partitions = self.partitions_for(purpose), "topic created");
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

    async fn create_for(&self, topic: &str, purpose: TopicUse) -> Result<bool, KafkaError> {
        let mut config = self.config.clone();
        let partitions = self.partitions_for(purpose);
        let own = match purpose {
            TopicUse::Table => &[],
            TopicUse::State => STATE,
            TopicUse::DeadLetters => DEAD_LETTERS,
        };
        config.extend(own.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())));
        if purpose != TopicUse::DeadLetters || config.contains_key("max.message.bytes") {
            return self.create(topic, partitions, config).await;
        }
        let mut large = config.clone();
        large.insert("max.message.bytes".to_owned(), LETTER_BYTES.to_owned());
        match self.create(topic, partitions, large).await {
            // A cluster whose operators allow no such size: letters are cut to what it takes.
            Err(KafkaError::TopicCreation {
                code: RDKafkaErrorCode::InvalidConfig | RDKafkaErrorCode::PolicyViolation,
                ..
            }) => self.create(topic, partitions, config).await,
            settled => settled,
        }
    }

    /// Positions have an order, so they have one partition.
    fn partitions_for(&self, purpose: TopicUse) -> i32 {
        match purpose {
            TopicUse::State => 1,
            TopicUse::Table | TopicUse::DeadLetters => self.partitions,
        }
    }

    /// Whether it was this call that created it.
    async fn create(&self, topic: &str, partitions: i32, config: BTreeMap<String, String>) -> Result<bool, KafkaError> {
        let refused = |code| self.refused(topic, partitions, &config, code);
        let request_failed = |error| match error {
            // The binding's own `rdkafka_error_code` does not know this one.
            rdkafka::error::KafkaError::AdminOp(code) => refused(code),
            other => KafkaError::TopicRequest {
                topic: topic.to_owned(),
                reason: other.to_string(),
            },
        };
        let admin = self.admin().await?;
        let mut new = NewTopic::new(topic, partitions, TopicReplication::Fixed(self.replication_factor));
        new.config = config
            .iter()
            .map(|(key, value)| (key.as_str(), value.as_str()))
            .collect();
        let options = AdminOptions::new()
            .request_timeout(Some(CREATION_TIMEOUT))
            .operation_timeout(Some(CREATION_TIMEOUT));
        let limit = CREATION_TIMEOUT + Duration::from_secs(5);
        let Ok(results) = tokio::time::timeout(limit, admin.create_topics([&new], &options)).await else {
            return Err(refused(RDKafkaErrorCode::OperationTimedOut));
        };
        match results.map_err(request_failed)?.into_iter().next() {
            Some(Ok(_)) => Ok(true),
            Some(Err((_, RDKafkaErrorCode::TopicAlreadyExists))) => Ok(false),
            Some(Err((_, code))) => Err(refused(code)),
            None => Err(refused(RDKafkaErrorCode::BadMessage)),
        }
    }

    async fn admin(&self) -> Result<&AdminClient<AdminContext>, KafkaError> {
        let admin = self.admin.get_or_try_init(async || {
            AdminClient::from_config_and_context(&self.connection, AdminContext::default())
                .map_err(KafkaError::from_client)
        });
        admin.await
    }

    /// What was found out of the topic's limits.
    pub(super) fn configured(&self, topic: &str) -> Configured {
        self.described(topic)
            .map_or_else(Configured::default, |described| described.configured)
    }

    fn described(&self, topic: &str) -> Option<Described> {
        lock(&self.limits).get(topic).copied()
    }

    /// Asks for the topic's limits, unless that was just done. What cannot be had is as it was.
    pub(super) async fn ask_again(&self, native: &Arc<Native>, topic: &str) {
        if self
            .described(topic)
            .is_some_and(|described| described.at.elapsed() < ASKED_LATELY)
        {
            return;
        }
        *lock(&self.broker_limits) = None;
        let asked = match self.look(native, topic).await {
            Ok(_) => self.describe(topic, TopicUse::Table).await,
            Err(error) => Err(error),
        };
        if let Err(error) = asked {
            tracing::debug!(topic, %error, "the limits of the topic cannot be asked for");
        }
    }

    /// Asks for what bounds the topic's batches and requests.
    async fn describe(&self, topic: &str, purpose: TopicUse) -> Result<(), KafkaError> {
        let mut shown = self.entries(ResourceSpecifier::Topic(topic)).await?;
        for pause in SETTLING {
            // The broker that is asked may not have heard of a topic that was just created.
            if shown.as_ref().is_none_or(|entries| !entries.is_empty()) {
                break;
            }
            tokio::time::sleep(pause).await;
            shown = self.entries(ResourceSpecifier::Topic(topic)).await?;
        }
        let entries = shown.unwrap_or_default();
        let policy = find(&entries, "cleanup.policy").and_then(|entry| entry.value.as_deref());
        if purpose == TopicUse::DeadLetters && policy.is_some_and(|policy| policy.contains("compact")) {
            return Err(KafkaError::Compacted {
                topic: topic.to_owned(),
            });
        }
        if purpose == TopicUse::State && policy.is_some_and(|policy| policy != "compact") {
            return Err(KafkaError::NotCompacted {
                topic: topic.to_owned(),
            });
        }
        let brokers = self.broker_limits().await;
        // Of a topic without a limit of its own the one that answers shows its own default: each broker has one.
        let own = find(&entries, "max.message.bytes").is_some_and(|entry| entry.source == ConfigSource::DynamicTopic);
        let batch = [
            number(&entries, "max.message.bytes"),
            brokers.batch.filter(|_| !own),
            number(&entries, "segment.bytes"),
        ];
        let configured = Configured {
            batch: batch.into_iter().flatten().min(),
            request: brokers.request,
        };
        tracing::debug!(topic, ?configured, "limits of the topic");
        let described = Described {
            configured,
            at: Instant::now(),
        };
        lock(&self.limits).insert(topic.to_owned(), described);
        Ok(())
    }

    /// The least of all brokers' own limits. One that does not answer is left out: it may be away for long.
    async fn broker_limits(&self) -> Configured {
        let known = *lock(&self.broker_limits);
        if let Some(known) = known.filter(|known| known.at.elapsed() < BROKERS_ASKED_LATELY) {
            return known.configured;
        }
        let ids: Vec<i32> = lock(&self.brokers).iter().copied().collect();
        let answers = join_all(ids.iter().map(|id| self.entries(ResourceSpecifier::Broker(*id)))).await;
        let brokers: Vec<Vec<ConfigEntry>> = answers.into_iter().filter_map(|answer| answer.ok().flatten()).collect();
        let least = |name: &str| brokers.iter().filter_map(|entries| number(entries, name)).min();
        let configured = Configured {
            batch: least("message.max.bytes"),
            request: least("socket.request.max.bytes"),
        };
        let at = Instant::now();
        *lock(&self.broker_limits) = Some(Described { configured, at });
        configured
    }

    /// The configuration of a topic or broker, as far as this user may see it: nothing of it, or of a resource that is not there.
    /// `None`: this cluster shows none to anybody.
    async fn entries(&self, resource: ResourceSpecifier<'_>) -> Result<Option<Vec<ConfigEntry>>, KafkaError> {
        // Any broker knows the topics' configuration; another one the next time, as this may be away. (librdkafka would ask the
        // controller, which clients of some clusters cannot reach.)
        let asked = match resource {
            ResourceSpecifier::Topic(_) => {
                let ids: Vec<i32> = lock(&self.brokers).iter().copied().collect();
                ids.get(fastrand::usize(..ids.len().max(1))).copied()
            }
            _ => None,
        };
        let options = AdminOptions::new()
            .request_timeout(Some(DESCRIPTION_TIMEOUT))
            .broker_id(asked);
        let described = self.admin().await?.describe_configs([&resource], &options);
        match tokio::time::timeout(DESCRIPTION_TIMEOUT + Duration::from_secs(1), described).await {
            Ok(Ok(resources)) => {
                let found = resources.into_iter().flatten().next();
                Ok(Some(found.map_or_else(Vec::new, |found| found.entries)))
            }
            Ok(Err(error)) if !may_pass(&error) => {
                tracing::debug!(%error, "the configuration of a topic or broker is not shown");
                Ok(None)
            }
            Ok(Err(error)) => Err(KafkaError::Description {
                reason: error.to_string(),
            }),
            Err(_) => Err(KafkaError::Description {
                reason: "no answer in time".to_owned(),
            }),
        }
    }

    fn refused(
        &self,
        topic: &str,
        partitions: i32,
        config: &BTreeMap<String, String>,
        code: RDKafkaErrorCode,
    ) -> KafkaError {
        KafkaError::TopicCreation {
            topic: topic.to_owned(),
            partitions,
            replication_factor: self.replication_factor,
            config: config.clone(),
            code,
        }
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

fn find<'a>(entries: &'a [ConfigEntry], name: &str) -> Option<&'a ConfigEntry> {
    entries.iter().find(|entry| entry.name == name)
}

fn number(entries: &[ConfigEntry], name: &str) -> Option<u64> {
    find(entries, name)?.value.as_deref()?.parse().ok()
}

/// Whether the same request may be answered later.
fn may_pass(error: &rdkafka::error::KafkaError) -> bool {
    use RDKafkaErrorCode::*;
    let rdkafka::error::KafkaError::AdminOp(code) = error else {
        return true;
    };
    !matches!(
        code,
        UnsupportedFeature
            | UnsupportedVersion
            | TopicAuthorizationFailed
            | ClusterAuthorizationFailed
            | InvalidRequest
            | InvalidArgument
            | NotImplemented
    )
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
