//! What Postgres sends again, and what of it is in Kafka already.

use super::Place;
use crate::lsn::Lsn;

/// What to do with a transaction.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Treatment {
    /// All of it is published.
    Drop,
    /// Its first `skip` changes are published.
    Publish {
        /// How many.
        skip: u64,
    },
}

/// A transaction of which a part is published did not come again.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "the transaction that committed at {missing}, of which {changes} changes are published, did not come again; the one at {found} came instead"
)]
pub struct Vanished {
    /// Its commit LSN.
    pub missing: Lsn,
    /// How many of its changes are published.
    pub changes: u64,
    /// The commit LSN of the first one that is not published.
    pub found: Lsn,
}

/// Tells what is published from what is not, at the start of each transaction.
///
/// A transaction's commit record begins at its commit LSN and ends after it, and `end_lsn` is the end of some record. So what
/// committed before `end_lsn` ended at or before it. A logical message outside of a transaction stands for itself and
/// ends where it began: for it, and for the transaction that is split, `commit_lsn` decides.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Resume {
    place: Place,
    /// The rest of a split transaction is still to come.
    owed: bool,
}

impl Resume {
    /// Everything up to here is published.
    pub fn new(place: Place) -> Self {
        Resume {
            place,
            owed: place.partial > 0,
        }
    }

    /// Where the published changes ended when this began.
    pub fn place(&self) -> Place {
        self.place
    }

    /// What to do with the transaction that committed at `commit_lsn`. They come in the order of their commits.
    ///
    /// # Errors
    /// [`Vanished`]: the rest of a split transaction cannot come any more. To go on would leave it cut.
    pub fn treatment(&mut self, commit_lsn: Lsn) -> Result<Treatment, Vanished> {
        let Place {
            commit_lsn: last,
            end_lsn,
            partial,
        } = self.place;
        if commit_lsn < end_lsn || commit_lsn < last || (commit_lsn == last && partial == 0) {
            return Ok(Treatment::Drop);
        }
        if !self.owed {
            return Ok(Treatment::Publish { skip: 0 });
        }
        if commit_lsn != last {
            return Err(Vanished {
                missing: last,
                changes: partial,
                found: commit_lsn,
            });
        }
        self.owed = false;
        Ok(Treatment::Publish { skip: partial })
    }
}
