//! The rows of a COPY, one CopyData message each (manual, "COPY", section "File Formats").
//!
//! They are turned into TupleData, as the stream has it, so that from here on nobody can tell where a row came from.

#![cfg_attr(
    not(test),
    deny(clippy::indexing_slicing, clippy::arithmetic_side_effects, clippy::as_conversions)
)]

use std::fmt;

/// The first bytes of the binary format.
const SIGNATURE: &[u8] = b"PGCOPY\n\xFF\r\n\0";

/// The form in which values are asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RowFormat {
    /// Each type's text form.
    Text,
    /// Each type's binary form, as its `typsend` writes it.
    Binary,
}

impl fmt::Display for RowFormat {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            RowFormat::Text => "text",
            RowFormat::Binary => "binary",
        })
    }
}

/// Data that is not what the format defines. It shows no byte of a value.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub struct CopyError {
    /// The format that was asked for.
    pub format: RowFormat,
    /// Bytes from the message's start.
    pub offset: usize,
    /// 1 for the first; none where no single one is at fault.
    pub column: Option<usize>,
    /// Why.
    pub fault: CopyFault,
}

impl fmt::Display for CopyError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "malformed COPY data ({}), at offset {}", self.format, self.offset)?;
        if let Some(column) = self.column {
            write!(f, ", in column {column}")?;
        }
        write!(f, ": {}", self.fault)
    }
}

/// Why a row could not be read.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum CopyFault {
    /// The message ends too early.
    #[error("{needed} bytes needed, {left} left")]
    Truncated {
        /// Bytes that were due.
        needed: usize,
        /// Bytes that are left.
        left: usize,
    },
    /// The row has more or fewer columns than were asked for.
    #[error("the row has {found} columns, and {expected} were asked for")]
    ColumnCount {
        /// What it has.
        found: i64,
        /// What was asked for.
        expected: usize,
    },
    /// A length below -1, which stands for NULL.
    #[error("the length {0} is negative")]
    Negative(i32),
    /// The first message does not begin with the format's signature.
    #[error("the signature is missing")]
    Signature,
    /// Flags that change the meaning of what follows.
    #[error("the flags {0:#x} are unknown")]
    Flags(u32),
    /// The row is complete and this many bytes follow.
    #[error("bytes left over: {0}")]
    LeftOver(usize),
    /// Something comes after the trailer, or the trailer where a row has to be.
    #[error("there is no row beyond the trailer")]
    Trailer,
    /// A row of text without its newline.
    #[error("the line has no end")]
    Unterminated,
    /// A newline that is not the row's last byte.
    #[error("the line ends within the row")]
    LineBreak,
    /// A backslash before what the server does not escape.
    #[error("the backslash escapes nothing")]
    Escape,
    /// A key's column is NULL.
    #[error("a column of the key is NULL")]
    NullKey,
    /// A key's text is not UTF-8.
    #[error("the key's text is not UTF-8")]
    NotUtf8,
    /// More than TupleData can hold.
    #[error("a row has at most 32767 columns of less than 2 GiB each")]
    TooLarge,
}

/// Where in a message a fault is.
struct Spot {
    offset: usize,
    column: Option<usize>,
    fault: CopyFault,
}

impl Spot {
    fn whole(offset: usize, fault: CopyFault) -> Self {
        Spot {
            offset,
            column: None,
            fault,
        }
    }

    /// In the column at `index`, which starts at `offset`.
    fn column(offset: usize, index: usize, fault: CopyFault) -> Self {
        Spot {
            offset,
            column: Some(index.saturating_add(1)),
            fault,
        }
    }
}

/// Reads the rows of one COPY.
#[derive(Debug)]
pub struct RowReader {
    format: RowFormat,
    columns: usize,
    /// How many a message has: the row's own, and what was appended of the key.
    sent: usize,
    key: Vec<usize>,
    place: Place,
}

/// How far a binary COPY is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Place {
    Header,
    Rows,
    Trailer,
}

impl RowReader {
    /// For rows of `columns` columns of their own. The key's columns are at the places `key`, which lie beyond the row's where the key
    /// was asked for once more, as text.
    pub fn new(format: RowFormat, columns: usize, key: Vec<usize>) -> Self {
        let end_of_key = key.iter().map(|place| place.saturating_add(1)).max().unwrap_or(0);
        RowReader {
            format,
            columns,
            sent: columns.max(end_of_key),
            key,
            place: Place::Header,
        }
    }

    /// Appends the row in this message to `tuple` as TupleData; false for the trailer, which is none.
    ///
    /// # Errors
    /// The message is not what the format defines; `tuple` is as it was.
    pub fn read(&mut self, data: &[u8], tuple: &mut Vec<u8>) -> Result<bool, CopyError> {
        let start = tuple.len();
        let read = match self.format {
            RowFormat::Text => self.read_text(data, tuple).map(|()| true),
            RowFormat::Binary => self.read_binary(data, tuple),
        };
        read.map_err(|spot| {
            tuple.truncate(start);
            self.error(spot)
        })
    }

    /// The text of the key's columns in this message, in the key's order. A binary form is no text: there the key's columns have to be
    /// those that were asked for as such.
    ///
    /// # Errors
    /// The message is not what the format defines, or no key.
    pub fn key_of(&self, data: &[u8]) -> Result<Vec<String>, CopyError> {
        self.key_texts(data).map_err(|spot| self.error(spot))
    }

    fn error(&self, spot: Spot) -> CopyError {
        CopyError {
            format: self.format,
            offset: spot.offset,
            column: spot.column,
            fault: spot.fault,
        }
    }

    fn read_text(&self, data: &[u8], tuple: &mut Vec<u8>) -> Result<(), Spot> {
        let line = self.line(data)?;
        let has_escapes = line.contains(&b'\\');
        self.begin(tuple)?;
        self.each_text(line, |offset, index, field| {
            if index >= self.columns {
                return Ok(());
            }
            let at = |fault| Spot::column(offset, index, fault);
            match field {
                b"\\N" => tuple.push(b'n'),
                _ if has_escapes && field.contains(&b'\\') => {
                    tuple.extend_from_slice(b"t\0\0\0\0");
                    let start = tuple.len();
                    unescape(field, tuple)
                        .map_err(|within| Spot::column(offset.saturating_add(within), index, CopyFault::Escape))?;
                    let length = length(tuple.len().saturating_sub(start)).map_err(at)?;
                    let prefix = start
                        .checked_sub(length.len())
                        .and_then(|from| tuple.get_mut(from..start));
                    if let Some(prefix) = prefix {
                        prefix.copy_from_slice(&length);
                    }
                }
                _ => push_value(tuple, b't', field).map_err(at)?,
            }
            Ok(())
        })
    }

    fn read_binary(&mut self, data: &[u8], tuple: &mut Vec<u8>) -> Result<bool, Spot> {
        let offset = match self.place {
            Place::Header => header(data)?,
            Place::Rows => 0,
            Place::Trailer => return Err(Spot::whole(0, CopyFault::Trailer)),
        };
        let row = data.get(offset..).unwrap_or_default();
        if is_trailer(row, offset)? {
            self.place = Place::Trailer;
            return Ok(false);
        }
        self.begin(tuple)?;
        self.each_binary(row, offset, |offset, index, value| match value {
            _ if index >= self.columns => Ok(()),
            None => {
                tuple.push(b'n');
                Ok(())
            }
            Some(value) => push_value(tuple, b'b', value).map_err(|fault| Spot::column(offset, index, fault)),
        })?;
        self.place = Place::Rows;
        Ok(true)
    }

    /// The count of columns that TupleData starts with.
    fn begin(&self, tuple: &mut Vec<u8>) -> Result<(), Spot> {
        let count = i16::try_from(self.columns).map_err(|_| Spot::whole(0, CopyFault::TooLarge))?;
        tuple.extend_from_slice(&count.to_be_bytes());
        Ok(())
    }

    fn key_texts(&self, data: &[u8]) -> Result<Vec<String>, Spot> {
        let mut texts: Vec<Option<String>> = vec![None; self.key.len()];
        let mut set = |offset, index, text: &dyn Fn() -> Result<String, CopyFault>| {
            for (_, slot) in self.key.iter().zip(&mut texts).filter(|(place, _)| **place == index) {
                *slot = Some(text().map_err(|fault| Spot::column(offset, index, fault))?);
            }
            Ok(())
        };
        match self.format {
            RowFormat::Text => self.each_text(self.line(data)?, |offset, index, field| {
                set(offset, index, &|| match field {
                    b"\\N" => Err(CopyFault::NullKey),
                    _ => {
                        let mut plain = Vec::with_capacity(field.len());
                        unescape(field, &mut plain).map_err(|_| CopyFault::Escape)?;
                        String::from_utf8(plain).map_err(|_| CopyFault::NotUtf8)
                    }
                })
            })?,
            RowFormat::Binary => {
                // No row starts like this: a table has at most 1600 columns.
                let offset = match data.starts_with(SIGNATURE) {
                    true => header(data)?,
                    false => 0,
                };
                let row = data.get(offset..).unwrap_or_default();
                if is_trailer(row, offset)? {
                    return Err(Spot::whole(offset, CopyFault::Trailer));
                }
                self.each_binary(row, offset, |offset, index, value| {
                    set(offset, index, &|| {
                        let value = value.ok_or(CopyFault::NullKey)?;
                        String::from_utf8(value.to_vec()).map_err(|_| CopyFault::NotUtf8)
                    })
                })?;
            }
        }
        // Each place lies within the columns that were just counted.
        Ok(texts.into_iter().flatten().collect())
    }

    /// The message without its newline.
    fn line<'a>(&self, data: &'a [u8]) -> Result<&'a [u8], Spot> {
        let Some((b'\n', line)) = data.split_last() else {
            return Err(Spot::whole(data.len(), CopyFault::Unterminated));
        };
        match line.iter().position(|byte| *byte == b'\n') {
            Some(offset) => Err(Spot::whole(offset, CopyFault::LineBreak)),
            None => Ok(line),
        }
    }

    /// Calls `each` with the offset, index and escaped text of each column.
    fn each_text<'a>(
        &self,
        line: &'a [u8],
        mut each: impl FnMut(usize, usize, &'a [u8]) -> Result<(), Spot>,
    ) -> Result<(), Spot> {
        let mut found = 0_usize;
        // The line of a row without columns is that of an empty one.
        if self.sent > 0 || !line.is_empty() {
            let mut offset = 0_usize;
            for field in line.split(|byte| *byte == b'\t') {
                if found < self.sent {
                    each(offset, found, field)?;
                }
                found = found.saturating_add(1);
                offset = offset.saturating_add(field.len()).saturating_add(1);
            }
        }
        self.counted(0, i64::try_from(found).unwrap_or(i64::MAX))
    }

    /// Calls `each` with the offset, index and value of each column of a row that starts at `offset`.
    fn each_binary<'a>(
        &self,
        row: &'a [u8],
        offset: usize,
        mut each: impl FnMut(usize, usize, Option<&'a [u8]>) -> Result<(), Spot>,
    ) -> Result<(), Spot> {
        let end = offset.saturating_add(row.len());
        let (count, mut rest) = number::<2>(row).map_err(|fault| Spot::whole(offset, fault))?;
        self.counted(offset, i64::from(i16::from_be_bytes(count)))?;
        for index in 0..self.sent {
            let at = end.saturating_sub(rest.len());
            let column = |fault| Spot::column(at, index, fault);
            let (length, tail) = number::<4>(rest).map_err(column)?;
            let length = i32::from_be_bytes(length);
            let value = match (length, usize::try_from(length)) {
                (-1, _) => {
                    rest = tail;
                    None
                }
                (_, Ok(needed)) => {
                    let left = tail.len();
                    let (value, tail) = tail
                        .split_at_checked(needed)
                        .ok_or_else(|| column(CopyFault::Truncated { needed, left }))?;
                    rest = tail;
                    Some(value)
                }
                (_, Err(_)) => return Err(column(CopyFault::Negative(length))),
            };
            each(at, index, value)?;
        }
        match rest.len() {
            0 => Ok(()),
            left => Err(Spot::whole(end.saturating_sub(left), CopyFault::LeftOver(left))),
        }
    }

    fn counted(&self, offset: usize, found: i64) -> Result<(), Spot> {
        let expected = self.sent;
        match usize::try_from(found) == Ok(expected) {
            true => Ok(()),
            false => Err(Spot::whole(offset, CopyFault::ColumnCount { found, expected })),
        }
    }
}

/// How long the header at the start of the first message is.
fn header(data: &[u8]) -> Result<usize, Spot> {
    let at = |rest: &[u8], fault| Spot::whole(data.len().saturating_sub(rest.len()), fault);
    let rest = data
        .strip_prefix(SIGNATURE)
        .ok_or_else(|| Spot::whole(0, CopyFault::Signature))?;
    let (flags, tail) = number::<4>(rest).map_err(|fault| at(rest, fault))?;
    let flags = u32::from_be_bytes(flags);
    // The lower half may be passed over by whoever does not know it.
    if flags >> 16 != 0 {
        return Err(at(rest, CopyFault::Flags(flags)));
    }
    let rest = tail;
    let (length, tail) = number::<4>(rest).map_err(|fault| at(rest, fault))?;
    let length = i32::from_be_bytes(length);
    let needed = usize::try_from(length).map_err(|_| at(rest, CopyFault::Negative(length)))?;
    let left = tail.len();
    let (_, tail) = tail
        .split_at_checked(needed)
        .ok_or_else(|| at(tail, CopyFault::Truncated { needed, left }))?;
    Ok(data.len().saturating_sub(tail.len()))
}

/// Whether this, which starts at `offset`, is what ends a binary COPY.
fn is_trailer(row: &[u8], offset: usize) -> Result<bool, Spot> {
    match row.strip_prefix(&(-1_i16).to_be_bytes()) {
        None => Ok(false),
        Some([]) => Ok(true),
        Some(tail) => Err(Spot::whole(offset.saturating_add(2), CopyFault::LeftOver(tail.len()))),
    }
}

/// The next bytes of a number, and what comes after them.
fn number<const N: usize>(bytes: &[u8]) -> Result<([u8; N], &[u8]), CopyFault> {
    match bytes.split_first_chunk::<N>() {
        Some((number, tail)) => Ok((*number, tail)),
        None => Err(CopyFault::Truncated {
            needed: N,
            left: bytes.len(),
        }),
    }
}

fn length(length: usize) -> Result<[u8; 4], CopyFault> {
    i32::try_from(length)
        .map(i32::to_be_bytes)
        .map_err(|_| CopyFault::TooLarge)
}

fn push_value(tuple: &mut Vec<u8>, kind: u8, value: &[u8]) -> Result<(), CopyFault> {
    let length = length(value.len())?;
    tuple.push(kind);
    tuple.extend_from_slice(&length);
    tuple.extend_from_slice(value);
    Ok(())
}

/// Appends the text with its escapes undone, of which there are those that the server writes and no others; or the offset of what
/// is none.
fn unescape(text: &[u8], plain: &mut Vec<u8>) -> Result<(), usize> {
    let mut rest = text;
    while let Some(at) = rest.iter().position(|byte| *byte == b'\\') {
        let (before, escape) = rest.split_at_checked(at).unwrap_or((rest, &[]));
        plain.extend_from_slice(before);
        let (byte, tail) = match escape {
            [_, b'b', tail @ ..] => (0x08, tail),
            [_, b'f', tail @ ..] => (0x0C, tail),
            [_, b'n', tail @ ..] => (b'\n', tail),
            [_, b'r', tail @ ..] => (b'\r', tail),
            [_, b't', tail @ ..] => (b'\t', tail),
            [_, b'v', tail @ ..] => (0x0B, tail),
            [_, b'\\', tail @ ..] => (b'\\', tail),
            _ => return Err(text.len().saturating_sub(escape.len())),
        };
        plain.push(byte);
        rest = tail;
    }
    plain.extend_from_slice(rest);
    Ok(())
}

#[cfg(test)]
mod tests;
