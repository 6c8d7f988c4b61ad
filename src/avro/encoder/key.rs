//! The keys of old and new rows.

use std::ops::Range;

use crate::avro::batch::Batch;
use crate::avro::error::Reason;
use crate::avro::field::{put_binary, put_text};
use crate::avro::short;
use crate::pgoutput::{Datum, OldTuple};

use super::{Fault, Side, TableEncoder, tuple_of};

impl TableEncoder {
    /// Appends the key of the old row, if that has one and it differs from the new row's.
    pub(super) fn put_changed_key(
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
    pub(super) fn key_column_outside(&self, old: OldTuple<'_>) -> Option<usize> {
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
    pub(super) fn put_key(&self, side: Side<'_>, out: &mut Batch) -> Result<Option<Range<usize>>, Fault> {
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
        let mut writer = out.stage.writer(&mut out.bytes);
        for &column in &self.key {
            let Some(field) = self.fields.get(column) else { continue };
            let kind = &field.kind;
            let put = match self.key_datum(column, side) {
                Some(Datum::Text(text)) => writer.value(
                    false,
                    |room| short::from_text(kind, text, room),
                    |bytes| put_text(kind, text, &mut out.buffers, bytes),
                ),
                Some(Datum::Binary(binary)) => writer.value(
                    false,
                    |room| short::from_binary(kind, binary, room),
                    |bytes| put_binary(kind, binary, bytes),
                ),
                Some(Datum::Null) => return Err(Fault::at(column, Reason::NullInKey)),
                Some(Datum::Unchanged) | None => return Err(Fault::at(column, Reason::KeyNotSent)),
            };
            if let Err(error) = put {
                return Err(Fault::at(column, error));
            }
        }
        writer.flush();
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
    pub(super) fn filled<'a>(&self, column: usize, old: OldTuple<'a>) -> Option<Datum<'a>> {
        let held = match old {
            OldTuple::Full(_) => true,
            OldTuple::Key(_) => self.fields.get(column).is_some_and(|field| field.identity),
        };
        let datum = if held { tuple_of(old).iter().nth(column) } else { None };
        datum.filter(|datum| *datum != Datum::Unchanged)
    }
}
