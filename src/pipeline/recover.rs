//! What is published already, found out before anything is read from the stream.

use std::sync::Arc;

use tokio_postgres::Client;

use super::blocked::while_blocked;
use super::error::PipelineError;
use super::refusal::Refusal;
use super::session::Pipeline;
use super::source;
use crate::failpoint;
use crate::kafka::{Producer, Recovered};
use crate::lsn::Lsn;
use crate::recovery::{self, Found, Identity, Reconciled, StateRecord, Switch};
use crate::replication::ReplicationClient;
use crate::snapshot::SnapshotRecord;

/// The history file is not there.
const UNDEFINED_FILE: &str = "58P01";

/// What is recorded of a pipeline.
#[derive(Debug)]
pub(super) struct Recorded {
    /// Where its published changes end.
    pub(super) position: Option<StateRecord>,
    /// How far its snapshots are.
    pub(super) snapshot: Option<SnapshotRecord>,
}

impl Pipeline {
    /// What is recorded of this pipeline: its position, and its snapshots. Under exactly-once any older instance is fenced before, so that it stays true.
    pub(super) async fn recorded(&self, producer: &Arc<Producer>) -> Result<Recorded, PipelineError> {
        failpoint::reached("recovering");
        let read = while_blocked(producer, &self.status, async {
            self.state.ensure(producer).await?;
            producer.fence().await?;
            self.state.recover(producer).await
        });
        let Recovered { position, snapshot } = read.await?;
        let position = position.map(|bytes| StateRecord::parse(&bytes)).transpose();
        let snapshot = snapshot.map(|bytes| SnapshotRecord::parse(&bytes)).transpose();
        let (topic, pipeline) = (|| self.state.topic.clone(), || self.state.pipeline.clone());
        Ok(Recorded {
            position: position.map_err(|source| PipelineError::State {
                topic: topic(),
                pipeline: pipeline(),
                source,
            })?,
            snapshot: snapshot.map_err(|source| PipelineError::Snapshots {
                topic: topic(),
                pipeline: pipeline(),
                source,
            })?,
        })
    }

    /// Holds what is recorded, which was read before, against what the server says.
    pub(super) async fn reconcile(
        &self,
        recorded: Option<&StateRecord>,
        identity: &Identity,
        client: &Client,
        slot: Option<Lsn>,
    ) -> Result<Reconciled, PipelineError> {
        let history = match recorded {
            Some(recorded) if recorded.identity.timeline != identity.timeline => {
                self.history(identity.timeline).await?
            }
            _ => Vec::new(),
        };
        // A standby that was started again replays what it had replayed before: where it stands says nothing.
        let log_end = match source::is_standby(client).await? {
            true => None,
            false => source::current_lsn(client).await?,
        };
        let found = Found {
            identity,
            history: &history,
            slot,
            log_end: log_end.unwrap_or(Lsn::new(u64::MAX)),
        };
        let reconciled = recovery::reconcile(recorded, found, self.accept_gap).map_err(Refusal::Gap)?;
        Ok(reconciled)
    }

    /// Says what follows, where it is not the usual, and counts it.
    pub(super) fn tell(&self, reconciled: &Reconciled) {
        if let Some(gap) = &reconciled.accepted {
            self.metrics.replication.gaps_accepted.inc();
            let (from, to) = (gap.from, reconciled.place.end_lsn);
            tracing::warn!(%from, %to, %gap, "a gap was accepted as asked: changes in it are missing from the topics for ever");
        }
        if let Some((from, to)) = reconciled.orphaned {
            tracing::warn!(
                %from,
                %to,
                "the server was promoted before it had received what is published: the topics have changes that the database does not"
            );
        }
    }

    /// By a connection of its own, which an error spoils.
    async fn history(&self, timeline: u32) -> Result<Vec<Switch>, PipelineError> {
        let mut client = ReplicationClient::connect(&self.postgres).await?;
        let content = match client.timeline_history(timeline).await {
            Err(error) if error.sqlstate() == Some(UNDEFINED_FILE) => return Ok(Vec::new()),
            content => content?,
        };
        Ok(recovery::timeline_history(&content)?)
    }
}
