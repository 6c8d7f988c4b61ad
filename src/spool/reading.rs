//! A committed transaction's records, in their order.

use std::collections::HashSet;
use std::sync::Arc;

use super::error::{Damage, SpoolError};
use super::file::SpoolFile;
use super::record::{self, Parsed, Record};
use super::transaction::{CHUNK, Chunks};

/// What is still to be read: first the file, then what is in memory.
#[derive(Debug)]
pub struct Reading {
    file: Option<Arc<SpoolFile>>,
    /// Up to where the file was read.
    position: u64,
    length: u64,
    /// The begin of a record of which the rest is still to be read.
    part: Vec<u8>,
    chunks: Chunks,
    longest: u32,
    void: Arc<HashSet<u32>>,
}

/// Some records, all of which are whole.
#[derive(Debug)]
pub struct Batch {
    bytes: Vec<u8>,
    void: Arc<HashSet<u32>>,
}

impl Batch {
    /// Those that are not void.
    pub fn records(&self) -> impl Iterator<Item = Record<'_>> {
        let mut rest = self.bytes.as_slice();
        let all = std::iter::from_fn(move || {
            let (record, after) = record::next(rest)?;
            rest = after;
            Some(record)
        });
        all.filter(|record| !self.void.contains(&record.subxid))
    }
}

impl Reading {
    pub(super) fn new(
        file: Option<Arc<SpoolFile>>,
        length: u64,
        chunks: Chunks,
        longest: u32,
        void: HashSet<u32>,
    ) -> Self {
        Reading {
            file,
            position: 0,
            length,
            part: Vec::new(),
            chunks,
            longest,
            void: Arc::new(void),
        }
    }

    /// The next records; none at the end. May block.
    ///
    /// # Errors
    /// The file cannot be read, or is not what was written.
    pub fn next_batch(&mut self) -> Result<Option<Batch>, SpoolError> {
        if self.position < self.length
            && let Some(file) = self.file.clone()
        {
            return self.read_file(&file).map(Some);
        }
        // The room is given back before the rest is read.
        self.file = None;
        Ok(self.chunks.pop_front().map(|bytes| self.batch(bytes)))
    }

    /// Whether the next records come from the file.
    pub fn blocks(&self) -> bool {
        self.position < self.length
    }

    fn batch(&self, bytes: Vec<u8>) -> Batch {
        Batch {
            bytes,
            void: Arc::clone(&self.void),
        }
    }

    /// How many bytes at least the first record needs that is not whole, and how many the whole ones before it take; or the place of the one that
    /// is damaged.
    fn whole(&self, bytes: &[u8]) -> Result<(usize, usize), (u64, Damage)> {
        let mut rest = bytes;
        loop {
            let done = bytes.len().saturating_sub(rest.len());
            match record::parse(rest, self.longest) {
                Ok(Parsed::Whole(after)) => rest = after,
                Ok(Parsed::Part(needed)) => return Ok((needed, done)),
                Err(damage) => return Err((u64::try_from(done).unwrap_or(u64::MAX), damage)),
            }
        }
    }

    fn read_file(&mut self, file: &SpoolFile) -> Result<Batch, SpoolError> {
        let mut bytes = std::mem::take(&mut self.part);
        // Where the first of them stands.
        let begin = self.position.saturating_sub(u64::try_from(bytes.len()).unwrap_or(0));
        let damaged = |offset: u64, source| SpoolError::Damaged {
            path: file.path().to_owned(),
            offset: begin.saturating_add(offset),
            source,
        };
        let mut wanted = CHUNK;
        loop {
            self.fill(file, &mut bytes, wanted)?;
            let (needed, whole) = self.whole(&bytes).map_err(|(offset, source)| damaged(offset, source))?;
            if whole > 0 {
                self.part = bytes.split_off(whole);
                if self.position >= self.length && !self.part.is_empty() {
                    return Err(damaged(u64::try_from(whole).unwrap_or(u64::MAX), Damage::Truncated));
                }
                return Ok(self.batch(bytes));
            }
            if self.position >= self.length {
                return Err(damaged(0, Damage::Truncated));
            }
            wanted = needed;
        }
    }

    /// Reads until there are so many bytes, or all that were written.
    fn fill(&mut self, file: &SpoolFile, bytes: &mut Vec<u8>, wanted: usize) -> Result<(), SpoolError> {
        let left = usize::try_from(self.length.saturating_sub(self.position)).unwrap_or(usize::MAX);
        let mut filled = bytes.len();
        bytes.resize(wanted.max(filled).min(filled.saturating_add(left)), 0);
        while let Some(space) = bytes.get_mut(filled..).filter(|space| !space.is_empty()) {
            let offset = self.position;
            let failed = |source| SpoolError::Read {
                path: file.path().to_owned(),
                offset,
                source,
            };
            let count = match file.read(self.position, space).map_err(failed)? {
                0 => {
                    return Err(SpoolError::Damaged {
                        path: file.path().to_owned(),
                        offset: self.position,
                        source: Damage::Truncated,
                    });
                }
                count => count,
            };
            filled = filled.saturating_add(count);
            self.position = self.position.saturating_add(u64::try_from(count).unwrap_or(u64::MAX));
        }
        Ok(())
    }
}
