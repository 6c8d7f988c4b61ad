//! Rows, column by column.

use crate::avro::batch::Batch;
use crate::avro::error::Reason;
use crate::avro::field::{put_binary, put_text};
use crate::avro::{debezium, short};
use crate::pgoutput::{Datum, OldTuple};

use super::{Fault, Field, Side, TableEncoder};

/// The column before the last `left` of `all`.
#[cold]
fn column_before(left: usize, all: usize) -> usize {
    all.saturating_sub(left).saturating_sub(1)
}

impl TableEncoder {
    /// Appends the row of one side.
    pub(super) fn put_row(&self, side: Side<'_>, out: &mut Batch) -> Result<(), Fault> {
        if let Some(rows) = &self.debezium {
            return self.put_debezium_row(rows, side, out);
        }
        let mut writer = out.stage.writer(&mut out.bytes);
        let mut data = side.tuple().iter();
        let mut fields = self.fields.iter();
        while let Some(field) = fields.next() {
            let kind = &field.kind;
            let column = || column_before(fields.len(), self.fields.len());
            let put = match data.next_by_kind() {
                None => break,
                Some(Datum::Text(text)) => writer.value(
                    field.nullable,
                    |room| short::from_text(kind, text, room),
                    |bytes| put_text(kind, text, &mut out.buffers, bytes),
                ),
                Some(Datum::Binary(binary)) => writer.value(
                    field.nullable,
                    |room| short::from_binary(kind, binary, room),
                    |bytes| put_binary(kind, binary, bytes),
                ),
                Some(Datum::Null) if field.nullable => {
                    writer.byte(0);
                    Ok(())
                }
                Some(Datum::Null | Datum::Unchanged) if kind.is_excluded() => Ok(()),
                Some(Datum::Null) => return Err(self.null(column())),
                Some(Datum::Unchanged) => {
                    writer.flush();
                    self.put_unchanged(column(), field, side, out)?;
                    writer = out.stage.writer(&mut out.bytes);
                    Ok(())
                }
            };
            if let Err(error) = put {
                return Err(Fault::at(column(), error));
            }
        }
        writer.flush();
        Ok(())
    }

    /// Appends what stands for a value that TOAST left unchanged: the old row's, or null with a note in `unchanged`.
    #[cold]
    fn put_unchanged(&self, column: usize, field: &Field, side: Side<'_>, out: &mut Batch) -> Result<(), Fault> {
        let Side::After(_, old) = side else {
            return Err(Fault::at(column, Reason::OldValueNotSent));
        };
        let kind = &field.kind;
        let filled = old.and_then(|old| self.filled(column, old));
        if field.nullable {
            out.bytes
                .push(if matches!(filled, Some(Datum::Text(_) | Datum::Binary(_))) {
                    2
                } else {
                    0
                });
        }
        match filled {
            Some(Datum::Text(text)) => put_text(kind, text, &mut out.buffers, &mut out.bytes),
            Some(Datum::Binary(binary)) => put_binary(kind, binary, &mut out.bytes),
            Some(_) if field.nullable => Ok(()),
            Some(_) => return Err(self.null(column)),
            None if field.nullable => {
                out.unchanged.push(column);
                Ok(())
            }
            None if self.key.contains(&column) => return Err(Fault::at(column, Reason::KeyNotSent)),
            None => return Err(Fault::at(column, Reason::NullInNotNull)),
        }
        .map_err(|error| Fault::at(column, error))
    }

    /// NULL where there can be none.
    #[cold]
    fn null(&self, column: usize) -> Fault {
        let reason = if self.key.contains(&column) {
            Reason::NullInKey
        } else {
            Reason::NullInNotNull
        };
        Fault::at(column, reason)
    }

    /// Appends the row of one side in Debezium's types.
    #[inline(never)]
    fn put_debezium_row(&self, rows: &debezium::Rows, side: Side<'_>, out: &mut Batch) -> Result<(), Fault> {
        for (column, (field, datum)) in self.fields.iter().zip(side.tuple().iter()).enumerate() {
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
}
