//! One change of the stream → its records in Kafka.
//!
//! A relation's encoder is compiled when the stream describes it; its topic and schemas are made sure of before its
//! first record, and not for tables that never change.

mod bad_row;
mod destination;
mod forget;
mod replay;
mod way;

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

pub(super) use self::bad_row::OnBadRow;
use self::bad_row::{BadRows, Refused, Why};
use self::destination::Destination;
use self::forget::Sweep;
pub(super) use self::replay::{Replayer, StillDead};
use self::way::Way;
use super::blocked::while_blocked;
use super::error::PipelineError;
use super::guarantee::Hold;
use super::relations;
use super::reshape::{Unread, reshape};
use super::rules::Rules;
use super::sql::Sql;
use crate::avro::{
    BadRow, Batch, EncoderSettings, MAX_HEADERS, MessageEncoder, Reason, Record, Shown, Subject, TableEncoder,
};
use crate::envelope::{Position, RowChange, TopicTemplate, Transaction, topic_name};
use crate::failpoint;
use crate::kafka::{OutRecord, Producer, SendErrorKind, TopicUse};
use crate::lsn::Lsn;
use crate::pgoutput::{Datum, LogicalMessage, RelationMessage, TypeMessage};
use crate::progress::{self, Failure};
use crate::relation::{self, CatalogFacts, Relation};
use crate::schema_registry::{Registry, SubjectStrategy};
use crate::telemetry::metrics::Metrics;
use crate::telemetry::state::Status;

/// What becomes of TRUNCATE.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum OnTruncate {
    Emit,
    Skip,
}

#[derive(Debug, Clone)]
pub(super) struct PublishSettings {
    pub(super) encoder: EncoderSettings,
    pub(super) topic: TopicTemplate,
    pub(super) subject: SubjectStrategy,
    pub(super) truncate: OnTruncate,
    pub(super) on_bad_row: OnBadRow,
    pub(super) binary: bool,
    pub(super) rules: Arc<Rules>,
}

impl PublishSettings {
    fn topic_of(&self, relation: &Relation) -> String {
        topic_name(&self.topic, &self.encoder.pipeline, &relation.schema, &relation.name)
    }

    /// The encoder of logical messages, and where they go.
    fn messages(&self, metrics: &Metrics) -> (MessageEncoder, Destination) {
        let encoder = MessageEncoder::new(&self.encoder);
        let topic = encoder.topic().to_owned();
        (encoder, Destination::new(topic.clone(), topic, metrics))
    }

    /// A relation's topic, and the encoder of its rows.
    pub(super) fn encoder(
        &self,
        relation: &Relation,
        facts: &CatalogFacts,
    ) -> Result<(String, TableEncoder), PipelineError> {
        let topic = self.topic_of(relation);
        let rules = self
            .rules
            .of(relation)
            .map_err(|error| PipelineError::Rules(vec![error]))?;
        let encoder = TableEncoder::compile_with(relation, &rules, &topic, &self.encoder, facts)
            .and_then(|encoder| encoder.check_format(self.binary).map(|()| encoder))
            .map_err(|source| PipelineError::Compile {
                table: relation.full_name(),
                source,
            })?;
        Ok((topic, encoder))
    }
}

/// A transaction between Begin and Commit.
pub(super) struct Open {
    pub(super) tickets: progress::Transaction,
    pub(super) info: Transaction,
    /// Changes published so far; the place of the next.
    pub(super) ordinal: u64,
    /// How many of its changes are published already.
    pub(super) skip: u64,
    /// What holds its end back beside its records.
    pub(super) hold: Option<Hold>,
}

impl Open {
    /// All of it is published already.
    pub(super) fn is_dropped(&self) -> bool {
        self.skip == u64::MAX
    }

    /// The place of the next change.
    fn position(&self) -> Position {
        Position {
            commit_lsn: self.info.commit_lsn,
            ordinal: self.ordinal,
        }
    }
}

struct Table {
    encoder: TableEncoder,
    destination: Destination,
    relation: Arc<Relation>,
    /// What the catalog said when the relation was described; nothing where it was not asked.
    facts: CatalogFacts,
    /// The same, without the NOT NULLs that rows have contradicted.
    relaxed: CatalogFacts,
}

pub(super) struct Publisher {
    settings: PublishSettings,
    way: Way,
    sql: Arc<Sql>,
    relations: relation::Registry,
    tables: HashMap<u32, Table>,
    messages: Option<(MessageEncoder, Destination)>,
    /// The tables with counts that are not in the metrics yet: few of many.
    uncounted: Vec<u32>,
    bad_rows: BadRows,
    batch: Batch,
    sweep: Sweep,
}

impl Publisher {
    pub(super) fn new(
        settings: PublishSettings,
        producer: Arc<Producer>,
        registry: Arc<Registry>,
        sql: Arc<Sql>,
        metrics: Metrics,
        status: Arc<Status>,
    ) -> Self {
        let bad_rows = BadRows::new(&settings.on_bad_row, &settings.encoder, &metrics);
        let way = Way {
            producer,
            registry,
            metrics,
            status,
            subject: settings.subject,
        };
        Publisher {
            settings,
            way,
            sql,
            relations: relation::Registry::default(),
            tables: HashMap::new(),
            messages: None,
            uncounted: Vec::new(),
            bad_rows,
            batch: Batch::default(),
            sweep: Sweep::default(),
        }
    }

    /// Takes in a Type message.
    pub(super) fn describe_type(&mut self, message: &TypeMessage<'_>) {
        self.relations.describe_type(message);
    }

    /// Takes in a Relation message of the transaction that commits at `commit_lsn`.
    pub(super) async fn describe(
        &mut self,
        lsn: Lsn,
        commit_lsn: Option<Lsn>,
        message: &RelationMessage<'_>,
    ) -> Result<(), PipelineError> {
        let update = relations::take_in(&mut self.relations, &self.sql, lsn, message).await?;
        let (relation, changed) = match update {
            relation::Update::Changed(relation) => (relation, true),
            relation::Update::Unchanged(relation) => (relation, false),
        };
        let facts = relations::facts(&self.sql, &self.settings.encoder, &relation).await?;
        if changed || self.tables.get(&relation.oid).is_none_or(|table| table.facts != facts) {
            let table = self.compile(&relation, &facts)?;
            self.tables.insert(relation.oid, table);
            if let Some(commit_lsn) = commit_lsn {
                self.forget_what_is_gone(commit_lsn).await?;
            }
        }
        Ok(())
    }

    fn compile(&self, relation: &Arc<Relation>, facts: &CatalogFacts) -> Result<Table, PipelineError> {
        let label = relation.full_name();
        let (topic, encoder) = self.settings.encoder(relation, facts)?;
        if matches!(&self.settings.on_bad_row, OnBadRow::DeadLetter { topic: letters } if *letters == topic) {
            return Err(PipelineError::SharedTopic { table: label, topic });
        }
        self.settings
            .rules
            .watch(relation)
            .map_err(|error| PipelineError::Rules(vec![error]))?;
        tracing::debug!(table = label, version = relation.version, topic, "relation described");
        let destination = Destination::new(topic, label, &self.way.metrics);
        Ok(Table {
            encoder,
            destination,
            relation: Arc::clone(relation),
            facts: facts.clone(),
            relaxed: facts.clone(),
        })
    }

    /// Compiles a table again with a column that can be null: the catalog says NOT NULL, and a row that is older is not. What the catalog said
    /// stays remembered, so that the next description of the same does not bring the refused schema back.
    fn relax(&mut self, relation: u32, position: Position, bad: BadRow) -> Result<(), PipelineError> {
        let found = self.tables.get_mut(&relation).and_then(|table| {
            let relaxed = relations::relaxed(&table.relaxed, &table.destination.label, &bad)?;
            Some((table, relaxed))
        });
        let Some((table, relaxed)) = found else {
            return Err(PipelineError::BadRow { position, source: bad });
        };
        table.destination.flush_counts();
        let (described, said) = (Arc::clone(&table.relation), table.facts.clone());
        self.compile_again(&described, said, &relaxed)
    }

    /// Compiles a table that the stream has not described anew: what the catalog said of it stays remembered.
    fn compile_again(
        &mut self,
        relation: &Arc<Relation>,
        said: CatalogFacts,
        relaxed: &CatalogFacts,
    ) -> Result<(), PipelineError> {
        let mut table = self.compile(relation, relaxed)?;
        table.facts = said;
        self.tables.insert(relation.oid, table);
        Ok(())
    }

    /// It is not published at all, and takes no place.
    fn is_skipped(&self, change: RowChange<'_>) -> bool {
        matches!(change, RowChange::Truncate) && self.settings.truncate == OnTruncate::Skip
    }

    /// Publishes a change of a row.
    pub(super) async fn change(
        &mut self,
        open: &mut Open,
        lsn: Lsn,
        relation: u32,
        change: RowChange<'_>,
    ) -> Result<(), PipelineError> {
        if self.is_skipped(change) {
            return Ok(());
        }
        let is_published = open.ordinal < open.skip;
        self.publish(open, lsn, relation, change, |_| is_published)
            .await
            .map(drop)
    }

    /// A change that is in the topic by another way. It takes its places: the changes after it have the positions that they would have had,
    /// and have them again where a restart publishes it after all.
    pub(super) fn pass_over(
        &mut self,
        open: &mut Open,
        lsn: Lsn,
        relation: u32,
        change: RowChange<'_>,
    ) -> Result<(), PipelineError> {
        if self.is_skipped(change) {
            return Ok(());
        }
        let Some(table) = self.tables.get(&relation) else {
            return Err(self.unknown(lsn, relation));
        };
        open.ordinal += table.encoder.places(change, &mut self.batch);
        Ok(())
    }

    fn unknown(&self, lsn: Lsn, relation: u32) -> PipelineError {
        match self.sweep.has_forgotten() {
            true => PipelineError::Forgotten { lsn, relation },
            false => PipelineError::UnknownRelation { lsn, relation },
        }
    }

    /// Publishes a row as a snapshot found it, unless its key is superseded; whether it did. The key comes without its schema's id.
    pub(super) async fn read(
        &mut self,
        open: &mut Open,
        lsn: Lsn,
        relation: u32,
        row: RowChange<'_>,
        superseded: impl Fn(&[u8]) -> bool,
    ) -> Result<bool, PipelineError> {
        self.publish(open, lsn, relation, row, |batch| keys(batch).any(&superseded))
            .await
    }

    /// Whether rows of this relation can be read in binary.
    pub(super) fn reads_binary(&self, relation: u32) -> bool {
        let table = self.tables.get(&relation);
        table.is_some_and(|table| table.encoder.check_format(true).is_ok())
    }

    /// The keys of the change that came last, without their schemas' ids.
    pub(super) fn keys(&self) -> impl Iterator<Item = &[u8]> + Clone {
        keys(&self.batch)
    }

    /// Whether it was published, and not left out as `is_left_out` says.
    async fn publish(
        &mut self,
        open: &mut Open,
        lsn: Lsn,
        relation: u32,
        change: RowChange<'_>,
        is_left_out: impl FnOnce(&Batch) -> bool,
    ) -> Result<bool, PipelineError> {
        let position = open.position();
        let mut reshaped = false;
        let (encoder, destination, bad) = loop {
            let Some(table) = self.tables.get_mut(&relation) else {
                return Err(self.unknown(lsn, relation));
            };
            let Table {
                encoder,
                destination,
                facts,
                relaxed,
                ..
            } = table;
            if !destination.ready {
                let ids = self
                    .way
                    .prepare(destination, encoder.schemas(), TopicUse::Table)
                    .await?;
                encoder.set_ids(ids.key, ids.value);
            }
            self.batch.clear();
            let encoded = encoder.encode(change, &open.info, lsn, &mut open.ordinal, &mut self.batch);
            let Err(bad) = encoded else {
                break (encoder, destination, None);
            };
            if bad.kind == Reason::NullInNotNull {
                self.relax(relation, position, bad)?;
                continue;
            }
            if !std::mem::replace(&mut reshaped, true) {
                let row = Unread {
                    relation,
                    change,
                    transaction: &open.info,
                    lsn,
                    facts: relaxed,
                };
                let next = reshape(&mut self.relations, &self.sql, &self.settings, row, &bad).await?;
                if let Some(next) = next {
                    let (said, relaxed) = (facts.clone(), relaxed.clone());
                    self.compile_again(&next, said, &relaxed)?;
                    continue;
                }
            }
            break (encoder, destination, Some(bad));
        };
        if bad.is_some() {
            open.ordinal += encoder.places(change, &mut self.batch);
        }
        if is_left_out(&self.batch) {
            return Ok(false);
        }
        let why = match bad {
            None => too_large(&self.way.producer, &self.batch, destination).await?,
            Some(bad) => Some(Why::BadRow(bad)),
        };
        let Some(why) = why else {
            if !destination.has_counts() {
                self.uncounted.push(relation);
            }
            send(&self.way.producer, &self.way.status, &self.batch, destination, open).await?;
            return Ok(true);
        };
        let Some(described) = self.relations.get(relation) else {
            return Err(PipelineError::UnknownRelation { lsn, relation });
        };
        let refused = Refused {
            label: &destination.label,
            topic: &destination.topic,
            lsn,
            subject: Subject::Row {
                relation: described,
                change,
            },
            position,
            changes: open.ordinal - position.ordinal,
            key: encoder.key_of(change, &mut self.batch),
            why,
        };
        let shown = |column, datum: Datum<'_>| encoder.shown(column, datum);
        self.bad_rows
            .take(refused, shown, open, &self.way, &mut self.batch)
            .await?;
        Ok(true)
    }

    /// Publishes a logical message.
    pub(super) async fn message(
        &mut self,
        open: &mut Open,
        lsn: Lsn,
        message: &LogicalMessage<'_>,
    ) -> Result<(), PipelineError> {
        let messages = self
            .messages
            .get_or_insert_with(|| self.settings.messages(&self.way.metrics));
        let (encoder, destination) = messages;
        if !destination.ready {
            let ids = self
                .way
                .prepare(destination, encoder.schemas(), TopicUse::Table)
                .await?;
            encoder.set_ids(ids.key, ids.value);
        }
        self.batch.clear();
        let position = open.position();
        encoder.encode(
            message.prefix,
            message.content,
            &open.info,
            lsn,
            &mut open.ordinal,
            &mut self.batch,
        );
        if position.ordinal < open.skip {
            return Ok(());
        }
        let Some(why) = too_large(&self.way.producer, &self.batch, destination).await? else {
            return send(&self.way.producer, &self.way.status, &self.batch, destination, open).await;
        };
        let refused = Refused {
            label: &destination.label,
            topic: &destination.topic,
            lsn,
            subject: Subject::Message {
                prefix: message.prefix,
                content: message.content,
            },
            position,
            changes: open.ordinal - position.ordinal,
            key: None,
            why,
        };
        self.bad_rows
            .take(refused, |_, _| Shown::AsSent, open, &self.way, &mut self.batch)
            .await
    }

    /// Adds what was counted since the last call to the metrics.
    pub(super) fn count(&mut self) {
        for relation in self.uncounted.drain(..) {
            if let Some(table) = self.tables.get_mut(&relation) {
                table.destination.flush_counts();
            }
        }
        if let Some((_, destination)) = &mut self.messages {
            destination.flush_counts();
        }
        self.bad_rows.flush_counts();
        let in_flight = self.way.producer.in_flight();
        self.way.metrics.kafka.in_flight_records.set(in_flight.records);
        self.way.metrics.kafka.in_flight_bytes.set(in_flight.bytes);
    }
}

/// Before a key's Avro there are a zero byte and its schema's id.
const KEY_HEADER: usize = 5;

fn keys(batch: &Batch) -> impl Iterator<Item = &[u8]> + Clone {
    batch.records().filter_map(|record| record.key?.get(KEY_HEADER..))
}

/// More than anything but key, value and header values takes in a record.
const BESIDE_THE_BYTES: u64 = 1024;

/// The size of the largest record of the batch, if it may be more than `limit`.
fn larger_than(batch: &Batch, destination: &Destination, limit: u64) -> Option<u64> {
    let bytes = u64::try_from(batch.byte_len()).unwrap_or(u64::MAX);
    if bytes.saturating_add(BESIDE_THE_BYTES) <= limit {
        return None;
    }
    let mut space = [("", &[][..]); MAX_HEADERS + 1];
    let sizes = batch
        .records()
        .map(|record| out_record(&record, 0, destination.stamp(), &mut space).batch_size());
    sizes.max()
}

/// Whether a record of the batch is larger than its topic takes: then none of them is to be sent. Otherwise the producer takes all
/// of them.
async fn too_large(
    producer: &Producer,
    batch: &Batch,
    destination: &mut Destination,
) -> Result<Option<Why>, PipelineError> {
    let Some(size) = larger_than(batch, destination, destination.limit.min(Producer::ROOMY)) else {
        return Ok(None);
    };
    if size > destination.limit {
        destination.limit = producer.current_limit(&destination.topic).await;
    }
    if size > destination.limit {
        let limit = destination.limit;
        return Ok(Some(Why::TooLarge { size, limit }));
    }
    producer.make_room(size).await?;
    Ok(None)
}

/// A record as it is written, with a header beside its own where there is one.
fn out_record<'s, 'a: 's>(
    record: &Record<'a>,
    timestamp_ms: i64,
    stamp: Option<(&'static str, &'a [u8])>,
    space: &'s mut [(&'a str, &'a [u8]); MAX_HEADERS + 1],
) -> OutRecord<'s> {
    let mut count = 0;
    for (place, header) in space.iter_mut().zip(record.headers.iter().chain(stamp)) {
        *place = header;
        count += 1;
    }
    OutRecord {
        key: record.key,
        value: record.value,
        headers: space.get(..count).unwrap_or_default(),
        timestamp_ms,
    }
}

/// Hands the batch over, waiting where Kafka takes no more.
async fn send(
    producer: &Producer,
    status: &Status,
    batch: &Batch,
    destination: &mut Destination,
    open: &Open,
) -> Result<(), PipelineError> {
    if !producer.has_capacity() {
        while_blocked(producer, status, producer.capacity()).await;
    }
    let stamp = destination.stamp.clone();
    let stamp = stamp.as_ref().map(|(name, value)| (*name, value.as_slice()));
    let mut space = [("", &[][..]); MAX_HEADERS + 1];
    for record in batch.records() {
        let out = out_record(&record, open.info.commit_time_us.div_euclid(1_000), stamp, &mut space);
        let mut ticket = open.tickets.ticket();
        while let Err(refused) = producer.send(&destination.topic, &out, ticket) {
            match refused.kind {
                SendErrorKind::QueueFull => {
                    ticket = refused.ticket;
                    while_blocked(producer, status, producer.capacity()).await;
                    tokio::time::sleep(Duration::from_millis(1)).await;
                }
                SendErrorKind::TooLarge { size } => {
                    refused.ticket.failed(Failure::Final("too large".to_owned()));
                    return Err(PipelineError::TooLarge {
                        table: destination.label.clone(),
                        position: record.position,
                        topic: destination.topic.clone(),
                        size,
                        limit: destination.limit,
                    });
                }
                SendErrorKind::Fatal { .. } => {
                    let failure = Failure::Passing(refused.kind.to_string());
                    refused.ticket.failed(failure.clone());
                    return Err(PipelineError::Undelivered(failure));
                }
                kind => {
                    let failure = Failure::Final(format!("topic {}: {kind}", refused.topic));
                    refused.ticket.failed(failure.clone());
                    return Err(PipelineError::Undelivered(failure));
                }
            }
        }
        failpoint::reached("enqueued");
        destination.add(
            record.op,
            out.key.map_or(0, <[u8]>::len) + out.value.map_or(0, <[u8]>::len),
        );
    }
    Ok(())
}
