//! Publishing a transaction that came while it ran: from its Stream Commit on it is open, like any between Begin and Commit.
//!
//! It is published piece by piece. In between the socket is read as far as what comes has no place behind it: blocks of other running
//! transactions, and keepalives. The first message that has is parked, and nothing is read any more: memory stays bounded.

use super::Stream;
use crate::lsn::Lsn;
use crate::pgoutput::{StreamCommit, unix_us};
use crate::pipeline::error::PipelineError;
use crate::replication::StreamMessage;

/// Whether a message may be handled while a transaction is being published that came before.
pub(super) fn may_come_beside(message: &StreamMessage, in_block: bool) -> bool {
    match message {
        StreamMessage::Keepalive { .. } => true,
        StreamMessage::XLogData { data, .. } => in_block || matches!(data.first(), Some(b'S' | b'A')),
        // What is here can be published to its end all the same.
        StreamMessage::End => false,
    }
}

impl Stream<'_> {
    pub(super) fn outside_of_transactions(&self, lsn: Lsn, found: &'static str) -> Result<(), PipelineError> {
        // One that is being published has come to its end already.
        match self.open.is_some() && self.committed.is_none() {
            true => Err(PipelineError::Unexpected { lsn, found }),
            false => Ok(()),
        }
    }

    /// A transaction that came while it ran has committed.
    pub(super) fn commit_streamed(&mut self, lsn: Lsn, commit: &StreamCommit) -> Result<(), PipelineError> {
        self.outside_of_transactions(lsn, "Stream Commit inside a transaction")?;
        let committed = self.streamed.commit(lsn, commit.xid, commit.end_lsn)?;
        self.open = Some(self.begin(commit.commit_lsn, commit.xid, unix_us(commit.commit_time))?);
        self.committed = Some(committed);
        Ok(())
    }

    /// Publishes a piece, and takes in what may come beside it, without waiting for that.
    pub(super) async fn publish_and_read(&mut self) -> Result<(), PipelineError> {
        self.publish_piece().await?;
        if self.committed.is_none() || self.parked.is_some() {
            return Ok(());
        }
        let message = tokio::select! {
            biased;
            message = self.reader.next() => message,
            () = std::future::ready(()) => return Ok(()),
        };
        match message {
            Ok(message) => self.work(message).await,
            // The connection is lost; what is here can be published to its end all the same.
            Err(error) => {
                self.parked = Some(Err(error));
                Ok(())
            }
        }
    }

    async fn publish_piece(&mut self) -> Result<(), PipelineError> {
        let Some(mut committed) = self.committed.take() else {
            return Ok(());
        };
        if let Some(batch) = committed.next().await? {
            for record in batch.records() {
                let message = self.decode(record.lsn, record.message, true)?;
                committed.described(&record, &message);
                self.apply(record.lsn, message).await?;
            }
            self.committed = Some(committed);
            return Ok(());
        }
        let (end_lsn, open) = (committed.end_lsn, self.open.take());
        if let Some(open) = open {
            self.end(open, end_lsn).await?;
        }
        for newer in self.streamed.published(committed) {
            let message = self.decode(newer.lsn, &newer.bytes, newer.in_stream)?;
            self.apply(newer.lsn, message).await?;
        }
        self.between_transactions().await
    }
}
