//! `walferry tail`: the records that `run` would publish from now on, without Kafka and without a registry.
//!
//! The slot is a temporary one, which Postgres drops with the connection; what is confirmed to it matters to nobody else.
//! The publication is used as it is.

use std::collections::HashMap;
use std::ops::ControlFlow;

use tokio::sync::watch;

use super::error::PipelineError;
use super::publish::{OnTruncate, PublishSettings};
use super::refusal::Refusal;
use super::reshape::{Unread, reshape};
use super::sql::Sql;
use super::stream::now_us;
use super::{prepare, published, relations, rules, settings, source};
use crate::avro::{Batch, Headers, MessageEncoder, TableEncoder};
use crate::config::Config;
use crate::config::glob::TablePattern;
use crate::envelope::{RowChange, Transaction};
use crate::lsn::Lsn;
use crate::pgoutput::{self, Context, Message, RelationMessage, unix_us};
use crate::relation::{CatalogFacts, Registry, Relation, Update};
use crate::replication::{CreateSlot, ReplicationClient, StartReplication, StreamMessage, protocol_version};

/// A record as it would be published. The data are Avro's binary encoding, without the head of Confluent's wire format.
pub struct TailRecord<'a> {
    /// Where it would go.
    pub topic: &'a str,
    /// Schema (JSON text) and datum.
    pub key: Option<(&'a str, &'a [u8])>,
    /// Schema and datum; `None`: a tombstone.
    pub value: Option<(&'a str, &'a [u8])>,
    /// The headers.
    pub headers: Headers<'a>,
}

/// Streams until `stop` ends, or `show` breaks off. `only`: patterns of the tables that are wanted; none: all, and logical messages.
///
/// A row that cannot be converted is told in the log, and passed over; those after it keep their positions.
///
/// # Errors
///
/// What keeps the changes from coming; [`PipelineError::hint`] says what to do.
pub async fn tail(
    config: &Config,
    only: &[TablePattern],
    stop: impl Future<Output = ()>,
    mut show: impl FnMut(&TailRecord<'_>) -> ControlFlow<()>,
) -> Result<(), PipelineError> {
    let postgres = settings::postgres(config);
    let address = postgres.address();
    let sql = Sql::new(postgres);
    tokio::pin!(stop);
    let ended = async {
        let (client, mut tail) = tokio::select! {
            biased;
            () = &mut stop => return Ok(()),
            started = Tail::prepare(config, only, &sql) => started?,
        };
        tail.stream(client, &sql, &mut stop, &mut show).await
    };
    ended.await.map_err(|error: PipelineError| error.with_server(&address))
}

struct Table {
    topic: String,
    encoder: TableEncoder,
    /// Otherwise it only takes its places in the transactions.
    wanted: bool,
    facts: CatalogFacts,
}

impl Table {
    fn compile(
        publish: &PublishSettings,
        relation: &Relation,
        facts: CatalogFacts,
        wanted: bool,
    ) -> Result<Self, PipelineError> {
        let (topic, encoder) = publish.encoder(relation, &facts)?;
        Ok(Table {
            topic,
            encoder,
            wanted,
            facts,
        })
    }
}

struct Tail<'a> {
    publish: PublishSettings,
    options: StartReplication,
    context: Context,
    confirmed: watch::Sender<Lsn>,
    only: &'a [TablePattern],
    relations: Registry,
    /// `None`: not wanted, and without an encoder.
    tables: HashMap<u32, Option<Table>>,
    messages: MessageEncoder,
    batch: Batch,
    /// The transaction, and the place of its next change.
    open: Option<(Transaction, u64)>,
    previous_commit: Option<Lsn>,
}

type Show<'s> = dyn FnMut(&TailRecord<'_>) -> ControlFlow<()> + 's;

/// Whether there is more to come, after a message.
type Next = Result<ControlFlow<()>, PipelineError>;

impl<'a> Tail<'a> {
    /// Connects, and makes the slot: from then on nothing is missed.
    async fn prepare(
        config: &Config,
        only: &'a [TablePattern],
        sql: &Sql,
    ) -> Result<(ReplicationClient, Tail<'a>), PipelineError> {
        let mut client = ReplicationClient::connect(&settings::postgres(config)).await?;
        client.identify_system().await?;
        let version = client.server_version();
        let catalog = sql.client().await?;
        let found = source::settings(&catalog).await?;
        prepare::check_wal_level(&found)?;
        let publication = config.replication.publication.clone();
        if source::publication(&catalog, &publication).await?.is_none() {
            let database = found.database;
            return Err(Refusal::NoPublication { publication, database }.into());
        }
        let mut publish = settings::publish(config)?;
        publish.encoder.database.clone_from(&found.database);
        let tables = published::of_publication(&catalog, &publication).await?;
        rules::check(&publish, sql, &tables).await?;

        let slot = format!("walferry_tail_{}_{:08x}", std::process::id(), fastrand::u32(..));
        tracing::debug!(
            slot,
            "making a temporary slot, which waits for the transactions that run now"
        );
        let created = client
            .create_slot(
                &slot,
                &CreateSlot {
                    temporary: true,
                    failover: false,
                },
            )
            .await?;
        tracing::info!(start = %created.consistent_point, "what commits from here on is shown");
        let (confirmed, watched) = watch::channel(created.consistent_point);
        let options = StartReplication {
            slot,
            start_lsn: created.consistent_point,
            publications: vec![publication],
            protocol_version: protocol_version(version),
            binary: publish.binary,
            messages: version >= 140_000,
            // What is shown has committed.
            streaming: false,
            status_interval: config.replication.status_interval,
            wal_sender_timeout: found.wal_sender_timeout,
            confirmed: watched,
        };
        let tail = Tail {
            context: Context {
                protocol_version: options.protocol_version,
                in_stream: false,
                parallel_streaming: false,
            },
            messages: MessageEncoder::new(&publish.encoder),
            publish,
            options,
            confirmed,
            only,
            relations: Registry::default(),
            tables: HashMap::new(),
            batch: Batch::new(),
            open: None,
            previous_commit: None,
        };
        Ok((client, tail))
    }

    async fn stream(
        &mut self,
        client: ReplicationClient,
        sql: &Sql,
        stop: &mut (impl Future<Output = ()> + Unpin),
        show: &mut Show<'_>,
    ) -> Result<(), PipelineError> {
        let (mut reader, sender) = client.start(&self.options).await?;
        loop {
            let message = tokio::select! {
                biased;
                () = &mut *stop => break,
                message = reader.next() => message?,
            };
            match message {
                StreamMessage::XLogData {
                    start, wal_end, data, ..
                } => {
                    sender.received(start.max(wal_end));
                    if self.handle(start, &data, sql, show).await?.is_break() {
                        break;
                    }
                }
                StreamMessage::Keepalive {
                    wal_end,
                    reply_requested,
                    ..
                } => {
                    sender.received(wal_end);
                    if self.open.is_none() {
                        self.confirm(wal_end);
                    }
                    if reply_requested {
                        sender.reply_requested(wal_end);
                    }
                }
                StreamMessage::End => return Err(PipelineError::StreamEnded),
            }
        }
        // The server then lets go of the slot at once, instead of when it next looks at the connection.
        drop(reader);
        if let Err(error) = sender.finish().await {
            tracing::debug!(error = super::chain(&error), "the connection was not left in peace");
        }
        Ok(())
    }

    fn confirm(&self, lsn: Lsn) {
        self.confirmed.send_if_modified(|confirmed| {
            let further = lsn > *confirmed;
            if further {
                *confirmed = lsn;
            }
            further
        });
    }

    async fn handle(&mut self, lsn: Lsn, bytes: &[u8], sql: &Sql, show: &mut Show<'_>) -> Next {
        let message = pgoutput::decode(bytes, self.context).map_err(|source| PipelineError::Decode { lsn, source })?;
        match message {
            Message::Begin(begin) => {
                let transaction = self.transaction(begin.xid, begin.final_lsn, unix_us(begin.commit_time));
                self.open = Some((transaction, 0));
            }
            Message::Commit(commit) => {
                self.open = None;
                self.previous_commit = Some(commit.end_lsn);
                self.confirm(commit.end_lsn);
            }
            Message::Relation(relation) => self.describe(lsn, &relation, sql).await?,
            Message::Type(described) => self.relations.describe_type(&described),
            Message::Origin(_) => {}
            Message::Insert(insert) => {
                return self
                    .change(lsn, insert.relation, RowChange::Insert { new: insert.new }, sql, show)
                    .await;
            }
            Message::Update(update) => {
                let change = RowChange::Update {
                    old: update.old,
                    new: update.new,
                };
                return self.change(lsn, update.relation, change, sql, show).await;
            }
            Message::Delete(delete) => {
                return self
                    .change(lsn, delete.relation, RowChange::Delete { old: delete.old }, sql, show)
                    .await;
            }
            Message::Truncate(truncate) => {
                for relation in truncate.relations() {
                    if self
                        .change(lsn, relation, RowChange::Truncate, sql, show)
                        .await?
                        .is_break()
                    {
                        return Ok(ControlFlow::Break(()));
                    }
                }
            }
            Message::Message(message) => return self.logical_message(lsn, &message, show),
            other => {
                return Err(PipelineError::Unexpected {
                    lsn,
                    found: other.name(),
                });
            }
        }
        Ok(ControlFlow::Continue(()))
    }

    fn transaction(&self, xid: u32, commit_lsn: Lsn, commit_time_us: i64) -> Transaction {
        Transaction {
            xid,
            commit_lsn,
            commit_time_us,
            now_us: now_us(),
            previous_commit_lsn: self.previous_commit,
        }
    }

    async fn describe(&mut self, lsn: Lsn, message: &RelationMessage<'_>, sql: &Sql) -> Result<(), PipelineError> {
        let Update::Changed(relation) = relations::take_in(&mut self.relations, sql, lsn, message).await? else {
            return Ok(());
        };
        let wanted = self.only.is_empty()
            || self
                .only
                .iter()
                .any(|only| only.matches(&relation.schema, &relation.name));
        let facts = relations::facts(sql, &self.publish.encoder, &relation).await?;
        let table = match Table::compile(&self.publish, &relation, facts, wanted) {
            Ok(table) => Some(table),
            Err(error) if wanted => return Err(error),
            // There `run` would stop, but nobody has asked for it here.
            Err(_) => None,
        };
        if wanted {
            let watched = self.publish.rules.watch(&relation);
            watched.map_err(|error| PipelineError::Rules(vec![error]))?;
        }
        self.tables.insert(relation.oid, table);
        Ok(())
    }

    async fn change(&mut self, lsn: Lsn, relation: u32, change: RowChange<'_>, sql: &Sql, show: &mut Show<'_>) -> Next {
        let Some((transaction, ordinal)) = self.open.as_mut() else {
            return Err(PipelineError::Unexpected {
                lsn,
                found: "a change outside a transaction",
            });
        };
        if matches!(change, RowChange::Truncate) && self.publish.truncate == OnTruncate::Skip {
            return Ok(ControlFlow::Continue(()));
        }
        let mut reshaped = false;
        let Table { topic, encoder, .. } = loop {
            let Some(table) = self.tables.get(&relation) else {
                return Err(PipelineError::UnknownRelation { lsn, relation });
            };
            self.batch.clear();
            let Some(table) = table else {
                *ordinal = ordinal.saturating_add(1);
                return Ok(ControlFlow::Continue(()));
            };
            if !table.wanted {
                *ordinal = ordinal.saturating_add(table.encoder.places(change, &mut self.batch));
                return Ok(ControlFlow::Continue(()));
            }
            let encoded = table.encoder.encode(change, transaction, lsn, ordinal, &mut self.batch);
            let Err(error) = encoded else { break table };
            // As `run` does, so that what is shown is what it publishes.
            if let Some(described) = self.relations.get(relation)
                && let Some(facts) = relations::relaxed(&table.facts, &described.full_name(), &error)
            {
                let again = Table::compile(&self.publish, described, facts, table.wanted)?;
                self.tables.insert(relation, Some(again));
                continue;
            }
            if !std::mem::replace(&mut reshaped, true) {
                let row = Unread {
                    relation,
                    change,
                    transaction,
                    lsn,
                    facts: &table.facts,
                };
                if let Some(next) = reshape(&mut self.relations, sql, &self.publish, row, &error).await? {
                    let again = Table::compile(&self.publish, &next, table.facts.clone(), table.wanted)?;
                    self.tables.insert(relation, Some(again));
                    continue;
                }
            }
            tracing::warn!(commit_lsn = %transaction.commit_lsn, error = super::chain(&error), "passed over");
            *ordinal = ordinal.saturating_add(table.encoder.places(change, &mut self.batch));
            return Ok(ControlFlow::Continue(()));
        };
        let schemas = (encoder.key_schema(), encoder.value_schema());
        Ok(show_all(topic, schemas, &self.batch, show))
    }

    fn logical_message(&mut self, lsn: Lsn, message: &pgoutput::LogicalMessage<'_>, show: &mut Show<'_>) -> Next {
        if !self.only.is_empty() {
            if let Some((_, ordinal)) = self.open.as_mut().filter(|_| message.transactional) {
                *ordinal = ordinal.saturating_add(1);
            }
            return Ok(ControlFlow::Continue(()));
        }
        let mut alone;
        let (transaction, ordinal) = match self.open.as_mut().filter(|_| message.transactional) {
            Some((transaction, ordinal)) => (*transaction, ordinal),
            None => {
                alone = 0;
                (self.transaction(0, message.lsn, now_us()), &mut alone)
            }
        };
        self.batch.clear();
        self.messages.encode(
            message.prefix,
            message.content,
            &transaction,
            lsn,
            ordinal,
            &mut self.batch,
        );
        let schemas = (self.messages.key_schema(), self.messages.value_schema());
        Ok(show_all(self.messages.topic(), schemas, &self.batch, show))
    }
}

fn show_all(topic: &str, schemas: (Option<&str>, &str), batch: &Batch, show: &mut Show<'_>) -> ControlFlow<()> {
    /// Without the zero byte and the schema's id.
    fn datum(bytes: &[u8]) -> &[u8] {
        bytes.get(5..).unwrap_or_default()
    }
    for record in batch.records() {
        show(&TailRecord {
            topic,
            key: schemas.0.zip(record.key.map(datum)),
            value: record.value.map(|value| (schemas.1, datum(value))),
            headers: record.headers,
        })?;
    }
    ControlFlow::Continue(())
}
