//! A relation version, compiled: its schemas, and the encoder of its rows.
//!
//! Three absences stay apart. A NULL is null. A value that TOAST left unchanged is filled in from the old row if that has it;
//! else it is null in `after`, and its column stands in `unchanged`. A column that is not part of the replica identity is
//! null in `before`, and the schema's property `walferry.identity` says so.

/// A change → its records.
mod change;
/// Relation version → schemas and fields.
mod compile;
/// The keys of old and new rows.
mod key;
/// One record: value and headers.
mod record;
/// Changes that cannot be published.
mod refused;
/// Rows, column by column.
mod row;

use std::sync::Arc;

use crate::envelope::{Position, RowChange, SnapshotKind, Transaction};
use crate::lsn::Lsn;
use crate::pgoutput::{OldTuple, Tuple};
use crate::relation::PgType;
use crate::row::{Misfit, ValueKind};

use super::batch::Batch;
use super::error::{BadRow, CompileError, Reason};
use super::rule::ColumnRule;
use super::source::Source;
use super::{EnvelopeKind, RecordSchemas, debezium};

/// Confluent's wire format: a zero byte and the schema's id.
pub(super) fn wire_header(id: u32) -> [u8; 5] {
    let [a, b, c, d] = id.to_be_bytes();
    [0, a, b, c, d]
}

/// A column, as the rows are encoded.
#[derive(Debug, Clone)]
struct Field {
    kind: ValueKind,
    nullable: bool,
    identity: bool,
}

/// A column, as people see it.
#[derive(Debug, Clone)]
struct Label {
    column: String,
    type_name: String,
    /// The column's name as an Avro string, for `unchanged`.
    encoded: Vec<u8>,
    rule: Option<ColumnRule>,
}

/// The encoder of one relation version. Until [`set_ids`](Self::set_ids) the records carry the schema id 0.
#[derive(Debug, Clone)]
pub struct TableEncoder {
    table: String,
    envelope: EnvelopeKind,
    tombstones: bool,
    fields: Vec<Field>,
    /// The columns in Debezium's types; `None`: in Avro's own, as `fields` says.
    debezium: Option<Box<debezium::Rows>>,
    labels: Vec<Label>,
    key: Vec<usize>,
    key_schema: Option<String>,
    value_schema: String,
    key_record_name: Option<String>,
    value_record_name: String,
    source: Source,
    key_header: [u8; 5],
    value_header: [u8; 5],
}

/// What all records of one change have in common.
#[derive(Clone, Copy)]
struct Event<'a> {
    transaction: &'a Transaction,
    lsn: Lsn,
    snapshot: Option<SnapshotKind>,
}

impl Event<'_> {
    fn position(&self, ordinal: u64) -> Position {
        Position {
            commit_lsn: self.transaction.commit_lsn,
            ordinal,
        }
    }
}

/// A fault, and the column where it is.
#[derive(Debug, Clone, Copy)]
struct Fault {
    column: Option<usize>,
    reason: Reason,
}

impl Fault {
    #[cold]
    fn at(column: usize, reason: impl Into<Reason>) -> Self {
        Fault {
            column: Some(column),
            reason: reason.into(),
        }
    }
}

/// One side of a change.
#[derive(Clone, Copy)]
enum Side<'a> {
    /// The old row.
    Before(OldTuple<'a>),
    /// The new row, and the old one to fill in from.
    After(Tuple<'a>, Option<OldTuple<'a>>),
}

impl<'a> Side<'a> {
    /// The row.
    fn tuple(self) -> Tuple<'a> {
        match self {
            Side::Before(old) => tuple_of(old),
            Side::After(new, _) => new,
        }
    }
}

fn tuple_of(old: OldTuple<'_>) -> Tuple<'_> {
    match old {
        OldTuple::Key(tuple) | OldTuple::Full(tuple) => tuple,
    }
}

pub(super) fn type_name(ty: &PgType) -> String {
    if ty.schema == "pg_catalog" {
        ty.name.clone()
    } else {
        format!("{}.{}", ty.schema, ty.name)
    }
}

impl TableEncoder {
    /// The key's schema; `None`: the records have no key.
    pub fn key_schema(&self) -> Option<&str> {
        self.key_schema.as_deref()
    }

    /// The value's schema.
    pub fn value_schema(&self) -> &str {
        &self.value_schema
    }

    /// The full name of the key's record.
    pub fn key_record_name(&self) -> Option<&str> {
        self.key_record_name.as_deref()
    }

    /// The full name of the value's record.
    pub fn value_record_name(&self) -> &str {
        &self.value_record_name
    }

    /// What has to be registered before its records can be read.
    pub fn schemas(&self) -> RecordSchemas<'_> {
        RecordSchemas {
            key: self.key_schema().zip(self.key_record_name()),
            value: (self.value_schema(), self.value_record_name()),
        }
    }

    /// Sets the schema ids that the records carry.
    pub fn set_ids(&mut self, key: Option<u32>, value: u32) {
        self.key_header = wire_header(key.unwrap_or_default());
        self.value_header = wire_header(value);
    }

    /// Whether rows can be read in the stream's format.
    pub fn check_format(&self, binary: bool) -> Result<(), CompileError> {
        let unreadable: Vec<usize> = match &self.debezium {
            _ if !binary => Vec::new(),
            Some(rows) => rows.unreadable().collect(),
            None => (0..self.fields.len())
                .filter(|at| self.fields.get(*at).is_some_and(|field| !field.kind.reads_binary()))
                .collect(),
        };
        let mut columns = unreadable.iter().filter_map(|column| self.labels.get(*column));
        let first = columns.clone().next();
        match columns.find(|label| label.rule.is_some()).or(first) {
            None => Ok(()),
            Some(label) => {
                let (table, column, type_name) = (self.table.clone(), label.column.clone(), label.type_name.clone());
                Err(match &label.rule {
                    None => CompileError::NoBinaryForm {
                        table,
                        column,
                        type_name,
                    },
                    Some(rule) => CompileError::Rule {
                        pattern: Arc::clone(&rule.pattern),
                        table,
                        column,
                        type_name,
                        source: Misfit::NotPrinted,
                    },
                })
            }
        }
    }

    /// Whether the bytes that Postgres sent for a column may be shown anywhere: no rule hides its values. `column`: its place in
    /// the relation.
    pub fn may_show(&self, column: usize) -> bool {
        self.labels
            .get(column)
            .is_some_and(|label| label.rule.as_ref().is_none_or(|rule| !rule.rule.hides()))
    }

    /// Encodes all that one change publishes, and advances `ordinal` by the number of changes: two when the key changed,
    /// else one. `lsn` is where the change's message starts. After an error `out` and `ordinal` are as they were.
    pub fn encode(
        &self,
        change: RowChange<'_>,
        transaction: &Transaction,
        lsn: Lsn,
        ordinal: &mut u64,
        out: &mut Batch,
    ) -> Result<(), BadRow> {
        let mark = out.mark();
        out.stamp.set(transaction);
        let mut next = *ordinal;
        let event = Event {
            transaction,
            lsn,
            snapshot: match change {
                RowChange::Read { kind, .. } => Some(kind),
                _ => None,
            },
        };
        match self.encode_change(change, event, &mut next, out) {
            Ok(()) => {
                *ordinal = next;
                Ok(())
            }
            Err(fault) => {
                out.roll_back(mark);
                Err(self.bad_row(fault))
            }
        }
    }

    #[cold]
    fn bad_row(&self, fault: Fault) -> BadRow {
        let label = fault.column.and_then(|column| self.labels.get(column));
        BadRow {
            table: self.table.clone(),
            column: label.map(|label| label.column.clone()),
            type_name: label.map(|label| label.type_name.clone()),
            kind: fault.reason,
        }
    }
}
