//! A Relation message → the relation, with what only the catalog knows.

use std::sync::Arc;

use super::error::PipelineError;
use super::published::PublishedTable;
use super::sql::Sql;
use crate::avro::{BadRow, EncoderSettings, Reason};
use crate::lsn::Lsn;
use crate::pgoutput::RelationMessage;
use crate::relation::{CatalogFacts, CatalogKeys, Registry, Relation, Update};

/// Takes in a Relation message that stands at `lsn`.
pub(super) async fn take_in(
    relations: &mut Registry,
    sql: &Sql,
    lsn: Lsn,
    message: &RelationMessage<'_>,
) -> Result<Update, PipelineError> {
    let unknown = relations.unknown_types(message);
    if !unknown.is_empty() {
        relations.learn_types(sql.types(&unknown).await?);
    }
    let keys = match relations.needs_catalog_keys(message) {
        true => sql.keys(message.oid).await?,
        false => CatalogKeys::default(),
    };
    relations
        .describe(message, &keys)
        .map_err(|source| PipelineError::Relation { lsn, source })
}

/// What the catalog says of the relation's columns, where an encoder needs it.
pub(super) async fn facts(
    sql: &Sql,
    settings: &EncoderSettings,
    relation: &Relation,
) -> Result<CatalogFacts, PipelineError> {
    match settings.need_facts() {
        true => sql.facts(relation).await,
        false => Ok(CatalogFacts::default()),
    }
}

/// The facts without a NOT NULL that a row contradicts: the catalog says it, and the row is older. `None`: they are not what is wrong
/// with the row.
pub(super) fn relaxed(facts: &CatalogFacts, table: &str, bad: &BadRow) -> Option<CatalogFacts> {
    let column = bad.column.as_deref().filter(|_| bad.kind == Reason::NullInNotNull)?;
    let facts = facts.relaxed(column)?;
    tracing::info!(
        table,
        column,
        "the column is NOT NULL now and has no value in an older row: it is nullable in this table's schemas until the table is described anew"
    );
    Some(facts)
}

/// Published tables, as the stream would describe them now.
pub(super) async fn describe(sql: &Sql, tables: &[PublishedTable]) -> Result<Vec<Arc<Relation>>, PipelineError> {
    let mut relations = Registry::default();
    let mut described = Vec::with_capacity(tables.len());
    for table in tables {
        let update = take_in(&mut relations, sql, Lsn::ZERO, &table.message()).await?;
        let (Update::Changed(relation) | Update::Unchanged(relation)) = update;
        described.push(relation);
    }
    Ok(described)
}
