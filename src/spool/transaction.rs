//! One running transaction: what of it is in memory, and what is in its file.

use std::collections::{HashSet, VecDeque};
use std::sync::Arc;

use super::file::SpoolFile;
use super::reading::Reading;
use super::record::{self, Record};

/// Records are kept and read in pieces of about this size.
pub(super) const CHUNK: usize = 256 * 1024;

/// Records, each of them whole in one chunk.
pub(super) type Chunks = VecDeque<Vec<u8>>;

/// See the module. Bytes are counted through file and memory.
#[derive(Debug, Default)]
pub(super) struct Spooled {
    file: Option<Arc<SpoolFile>>,
    /// How much of the file counts.
    written: u64,
    chunks: Chunks,
    /// Bytes in memory.
    buffered: u64,
    /// Length of the longest message.
    longest: u32,
    /// Subtransactions that are void.
    void: HashSet<u32>,
    /// Whose the last records are, and where the first of these begins.
    last: Option<(u32, u64)>,
}

impl Spooled {
    pub(super) fn buffered(&self) -> u64 {
        self.buffered
    }

    fn end(&self) -> u64 {
        self.written.saturating_add(self.buffered)
    }

    /// How many bytes it takes.
    pub(super) fn append(&mut self, record: &Record<'_>) -> u64 {
        if self.last.is_none_or(|(subxid, _)| subxid != record.subxid) {
            self.last = Some((record.subxid, self.end()));
        }
        self.longest = self
            .longest
            .max(u32::try_from(record.message.len()).unwrap_or(u32::MAX));
        let size = record::size(record.message);
        let fits = |chunk: &Vec<u8>| chunk.len().saturating_add(size) <= CHUNK;
        if !self.chunks.back().is_some_and(fits) {
            self.chunks.push_back(Vec::new());
        }
        if let Some(chunk) = self.chunks.back_mut() {
            record::write(record, chunk);
        }
        let size = u64::try_from(size).unwrap_or(u64::MAX);
        self.buffered = self.buffered.saturating_add(size);
        size
    }

    /// A subtransaction is void; how many bytes that frees in memory. Its records are passed over later; those at the very end are given up
    /// at once, so that a transaction that tries the same again and again does not grow.
    pub(super) fn abort(&mut self, subxid: u32) -> u64 {
        self.void.insert(subxid);
        let Some((_, start)) = self.last.take_if(|(last, _)| *last == subxid) else {
            return 0;
        };
        let before = self.buffered;
        if let Some(keep) = start.checked_sub(self.written) {
            while self.buffered > keep
                && let Some(chunk) = self.chunks.back_mut()
            {
                let length = u64::try_from(chunk.len()).unwrap_or(u64::MAX);
                let gone = self.buffered.saturating_sub(keep).min(length);
                self.buffered = self.buffered.saturating_sub(gone);
                if gone == length {
                    self.chunks.pop_back();
                } else {
                    chunk.truncate(usize::try_from(length.saturating_sub(gone)).unwrap_or(usize::MAX));
                }
            }
        } else {
            self.chunks.clear();
            self.buffered = 0;
            self.written = start;
            if let Some(file) = &self.file {
                file.truncate(start);
            }
        }
        before.saturating_sub(self.buffered)
    }

    /// What is in memory, and where it belongs in which file.
    pub(super) fn take_buffered(&mut self) -> (Option<Arc<SpoolFile>>, u64, Chunks) {
        self.buffered = 0;
        (self.file.clone(), self.written, std::mem::take(&mut self.chunks))
    }

    pub(super) fn spilled(&mut self, file: Arc<SpoolFile>, length: u64) {
        self.file = Some(file);
        self.written = length;
    }

    pub(super) fn into_reading(self) -> Reading {
        Reading::new(self.file, self.written, self.chunks, self.longest, self.void)
    }
}
