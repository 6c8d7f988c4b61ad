//! The decoded value of a letter → the change that it stands for.
//!
//! Fields are found by their names, so a letter of an older schema can be read as long as it has what is needed.

use std::collections::BTreeSet;
use std::sync::Arc;

use apache_avro::types::Value;

use crate::envelope::{Op, Position, RowChange, SnapshotKind, Transaction};
use crate::lsn::Lsn;
use crate::pgoutput::{Datum, OldTuple, TupleBuf, TupleTooLarge};
use crate::relation::{Attribute, Column, PgType, Relation, ReplicaIdentity, TypeKind};

use super::schema::{kind, type_kind};
use super::{OldKind, StoredLetter, StoredSubject};

/// Why a stored letter cannot be read, or not be replayed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum LetterError {
    /// A field that is not there, or is not what it should be.
    #[error("the field {field:?} is missing or has another type than a dead letter's")]
    Field {
        /// Its name.
        field: &'static str,
    },
    /// Text that is none of the known ones.
    #[error("the field {field:?} has a text that this version does not know")]
    Unknown {
        /// Its name.
        field: &'static str,
    },
    /// A value that was cut.
    #[error("a value of {size} bytes was left out, since the dead letter would have been too large")]
    Cut {
        /// How large it was.
        size: i64,
    },
    /// More columns or larger values than a tuple has.
    #[error(transparent)]
    Tuple(#[from] TupleTooLarge),
}

impl StoredLetter {
    /// Reads a letter back.
    ///
    /// # Errors
    ///
    /// What is missing, or was cut.
    pub fn from_value(value: Value) -> Result<Self, LetterError> {
        let mut fields = Fields::of(value, "DeadLetter")?;
        let op = match fields.text("op")?.as_str() {
            "r" => Op::Read,
            "c" => Op::Create,
            "u" => Op::Update,
            "d" => Op::Delete,
            "m" => Op::Message,
            _ => return Err(LetterError::Unknown { field: "op" }),
        };
        let subject = if op == Op::Message {
            let message = fields
                .optional("message")?
                .ok_or(LetterError::Field { field: "message" })?;
            let mut message = Fields::of(message, "message")?;
            let mut content = Rows::default();
            let content = content.tuple(Value::Array(vec![message.take("content")?]))?;
            let content = match content.as_tuple().iter().next() {
                Some(Datum::Binary(content)) => content.to_vec(),
                _ => return Err(LetterError::Field { field: "content" }),
            };
            StoredSubject::Message {
                prefix: message.text("prefix")?,
                content,
            }
        } else {
            let mut rows = Rows::default();
            let old = match fields.optional("old")? {
                None => None,
                Some(old) => {
                    let mut old = Fields::of(old, "old")?;
                    let kind = match old.text("kind")?.as_str() {
                        "key" => OldKind::Key,
                        "full" => OldKind::Full,
                        _ => return Err(LetterError::Unknown { field: "kind" }),
                    };
                    Some((kind, rows.tuple(old.take("values")?)?))
                }
            };
            StoredSubject::Row {
                relation: Box::new(relation(&mut fields)?),
                op,
                old,
                new: fields.optional("new")?.map(|new| rows.tuple(new)).transpose()?,
                masked: rows.masked,
                hidden: rows.hidden,
            }
        };
        let commit_lsn = Lsn::new(fields.bits("commit_lsn")?);
        let letter = StoredLetter {
            pipeline: fields.text("pipeline")?,
            database: fields.text("database")?,
            subject,
            transaction: Transaction {
                xid: match fields.optional("xid")? {
                    None => 0,
                    Some(xid) => number(&xid, "xid")?,
                },
                commit_lsn,
                commit_time_us: long(&fields.take("commit_time")?, "commit_time")?,
                now_us: long(&fields.take("received_time")?, "received_time")?,
                previous_commit_lsn: match fields.optional("previous_commit_lsn")? {
                    None => None,
                    Some(lsn) => Some(Lsn::new(long(&lsn, "previous_commit_lsn")?.cast_unsigned())),
                },
            },
            lsn: Lsn::new(fields.bits("lsn")?),
            position: Position {
                commit_lsn,
                ordinal: fields.bits("ordinal")?,
            },
            changes: fields.bits("changes")?,
            reason: fields.text("reason")?,
        };
        letter.check()
    }

    /// A change needs its row.
    fn check(self) -> Result<Self, LetterError> {
        let missing = match &self.subject {
            StoredSubject::Row { op, old, new, .. } => match op {
                Op::Delete => old.is_none().then_some("old"),
                _ => new.is_none().then_some("new"),
            },
            StoredSubject::Message { .. } => None,
        };
        match missing {
            Some(field) => Err(LetterError::Field { field }),
            None => Ok(self),
        }
    }
}

impl StoredSubject {
    /// The change, if it is one of a row.
    pub fn change(&self) -> Option<RowChange<'_>> {
        let StoredSubject::Row { op, old, new, .. } = self else {
            return None;
        };
        let old = old.as_ref().map(|(kind, tuple)| match kind {
            OldKind::Key => OldTuple::Key(tuple.as_tuple()),
            OldKind::Full => OldTuple::Full(tuple.as_tuple()),
        });
        match (op, old, new.as_ref().map(TupleBuf::as_tuple)) {
            // A letter does not say which kind of snapshot it was.
            (Op::Read, _, Some(new)) => Some(RowChange::Read {
                new,
                kind: SnapshotKind::Initial,
            }),
            (Op::Create, _, Some(new)) => Some(RowChange::Insert { new }),
            (Op::Update, old, Some(new)) => Some(RowChange::Update { old, new }),
            (Op::Delete, Some(old), _) => Some(RowChange::Delete { old }),
            _ => None,
        }
    }
}

/// The fields of a record that have not been taken yet.
struct Fields(Vec<(String, Value)>);

impl Fields {
    fn of(value: Value, field: &'static str) -> Result<Self, LetterError> {
        match value {
            Value::Record(fields) => Ok(Fields(fields)),
            _ => Err(LetterError::Field { field }),
        }
    }

    fn take(&mut self, field: &'static str) -> Result<Value, LetterError> {
        let place = self.0.iter().position(|(name, _)| name == field);
        let place = place.ok_or(LetterError::Field { field })?;
        Ok(self.0.swap_remove(place).1)
    }

    /// What is in a union with null.
    fn optional(&mut self, field: &'static str) -> Result<Option<Value>, LetterError> {
        match self.take(field)? {
            Value::Union(_, inner) if *inner == Value::Null => Ok(None),
            Value::Union(_, inner) => Ok(Some(*inner)),
            _ => Err(LetterError::Field { field }),
        }
    }

    fn text(&mut self, field: &'static str) -> Result<String, LetterError> {
        match self.take(field)? {
            Value::String(text) => Ok(text),
            _ => Err(LetterError::Field { field }),
        }
    }

    fn bits(&mut self, field: &'static str) -> Result<u64, LetterError> {
        Ok(long(&self.take(field)?, field)?.cast_unsigned())
    }

    fn number<T: TryFrom<i64>>(&mut self, field: &'static str) -> Result<T, LetterError> {
        number(&self.take(field)?, field)
    }

    fn bool(&mut self, field: &'static str) -> Result<bool, LetterError> {
        match self.take(field)? {
            Value::Boolean(value) => Ok(value),
            _ => Err(LetterError::Field { field }),
        }
    }

    fn items(&mut self, field: &'static str) -> Result<Vec<Value>, LetterError> {
        items(self.take(field)?, field)
    }
}

fn items(value: Value, field: &'static str) -> Result<Vec<Value>, LetterError> {
    match value {
        Value::Array(items) => Ok(items),
        _ => Err(LetterError::Field { field }),
    }
}

fn long(value: &Value, field: &'static str) -> Result<i64, LetterError> {
    match value {
        Value::Long(number) | Value::TimestampMicros(number) => Ok(*number),
        Value::Int(number) => Ok(i64::from(*number)),
        _ => Err(LetterError::Field { field }),
    }
}

fn number<T: TryFrom<i64>>(value: &Value, field: &'static str) -> Result<T, LetterError> {
    T::try_from(long(value, field)?).map_err(|_| LetterError::Field { field })
}

/// What the rows of a letter leave out.
#[derive(Default)]
struct Rows {
    masked: BTreeSet<usize>,
    hidden: BTreeSet<usize>,
}

impl Rows {
    fn tuple(&mut self, value: Value) -> Result<TupleBuf, LetterError> {
        let mut tuple = TupleBuf::new();
        for (column, datum) in items(value, "values")?.into_iter().enumerate() {
            match push(datum, &mut tuple)?.as_str() {
                kind::MASKED => {
                    self.masked.insert(column);
                }
                kind::HIDDEN => {
                    self.hidden.insert(column);
                }
                _ => {}
            }
        }
        Ok(tuple)
    }
}

/// Appends a stored value; its kind.
fn push(datum: Value, tuple: &mut TupleBuf) -> Result<String, LetterError> {
    let mut datum = Fields::of(datum, "Datum")?;
    let stored = datum.text("kind")?;
    let value = match datum.optional("value")? {
        Some(Value::Bytes(value)) => Some(value),
        None => None,
        Some(_) => return Err(LetterError::Field { field: "value" }),
    };
    let missing = LetterError::Field { field: "value" };
    match (stored.as_str(), value) {
        (kind::NULL | kind::HIDDEN, _) => tuple.push(Datum::Null)?,
        (kind::UNCHANGED, _) => tuple.push(Datum::Unchanged)?,
        (kind::TEXT | kind::MASKED, value) => tuple.push(Datum::Text(&value.ok_or(missing)?))?,
        (kind::BINARY, value) => tuple.push(Datum::Binary(&value.ok_or(missing)?))?,
        (kind::CUT, _) => {
            let size = datum.optional("size")?.map_or(Ok(0), |size| long(&size, "size"))?;
            return Err(LetterError::Cut { size });
        }
        _ => return Err(LetterError::Unknown { field: "kind" }),
    }
    Ok(stored)
}

fn relation(fields: &mut Fields) -> Result<Relation, LetterError> {
    let (schema, name) = (fields.optional("schema")?, fields.optional("table")?);
    let text = |value: Option<Value>, field| match value {
        Some(Value::String(text)) => Ok(text),
        _ => Err(LetterError::Field { field }),
    };
    let relation = fields
        .optional("relation")?
        .ok_or(LetterError::Field { field: "relation" })?;
    let mut relation = Fields::of(relation, "relation")?;
    let replica_identity = match relation.text("replica_identity")?.as_str() {
        "default" => ReplicaIdentity::Default,
        "nothing" => ReplicaIdentity::Nothing,
        "full" => ReplicaIdentity::Full,
        "index" => ReplicaIdentity::Index,
        _ => {
            return Err(LetterError::Unknown {
                field: "replica_identity",
            });
        }
    };
    let mut columns = Vec::new();
    let mut key: Vec<(i32, usize)> = Vec::new();
    for (index, stored) in relation.items("columns")?.into_iter().enumerate() {
        let mut stored = Fields::of(stored, "columns")?;
        if let Some(place) = stored.optional("key")? {
            key.push((number(&place, "key")?, index));
        }
        columns.push(Column {
            name: stored.text("name")?,
            ty: Arc::new(pg_type(stored.take("type")?)?),
            typmod: stored.number("typmod")?,
            identity: stored.bool("identity")?,
        });
    }
    key.sort_unstable();
    Ok(Relation {
        oid: relation.number("oid")?,
        version: relation.number("version")?,
        schema: text(schema, "schema")?,
        name: text(name, "table")?,
        replica_identity,
        columns,
        key: key.into_iter().map(|(_, index)| index).collect(),
    })
}

fn pg_type(value: Value) -> Result<PgType, LetterError> {
    let mut fields = Fields::of(value, "type")?;
    let of = fields.optional("of")?.map(pg_type).transpose()?.map(Arc::new);
    let of = of.ok_or(LetterError::Field { field: "of" });
    let kind = match fields.text("kind")?.as_str() {
        type_kind::BASE => TypeKind::Base,
        type_kind::ENUM => TypeKind::Enum,
        type_kind::OTHER => TypeKind::Other,
        type_kind::DOMAIN => TypeKind::Domain {
            base: of?,
            typmod: match fields.optional("typmod")? {
                Some(typmod) => number(&typmod, "typmod")?,
                None => -1,
            },
        },
        type_kind::ARRAY => TypeKind::Array {
            element: of?,
            delimiter: match fields.optional("delimiter")? {
                Some(Value::String(text)) => text.bytes().next().unwrap_or(b','),
                _ => b',',
            },
        },
        type_kind::RANGE => TypeKind::Range { subtype: of? },
        type_kind::MULTIRANGE => TypeKind::Multirange { subtype: of? },
        type_kind::COMPOSITE => {
            let attributes = fields.optional("attributes")?;
            let attributes = attributes.ok_or(LetterError::Field { field: "attributes" })?;
            let attributes = items(attributes, "attributes")?.into_iter().zip(1..);
            let attributes = attributes.map(|(attribute, number)| {
                let mut attribute = Fields::of(attribute, "attributes")?;
                Ok(Attribute {
                    name: attribute.text("name")?,
                    // By their order: a letter does not hold the catalog's.
                    number,
                    ty: Arc::new(pg_type(attribute.take("type")?)?),
                    typmod: attribute.number("typmod")?,
                })
            });
            TypeKind::Composite {
                attributes: attributes.collect::<Result<_, LetterError>>()?,
            }
        }
        _ => return Err(LetterError::Unknown { field: "kind" }),
    };
    Ok(PgType {
        oid: fields.number("oid")?,
        schema: fields.text("schema")?,
        name: fields.text("name")?,
        kind,
    })
}
