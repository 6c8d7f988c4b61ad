//! What can be wrong with a relation or a row. No error carries a value of the row.

use std::sync::Arc;

use crate::envelope::TopicError;
use crate::row::{Misfit, ValueError};

/// Why there is no encoder for a relation.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum CompileError {
    /// Kafka takes no such topic.
    #[error("table {table} has no usable topic")]
    Topic {
        /// `schema.name`.
        table: String,
        /// What is wrong with the topic.
        source: TopicError,
    },
    /// The key names a column that the relation does not have.
    #[error("the key of table {table} names column number {index}, and there are {columns}")]
    KeyColumn {
        /// `schema.name`.
        table: String,
        /// The index, from 0.
        index: usize,
        /// How many columns there are.
        columns: usize,
    },
    /// A column is known by its text only, and the stream is binary.
    #[error("column {column:?} of table {table} has type {type_name}, whose binary form is not known")]
    NoBinaryForm {
        /// `schema.name`.
        table: String,
        /// The column.
        column: String,
        /// Its type.
        type_name: String,
    },
    /// A column stands under a rule that makes no sense for it.
    #[error(
        "the rule {pattern:?} of avro.columns does not fit column {column:?} of table {table}, of type {type_name}"
    )]
    Rule {
        /// The rule's pattern, as it was written.
        pattern: Arc<str>,
        /// `schema.name`.
        table: String,
        /// The column.
        column: String,
        /// Its type.
        type_name: String,
        /// Why it does not fit.
        source: Misfit,
    },
}

impl CompileError {
    /// What to do.
    pub fn hint(&self) -> Option<String> {
        match self {
            CompileError::Topic { .. } => Some("Choose another kafka.topic, or leave the table out.".to_owned()),
            CompileError::KeyColumn { .. } => None,
            CompileError::NoBinaryForm { .. } => Some("Use replication.format = \"text\".".to_owned()),
            CompileError::Rule { source, .. } => Some(source.hint().to_owned()),
        }
    }
}

/// What is wrong with a row. A closed set, fit for a metric's label.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, thiserror::Error)]
pub enum Reason {
    /// The bytes of a column are not a value that Avro can hold.
    #[error(transparent)]
    Value(#[from] ValueError),
    /// NULL, in a column of the key.
    #[error("the column is part of the key and NULL")]
    NullInKey,
    /// NULL, in a column that the catalog says is NOT NULL.
    #[error("the column is NOT NULL in the catalog, and NULL in this row, which is older")]
    NullInNotNull,
    /// A column of the key was left unchanged in TOAST, and no old tuple has it.
    #[error("the column is part of the key, unchanged in TOAST, and the old row was not sent")]
    KeyNotSent,
    /// A column of the key is not part of the replica identity, so that the old row does not have it.
    #[error("the column is part of the key but not of the replica identity")]
    KeyNotInIdentity,
    /// An old tuple that leaves a value out.
    #[error("the old row leaves the value out")]
    OldValueNotSent,
    /// A tuple that is not one of this relation version.
    #[error("the row has not as many columns as its relation")]
    ColumnCount,
}

impl Reason {
    /// The metric label.
    pub const fn label(self) -> &'static str {
        match self {
            Reason::Value(error) => error.label(),
            Reason::NullInKey => "null_in_key",
            Reason::NullInNotNull => "null_in_not_null",
            Reason::KeyNotSent => "key_not_sent",
            Reason::KeyNotInIdentity => "key_not_in_identity",
            Reason::OldValueNotSent => "old_value_not_sent",
            Reason::ColumnCount => "column_count",
        }
    }
}

/// A row that cannot be converted. Names table, column and type, never the value.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("a row of table {table} cannot be converted{}", place(.column.as_deref(), .type_name.as_deref()))]
pub struct BadRow {
    /// `schema.name`.
    pub table: String,
    /// The column; `None`: the row as a whole.
    pub column: Option<String>,
    /// The column's type.
    pub type_name: Option<String>,
    /// What is wrong.
    #[source]
    pub kind: Reason,
}

impl BadRow {
    /// The metric label.
    pub const fn reason(&self) -> &'static str {
        self.kind.label()
    }
}

fn place(column: Option<&str>, type_name: Option<&str>) -> String {
    match (column, type_name) {
        (Some(column), Some(type_name)) => format!(": column {column:?} of type {type_name}"),
        (Some(column), None) => format!(": column {column:?}"),
        (None, _) => String::new(),
    }
}
