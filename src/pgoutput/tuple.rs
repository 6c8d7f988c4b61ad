//! TupleData: the columns of one row.

use std::fmt;

use super::cursor::Cursor;
use super::error::{DecodeError, Fault, Field};

/// One row's columns, in the order of the relation's.
///
/// It was walked once, when it was decoded, and found whole: iteration cannot fail.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Tuple<'a> {
    count: u16,
    /// The columns as on the wire, without the count.
    raw: &'a [u8],
}

impl<'a> Tuple<'a> {
    /// Reads TupleData that stands alone, count first, and consumes it exactly.
    pub fn parse(bytes: &'a [u8]) -> Result<Self, DecodeError> {
        let mut cursor = Cursor::new(bytes);
        cursor.set_message("TupleData");
        let tuple = Tuple::read(&mut cursor)?;
        cursor.finish()?;
        Ok(tuple)
    }

    /// Walks the columns and checks each kind and length.
    #[inline]
    pub(super) fn read(cursor: &mut Cursor<'a>) -> Result<Self, DecodeError> {
        let count = cursor.count16(Field::Of("column count"))?;
        let start = cursor.rest();
        let mut rest = start;
        for index in 0..count {
            rest = match Self::skip_column(rest) {
                Some(tail) => tail,
                None => return Err(Self::column_error(cursor, rest, index)),
            };
        }
        cursor.set_rest(rest);
        let walked = start.len().saturating_sub(rest.len());
        let raw = start.split_at_checked(walked).map_or(start, |(raw, _)| raw);
        Ok(Tuple { count, raw })
    }

    #[inline]
    fn skip_column(bytes: &[u8]) -> Option<&[u8]> {
        let (&kind, tail) = bytes.split_first()?;
        match kind {
            b't' | b'b' => {
                let (&length, tail) = tail.split_first_chunk()?;
                let length = usize::try_from(i32::from_be_bytes(length)).ok()?;
                tail.split_at_checked(length).map(|(_, tail)| tail)
            }
            b'n' | b'u' => Some(tail),
            _ => None,
        }
    }

    /// Why [`Tuple::skip_column`] refused the column at the start of `bytes`.
    #[cold]
    fn column_error(cursor: &mut Cursor<'a>, bytes: &'a [u8], index: u16) -> DecodeError {
        let number = usize::from(index).saturating_add(1);
        let field = |name| Field::OfColumn { number, name };
        cursor.set_rest(bytes);
        let value = (|| {
            cursor.byte(field("kind"), "'n', 'u', 't' or 'b'", |kind| {
                matches!(kind, b'n' | b'u' | b't' | b'b').then_some(())
            })?;
            let length = cursor.count32(field("length"))?;
            cursor.take(length, field("value"))
        })();
        match value {
            Err(error) => error,
            // Unreachable, as this reads by the rules of `skip_column`; an error all the same.
            Ok(_) => cursor.error(field("value"), Fault::LeftOver(cursor.rest().len())),
        }
    }

    /// How many columns there are.
    pub fn len(&self) -> usize {
        usize::from(self.count)
    }

    /// Whether there are none: a table may have no columns.
    pub fn is_empty(&self) -> bool {
        self.count == 0
    }

    /// The columns, in order.
    pub fn iter(&self) -> TupleIter<'a> {
        TupleIter {
            remaining: self.count,
            rest: self.raw,
        }
    }

    /// The columns as on the wire, without the count.
    pub fn as_bytes(&self) -> &'a [u8] {
        self.raw
    }
}

impl fmt::Debug for Tuple<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.iter()).finish()
    }
}

impl<'a> IntoIterator for Tuple<'a> {
    type Item = Datum<'a>;
    type IntoIter = TupleIter<'a>;

    fn into_iter(self) -> TupleIter<'a> {
        self.iter()
    }
}

impl<'a> IntoIterator for &Tuple<'a> {
    type Item = Datum<'a>;
    type IntoIter = TupleIter<'a>;

    fn into_iter(self) -> TupleIter<'a> {
        self.iter()
    }
}

/// The columns of a [`Tuple`].
#[derive(Clone)]
pub struct TupleIter<'a> {
    remaining: u16,
    rest: &'a [u8],
}

/// A value after its length, and what comes after it.
#[inline]
fn split_value(bytes: &[u8]) -> Option<(&[u8], &[u8])> {
    let (&length, tail) = bytes.split_first_chunk()?;
    tail.split_at_checked(usize::try_from(u32::from_be_bytes(length)).ok()?)
}

impl<'a> TupleIter<'a> {
    /// [`next`](Iterator::next) with a way out of its own for each kind: whoever asks for the kind right after is already there.
    #[inline]
    pub fn next_by_kind(&mut self) -> Option<Datum<'a>> {
        // The tuple was walked: it ends where no column remains, and none of the other `?` is ever taken.
        let (&kind, tail) = self.rest.split_first()?;
        self.remaining = self.remaining.wrapping_sub(1);
        match kind {
            b't' => {
                let (value, tail) = split_value(tail)?;
                self.rest = tail;
                Some(Datum::Text(value))
            }
            b'b' => {
                let (value, tail) = split_value(tail)?;
                self.rest = tail;
                Some(Datum::Binary(value))
            }
            b'n' => {
                self.rest = tail;
                Some(Datum::Null)
            }
            _ => {
                self.rest = tail;
                Some(Datum::Unchanged)
            }
        }
    }
}

impl<'a> Iterator for TupleIter<'a> {
    type Item = Datum<'a>;

    #[inline]
    fn next(&mut self) -> Option<Datum<'a>> {
        self.remaining = self.remaining.checked_sub(1)?;
        // The tuple was walked: none of the `?` below is ever taken.
        let (&kind, tail) = self.rest.split_first()?;
        let datum = match kind {
            b'n' => Datum::Null,
            b'u' => Datum::Unchanged,
            _ => {
                let (value, tail) = split_value(tail)?;
                self.rest = tail;
                return Some(if kind == b't' {
                    Datum::Text(value)
                } else {
                    Datum::Binary(value)
                });
            }
        };
        self.rest = tail;
        Some(datum)
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        let remaining = usize::from(self.remaining);
        (remaining, Some(remaining))
    }
}

impl ExactSizeIterator for TupleIter<'_> {}

impl std::iter::FusedIterator for TupleIter<'_> {}

/// One column of a tuple. Its `Debug` shows lengths, never values.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Datum<'a> {
    /// NULL; in a key tuple also each column that is not part of the key.
    Null,
    /// A TOASTed value that did not change and was not sent.
    Unchanged,
    /// The type's text form, in the connection's client_encoding.
    Text(&'a [u8]),
    /// The type's binary form, as its `typsend` writes it.
    Binary(&'a [u8]),
}

impl fmt::Debug for Datum<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Datum::Null => f.write_str("Null"),
            Datum::Unchanged => f.write_str("Unchanged"),
            Datum::Text(value) => write!(f, "Text({} bytes)", value.len()),
            Datum::Binary(value) => write!(f, "Binary({} bytes)", value.len()),
        }
    }
}

/// A tuple that is put together column by column, where it does not come from the stream.
#[derive(Clone, Default)]
pub struct TupleBuf {
    count: u16,
    raw: Vec<u8>,
}

/// A tuple of more than 32,767 columns, or a value of 2 GiB or more.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("a tuple holds at most 32767 columns of less than 2 GiB each")]
pub struct TupleTooLarge;

impl TupleBuf {
    /// A tuple without columns.
    pub fn new() -> Self {
        TupleBuf::default()
    }

    /// Appends a column.
    pub fn push(&mut self, datum: Datum<'_>) -> Result<(), TupleTooLarge> {
        let count = self
            .count
            .checked_add(1)
            .filter(|&count| i16::try_from(count).is_ok())
            .ok_or(TupleTooLarge)?;
        let (kind, value) = match datum {
            Datum::Null => (b'n', None),
            Datum::Unchanged => (b'u', None),
            Datum::Text(value) => (b't', Some(value)),
            Datum::Binary(value) => (b'b', Some(value)),
        };
        let length = value
            .map(|value| i32::try_from(value.len()))
            .transpose()
            .map_err(|_| TupleTooLarge)?;
        self.raw.push(kind);
        if let (Some(length), Some(value)) = (length, value) {
            self.raw.extend_from_slice(&length.to_be_bytes());
            self.raw.extend_from_slice(value);
        }
        self.count = count;
        Ok(())
    }

    /// Removes the columns and keeps the memory.
    pub fn clear(&mut self) {
        self.count = 0;
        self.raw.clear();
    }

    /// The tuple so far.
    pub fn as_tuple(&self) -> Tuple<'_> {
        Tuple {
            count: self.count,
            raw: &self.raw,
        }
    }
}

impl fmt::Debug for TupleBuf {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.as_tuple().fmt(f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_ways_through_a_tuple_give_the_same_columns() {
        let columns = [
            Datum::Text(b"a"),
            Datum::Null,
            Datum::Binary(&[0, 1]),
            Datum::Unchanged,
            Datum::Text(b""),
        ];
        let mut tuple = TupleBuf::new();
        for column in columns {
            tuple.push(column).unwrap();
        }
        let mut iter = tuple.as_tuple().iter();
        let by_kind: Vec<_> = std::iter::from_fn(|| iter.next_by_kind()).collect();
        assert_eq!(by_kind, columns);
        assert_eq!(iter.len(), 0);
        assert_eq!(tuple.as_tuple().iter().collect::<Vec<_>>(), columns);
    }
}
