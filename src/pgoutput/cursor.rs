//! A reader over one message, which remembers where it is.

use super::error::{DecodeError, Fault, Field};
use crate::lsn::Lsn;

/// The unread rest of a message.
pub(super) struct Cursor<'a> {
    message: &'static str,
    length: usize,
    rest: &'a [u8],
}

impl<'a> Cursor<'a> {
    pub(super) fn new(bytes: &'a [u8]) -> Self {
        Cursor {
            message: "unknown",
            length: bytes.len(),
            rest: bytes,
        }
    }

    /// Names the message, once its tag is known, for errors.
    pub(super) fn set_message(&mut self, name: &'static str) {
        self.message = name;
    }

    pub(super) fn rest(&self) -> &'a [u8] {
        self.rest
    }

    /// Continues at `rest`, a suffix of what [`Cursor::rest`] returned.
    pub(super) fn set_rest(&mut self, rest: &'a [u8]) {
        self.rest = rest;
    }

    /// An error at the cursor.
    #[cold]
    pub(super) fn error(&self, field: Field, fault: Fault) -> DecodeError {
        self.error_before(self.rest, field, fault)
    }

    /// An error at the start of `tail`, which is a suffix of the message.
    #[cold]
    pub(super) fn error_before(&self, tail: &[u8], field: Field, fault: Fault) -> DecodeError {
        DecodeError {
            message: self.message,
            offset: self.length.saturating_sub(tail.len()),
            field,
            fault,
        }
    }

    fn array<const N: usize>(&mut self, field: Field) -> Result<[u8; N], DecodeError> {
        let Some((&array, tail)) = self.rest.split_first_chunk::<N>() else {
            return Err(self.error(
                field,
                Fault::Truncated {
                    needed: N,
                    left: self.rest.len(),
                },
            ));
        };
        self.rest = tail;
        Ok(array)
    }

    pub(super) fn u8(&mut self, field: Field) -> Result<u8, DecodeError> {
        self.array(field).map(|[byte]: [u8; 1]| byte)
    }

    pub(super) fn u32(&mut self, field: Field) -> Result<u32, DecodeError> {
        self.array(field).map(u32::from_be_bytes)
    }

    pub(super) fn i32(&mut self, field: Field) -> Result<i32, DecodeError> {
        self.array(field).map(i32::from_be_bytes)
    }

    pub(super) fn i64(&mut self, field: Field) -> Result<i64, DecodeError> {
        self.array(field).map(i64::from_be_bytes)
    }

    pub(super) fn lsn(&mut self, field: Field) -> Result<Lsn, DecodeError> {
        self.array(field).map(|bytes| Lsn::new(u64::from_be_bytes(bytes)))
    }

    /// A byte of which the manual defines only some values; `accept` maps those.
    pub(super) fn byte<T>(
        &mut self,
        field: Field,
        expected: &'static str,
        accept: impl FnOnce(u8) -> Option<T>,
    ) -> Result<T, DecodeError> {
        let here = self.rest;
        let found = self.u8(field)?;
        accept(found).ok_or_else(|| self.error_before(here, field, Fault::UnexpectedByte { found, expected }))
    }

    /// An Int16 that counts.
    pub(super) fn count16(&mut self, field: Field) -> Result<u16, DecodeError> {
        let here = self.rest;
        let number = self.array(field).map(i16::from_be_bytes)?;
        u16::try_from(number).map_err(|_| self.error_before(here, field, Fault::Negative(number.into())))
    }

    /// An Int32 that counts or measures.
    pub(super) fn count32(&mut self, field: Field) -> Result<usize, DecodeError> {
        let here = self.rest;
        let number = self.i32(field)?;
        usize::try_from(number).map_err(|_| self.error_before(here, field, Fault::Negative(number)))
    }

    /// So many bytes.
    pub(super) fn take(&mut self, count: usize, field: Field) -> Result<&'a [u8], DecodeError> {
        let Some((taken, tail)) = self.rest.split_at_checked(count) else {
            return Err(self.error(
                field,
                Fault::Truncated {
                    needed: count,
                    left: self.rest.len(),
                },
            ));
        };
        self.rest = tail;
        Ok(taken)
    }

    /// A NUL-terminated string in UTF-8.
    pub(super) fn string(&mut self, field: Field) -> Result<&'a str, DecodeError> {
        let here = self.rest;
        let Some(length) = here.iter().position(|&byte| byte == 0) else {
            return Err(self.error(field, Fault::Unterminated));
        };
        let bytes = self.take(length, field)?;
        self.u8(field)?;
        std::str::from_utf8(bytes).map_err(|_| self.error_before(here, field, Fault::NotUtf8))
    }

    /// Refuses what is left.
    pub(super) fn finish(&self) -> Result<(), DecodeError> {
        match self.rest.len() {
            0 => Ok(()),
            count => Err(self.error(Field::Of("end of the message"), Fault::LeftOver(count))),
        }
    }
}
