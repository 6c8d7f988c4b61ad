//! The types of Debezium's Postgres connector (3.6), as Kafka Connect's Avro converters write them: `avro.types = "debezium"`.
//!
//! All of it is decided when a relation is compiled. [`Rows`] then writes a row's columns; keys, envelopes, positions and what becomes of a
//! change are the same as with Avro's own types.
//!
//! Debezium's schemas say what the stream does not: NOT NULL, defaults, the labels of enums. They come from the catalog as it is
//! when the stream describes the relation, as they do for Debezium. Where a NULL meets a column that has become NOT NULL since, the
//! row is refused with [`Reason::NullInNotNull`](super::Reason::NullInNotNull): the pipeline then compiles the relation with that column nullable.

/// A column's form and schema.
mod column;
/// Schemas of Kafka Connect in Avro.
mod connect;
/// Defaults of columns.
mod default;
/// A column's value.
mod form;
/// Keys in headers.
mod header;
/// `hstore` as JSON.
mod hstore;
/// The records around the rows.
pub(super) mod schema;
/// What stands where there is no value.
mod stand_in;

#[cfg(test)]
mod tests;

use crate::pgoutput::Datum;
use crate::relation::{self, CatalogFacts, Relation};
use crate::row::ValueKind;

use super::Nullability;
use super::batch::Batch;
use super::error::Reason;
use super::schema::Types;
use column::Mapped;
use connect::{Connect, Item};
use form::Form;

/// Where null stands in a column's union.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Null {
    /// There is no union.
    Never,
    /// `["null", T]`.
    First,
    /// `[T, "null"]`, since the default is a value.
    Second,
}

impl Null {
    /// The branch of a value.
    fn put_value(self, out: &mut Vec<u8>) {
        match self {
            Null::Never => {}
            Null::First => out.push(2),
            Null::Second => out.push(0),
        }
    }

    /// The branch of null; `false`: there is none.
    fn put_null(self, out: &mut Vec<u8>) -> bool {
        match self {
            Null::Never => return false,
            Null::First => out.push(0),
            Null::Second => out.push(2),
        }
        true
    }
}

/// A column, as its values are written.
#[derive(Debug, Clone)]
struct Field {
    form: Form,
    null: Null,
    /// What stands for a value that the old row does not have, in a column that cannot be null: the default, or the type's empty value.
    absent: Vec<u8>,
    /// What stands for a value that TOAST left unchanged; `None`: null.
    unavailable: Option<Vec<u8>>,
}

/// The encoder of a relation's columns.
#[derive(Debug, Clone)]
pub(super) struct Rows {
    fields: Vec<Field>,
    /// The key's columns, for headers.
    key: Vec<(String, Connect)>,
}

/// A relation, compiled.
pub(super) struct Compiled {
    pub(super) rows: Rows,
    pub(super) key_schema: Option<String>,
    /// Of the row alone.
    pub(super) value_schema: String,
    pub(super) envelope_schema: String,
}

/// The namespace of a topic's records.
pub(super) fn namespace(topic: &str) -> String {
    let parts: Vec<String> = topic.split('.').map(schema::adjusted).collect();
    parts.join(".")
}

/// Compiles a relation. `kinds`: its columns, with the rules that they stand under.
pub(super) fn compile(
    relation: &Relation,
    kinds: &[(&relation::Column, ValueKind)],
    namespace: &str,
    nullability: Nullability,
    facts: &CatalogFacts,
) -> Compiled {
    let mut types = Types::new(namespace);
    let mut fields = Vec::with_capacity(relation.columns.len());
    let mut columns = Vec::with_capacity(relation.columns.len());
    for (index, (column, kind)) in kinds.iter().enumerate() {
        let Mapped { form, schema, known } = column::map(column, kind, facts, &mut types);
        let facts = facts.columns.get(&column.name);
        let required = match nullability {
            Nullability::Catalog => facts.is_some_and(|facts| facts.not_null),
            Nullability::Optional => false,
        };
        let optional = !relation.key.contains(&index) && !required && !kind.is_excluded();
        let default = facts
            .and_then(|facts| facts.default.as_deref())
            .filter(|_| known)
            .and_then(|expression| default::parse(expression, &column.ty, &form, &schema));
        let null = match (optional, &default) {
            (false, _) => Null::Never,
            (true, Some((json, _))) if connect::is_avro_default(json) => Null::Second,
            (true, _) => Null::First,
        };
        fields.push(Field {
            null,
            absent: match &default {
                Some((_, bytes)) => bytes.clone(),
                None => form.absent(),
            },
            unavailable: form.unavailable(&column.ty),
            form,
        });
        columns.push(schema::Column {
            original: &column.name,
            name: String::new(),
            excluded: kind.is_excluded(),
            item: Item { schema, optional },
            default: default.map(|(json, _)| json),
        });
    }
    schema::name(&mut columns);
    let key = relation.key.iter().filter_map(|index| columns.get(*index));
    let key = key.map(|column| (column.name.clone(), column.item.schema.clone()));
    Compiled {
        rows: Rows {
            fields,
            key: key.collect(),
        },
        key_schema: (!relation.key.is_empty()).then(|| schema::key(namespace, relation, &columns)),
        value_schema: schema::value(namespace, &columns).to_string(),
        envelope_schema: schema::envelope(namespace, &columns),
    }
}

impl Rows {
    /// The columns whose binary form cannot be read.
    pub(super) fn unreadable(&self) -> impl Iterator<Item = usize> {
        let fields = self.fields.iter().enumerate();
        fields
            .filter(|(_, field)| !field.form.reads_binary())
            .map(|(index, _)| index)
    }

    /// A key as headers have it, from its Avro form without the schema's id.
    pub(super) fn key_text(&self, avro: &[u8]) -> Vec<u8> {
        header::text(&self.key, avro)
    }

    /// Appends a column of a key.
    pub(super) fn put_key(&self, column: usize, datum: Datum<'_>, out: &mut Batch) -> Result<(), Reason> {
        let Some(field) = self.fields.get(column) else {
            return Err(Reason::ColumnCount);
        };
        match datum {
            Datum::Text(text) => field.form.put_text(text, &mut out.buffers, &mut out.bytes)?,
            Datum::Binary(bytes) => field.form.put_binary(bytes, &mut out.buffers, &mut out.bytes)?,
            Datum::Null => return Err(Reason::NullInKey),
            Datum::Unchanged => return Err(Reason::KeyNotSent),
        }
        Ok(())
    }

    /// Appends a column of a row.
    pub(super) fn put(&self, column: usize, datum: Datum<'_>, out: &mut Batch) -> Result<(), Reason> {
        let Some(field) = self.fields.get(column) else {
            return Err(Reason::ColumnCount);
        };
        match datum {
            Datum::Text(text) => {
                field.null.put_value(&mut out.bytes);
                field.form.put_text(text, &mut out.buffers, &mut out.bytes)?;
            }
            Datum::Binary(bytes) => {
                field.null.put_value(&mut out.bytes);
                field.form.put_binary(bytes, &mut out.buffers, &mut out.bytes)?;
            }
            Datum::Null | Datum::Unchanged => {
                if !field.null.put_null(&mut out.bytes) {
                    return Err(Reason::NullInNotNull);
                }
            }
        }
        Ok(())
    }

    /// Appends what stands for a column that the old row does not have.
    pub(super) fn put_absent(&self, column: usize, out: &mut Vec<u8>) {
        if let Some(field) = self.fields.get(column)
            && !field.null.put_null(out)
        {
            out.extend_from_slice(&field.absent);
        }
    }

    /// Appends what stands for a value that TOAST left unchanged.
    pub(super) fn put_unavailable(&self, column: usize, out: &mut Vec<u8>) -> Result<(), Reason> {
        let Some(field) = self.fields.get(column) else {
            return Err(Reason::ColumnCount);
        };
        match &field.unavailable {
            Some(placeholder) => {
                field.null.put_value(out);
                out.extend_from_slice(placeholder);
            }
            None if field.null.put_null(out) => {}
            None => return Err(Reason::NullInNotNull),
        }
        Ok(())
    }
}
