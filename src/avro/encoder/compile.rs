//! A relation version → its schemas, and the list of its fields.

use crate::avro::binary::put_bytes;
use crate::avro::error::CompileError;
use crate::avro::name::namespace;
use crate::avro::rule::{ColumnRule, kinds};
use crate::avro::source::Source;
use crate::avro::{EncoderSettings, EnvelopeKind, Nullability, TypeDialect, debezium, schema};
use crate::envelope::check_topic;
use crate::relation::{CatalogFacts, Column, Relation, ReplicaIdentity};

use super::{Field, Label, TableEncoder, type_name, wire_header};

/// Whether every record of the table has a value of this column: it is NOT NULL, no old row leaves it out, and no update.
fn is_always_there(relation: &Relation, envelope: EnvelopeKind, facts: &CatalogFacts, column: &str) -> bool {
    let whole = relation.replica_identity == ReplicaIdentity::Full;
    // Without an envelope an old row is shown only where it is whole.
    facts
        .columns
        .get(column)
        .is_some_and(|facts| facts.not_null && (whole || (envelope == EnvelopeKind::Row && !facts.toasted)))
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
}
