//! A relation version, compiled: its schemas, and the encoder of its rows.
//!
//! Three absences stay apart. A NULL is null. A value that TOAST left unchanged is filled in from the old row if that has it;
//! else it is null in `after`, and its column stands in `unchanged`. A column that is not part of the replica identity is
//! null in `before`, and the schema's property `walferry.identity` says so.

/// Changes that cannot be published.
mod refused;

use std::ops::Range;
use std::sync::Arc;

use crate::envelope::{Op, Position, RowChange, Transaction, check_topic};
use crate::lsn::Lsn;
use crate::pgoutput::{Datum, OldTuple, Tuple};
use crate::relation::{CatalogFacts, Column, PgType, Relation, ReplicaIdentity};
use crate::row::{Misfit, ValueKind};

use super::batch::Batch;
use super::binary::{put_bytes, put_decimal, put_length, put_lsn};
use super::error::{BadRow, CompileError, Reason};
use super::field::{put_binary, put_text};
use super::name::namespace;
use super::nested::Buffers;
use super::rule::{ColumnRule, kinds};
use super::source::Source;
use super::stamp::Part;
use super::{EncoderSettings, EnvelopeKind, Nullability, RecordSchemas, TypeDialect, debezium, schema};

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

fn tuple_of(old: OldTuple<'_>) -> Tuple<'_> {
    match old {
        OldTuple::Key(tuple) | OldTuple::Full(tuple) => tuple,
    }
}

/// Whether every record of the table has a value of this column: it is NOT NULL, no old row leaves it out, and no update.
fn is_always_there(relation: &Relation, envelope: EnvelopeKind, facts: &CatalogFacts, column: &str) -> bool {
    let whole = relation.replica_identity == ReplicaIdentity::Full;
    // Without an envelope an old row is shown only where it is whole.
    facts
        .columns
        .get(column)
        .is_some_and(|facts| facts.not_null && (whole || (envelope == EnvelopeKind::Row && !facts.toasted)))
}

pub(super) fn type_name(ty: &PgType) -> String {
    if ty.schema == "pg_catalog" {
        ty.name.clone()
    } else {
        format!("{}.{}", ty.schema, ty.name)
    }
}

impl TableEncoder {
    /// Compiles a relation version for a topic, from the stream alone.
    pub fn compile(relation: &Relation, topic: &str, settings: &EncoderSettings) -> Result<Self, CompileError> {
        Self::compile_with_rules(relation, &[], topic, settings)
    }

    /// Compiles a relation version whose columns stand under `rules`, in their order; those beyond its end under none.
    pub fn compile_with_rules(
        relation: &Relation,
        rules: &[Option<ColumnRule>],
        topic: &str,
        settings: &EncoderSettings,
    ) -> Result<Self, CompileError> {
        Self::compile_with(relation, rules, topic, settings, &CatalogFacts::default())
    }

    /// The same, with what the catalog says of the relation. It says nothing with [`CatalogFacts::default`].
    pub fn compile_with(
        relation: &Relation,
        rules: &[Option<ColumnRule>],
        topic: &str,
        settings: &EncoderSettings,
        facts: &CatalogFacts,
    ) -> Result<Self, CompileError> {
        let table = relation.full_name();
        check_topic(topic).map_err(|source| CompileError::Topic {
            table: table.clone(),
            source,
        })?;
        let kinds = kinds(relation, rules)?;
        let mut key_columns = Vec::with_capacity(relation.key.len());
        for &index in &relation.key {
            key_columns.push(kinds.get(index).cloned().ok_or_else(|| CompileError::KeyColumn {
                table: table.clone(),
                index,
                columns: kinds.len(),
            })?);
        }
        // A key column outside of the identity is absent from old rows, so it must be able to be null there.
        let never_null = |index: usize, identity: bool| {
            relation.key.contains(&index) && (identity || relation.replica_identity == ReplicaIdentity::Nothing)
        };
        let always_there = |column: &Column| {
            settings.nullability == Nullability::Catalog
                && is_always_there(relation, settings.envelope, facts, &column.name)
        };
        let fields: Vec<_> = kinds
            .iter()
            .enumerate()
            .map(|(index, (column, kind))| Field {
                kind: kind.clone(),
                nullable: !(kind.is_excluded() || never_null(index, column.identity) || always_there(column)),
                identity: column.identity || relation.replica_identity == ReplicaIdentity::Full,
            })
            .collect();
        let labels = relation
            .columns
            .iter()
            .enumerate()
            .map(|(index, column)| {
                let mut encoded = Vec::new();
                put_bytes(column.name.as_bytes(), &mut encoded);
                Label {
                    column: column.name.clone(),
                    type_name: type_name(&column.ty),
                    encoded,
                    rule: rules.get(index).cloned().flatten(),
                }
            })
            .collect();
        let namespace = match settings.types {
            TypeDialect::Avro => namespace(topic),
            TypeDialect::Debezium => debezium::namespace(topic),
        };
        let row = schema::value(
            &namespace,
            relation,
            kinds
                .iter()
                .zip(&fields)
                .filter(|((_, kind), _)| !kind.is_excluded())
                .map(|((column, kind), field)| (*column, kind, field.nullable)),
        );
        let keyed = !key_columns.is_empty();
        let value_record = match settings.envelope {
            EnvelopeKind::Debezium => "Envelope",
            EnvelopeKind::Row => "Value",
        };
        let (debezium, key_schema, value_schema) = match settings.types {
            TypeDialect::Avro => {
                let key =
                    keyed.then(|| schema::key(&namespace, key_columns.iter().map(|(column, kind)| (*column, kind))));
                let value = match settings.envelope {
                    EnvelopeKind::Debezium => schema::envelope(&namespace, &row),
                    EnvelopeKind::Row => row,
                };
                (None, key, value)
            }
            TypeDialect::Debezium => {
                let compiled = debezium::compile(relation, &kinds, &namespace, settings.nullability, facts);
                let value = match settings.envelope {
                    EnvelopeKind::Debezium => compiled.envelope_schema,
                    EnvelopeKind::Row => compiled.value_schema,
                };
                (Some(Box::new(compiled.rows)), compiled.key_schema, value)
            }
        };
        Ok(TableEncoder {
            table,
            envelope: settings.envelope,
            tombstones: settings.tombstones,
            fields,
            debezium,
            labels,
            key: relation.key.clone(),
            key_schema,
            value_schema,
            key_record_name: keyed.then(|| schema::full_name(&namespace, "Key")),
            value_record_name: schema::full_name(&namespace, value_record),
            source: Source::new(settings, &relation.schema, &relation.name),
            key_header: wire_header(0),
            value_header: wire_header(0),
        })
    }

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
        match self.encode_change(change, Event { transaction, lsn }, &mut next, out) {
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

    fn encode_change(
        &self,
        change: RowChange<'_>,
        event: Event<'_>,
        ordinal: &mut u64,
        out: &mut Batch,
    ) -> Result<(), Fault> {
        let mut take = || {
            let position = event.position(*ordinal);
            *ordinal = ordinal.saturating_add(1);
            position
        };
        match change {
            RowChange::Insert { new } => {
                self.check_count(new)?;
                let key = self.put_key(Side::After(new, None), out)?;
                self.put_record(Op::Create, key, None, Some(Side::After(new, None)), event, take(), out)
            }
            RowChange::Update { old, new } => {
                self.check_count(new)?;
                if let Some(old) = old {
                    self.check_count(tuple_of(old))?;
                }
                let after = Side::After(new, old);
                let new_key = self.put_key(after, out)?;
                let before = old.map(Side::Before);
                match self.put_changed_key(old, new_key.as_ref(), out)? {
                    None => self.put_record(Op::Update, new_key, before, Some(after), event, take(), out),
                    Some(old_key) => {
                        let names = self.key_headers(&old_key, new_key.as_ref(), out);
                        let new_name = names.as_ref().map(|(_, new)| new.as_slice());
                        self.put_delete(Some(old_key), before, new_name, event, take(), out)?;
                        if let Some((old, _)) = names {
                            out.header("__debezium.oldkey", |bytes| bytes.extend_from_slice(&old));
                        }
                        self.put_record(Op::Create, new_key, None, Some(after), event, take(), out)
                    }
                }
            }
            RowChange::Delete { old } => {
                self.check_count(tuple_of(old))?;
                let key = self.put_key(Side::Before(old), out)?;
                self.put_delete(key, Some(Side::Before(old)), None, event, take(), out)
            }
            RowChange::Truncate => self.put_record(Op::Truncate, None, None, None, event, take(), out),
        }
    }

    fn check_count(&self, tuple: Tuple<'_>) -> Result<(), Fault> {
        if tuple.len() == self.fields.len() {
            Ok(())
        } else {
            Err(Fault {
                column: None,
                reason: Reason::ColumnCount,
            })
        }
    }

    /// Appends the key of the old row, if that has one and it differs from the new row's.
    fn put_changed_key(
        &self,
        old: Option<OldTuple<'_>>,
        new_key: Option<&Range<usize>>,
        out: &mut Batch,
    ) -> Result<Option<Range<usize>>, Fault> {
        let (Some(old), Some(new_key)) = (old, new_key) else {
            return Ok(None);
        };
        if self.key_column_outside(old).is_some() {
            return Ok(None);
        }
        let Some(old_key) = self.put_key(Side::Before(old), out)? else {
            return Ok(None);
        };
        if out.slice(&old_key) == out.slice(new_key) {
            out.bytes.truncate(old_key.start);
            return Ok(None);
        }
        Ok(Some(old_key))
    }

    /// A column of the key that the old tuple does not hold.
    fn key_column_outside(&self, old: OldTuple<'_>) -> Option<usize> {
        match old {
            OldTuple::Full(_) => None,
            OldTuple::Key(_) => self
                .key
                .iter()
                .copied()
                .find(|column| !self.fields.get(*column).is_some_and(|field| field.identity)),
        }
    }

    /// Appends the key of one side.
    fn put_key(&self, side: Side<'_>, out: &mut Batch) -> Result<Option<Range<usize>>, Fault> {
        if self.key.is_empty() {
            return Ok(None);
        }
        let start = out.bytes.len();
        out.bytes.extend_from_slice(&self.key_header);
        if let Side::Before(old) = side
            && let Some(column) = self.key_column_outside(old)
        {
            return Err(Fault::at(column, Reason::KeyNotInIdentity));
        }
        if let Some(rows) = &self.debezium {
            for &column in &self.key {
                let datum = self.key_datum(column, side).unwrap_or(Datum::Unchanged);
                rows.put_key(column, datum, out)
                    .map_err(|reason| Fault::at(column, reason))?;
            }
            return Ok(Some(start..out.bytes.len()));
        }
        for &column in &self.key {
            let Some(field) = self.fields.get(column) else { continue };
            let kind = &field.kind;
            match self.key_datum(column, side) {
                Some(Datum::Text(text)) => put_text(kind, text, &mut out.buffers, &mut out.bytes),
                Some(Datum::Binary(bytes)) => put_binary(kind, bytes, &mut out.bytes),
                Some(Datum::Null) => return Err(Fault::at(column, Reason::NullInKey)),
                Some(Datum::Unchanged) | None => return Err(Fault::at(column, Reason::KeyNotSent)),
            }
            .map_err(|error| Fault::at(column, error))?;
        }
        Ok(Some(start..out.bytes.len()))
    }

    /// One side's value of a column of the key.
    #[inline]
    fn key_datum<'a>(&self, column: usize, side: Side<'a>) -> Option<Datum<'a>> {
        match side {
            Side::Before(old) => tuple_of(old).iter().nth(column),
            Side::After(new, old) => match new.iter().nth(column) {
                Some(Datum::Unchanged) => old.and_then(|old| self.filled(column, old)),
                datum => datum,
            },
        }
    }

    /// The old row's value of a column, if the old tuple holds that column.
    fn filled<'a>(&self, column: usize, old: OldTuple<'a>) -> Option<Datum<'a>> {
        let held = match old {
            OldTuple::Full(_) => true,
            OldTuple::Key(_) => self.fields.get(column).is_some_and(|field| field.identity),
        };
        let datum = if held { tuple_of(old).iter().nth(column) } else { None };
        datum.filter(|datum| *datum != Datum::Unchanged)
    }

    /// Old and new key as Debezium's headers name them.
    fn key_headers(&self, old: &Range<usize>, new: Option<&Range<usize>>, out: &Batch) -> Option<(Vec<u8>, Vec<u8>)> {
        let rows = self.debezium.as_ref()?;
        if self.envelope != EnvelopeKind::Debezium {
            return None;
        }
        let text = |key: &Range<usize>| {
            let avro = out.slice(key).get(self.key_header.len()..).unwrap_or_default();
            rows.key_text(avro)
        };
        Some((text(old), text(new?)))
    }

    /// Appends a delete and, where asked for, its tombstone. `new_key`: the key under which the row goes on, as a header names it.
    #[allow(clippy::too_many_arguments, reason = "the parts of one record")]
    fn put_delete(
        &self,
        key: Option<Range<usize>>,
        before: Option<Side<'_>>,
        new_key: Option<&[u8]>,
        event: Event<'_>,
        position: Position,
        out: &mut Batch,
    ) -> Result<(), Fault> {
        let tombstone = self.tombstones && key.is_some() && self.envelope == EnvelopeKind::Debezium;
        let put_new_key = |out: &mut Batch| {
            if let Some(new_key) = new_key {
                out.header("__debezium.newkey", |bytes| bytes.extend_from_slice(new_key));
            }
        };
        put_new_key(out);
        self.put_record(Op::Delete, key.clone(), before, None, event, position, out)?;
        if tombstone {
            put_new_key(out);
            out.stamp_header("walferry.commit_lsn", Part::CommitLsnText);
            out.header("walferry.ordinal", |bytes| put_decimal(position.ordinal, bytes));
            out.push(Op::Delete, key, None, position);
        }
        Ok(())
    }

    #[inline]
    #[allow(clippy::too_many_arguments, reason = "the parts of one record")]
    fn put_record(
        &self,
        op: Op,
        key: Option<Range<usize>>,
        before: Option<Side<'_>>,
        after: Option<Side<'_>>,
        event: Event<'_>,
        position: Position,
        out: &mut Batch,
    ) -> Result<(), Fault> {
        out.unchanged.clear();
        let start = out.bytes.len();
        let value = match self.envelope {
            EnvelopeKind::Debezium => {
                out.bytes.extend_from_slice(&self.value_header);
                self.put_envelope(op, before, after, event, position, out)?;
                Some(start..out.bytes.len())
            }
            EnvelopeKind::Row => {
                // A tombstone deletes what its key names; without a key the old row says which it was.
                let row = after.or_else(|| before.filter(|_| key.is_none()));
                if let Some(side) = row {
                    out.bytes.extend_from_slice(&self.value_header);
                    self.put_row(side, out)?;
                }
                let value = row.map(|_| start..out.bytes.len());
                self.put_headers(op, event, position, out);
                value
            }
        };
        out.push(op, key, value, position);
        Ok(())
    }

    #[inline]
    fn put_envelope(
        &self,
        op: Op,
        before: Option<Side<'_>>,
        after: Option<Side<'_>>,
        event: Event<'_>,
        position: Position,
        out: &mut Batch,
    ) -> Result<(), Fault> {
        for side in [before, after] {
            match side {
                None => out.bytes.push(0),
                Some(side) => {
                    out.bytes.push(2);
                    self.put_row(side, out)?;
                }
            }
        }
        self.source.put(&out.stamp, event.lsn, position.ordinal, &mut out.bytes);
        out.bytes.push(0); // transaction
        put_bytes(op.code().as_bytes(), &mut out.bytes);
        out.bytes.extend_from_slice(out.stamp.part(Part::Received));
        if !out.unchanged.is_empty() {
            put_length(out.unchanged.len(), &mut out.bytes);
            for label in out.unchanged.iter().filter_map(|column| self.labels.get(*column)) {
                out.bytes.extend_from_slice(&label.encoded);
            }
        }
        out.bytes.push(0);
        Ok(())
    }

    /// Appends the row of one side.
    #[inline]
    fn put_row(&self, side: Side<'_>, out: &mut Batch) -> Result<(), Fault> {
        if let Some(rows) = &self.debezium {
            return self.put_debezium_row(rows, side, out);
        }
        let tuple = match side {
            Side::Before(old) => tuple_of(old),
            Side::After(new, _) => new,
        };
        for (column, (field, datum)) in self.fields.iter().zip(tuple.iter()).enumerate() {
            let datum = match datum {
                Datum::Unchanged => self.resolve_unchanged(column, field, side, out)?,
                datum => datum,
            };
            self.put_datum(column, field, datum, &mut out.buffers, &mut out.bytes)?;
        }
        Ok(())
    }

    /// Appends the row of one side in Debezium's types.
    #[inline(never)]
    fn put_debezium_row(&self, rows: &debezium::Rows, side: Side<'_>, out: &mut Batch) -> Result<(), Fault> {
        let tuple = match side {
            Side::Before(old) => tuple_of(old),
            Side::After(new, _) => new,
        };
        for (column, (field, datum)) in self.fields.iter().zip(tuple.iter()).enumerate() {
            if field.kind.is_excluded() {
                continue;
            }
            let put = match (datum, side) {
                (Datum::Unchanged, Side::Before(_)) => Err(Reason::OldValueNotSent),
                (Datum::Unchanged, Side::After(_, old)) => match old.and_then(|old| self.filled(column, old)) {
                    Some(datum) => rows.put(column, datum, out),
                    None => {
                        out.unchanged.push(column);
                        rows.put_unavailable(column, &mut out.bytes)
                    }
                },
                (Datum::Null, Side::Before(OldTuple::Key(_))) if !field.identity => {
                    rows.put_absent(column, &mut out.bytes);
                    Ok(())
                }
                (datum, _) => rows.put(column, datum, out),
            };
            put.map_err(|reason| Fault::at(column, reason))?;
        }
        Ok(())
    }

    #[inline]
    fn put_datum(
        &self,
        column: usize,
        field: &Field,
        datum: Datum<'_>,
        buffers: &mut Buffers,
        out: &mut Vec<u8>,
    ) -> Result<(), Fault> {
        match datum {
            Datum::Text(text) => {
                if field.nullable {
                    out.push(2);
                }
                put_text(&field.kind, text, buffers, out).map_err(|error| Fault::at(column, error))
            }
            Datum::Binary(bytes) => {
                if field.nullable {
                    out.push(2);
                }
                put_binary(&field.kind, bytes, out).map_err(|error| Fault::at(column, error))
            }
            Datum::Null | Datum::Unchanged if field.nullable => {
                out.push(0);
                Ok(())
            }
            Datum::Null | Datum::Unchanged if field.kind.is_excluded() => Ok(()),
            Datum::Null | Datum::Unchanged if self.key.contains(&column) => Err(Fault::at(column, Reason::NullInKey)),
            Datum::Null | Datum::Unchanged => Err(Fault::at(column, Reason::NullInNotNull)),
        }
    }

    /// What stands for a value that TOAST left unchanged: the old row's, or null with a note in `unchanged`.
    #[cold]
    fn resolve_unchanged<'a>(
        &self,
        column: usize,
        field: &Field,
        side: Side<'a>,
        out: &mut Batch,
    ) -> Result<Datum<'a>, Fault> {
        if field.kind.is_excluded() {
            return Ok(Datum::Null);
        }
        let Side::After(_, old) = side else {
            return Err(Fault::at(column, Reason::OldValueNotSent));
        };
        match old.and_then(|old| self.filled(column, old)) {
            Some(datum) => Ok(datum),
            None if field.nullable => {
                out.unchanged.push(column);
                Ok(Datum::Null)
            }
            None if self.key.contains(&column) => Err(Fault::at(column, Reason::KeyNotSent)),
            None => Err(Fault::at(column, Reason::NullInNotNull)),
        }
    }

    /// Adds the headers of the `row` envelope.
    fn put_headers(&self, op: Op, event: Event<'_>, position: Position, out: &mut Batch) {
        out.header("walferry.op", |bytes| bytes.extend_from_slice(op.code().as_bytes()));
        out.stamp_header("walferry.commit_lsn", Part::CommitLsnText);
        out.header("walferry.ordinal", |bytes| put_decimal(position.ordinal, bytes));
        out.header("walferry.lsn", |bytes| put_lsn(event.lsn, bytes));
        out.stamp_header("walferry.xid", Part::XidText);
        out.stamp_header("walferry.ts_us", Part::MicrosText);
        let unchanged = std::mem::take(&mut out.unchanged);
        out.header("walferry.unchanged", |bytes| {
            self.put_unchanged_names(&unchanged, bytes)
        });
        out.unchanged = unchanged;
    }

    /// A JSON array of column names.
    fn put_unchanged_names(&self, unchanged: &[usize], bytes: &mut Vec<u8>) {
        bytes.push(b'[');
        for (index, label) in unchanged
            .iter()
            .filter_map(|column| self.labels.get(*column))
            .enumerate()
        {
            if index > 0 {
                bytes.push(b',');
            }
            bytes.extend_from_slice(serde_json::Value::from(label.column.as_str()).to_string().as_bytes());
        }
        bytes.push(b']');
    }
}
