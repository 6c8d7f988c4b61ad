//! A record as bytes: how long the message is, a checksum of all the rest, whose it is, where it stood, and the message.
//!
//! ```text
//! u32 length of the message | u32 CRC-32C of what is before and behind it | u32 subxid | u64 LSN | u64 arrival | message
//! ```
//! Integers are little-endian.

use super::error::Damage;
use crate::lsn::Lsn;

/// A message of a running transaction.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Record<'a> {
    /// The (sub)transaction.
    pub subxid: u32,
    /// Where it stands in the log.
    pub lsn: Lsn,
    /// Its place among all messages of the session.
    pub arrival: u64,
    /// The message as it came.
    pub message: &'a [u8],
}

impl std::fmt::Debug for Record<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Record")
            .field("subxid", &self.subxid)
            .field("lsn", &self.lsn)
            .field("arrival", &self.arrival)
            .field("message", &format_args!("{} bytes", self.message.len()))
            .finish()
    }
}

/// Of what stands before the message.
pub(super) const HEAD: usize = 28;

/// What the next bytes are.
pub(super) enum Parsed<'a> {
    /// A record; what comes after it.
    Whole(&'a [u8]),
    /// Less than a record; so many bytes are needed.
    Part(usize),
}

/// How many bytes a record of this message takes.
pub(super) fn size(message: &[u8]) -> usize {
    HEAD.saturating_add(message.len())
}

pub(super) fn write(record: &Record<'_>, out: &mut Vec<u8>) {
    // Postgres sends no message of more than 1 GiB.
    let length = u32::try_from(record.message.len()).unwrap_or(u32::MAX).to_le_bytes();
    let (subxid, lsn, arrival) = (
        record.subxid.to_le_bytes(),
        record.lsn.as_u64().to_le_bytes(),
        record.arrival.to_le_bytes(),
    );
    let parts: [&[u8]; 5] = [&length, &subxid, &lsn, &arrival, record.message];
    let checksum = parts.iter().fold(0, |sum, part| crc32c::crc32c_append(sum, part));
    out.reserve(size(record.message));
    out.extend_from_slice(&length);
    out.extend_from_slice(&checksum.to_le_bytes());
    for part in parts.iter().skip(1) {
        out.extend_from_slice(part);
    }
}

/// The record at the start of `bytes`, whose message is not longer than `longest`.
pub(super) fn parse(bytes: &[u8], longest: u32) -> Result<Parsed<'_>, Damage> {
    let Some((&length, after_length)) = bytes.split_first_chunk::<4>() else {
        return Ok(Parsed::Part(HEAD));
    };
    let count = u32::from_le_bytes(length);
    if count > longest {
        return Err(Damage::Length);
    }
    let needed = HEAD.saturating_add(usize::try_from(count).map_err(|_| Damage::Length)?);
    let checksum = after_length.first_chunk::<4>().map(|bytes| u32::from_le_bytes(*bytes));
    let Some((record, rest)) = bytes.split_at_checked(needed) else {
        return Ok(Parsed::Part(needed));
    };
    let body = record.get(8..).unwrap_or_default();
    match checksum == Some(crc32c::crc32c_append(crc32c::crc32c(&length), body)) {
        true => Ok(Parsed::Whole(rest)),
        false => Err(Damage::Checksum),
    }
}

/// The record at the start of `bytes`, which were found whole, and what comes after it; none at the end.
pub(super) fn next(bytes: &[u8]) -> Option<(Record<'_>, &[u8])> {
    let (length, rest) = bytes.split_first_chunk::<4>()?;
    let (_, rest) = rest.split_first_chunk::<4>()?;
    let (subxid, rest) = rest.split_first_chunk::<4>()?;
    let (lsn, rest) = rest.split_first_chunk::<8>()?;
    let (arrival, rest) = rest.split_first_chunk::<8>()?;
    let (message, rest) = rest.split_at_checked(usize::try_from(u32::from_le_bytes(*length)).ok()?)?;
    let record = Record {
        subxid: u32::from_le_bytes(*subxid),
        lsn: Lsn::new(u64::from_le_bytes(*lsn)),
        arrival: u64::from_le_bytes(*arrival),
        message,
    };
    Some((record, rest))
}
