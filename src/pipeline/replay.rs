//! `walferry replay`: dead letters → the topics that they were for, by the present configuration.
//!
//! Letters are read from where the last replay left off, in the order of their partitions. What was published is committed only
//! once Kafka has confirmed it: a replay that is killed publishes some again, and loses none. What cannot be published still is
//! left where it is, and is met again by the next replay.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use apache_avro::Schema;
use apache_avro::reader::datum::GenericDatumReader;
use tokio::sync::watch;

use super::backoff::Backoff;
use super::error::{PipelineError, chain};
use super::observer::KafkaObserver;
use super::publish::{Open, Replayer, StillDead};
use super::settings;
use super::shutdown::Shutdown;
use super::sql::Sql;
use super::stream::now_us;
use crate::avro::StoredLetter;
use crate::avro::dead_letter::{LetterError, StoredSubject};
use crate::config::Config;
use crate::config::glob::TablePattern;
use crate::envelope::{Position, Transaction};
use crate::kafka::{Producer, StoredRecord, TopicReader};
use crate::lsn::Lsn;
use crate::progress::{Event, Failure, Progress};
use crate::schema_registry::Registry;
use crate::telemetry::{Metrics, Status};

/// How many letters are published before what they became is waited for.
const AT_ONCE: usize = 500;

/// What is wanted of a replay.
#[derive(Debug, Clone, Copy)]
pub struct ReplayOptions<'a> {
    /// Publish nothing, and commit nothing.
    pub dry_run: bool,
    /// Also those that are done.
    pub all: bool,
    /// Count those that cannot be published as done, too.
    pub give_up: bool,
    /// The tables whose letters are wanted; none: all, and logical messages.
    pub tables: &'a [TablePattern],
}

/// What became of the letters.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Replayed {
    /// Published, or fit to be.
    pub published: u64,
    /// Dead still.
    pub failed: u64,
    /// Of other tables than those that were asked for.
    pub left: u64,
    /// Of other pipelines, which share the topic.
    pub foreign: u64,
    /// Whether it was told to stop before the end.
    pub stopped: bool,
}

/// A letter that is dead still.
pub struct StillDeadLetter<'a> {
    /// The dead-letter topic.
    pub topic: &'a str,
    /// Where the letter stands in it.
    pub partition: i32,
    /// Likewise.
    pub offset: i64,
    /// `schema.table`, if it is about a row and could be read.
    pub table: Option<String>,
    /// The row's position, likewise.
    pub position: Option<Position>,
    /// Why.
    pub why: String,
}

/// Why a record of the topic is no letter.
#[derive(Debug, thiserror::Error)]
enum NoLetter {
    #[error("the record is not in Confluent's wire format")]
    WireFormat,
    #[error("the record cannot be decoded by its schema")]
    Avro(#[from] Box<apache_avro::Error>),
    #[error(transparent)]
    Letter(#[from] LetterError),
}

/// Publishes what can be published; tells of what cannot. `None`: there is no dead-letter topic.
///
/// # Errors
///
/// What keeps all of them from being published.
pub async fn replay(
    config: &Config,
    options: ReplayOptions<'_>,
    metrics: &Metrics,
    shutdown: Shutdown,
    mut tell: impl FnMut(&StillDeadLetter<'_>),
) -> Result<Option<Replayed>, PipelineError> {
    let topic = &config.delivery.dead_letter_topic;
    let kafka = settings::kafka(config);
    let group = format!("{}.replay", config.name);
    let Some(reader) = TopicReader::open(&kafka, topic, &group, options.all).await? else {
        return Ok(None);
    };
    let mut replay = Replay::new(config, options, metrics, reader)?;
    let mut backoff = Backoff::new(Duration::from_millis(200), Duration::from_secs(5));
    loop {
        let next = tokio::select! {
            biased;
            () = shutdown.requested() => {
                replay.result.stopped = true;
                None
            }
            next = replay.reader.next() => next?,
        };
        let Some(record) = next else { break };
        if let Err(mut dead) = replay.record(&record, &mut backoff).await? {
            dead.topic = topic;
            tell(&dead);
            replay.result.failed += 1;
            if options.give_up {
                replay.unsettled.push((record.partition, record.offset));
            }
        }
        if replay.unsettled.len() >= AT_ONCE {
            replay.settle().await?;
        }
    }
    replay.settle().await?;
    Ok(Some(replay.result))
}

struct Replay<'a> {
    config: &'a Config,
    options: ReplayOptions<'a>,
    reader: TopicReader,
    registry: Arc<Registry>,
    producer: Arc<Producer>,
    replayer: Replayer,
    /// A letter stands in it as a transaction, by its number.
    progress: Progress,
    broken: watch::Receiver<Option<Failure>>,
    number: u64,
    schemas: HashMap<u32, Schema>,
    /// Letters that are done once everything handed over is confirmed.
    unsettled: Vec<(i32, i64)>,
    result: Replayed,
}

impl<'a> Replay<'a> {
    fn new(
        config: &'a Config,
        options: ReplayOptions<'a>,
        metrics: &Metrics,
        reader: TopicReader,
    ) -> Result<Self, PipelineError> {
        let status = Arc::new(Status::new(
            &config.name,
            &config.replication.slot,
            &config.replication.publication,
        ));
        let registry = Arc::new(Registry::new(settings::schema_registry(config))?);
        let observer = Arc::new(KafkaObserver::new(metrics.clone(), Arc::clone(&status)));
        let producer = Arc::new(Producer::new(&settings::kafka(config), observer)?);
        let publish = settings::publish(config)?;
        let replayer = Replayer::new(
            publish,
            Arc::clone(&producer),
            Arc::clone(&registry),
            Arc::new(Sql::new(settings::postgres(config))),
            metrics.clone(),
            status,
            options.dry_run,
        );
        let (sender, broken) = watch::channel(None);
        let progress = Progress::new(
            Lsn::ZERO,
            Box::new(move |event| {
                if let Event::Broken(failure) = event {
                    sender.send_replace(Some(failure.clone()));
                }
            }),
        );
        Ok(Replay {
            config,
            options,
            reader,
            registry,
            producer,
            replayer,
            progress,
            broken,
            number: 0,
            schemas: HashMap::new(),
            unsettled: Vec::new(),
            result: Replayed::default(),
        })
    }

    /// Publishes one letter; the inner error says why it is dead still.
    async fn record(
        &mut self,
        record: &StoredRecord,
        backoff: &mut Backoff,
    ) -> Result<Result<(), StillDeadLetter<'static>>, PipelineError> {
        let mut dead = StillDeadLetter {
            topic: "",
            partition: record.partition,
            offset: record.offset,
            table: None,
            position: None,
            why: String::new(),
        };
        let Some(bytes) = &record.value else {
            // Somebody has deleted it, in a topic of his own.
            self.unsettled.push((record.partition, record.offset));
            return Ok(Ok(()));
        };
        let letter = match self.decode(bytes, backoff).await? {
            Ok(letter) => letter,
            Err(error) => {
                dead.why = chain(&error);
                return Ok(Err(dead));
            }
        };
        if letter.pipeline != self.config.name {
            self.result.foreign += 1;
            self.unsettled.push((record.partition, record.offset));
            return Ok(Ok(()));
        }
        if !self.is_wanted(&letter) {
            self.result.left += 1;
            return Ok(Ok(()));
        }
        self.number += 1;
        let commit = Lsn::new(self.number);
        let mut open = Open {
            tickets: self.progress.begin(commit, letter.transaction.commit_time_us)?,
            info: Transaction {
                now_us: now_us(),
                ..letter.transaction
            },
            ordinal: letter.position.ordinal,
            skip: 0,
            hold: None,
        };
        let published = self.replayer.publish(&letter, &mut open).await;
        match published {
            Ok(()) => {
                open.tickets.commit(commit)?;
                self.result.published += 1;
                self.unsettled.push((record.partition, record.offset));
                Ok(Ok(()))
            }
            Err(StillDead::Refused(error @ PipelineError::Undelivered(_))) => Err(error),
            Err(error) => {
                open.tickets.commit(commit)?;
                if let StoredSubject::Row { relation, .. } = &letter.subject {
                    dead.table = Some(relation.full_name());
                }
                dead.position = Some(letter.position);
                dead.why = chain(&error);
                Ok(Err(dead))
            }
        }
    }

    fn is_wanted(&self, letter: &StoredLetter) -> bool {
        let tables = self.options.tables;
        match &letter.subject {
            StoredSubject::Row { relation, .. } => {
                tables.is_empty()
                    || tables
                        .iter()
                        .any(|table| table.matches(&relation.schema, &relation.name))
            }
            StoredSubject::Message { .. } => tables.is_empty(),
        }
    }

    async fn decode(
        &mut self,
        bytes: &[u8],
        backoff: &mut Backoff,
    ) -> Result<Result<StoredLetter, NoLetter>, PipelineError> {
        let Some((&[0, a, b, c, d], datum)) = bytes.split_first_chunk::<5>() else {
            return Ok(Err(NoLetter::WireFormat));
        };
        let id = u32::from_be_bytes([a, b, c, d]);
        if !self.schemas.contains_key(&id) {
            let text = self.schema(id, backoff).await?;
            match Schema::parse_str(&text) {
                Ok(schema) => self.schemas.insert(id, schema),
                Err(error) => return Ok(Err(NoLetter::Avro(Box::new(error)))),
            };
        }
        let Some(schema) = self.schemas.get(&id) else {
            return Ok(Err(NoLetter::WireFormat));
        };
        Ok(read(schema, datum))
    }

    /// A schema by its id, waited for while the registry is away.
    async fn schema(&self, id: u32, backoff: &mut Backoff) -> Result<String, PipelineError> {
        loop {
            match self.registry.schema_by_id(id).await {
                Err(error) if error.is_transient() => {
                    let error = chain(&error);
                    tracing::warn!(error, "the schema registry does not answer; trying again");
                    tokio::time::sleep(backoff.next()).await;
                }
                settled => return Ok(settled?),
            }
        }
    }

    /// Waits until all that was handed over is confirmed, and commits what that makes done.
    async fn settle(&mut self) -> Result<(), PipelineError> {
        loop {
            let flushed = self.producer.flush(Duration::from_millis(500)).await;
            if let Some(failure) = self.broken.borrow().as_ref() {
                return Err(PipelineError::Undelivered(failure.clone()));
            }
            if flushed {
                break;
            }
        }
        for (partition, offset) in self.unsettled.drain(..) {
            self.reader.done(partition, offset);
        }
        if !self.options.dry_run {
            self.reader.commit().await?;
        }
        Ok(())
    }
}

fn read(schema: &Schema, mut datum: &[u8]) -> Result<StoredLetter, NoLetter> {
    let reader = GenericDatumReader::builder(schema).build().map_err(Box::new)?;
    let value = reader.read_value(&mut datum).map_err(Box::new)?;
    Ok(StoredLetter::from_value(value)?)
}
