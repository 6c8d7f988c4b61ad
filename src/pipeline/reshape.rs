//! Rows that cannot be read since a row type has other attributes than it had when the table was described.
//!
//! The stream does not say so, and the row does: it has more attributes, or fewer, or others. So the catalog is asked again, and if
//! what it says does not fit either (the pipeline lags, and the catalog is ahead of the row) the shapes that the type
//! had earlier are tried. The one that fits becomes the relation's next version. A row that fits none is a bad row.

use std::sync::Arc;

use super::error::PipelineError;
use super::publish::PublishSettings;
use super::sql::Sql;
use crate::avro::{BadRow, Batch, Reason};
use crate::envelope::{RowChange, Transaction};
use crate::lsn::Lsn;
use crate::relation::{CatalogFacts, Column, Registry, Relation, Shapes};
use crate::row::ValueError;

/// A change that could not be encoded.
#[derive(Clone, Copy)]
pub(super) struct Unread<'a> {
    pub(super) relation: u32,
    pub(super) change: RowChange<'a>,
    pub(super) transaction: &'a Transaction,
    pub(super) lsn: Lsn,
    /// What the catalog said of the relation's columns.
    pub(super) facts: &'a CatalogFacts,
}

impl Unread<'_> {
    /// What is wrong with it under this version of its relation.
    fn fault(&self, relation: &Relation, settings: &PublishSettings) -> Result<Option<BadRow>, PipelineError> {
        let (_, encoder) = settings.encoder(relation, self.facts)?;
        let (mut ordinal, mut batch) = (0, Batch::default());
        let encoded = encoder.encode(self.change, self.transaction, self.lsn, &mut ordinal, &mut batch);
        // A NULL that the catalog does not expect is for whoever compiles the table.
        Ok(encoded.err().filter(|bad| bad.kind != Reason::NullInNotNull))
    }
}

/// The relation's next version, if there is one by which the row can be read.
pub(super) async fn reshape(
    relations: &mut Registry,
    sql: &Sql,
    settings: &PublishSettings,
    row: Unread<'_>,
    bad: &BadRow,
) -> Result<Option<Arc<Relation>>, PipelineError> {
    let Some(described) = relations.get(row.relation).cloned() else {
        return Ok(None);
    };
    if !concerns_row_type(&described, bad) {
        return Ok(None);
    }
    let mut types: Vec<u32> = described
        .columns
        .iter()
        .filter(|column| column.ty.has_attributes())
        .map(|column| column.ty.oid)
        .collect();
    types.dedup();
    relations.learn_types(sql.types(&types).await?);
    let found = fitting(relations, settings, row, &described)?;
    Ok(found.map(|relation| {
        let relation = relations.reshape(relation);
        tracing::info!(
            table = relation.full_name(),
            version = relation.version,
            "a row type has other attributes than before; the row is read by those that fit it"
        );
        relation
    }))
}

/// The first shape that fits, beginning with what the catalog says now.
fn fitting(
    relations: &Registry,
    settings: &PublishSettings,
    row: Unread<'_>,
    described: &Relation,
) -> Result<Option<Relation>, PipelineError> {
    let mut shapes = relations.shapes(described);
    let mut trial = shapes.apply(described);
    let Some(mut fault) = row.fault(&trial, settings)? else {
        return Ok(Some(trial));
    };
    // One row type after the other: each round is past a column more.
    for _ in 0..described.columns.len() {
        if !matches!(
            fault.kind,
            Reason::Value(ValueError::Attributes | ValueError::Malformed)
        ) {
            return Ok(None);
        }
        let Some(column) = column_of(&trial, &fault).cloned() else {
            return Ok(None);
        };
        let mut further: Option<(Shapes, Relation, BadRow)> = None;
        for others in relations.other_shapes(&shapes, &column) {
            let reshaped = others.apply(described);
            match row.fault(&reshaped, settings)? {
                None => return Ok(Some(reshaped)),
                Some(other) if other.column != fault.column && further.is_none() => {
                    further = Some((others, reshaped, other));
                }
                Some(_) => (),
            }
        }
        match further {
            Some(next) => (shapes, trial, fault) = next,
            None => return Ok(None),
        }
    }
    Ok(None)
}

/// A value of a column that is made of a row type could not be read.
fn concerns_row_type(relation: &Relation, bad: &BadRow) -> bool {
    matches!(bad.kind, Reason::Value(_)) && column_of(relation, bad).is_some_and(|column| column.ty.has_attributes())
}

fn column_of<'a>(relation: &'a Relation, bad: &BadRow) -> Option<&'a Column> {
    let name = bad.column.as_deref()?;
    relation.columns.iter().find(|column| column.name == name)
}
