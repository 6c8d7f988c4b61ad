//! A dead letter → the records that its row would have had.
//!
//! The way is that of the stream: the relation as the letter has it, the rules and the encoder of the present configuration, the
//! topic and its schemas. The position is the letter's.

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;

use super::bad_row::Why;
use super::destination::Destination;
use super::way::{Ids, Way};
use super::{Open, PublishSettings, Table, send, too_large};
use crate::avro::dead_letter::StoredSubject;
use crate::avro::{Batch, ColumnRule, MessageEncoder, Reason, RecordSchemas, StoredLetter, TableEncoder};
use crate::envelope::Position;
use crate::kafka::{Producer, TopicUse};
use crate::pipeline::error::PipelineError;
use crate::pipeline::relations;
use crate::pipeline::sql::Sql;
use crate::pipeline::stream::now_us;
use crate::relation::{CatalogFacts, PgType, Relation, TypeKind};
use crate::row::{Rule, ValueKind};
use crate::schema_registry::Registry;
use crate::telemetry::Status;
use crate::telemetry::metrics::Metrics;

/// The header of a record that was published from a dead letter: when that was, µs since the Unix epoch.
const REPLAYED: &str = "walferry.replayed";

/// Why a letter stays a dead one.
#[derive(Debug, thiserror::Error)]
pub(in crate::pipeline) enum StillDead {
    /// It cannot be published now either.
    #[error(transparent)]
    Refused(PipelineError),
    /// It would take the place of the next change.
    #[error("it would be {needed} changes now, and its place in the transaction is that of {left}")]
    Places {
        /// How many there would be.
        needed: u64,
        /// How many places the letter stands for.
        left: u64,
    },
    /// The letter has no value, and one is needed.
    #[error(
        "the letter does not hold the values of column {column:?}, which a rule hid then, and the present rules want"
    )]
    Hidden {
        /// The column.
        column: String,
    },
}

/// What an encoder was compiled of: the relation as it is written, and the columns of which letters hold masked text.
type Compiled = (Relation, BTreeSet<usize>);

/// Publishes letters, or only sees whether they could be.
pub(in crate::pipeline) struct Replayer {
    settings: PublishSettings,
    way: Way,
    /// Asked only where schemas follow from the catalog.
    sql: Arc<Sql>,
    /// The last relation of each oid that was met, as it was compiled.
    tables: HashMap<u32, (Compiled, Table)>,
    messages: Option<(MessageEncoder, Destination)>,
    batch: Batch,
    dry: bool,
}

impl Replayer {
    pub(in crate::pipeline) fn new(
        settings: PublishSettings,
        producer: Arc<Producer>,
        registry: Arc<Registry>,
        sql: Arc<Sql>,
        metrics: Metrics,
        status: Arc<Status>,
        dry: bool,
    ) -> Self {
        let way = Way {
            producer,
            registry,
            metrics,
            status,
            subject: settings.subject,
        };
        Replayer {
            settings,
            way,
            sql,
            tables: HashMap::new(),
            messages: None,
            batch: Batch::new(),
            dry,
        }
    }

    /// Hands over what the letter stands for. `open.ordinal` is the letter's to begin with.
    ///
    /// # Errors
    ///
    /// Why the letter is dead still; nothing of it was handed over, unless it is [`PipelineError::Undelivered`].
    pub(in crate::pipeline) async fn publish(
        &mut self,
        letter: &StoredLetter,
        open: &mut Open,
    ) -> Result<(), StillDead> {
        self.settings.encoder.database.clone_from(&letter.database);
        match &letter.subject {
            StoredSubject::Row {
                relation,
                masked,
                hidden,
                ..
            } => {
                let relation = self.as_it_is_written(relation, masked, hidden)?;
                self.row((relation, masked.clone()), letter, open).await
            }
            StoredSubject::Message { prefix, content } => self.message(prefix, content, letter, open).await,
        }
    }

    async fn row(&mut self, wanted: Compiled, letter: &StoredLetter, open: &mut Open) -> Result<(), StillDead> {
        let Some(change) = letter.subject.change() else {
            return Ok(());
        };
        let oid = wanted.0.oid;
        if self.tables.get(&oid).is_none_or(|(known, _)| *known != wanted) {
            let facts = self.facts(&wanted).await?;
            let table = self.compile(&wanted, &facts)?;
            self.tables.insert(oid, (wanted, table));
        }
        let Some((_, table)) = self.tables.get_mut(&oid) else {
            return Ok(());
        };
        let Table {
            encoder, destination, ..
        } = table;
        if !destination.ready {
            let ids = prepare(&self.way, destination, encoder.schemas(), self.dry).await?;
            encoder.set_ids(ids.key, ids.value);
        }
        self.batch.clear();
        let position = open.position();
        let encoded = encoder.encode(change, &open.info, letter.lsn, &mut open.ordinal, &mut self.batch);
        if let Err(source) = encoded {
            if source.kind == Reason::NullInNotNull && self.relax(oid, source.column.as_deref())? {
                return Box::pin(self.publish(letter, open)).await;
            }
            return Err(StillDead::Refused(PipelineError::BadRow { position, source }));
        }
        let needed = open.ordinal - position.ordinal;
        if needed > letter.changes {
            let left = letter.changes;
            return Err(StillDead::Places { needed, left });
        }
        hand_over(&self.way, &self.batch, destination, open, position, self.dry).await
    }

    async fn message(
        &mut self,
        prefix: &str,
        content: &[u8],
        letter: &StoredLetter,
        open: &mut Open,
    ) -> Result<(), StillDead> {
        let messages = self
            .messages
            .get_or_insert_with(|| self.settings.messages(&self.way.metrics));
        let (encoder, destination) = messages;
        if !destination.ready {
            let ids = prepare(&self.way, destination, encoder.schemas(), self.dry).await?;
            encoder.set_ids(ids.key, ids.value);
        }
        self.batch.clear();
        let position = open.position();
        encoder.encode(
            prefix,
            content,
            &open.info,
            letter.lsn,
            &mut open.ordinal,
            &mut self.batch,
        );
        hand_over(&self.way, &self.batch, destination, open, position, self.dry).await
    }

    fn rules(&self, relation: &Relation) -> Result<Vec<Option<ColumnRule>>, StillDead> {
        let rules = self.settings.rules.of(relation);
        rules.map_err(|error| StillDead::Refused(PipelineError::Rules(vec![error])))
    }

    /// The relation with text in the place of what a rule has made of a value already. A value that the letter does not have must
    /// not be wanted now, nor one that was hidden be shown.
    fn as_it_is_written(
        &self,
        relation: &Relation,
        masked: &BTreeSet<usize>,
        hidden: &BTreeSet<usize>,
    ) -> Result<Relation, StillDead> {
        let mut written = relation.clone();
        if hidden.is_empty() && masked.is_empty() {
            return Ok(written);
        }
        let rules = self.rules(relation)?;
        for (index, column) in written.columns.iter_mut().enumerate() {
            let rule = rules.get(index).and_then(Option::as_ref).map(|rule| &rule.rule);
            let excluded = rule == Some(&Rule::Exclude);
            let hides = rule.is_some_and(Rule::hides);
            if (hidden.contains(&index) && !excluded) || (masked.contains(&index) && !hides) {
                return Err(StillDead::Hidden {
                    column: column.name.clone(),
                });
            }
            if masked.contains(&index) && !excluded {
                column.ty = text_type();
                column.typmod = -1;
            }
        }
        Ok(written)
    }

    /// What the catalog says now. Of a masked column it says what does not hold for the mask.
    async fn facts(&self, (relation, masked): &Compiled) -> Result<CatalogFacts, StillDead> {
        let facts = relations::facts(&self.sql, &self.settings.encoder, relation).await;
        let mut facts = facts.map_err(StillDead::Refused)?;
        for column in masked.iter().filter_map(|index| relation.columns.get(*index)) {
            if let Some(facts) = facts.columns.get_mut(&column.name) {
                facts.default = None;
            }
        }
        Ok(facts)
    }

    /// Compiles a table again with a column that can be null, as the stream does; whether that is news.
    fn relax(&mut self, oid: u32, column: Option<&str>) -> Result<bool, StillDead> {
        let Some((wanted, table)) = self.tables.get(&oid) else {
            return Ok(false);
        };
        let Some(facts) = column.and_then(|column| table.relaxed.relaxed(column)) else {
            return Ok(false);
        };
        let wanted = wanted.clone();
        let table = self.compile(&wanted, &facts)?;
        self.tables.insert(oid, (wanted, table));
        Ok(true)
    }

    fn compile(&self, (relation, masked): &Compiled, facts: &CatalogFacts) -> Result<Table, StillDead> {
        let settings = &self.settings;
        let topic = settings.topic_of(relation);
        let mut rules = self.rules(relation)?;
        for (index, rule) in rules.iter_mut().enumerate() {
            // It has done its work, unless nothing is written there at all.
            if masked.contains(&index) && rule.as_ref().is_some_and(|rule| rule.rule != Rule::Exclude) {
                *rule = None;
            }
        }
        let label = relation.full_name();
        let encoder = TableEncoder::compile_with(relation, &rules, &topic, &settings.encoder, facts);
        let encoder = encoder.map_err(|source| {
            StillDead::Refused(PipelineError::Compile {
                table: label.clone(),
                source,
            })
        })?;
        let mut destination = Destination::new(topic, label, &self.way.metrics);
        destination.stamp = Some((REPLAYED, now_us().to_string().into_bytes()));
        Ok(Table {
            encoder,
            destination,
            relation: Arc::new(relation.clone()),
            facts: facts.clone(),
            relaxed: facts.clone(),
        })
    }
}

/// `text`, as every server has it.
fn text_type() -> Arc<PgType> {
    let text = PgType {
        oid: 25,
        schema: "pg_catalog".to_owned(),
        name: "text".to_owned(),
        kind: TypeKind::Base,
    };
    debug_assert_eq!(ValueKind::of(&text, -1), ValueKind::Text);
    Arc::new(text)
}

/// The topic is there and the schemas have ids; or, where nothing is to be changed, only the limit is asked for.
async fn prepare(
    way: &Way,
    destination: &mut Destination,
    schemas: RecordSchemas<'_>,
    dry: bool,
) -> Result<Ids, StillDead> {
    if dry {
        destination.limit = way.producer.current_limit(&destination.topic).await;
        destination.ready = true;
        return Ok(Ids { key: None, value: 0 });
    }
    let ids = way.prepare(destination, schemas, TopicUse::Table).await;
    ids.map_err(StillDead::Refused)
}

async fn hand_over(
    way: &Way,
    batch: &Batch,
    destination: &mut Destination,
    open: &Open,
    position: Position,
    dry: bool,
) -> Result<(), StillDead> {
    let why = too_large(&way.producer, batch, destination).await;
    match why.map_err(StillDead::Refused)? {
        Some(Why::TooLarge { size, limit }) => Err(StillDead::Refused(PipelineError::TooLarge {
            table: destination.label.clone(),
            position,
            topic: destination.topic.clone(),
            size,
            limit,
        })),
        _ if dry => Ok(()),
        _ => send(&way.producer, &way.status, batch, destination, open)
            .await
            .map_err(StillDead::Refused),
    }
}
