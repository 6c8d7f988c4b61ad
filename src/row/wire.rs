//! Binary forms being read from their front.

use super::ValueError;

/// The rest of a binary form.
#[derive(Clone, Copy)]
pub(super) struct Wire<'a> {
    rest: &'a [u8],
}

impl<'a> Wire<'a> {
    pub(super) fn new(bytes: &'a [u8]) -> Self {
        Wire { rest: bytes }
    }

    /// How many bytes are left.
    pub(super) fn len(&self) -> usize {
        self.rest.len()
    }

    /// Nothing may be left over.
    pub(super) fn end(&self) -> Result<(), ValueError> {
        if self.rest.is_empty() {
            Ok(())
        } else {
            Err(ValueError::Malformed)
        }
    }

    pub(super) fn array<const N: usize>(&mut self) -> Result<[u8; N], ValueError> {
        let (bytes, rest) = self.rest.split_first_chunk::<N>().ok_or(ValueError::Malformed)?;
        self.rest = rest;
        Ok(*bytes)
    }

    pub(super) fn u8(&mut self) -> Result<u8, ValueError> {
        let [byte] = self.array()?;
        Ok(byte)
    }

    pub(super) fn u16(&mut self) -> Result<u16, ValueError> {
        self.array().map(u16::from_be_bytes)
    }

    pub(super) fn i32(&mut self) -> Result<i32, ValueError> {
        self.array().map(i32::from_be_bytes)
    }

    pub(super) fn u32(&mut self) -> Result<u32, ValueError> {
        self.array().map(u32::from_be_bytes)
    }

    pub(super) fn i64(&mut self) -> Result<i64, ValueError> {
        self.array().map(i64::from_be_bytes)
    }

    pub(super) fn f64(&mut self) -> Result<f64, ValueError> {
        self.array().map(f64::from_be_bytes)
    }

    /// A count in four bytes. A negative one is malformed, and so is one of things that cannot be there: each takes at
    /// least `size` bytes.
    pub(super) fn count(&mut self, size: usize) -> Result<usize, ValueError> {
        let count = usize::try_from(self.i32()?).map_err(|_| ValueError::Malformed)?;
        match count.checked_mul(size) {
            Some(least) if least <= self.rest.len() => Ok(count),
            _ => Err(ValueError::Malformed),
        }
    }

    pub(super) fn bytes(&mut self, length: usize) -> Result<&'a [u8], ValueError> {
        let (bytes, rest) = self.rest.split_at_checked(length).ok_or(ValueError::Malformed)?;
        self.rest = rest;
        Ok(bytes)
    }

    /// A length in four bytes and as many bytes; -1: NULL.
    pub(super) fn value(&mut self) -> Result<Option<&'a [u8]>, ValueError> {
        match self.i32()? {
            -1 => Ok(None),
            length => {
                let length = usize::try_from(length).map_err(|_| ValueError::Malformed)?;
                self.bytes(length).map(Some)
            }
        }
    }

    /// Bytes up to a NUL, which is left out.
    pub(super) fn until_nul(&mut self) -> Result<&'a [u8], ValueError> {
        let at = self
            .rest
            .iter()
            .position(|byte| *byte == 0)
            .ok_or(ValueError::Malformed)?;
        let bytes = self.bytes(at)?;
        self.u8()?;
        Ok(bytes)
    }
}
