//! What keeps a running transaction from being kept.

use std::fmt;
use std::io;
use std::path::PathBuf;

/// A file or directory of the spool that cannot be used. `Display` is the primary message; [`hint`](SpoolError::hint) says what to do.
#[derive(Debug, thiserror::Error)]
pub enum SpoolError {
    /// The directory cannot be made, or not be looked into.
    #[error("the spool's directory {} cannot be used", directory.display())]
    Directory {
        /// The directory.
        directory: PathBuf,
        /// Why.
        #[source]
        source: io::Error,
    },
    /// A file cannot be made.
    #[error("a running transaction cannot be spooled: {} cannot be made", path.display())]
    Create {
        /// The file.
        path: PathBuf,
        /// Why.
        #[source]
        source: io::Error,
    },
    /// A file takes no more.
    #[error("a running transaction cannot be spooled: {} cannot be written", path.display())]
    Write {
        /// The file.
        path: PathBuf,
        /// Why.
        #[source]
        source: io::Error,
    },
    /// All files together would be larger than they may be.
    #[error(
        "a running transaction cannot be spooled: the files in {} would be larger than replication.spool_max_size, which is {limit} bytes",
        directory.display()
    )]
    Limit {
        /// The directory.
        directory: PathBuf,
        /// What they may be.
        limit: u64,
    },
    /// What was written cannot be read.
    #[error("a spooled transaction cannot be read: {} cannot be read at byte {offset}", path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// Where.
        offset: u64,
        /// Why.
        #[source]
        source: io::Error,
    },
    /// What is read is not what was written.
    #[error("a spooled transaction cannot be read: {} is damaged at byte {offset}", path.display())]
    Damaged {
        /// The file.
        path: PathBuf,
        /// Where the record begins.
        offset: u64,
        /// How.
        #[source]
        source: Damage,
    },
    /// The thread that was to write or read is gone.
    #[error("the spool was interrupted")]
    Interrupted,
}

/// What is wrong with a record.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Damage {
    /// It ends before its end.
    Truncated,
    /// Its length cannot be.
    Length,
    /// Its bytes have another checksum.
    Checksum,
}

impl fmt::Display for Damage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Damage::Truncated => "the file ends inside a record",
            Damage::Length => "no record of that length was written",
            Damage::Checksum => "the record's checksum is another one",
        })
    }
}

impl std::error::Error for Damage {}

impl SpoolError {
    /// Whether the transaction, sent again, may be kept: what was written is lost, and there is room for it.
    pub fn is_transient(&self) -> bool {
        match self {
            SpoolError::Read { .. } | SpoolError::Damaged { .. } | SpoolError::Interrupted => true,
            SpoolError::Directory { .. }
            | SpoolError::Create { .. }
            | SpoolError::Write { .. }
            | SpoolError::Limit { .. } => false,
        }
    }

    /// What to do about it.
    pub fn hint(&self) -> Option<String> {
        const OFF: &str = "or set replication.streaming = \"off\": Postgres then keeps large running transactions on its own disk. \
                           Nothing of the transaction was acknowledged; it is sent again at the next start.";
        match self {
            SpoolError::Directory { .. } => Some(
                "Give walferry a directory that it may write to (replication.spool_dir), or set replication.streaming = \"off\"."
                    .to_owned(),
            ),
            SpoolError::Create { source, .. } | SpoolError::Write { source, .. } => Some(match source.kind() {
                io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded | io::ErrorKind::FileTooLarge => {
                    format!("Make room there, choose a larger disk by replication.spool_dir, {OFF}")
                }
                _ => format!("Give walferry a directory that it may write to (replication.spool_dir), {OFF}"),
            }),
            SpoolError::Limit { .. } => Some(format!("Raise replication.spool_max_size, {OFF}")),
            SpoolError::Read { .. } | SpoolError::Damaged { .. } => Some(
                "The transaction is sent again. Should it happen twice, look at the disk, and choose another one by replication.spool_dir."
                    .to_owned(),
            ),
            SpoolError::Interrupted => None,
        }
    }
}
