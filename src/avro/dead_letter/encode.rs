//! A refused change → the bytes of its letter.

use crate::avro::batch::Batch;
use crate::avro::binary::{put_bits, put_bytes, put_decimal, put_length, put_long, put_lsn};
use crate::avro::encoder::wire_header;
use crate::avro::{EncoderSettings, RecordSchemas, schema as names};
use crate::envelope::{Op, RowChange};
use crate::pgoutput::{Datum, OldTuple, Tuple};
use crate::relation::{Column, PgType, Relation, TypeKind};

use super::schema::{self, kind, type_kind};
use super::{DeadLetter, Shown, Subject};

const NULL: u8 = 0;
const PRESENT: u8 = 2;

/// What keeping a value takes at most beside its bytes: its length, where it was one byte that said null.
const KEPT_OVERHEAD: usize = 10;

/// A letter that is too large even without any value of the row.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("{size} bytes without any value of the row, and {limit} are taken")]
pub struct DoesNotFit {
    /// Bytes of the value without any value of the row.
    pub size: usize,
    /// Bytes that the value may have.
    pub limit: usize,
}

/// What becomes of one value.
#[derive(Clone, PartialEq, Eq)]
struct Fate {
    shown: Shown,
    cut: bool,
}

/// Writes the letters of a pipeline. Until [`set_id`](Self::set_id) they carry the schema id 0.
#[derive(Debug, Clone)]
pub struct DeadLetterEncoder {
    /// `pipeline`, `version`, `database`.
    head: Vec<u8>,
    value_header: [u8; 5],
}

impl DeadLetterEncoder {
    /// The encoder of a pipeline's letters.
    pub fn new(settings: &EncoderSettings) -> Self {
        let mut head = Vec::new();
        for part in [&settings.pipeline, &settings.version, &settings.database] {
            put_bytes(part.as_bytes(), &mut head);
        }
        DeadLetterEncoder {
            head,
            value_header: wire_header(0),
        }
    }

    /// The value's schema.
    pub fn value_schema(&self) -> &'static str {
        schema::SCHEMA
    }

    /// The full name of the value's record.
    pub fn value_record_name(&self) -> &'static str {
        schema::RECORD_NAME
    }

    /// What has to be registered before a letter can be read. Its key is that of its table.
    pub fn schemas(&self) -> RecordSchemas<'static> {
        RecordSchemas {
            key: None,
            value: (self.value_schema(), self.value_record_name()),
        }
    }

    /// Sets the schema id that the letters carry.
    pub fn set_id(&mut self, value: u32) {
        self.value_header = wire_header(value);
    }

    /// Adds the letter to `out`; whether it is complete. `shown` says of each column's values what may be written down. `limit` is
    /// given an upper bound of what the headers take, and gives the most bytes that the value may have.
    ///
    /// # Errors
    ///
    /// [`DoesNotFit`] if it is too large even without any value of the row; `out` is as it was then.
    pub fn encode(
        &self,
        letter: &DeadLetter<'_>,
        shown: impl Fn(usize, Datum<'_>) -> Shown,
        limit: impl FnOnce(usize) -> usize,
        out: &mut Batch,
    ) -> Result<bool, DoesNotFit> {
        let mark = out.mark();
        let key = letter.key.map(|key| {
            let start = out.bytes.len();
            out.bytes.extend_from_slice(key);
            start..out.bytes.len()
        });
        let limit = limit(put_headers(letter, out));
        let start = out.bytes.len();
        let mut fates = least(letter, &shown);
        self.put(letter, &fates, &mut out.bytes);
        let least = out.bytes.len().saturating_sub(start);
        if least > limit {
            out.roll_back(mark);
            return Err(DoesNotFit { size: least, limit });
        }
        keep_what_fits(letter, least, limit, &mut fates);
        out.bytes.truncate(start);
        self.put(letter, &fates, &mut out.bytes);
        let end = out.bytes.len();
        let complete = is_complete(&fates);
        out.header("walferry.complete", |bytes| {
            bytes.extend_from_slice(complete.to_string().as_bytes());
        });
        out.push(op(letter), key, Some(start..end), letter.position);
        Ok(complete)
    }

    fn put(&self, letter: &DeadLetter<'_>, fates: &[Fate], out: &mut Vec<u8>) {
        let transaction = letter.transaction;
        let relation = match letter.subject {
            Subject::Row { relation, .. } => Some(relation),
            Subject::Message { .. } => None,
        };
        out.extend_from_slice(&self.value_header);
        out.extend_from_slice(&self.head);
        put_optional(relation.map(|relation| relation.schema.as_str()), out);
        put_optional(relation.map(|relation| relation.name.as_str()), out);
        put_bytes(letter.topic.as_bytes(), out);
        put_bytes(letter.reason.as_bytes(), out);
        put_bytes(letter.error.as_bytes(), out);
        put_optional(letter.column, out);
        put_optional(letter.column_type, out);
        out.push(u8::from(is_complete(fates)));
        put_bytes(op(letter).code().as_bytes(), out);
        put_bits(letter.position.commit_lsn.as_u64(), out);
        put_bits(letter.position.ordinal, out);
        put_bits(letter.changes, out);
        put_bits(letter.lsn.as_u64(), out);
        match transaction.xid {
            0 => out.push(NULL),
            xid => {
                out.push(PRESENT);
                put_long(xid.into(), out);
            }
        }
        match transaction.previous_commit_lsn {
            None => out.push(NULL),
            Some(lsn) => {
                out.push(PRESENT);
                put_bits(lsn.as_u64(), out);
            }
        }
        put_long(transaction.commit_time_us, out);
        put_long(transaction.now_us, out);
        match relation {
            None => out.push(NULL),
            Some(relation) => {
                out.push(PRESENT);
                put_relation(relation, out);
            }
        }
        put_subject(letter.subject, fates, out);
    }
}

fn op(letter: &DeadLetter<'_>) -> Op {
    match letter.subject {
        Subject::Row { change, .. } => match change {
            RowChange::Read { .. } => Op::Read,
            RowChange::Insert { .. } => Op::Create,
            RowChange::Update { .. } => Op::Update,
            RowChange::Delete { .. } => Op::Delete,
            RowChange::Truncate => Op::Truncate,
        },
        Subject::Message { .. } => Op::Message,
    }
}

/// Adds the headers; an upper bound of what they take in the record, with the one that is added last.
fn put_headers(letter: &DeadLetter<'_>, out: &mut Batch) -> usize {
    const NUMBERS: usize = 10;
    let start = out.bytes.len();
    let mut names = "walferry.complete"
        .len()
        .saturating_add("false".len())
        .saturating_add(NUMBERS);
    let mut header = |name: &'static str, write: &dyn Fn(&mut Vec<u8>)| {
        out.header(name, write);
        names = names.saturating_add(name.len()).saturating_add(NUMBERS);
    };
    header("walferry.reason", &|bytes| {
        bytes.extend_from_slice(letter.reason.as_bytes())
    });
    if let Subject::Row { relation, .. } = letter.subject {
        header("walferry.table", &|bytes| {
            bytes.extend_from_slice(relation.full_name().as_bytes());
        });
    }
    if let Some(column) = letter.column {
        header("walferry.column", &|bytes| bytes.extend_from_slice(column.as_bytes()));
    }
    header("walferry.op", &|bytes| {
        bytes.extend_from_slice(op(letter).code().as_bytes())
    });
    header("walferry.commit_lsn", &|bytes| {
        put_lsn(letter.position.commit_lsn, bytes)
    });
    header("walferry.ordinal", &|bytes| put_decimal(letter.position.ordinal, bytes));
    out.bytes.len().saturating_sub(start).saturating_add(names)
}

/// The tuples of a row, with whether each is the old one.
fn tuples(subject: Subject<'_>) -> (Option<OldTuple<'_>>, Option<Tuple<'_>>) {
    match subject {
        Subject::Row { change, .. } => match change {
            RowChange::Read { new, .. } | RowChange::Insert { new } => (None, Some(new)),
            RowChange::Update { old, new } => (old, Some(new)),
            RowChange::Delete { old } => (Some(old), None),
            RowChange::Truncate => (None, None),
        },
        Subject::Message { .. } => (None, None),
    }
}

/// Every value of the letter in the order in which they are written, with its column.
fn values(subject: Subject<'_>) -> impl Iterator<Item = (Option<usize>, Datum<'_>)> {
    let (old, new) = tuples(subject);
    let content = match subject {
        Subject::Message { content, .. } => Some(Datum::Binary(content)),
        Subject::Row { .. } => None,
    };
    let rows = [old.map(|old| old.tuple()), new].into_iter().flatten();
    rows.flat_map(|tuple| tuple.iter().enumerate())
        .map(|(column, datum)| (Some(column), datum))
        .chain(content.map(|content| (None, content)))
}

/// The fates under which the letter is smallest.
fn least(letter: &DeadLetter<'_>, shown: &impl Fn(usize, Datum<'_>) -> Shown) -> Vec<Fate> {
    values(letter.subject)
        .map(|(column, datum)| {
            let shown = column.map_or(Shown::AsSent, |column| shown(column, datum));
            let cut = length(datum, &shown).is_some();
            Fate { shown, cut }
        })
        .collect()
}

/// Bytes of what is written of a value, if it has any.
fn length(datum: Datum<'_>, shown: &Shown) -> Option<usize> {
    match (shown, datum) {
        (Shown::Nothing, _) | (_, Datum::Null | Datum::Unchanged) => None,
        (Shown::Masked(text), _) => Some(text.len()),
        (Shown::AsSent, Datum::Text(value) | Datum::Binary(value)) => Some(value.len()),
    }
}

/// Keeps values, the smallest first, as long as the letter fits.
fn keep_what_fits(letter: &DeadLetter<'_>, least: usize, limit: usize, fates: &mut [Fate]) {
    let mut cut: Vec<(usize, usize)> = values(letter.subject)
        .zip(fates.iter())
        .enumerate()
        .filter_map(|(place, ((_, datum), fate))| Some((length(datum, &fate.shown)?, place)))
        .collect();
    cut.sort_unstable();
    let mut size = least;
    for (length, place) in cut {
        size = size.saturating_add(length).saturating_add(KEPT_OVERHEAD);
        if size > limit {
            break;
        }
        if let Some(fate) = fates.get_mut(place) {
            fate.cut = false;
        }
    }
}

fn is_complete(fates: &[Fate]) -> bool {
    !fates.iter().any(|fate| fate.cut)
}

fn put_subject(subject: Subject<'_>, fates: &[Fate], out: &mut Vec<u8>) {
    let (old, new) = tuples(subject);
    let mut fates = fates.iter();
    match old {
        None => out.push(NULL),
        Some(old) => {
            out.push(PRESENT);
            let kind = match old {
                OldTuple::Key(_) => "key",
                OldTuple::Full(_) => "full",
            };
            put_bytes(kind.as_bytes(), out);
            put_tuple(old.tuple(), &mut fates, out);
        }
    }
    match new {
        None => out.push(NULL),
        Some(new) => {
            out.push(PRESENT);
            put_tuple(new, &mut fates, out);
        }
    }
    match subject {
        Subject::Row { .. } => out.push(NULL),
        Subject::Message { prefix, content } => {
            out.push(PRESENT);
            put_bytes(prefix.as_bytes(), out);
            put_datum(Datum::Binary(content), fates.next(), out);
        }
    }
}

fn put_tuple<'f>(tuple: Tuple<'_>, fates: &mut impl Iterator<Item = &'f Fate>, out: &mut Vec<u8>) {
    if !tuple.is_empty() {
        put_length(tuple.len(), out);
        for datum in tuple {
            put_datum(datum, fates.next(), out);
        }
    }
    out.push(0);
}

fn put_datum(datum: Datum<'_>, fate: Option<&Fate>, out: &mut Vec<u8>) {
    let nothing = Fate {
        shown: Shown::Nothing,
        cut: false,
    };
    let Fate { shown, cut } = fate.unwrap_or(&nothing);
    let (kind, value, size) = match (shown, datum) {
        (Shown::Nothing, _) => (kind::HIDDEN, None, None),
        (_, Datum::Null) => (kind::NULL, None, None),
        (_, Datum::Unchanged) => (kind::UNCHANGED, None, None),
        _ if *cut => (kind::CUT, None, length(datum, shown)),
        (Shown::Masked(text), _) => (kind::MASKED, Some(text.as_slice()), None),
        (Shown::AsSent, Datum::Text(value)) => (kind::TEXT, Some(value), None),
        (Shown::AsSent, Datum::Binary(value)) => (kind::BINARY, Some(value), None),
    };
    put_bytes(kind.as_bytes(), out);
    match value {
        None => out.push(NULL),
        Some(value) => {
            out.push(PRESENT);
            put_bytes(value, out);
        }
    }
    match size {
        None => out.push(NULL),
        Some(size) => {
            out.push(PRESENT);
            put_length(size, out);
        }
    }
}

fn put_relation(relation: &Relation, out: &mut Vec<u8>) {
    put_long(relation.oid.into(), out);
    put_long(relation.version.into(), out);
    put_bytes(names::identity_name(relation.replica_identity).as_bytes(), out);
    if !relation.columns.is_empty() {
        put_length(relation.columns.len(), out);
        for (index, column) in relation.columns.iter().enumerate() {
            let place = relation.key.iter().position(|key| *key == index);
            put_column(column, place, out);
        }
    }
    out.push(0);
}

fn put_column(column: &Column, place: Option<usize>, out: &mut Vec<u8>) {
    put_bytes(column.name.as_bytes(), out);
    put_type(&column.ty, out);
    put_long(column.typmod.into(), out);
    out.push(u8::from(column.identity));
    match place {
        None => out.push(NULL),
        Some(place) => {
            out.push(PRESENT);
            put_length(place, out);
        }
    }
}

fn put_type(ty: &PgType, out: &mut Vec<u8>) {
    put_long(ty.oid.into(), out);
    put_bytes(ty.schema.as_bytes(), out);
    put_bytes(ty.name.as_bytes(), out);
    let (kind, of) = match &ty.kind {
        TypeKind::Base => (type_kind::BASE, None),
        TypeKind::Enum => (type_kind::ENUM, None),
        TypeKind::Domain { base, .. } => (type_kind::DOMAIN, Some(base)),
        TypeKind::Array { element, .. } => (type_kind::ARRAY, Some(element)),
        TypeKind::Composite { .. } => (type_kind::COMPOSITE, None),
        TypeKind::Range { subtype } => (type_kind::RANGE, Some(subtype)),
        TypeKind::Multirange { subtype } => (type_kind::MULTIRANGE, Some(subtype)),
        TypeKind::Other => (type_kind::OTHER, None),
    };
    put_bytes(kind.as_bytes(), out);
    match of {
        None => out.push(NULL),
        Some(of) => {
            out.push(PRESENT);
            put_type(of, out);
        }
    }
    match &ty.kind {
        TypeKind::Domain { typmod, .. } => {
            out.push(PRESENT);
            put_long((*typmod).into(), out);
        }
        _ => out.push(NULL),
    }
    match &ty.kind {
        TypeKind::Array { delimiter, .. } => {
            out.push(PRESENT);
            put_bytes(char::from(*delimiter).encode_utf8(&mut [0; 4]).as_bytes(), out);
        }
        _ => out.push(NULL),
    }
    match &ty.kind {
        TypeKind::Composite { attributes } => {
            out.push(PRESENT);
            if !attributes.is_empty() {
                put_length(attributes.len(), out);
                for attribute in attributes {
                    put_bytes(attribute.name.as_bytes(), out);
                    put_type(&attribute.ty, out);
                    put_long(attribute.typmod.into(), out);
                }
            }
            out.push(0);
        }
        _ => out.push(NULL),
    }
}

fn put_optional(text: Option<&str>, out: &mut Vec<u8>) {
    match text {
        None => out.push(NULL),
        Some(text) => {
            out.push(PRESENT);
            put_bytes(text.as_bytes(), out);
        }
    }
}
