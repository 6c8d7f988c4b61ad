//! A session begins: what is still to be read.

use std::collections::HashMap;
use std::sync::Arc;

use tokio::sync::watch;
use tokio::time::Instant;
use tokio_postgres::Client;

use super::crew::Crew;
use super::ledger::Ledger;
use super::overlap::{Cut, Overlap};
use super::tables::{self, Listed};
use super::{Commands, SnapshotSettings, Snapshots, board_cause};
use crate::kafka::{Producer, StateTopic};
use crate::lsn::Lsn;
use crate::pipeline::error::PipelineError;
use crate::pipeline::publish::Publisher;
use crate::pipeline::source;
use crate::pipeline::sql::Sql;
use crate::progress::{Event, Failure, Progress};
use crate::recovery::{Identity, Place};
use crate::snapshot::{Cause, SnapshotRecord, Visibility};
use crate::telemetry::Status;

/// When the rows that are there already are read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::pipeline) enum SnapshotMode {
    /// When the pipeline has not run before.
    Initial,
    /// When somebody asks.
    Never,
    /// As initial; and that is all that there is to do.
    Only,
}

/// What is recorded of the snapshots, made to fit the present.
pub(in crate::pipeline) struct Beginning {
    record: SnapshotRecord,
    listed: Option<Vec<Listed>>,
    is_new: bool,
}

impl Beginning {
    /// `recorded`: what Kafka has; `has_run`: a position is recorded.
    pub(in crate::pipeline) async fn find(
        settings: &SnapshotSettings,
        publication: &str,
        identity: &Identity,
        recorded: Option<SnapshotRecord>,
        has_run: bool,
        client: &Client,
    ) -> Result<Self, PipelineError> {
        let ours = |record: &SnapshotRecord| {
            record.system_identifier == identity.system_identifier && record.database_oid == identity.database_oid
        };
        let is_foreign = recorded.as_ref().is_some_and(|record| !ours(record));
        if is_foreign {
            tracing::warn!(
                "the server is another one than that whose tables were read: they are not read again by themselves; `walferry snapshot` does it"
            );
        }
        let mut beginning = match recorded.filter(ours) {
            Some(record) => {
                let listed = match record.is_idle() {
                    true => None,
                    false => Some(tables::list(client, publication).await?),
                };
                Beginning {
                    record,
                    listed,
                    is_new: false,
                }
            }
            None => {
                let listed = tables::list(client, publication).await?;
                let is_due = settings.mode != SnapshotMode::Never && !has_run && !is_foreign;
                Beginning {
                    record: first(identity, &listed, is_due),
                    listed: Some(listed),
                    is_new: true,
                }
            }
        };
        if settings.mode == SnapshotMode::Never {
            beginning.give_up_initial();
        }
        Ok(beginning)
    }

    /// The configuration has changed its mind.
    fn give_up_initial(&mut self) {
        let record = &mut self.record;
        let waiting = record.waiting.iter().map(|waiting| (waiting.table, waiting.cause));
        let reading = record.reading.iter().map(|reading| (reading.table, reading.cause));
        let initial: Vec<u32> = waiting
            .chain(reading)
            .filter(|(_, cause)| *cause == Cause::Initial)
            .map(|(table, _)| table)
            .collect();
        for table in &initial {
            record.cancel(*table);
        }
        self.is_new |= !initial.is_empty();
    }

    /// What is to be recorded before anything else is.
    pub(in crate::pipeline) fn news(&self) -> Option<Vec<u8>> {
        self.is_new.then(|| self.record.to_json())
    }
}

fn first(identity: &Identity, listed: &[Listed], is_due: bool) -> SnapshotRecord {
    let tables = listed.iter().map(|table| table.oid);
    let mut record = SnapshotRecord::new(identity.system_identifier.clone(), identity.database_oid);
    for table in tables {
        match is_due {
            true => drop(record.ask(table, Cause::Initial, None)),
            false => record.know(table),
        }
    }
    record
}

/// What the snapshots of a session share with it.
pub(in crate::pipeline) struct Shared {
    pub(in crate::pipeline) publication: String,
    pub(in crate::pipeline) sql: Arc<Sql>,
    pub(in crate::pipeline) status: Arc<Status>,
    pub(in crate::pipeline) producer: Arc<Producer>,
    pub(in crate::pipeline) topic: StateTopic,
    pub(in crate::pipeline) publisher: Publisher,
    pub(in crate::pipeline) commands: Commands,
}

impl Snapshots {
    /// `place`: where the published changes end. `broken` hears of a row that Kafka does not take.
    pub(in crate::pipeline) async fn begin(
        settings: SnapshotSettings,
        shared: Shared,
        beginning: Beginning,
        place: Place,
        client: &Client,
        broken: impl Fn(&Failure) + Send + Sync + 'static,
    ) -> Result<Self, PipelineError> {
        let Beginning { record, listed, .. } = beginning;
        let in_recovery = source::is_standby(client).await?;
        let suspects = match source::has_synchronous_standbys(client).await? && !in_recovery {
            true => {
                source::write_commit_record(client).await?;
                Visibility::parse(&source::snapshot(client).await?).ok()
            }
            false => None,
        };
        let rest = if place.partial > 0 {
            place.commit_lsn.as_u64().saturating_add(1)
        } else {
            0
        };
        let resumes = place.end_lsn.max(Lsn::new(rest));
        let (confirming, confirmed) = watch::channel(Lsn::ZERO);
        let queue = Progress::new(
            Lsn::ZERO,
            Box::new(move |event| match event {
                Event::Advanced { confirmed, .. } => drop(confirming.send_replace(confirmed)),
                Event::Broken(failure) => broken(failure),
            }),
        );
        let now = Instant::now();
        let together = shared.producer.is_transactional();
        let snapshots = Snapshots {
            crew: Crew::new(Arc::clone(&settings.reader), settings.parallelism),
            settings,
            publication: shared.publication,
            sql: shared.sql,
            status: shared.status,
            producer: shared.producer,
            topic: shared.topic,
            publisher: shared.publisher,
            ledger: Ledger::new(record.clone(), together),
            planned: record,
            listed_at: listed.is_some().then_some(now),
            listed: tables::by_oid(listed.unwrap_or_default()),
            plans: HashMap::new(),
            retry: HashMap::new(),
            overlap: Overlap::new(resumes, suspects.as_ref()),
            ready: Vec::new(),
            queue,
            batches: 0,
            rows: 0,
            is_set_apart: in_recovery,
            confirmed,
            next_look: now,
            throttled: now,
            recorded_at: now,
            nudged_at: now,
            in_recovery,
            commands: shared.commands,
        };
        Ok(snapshots.with_cuts().on_the_board())
    }

    /// Tables without a key: what is read of them, or is to be, does not come by the stream too.
    fn with_cuts(mut self) -> Self {
        for keyless in &self.planned.keyless {
            let cut = Cut::Seen(keyless.snapshot.clone(), keyless.lsn);
            self.overlap.set_cut(keyless.table, Some(cut));
        }
        for table in self.planned.tables() {
            if self.listed.get(&table).is_some_and(|listed| !listed.has_key) {
                self.overlap.set_cut(table, Some(Cut::Everything));
            }
        }
        self
    }

    fn on_the_board(self) -> Self {
        let board = self.status.snapshots();
        board.due(!self.planned.is_idle());
        let waiting = self
            .planned
            .waiting
            .iter()
            .map(|waiting| (waiting.table, waiting.cause));
        let reading = self
            .planned
            .reading
            .iter()
            .map(|reading| (reading.table, reading.cause));
        for (table, cause) in waiting.chain(reading) {
            if let Some(listed) = self.listed.get(&table) {
                board.waiting(&listed.full_name(), board_cause(cause), listed.estimate);
            }
        }
        self
    }
}
