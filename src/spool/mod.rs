//! Running transactions that Postgres streams: kept until they commit or are void, in memory up to a budget, beyond it in files.
//!
//! A [`Spool`] buffers and counts, and touches no file: what is to be written is handed out as a [`Spill`], and a transaction that
//! committed as a [`Reading`]. Both block, so whoever drives them chooses the thread.
//!
//! Records stand in the order in which they came, with what the stream says between them: a relation is described in its place, so that
//! rows before and after an ALTER TABLE are read each by its own description. What a subtransaction that is void left is passed over when
//! the records are read.
//!
//! Nothing here has to outlive the session: what did not commit before its end is sent again. So a file is never opened twice; a [`Directory`]
//! removes what a killed process left, and whoever still has such a file open is not disturbed by that.

#![cfg_attr(
    not(test),
    deny(clippy::indexing_slicing, clippy::arithmetic_side_effects, clippy::as_conversions)
)]

mod error;
mod file;
mod reading;
mod record;
#[cfg(test)]
mod tests;
mod transaction;

use std::collections::HashMap;
use std::sync::Arc;

pub use error::{Damage, SpoolError};
pub use file::Directory;
use file::SpoolFile;
pub use reading::{Batch, Reading};
pub use record::Record;
use transaction::{Chunks, Spooled};

/// How much may be kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// Bytes in memory, of all transactions together. What comes beyond goes to files.
    pub memory: u64,
    /// Bytes in files.
    pub files: Option<u64>,
}

/// How much is kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Usage {
    /// Transactions that run.
    pub transactions: usize,
    /// Bytes of them in memory.
    pub memory: u64,
    /// Bytes in files, also of transactions that are being read.
    pub files: u64,
}

/// A message about a transaction that does not fit what came before.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Disorder {
    /// Its first block comes twice.
    Known,
    /// There was no first block.
    Unknown,
}

/// The transactions of a session that run.
#[derive(Debug)]
pub struct Spool {
    directory: Directory,
    limits: Limits,
    open: HashMap<u32, Spooled>,
    /// Bytes in memory.
    buffered: u64,
}

impl Spool {
    /// An empty one, with files in this directory.
    pub fn new(directory: Directory, limits: Limits) -> Self {
        Spool {
            directory,
            limits,
            open: HashMap::new(),
            buffered: 0,
        }
    }

    /// A block of a transaction begins.
    ///
    /// # Errors
    /// It is the first one of a transaction that is known, or another one of one that is not.
    pub fn block(&mut self, xid: u32, first: bool) -> Result<(), Disorder> {
        match (first, self.open.contains_key(&xid)) {
            (true, true) => Err(Disorder::Known),
            (false, false) => Err(Disorder::Unknown),
            (true, false) => {
                self.open.insert(xid, Spooled::default());
                Ok(())
            }
            (false, true) => Ok(()),
        }
    }

    /// Takes in a record of a transaction. [`overfull`](Self::overfull) is to be asked afterwards.
    ///
    /// # Errors
    /// The transaction is not known.
    pub fn append(&mut self, xid: u32, record: &Record<'_>) -> Result<(), Disorder> {
        let transaction = self.open.get_mut(&xid).ok_or(Disorder::Unknown)?;
        self.buffered = self.buffered.saturating_add(transaction.append(record));
        Ok(())
    }

    /// A subtransaction is void, or the whole transaction if `subxid` is `xid`.
    ///
    /// # Errors
    /// The transaction is not known.
    pub fn abort(&mut self, xid: u32, subxid: u32) -> Result<(), Disorder> {
        let transaction = self.open.get_mut(&xid).ok_or(Disorder::Unknown)?;
        let freed = if xid == subxid {
            let freed = transaction.buffered();
            self.open.remove(&xid);
            freed
        } else {
            transaction.abort(subxid)
        };
        self.buffered = self.buffered.saturating_sub(freed);
        Ok(())
    }

    /// The transaction has committed: its records, to be read.
    ///
    /// # Errors
    /// The transaction is not known.
    pub fn commit(&mut self, xid: u32) -> Result<Reading, Disorder> {
        let transaction = self.open.remove(&xid).ok_or(Disorder::Unknown)?;
        self.buffered = self.buffered.saturating_sub(transaction.buffered());
        Ok(transaction.into_reading())
    }

    /// What is to be written to a file now, if there is more in memory than may be: all of the transaction that has most there.
    ///
    /// # Errors
    /// The files would take more than they may.
    pub fn overfull(&mut self) -> Result<Option<Spill>, SpoolError> {
        if self.buffered <= self.limits.memory {
            return Ok(None);
        }
        let largest = self
            .open
            .iter_mut()
            .max_by_key(|(_, transaction)| transaction.buffered());
        let Some((&xid, transaction)) = largest else {
            return Ok(None);
        };
        let bytes = transaction.buffered();
        if let Some(limit) = self.limits.files
            && self.directory.bytes().saturating_add(bytes) > limit
        {
            return Err(SpoolError::Limit {
                directory: self.directory.path().to_owned(),
                limit,
            });
        }
        let (file, offset, chunks) = transaction.take_buffered();
        self.buffered = self.buffered.saturating_sub(bytes);
        Ok(Some(Spill {
            xid,
            directory: self.directory.clone(),
            file,
            offset,
            chunks,
        }))
    }

    /// Takes back what was written. Nothing else is done to the transaction in between.
    pub fn spilled(&mut self, spilled: Spilled) {
        if let Some(transaction) = self.open.get_mut(&spilled.xid) {
            transaction.spilled(spilled.file, spilled.length);
        }
    }

    /// Whether no transaction runs.
    pub fn is_empty(&self) -> bool {
        self.open.is_empty()
    }

    /// How much is kept.
    pub fn usage(&self) -> Usage {
        Usage {
            transactions: self.open.len(),
            memory: self.buffered,
            files: self.directory.bytes(),
        }
    }
}

/// Records that are to be written to a file.
#[derive(Debug)]
pub struct Spill {
    xid: u32,
    directory: Directory,
    /// None: it is still to be made.
    file: Option<Arc<SpoolFile>>,
    offset: u64,
    chunks: Chunks,
}

/// Records that have been written.
#[derive(Debug)]
pub struct Spilled {
    xid: u32,
    file: Arc<SpoolFile>,
    length: u64,
}

impl Spill {
    /// Writes. Blocks.
    ///
    /// # Errors
    /// The file cannot be made, or takes no more.
    pub fn write(self) -> Result<Spilled, SpoolError> {
        let file = match self.file {
            Some(file) => file,
            None => Arc::new(self.directory.file(self.xid)?),
        };
        let mut length = self.offset;
        for chunk in self.chunks {
            length = file.write(length, &chunk)?;
        }
        Ok(Spilled {
            xid: self.xid,
            file,
            length,
        })
    }
}
