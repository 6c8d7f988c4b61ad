//! The rules of a relation's columns.

use std::sync::Arc;

use crate::relation::{Column, Relation};
use crate::row::{Rule, Ruled, ValueKind};

use super::encoder::type_name;
use super::error::CompileError;

/// The rule that a column stands under.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ColumnRule {
    /// The pattern that covers the column, as it was written; for messages.
    pub pattern: Arc<str>,
    /// What becomes of the column.
    pub rule: Rule,
}

/// What the bytes of each column mean, under the rules that the columns stand under, in their order; those beyond the end of
/// `rules` stand under none.
pub(super) fn kinds<'a>(
    relation: &'a Relation,
    rules: &[Option<ColumnRule>],
) -> Result<Vec<(&'a Column, ValueKind)>, CompileError> {
    let ruled = |(index, column): (usize, &'a Column)| {
        let kind = ValueKind::of(&column.ty, column.typmod);
        let Some(ColumnRule { pattern, rule }) = rules.get(index).and_then(Option::as_ref) else {
            return Ok((column, kind));
        };
        let in_key = relation.key.contains(&index);
        match Ruled::new(kind, rule.clone(), in_key) {
            Ok(ruled) => Ok((column, ValueKind::Ruled(Arc::new(ruled)))),
            Err(source) => Err(CompileError::Rule {
                pattern: Arc::clone(pattern),
                table: relation.full_name(),
                column: column.name.clone(),
                type_name: type_name(&column.ty),
                source,
            }),
        }
    };
    relation.columns.iter().enumerate().map(ruled).collect()
}
