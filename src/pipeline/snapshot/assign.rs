//! Which range is read next, and how.

use std::time::Duration;

use tokio::time::Instant;

use super::overlap::{Cut, RangeId};
use super::tables::{self, Plan};
use super::{IDLE_LOOK, SnapshotMode, Snapshots, board_cause};
use crate::pipeline::error::{PipelineError, chain};
use crate::pipeline::source;
use crate::snapshot::{Assignment, Cause, KeyRange, ReadError, Reading, RowFormat};

/// After a table could not be read.
const RETRY: Duration = Duration::from_secs(1);
/// And if that needs somebody to do something.
const RETRY_DENIED: Duration = Duration::from_secs(30);

impl Snapshots {
    /// Gives ranges to whoever is free.
    pub(super) async fn plan_and_assign(&mut self, now: Instant) -> Result<(), PipelineError> {
        self.look_for_tables(now).await?;
        if self.planned.is_idle() {
            self.crew.dismiss();
            return Ok(());
        }
        if self.pause_reason().is_some() {
            return Ok(());
        }
        while self.crew.has_idle() {
            let Some(table) = self.next_table(now) else { break };
            if !self.plans.contains_key(&table) && !self.prepare(table).await? {
                continue;
            }
            if !self.assign(table) {
                break;
            }
        }
        Ok(())
    }

    /// Looks whether tables have come to the publication, or gone.
    async fn look_for_tables(&mut self, now: Instant) -> Result<(), PipelineError> {
        let is_fresh = self.listed_at.is_some_and(|at| now < at + IDLE_LOOK);
        if is_fresh || (self.planned.is_idle() && !self.settings.new_tables) {
            return Ok(());
        }
        self.list().await?;
        let published: Vec<u32> = self.listed.keys().copied().collect();
        let new = self.planned.due(&published);
        for table in new {
            self.found(table);
        }
        let gone: Vec<u32> = self
            .planned
            .tables()
            .filter(|table| !self.listed.contains_key(table))
            .collect();
        for table in gone {
            tracing::info!(
                table = self.name(table),
                "the table is not published any more, and is not read"
            );
            self.drop_table(table);
        }
        // Tables come and go, and what is recorded does not grow with them.
        if self.planned.known.iter().any(|table| !self.listed.contains_key(table)) {
            self.step(move |record| record.forget(&published));
        }
        Ok(())
    }

    /// Asks which tables are published.
    pub(super) async fn list(&mut self) -> Result<(), PipelineError> {
        let client = self.sql.client().await?;
        self.listed = tables::by_oid(tables::list(&client, &self.publication).await?);
        self.listed_at = Some(Instant::now());
        Ok(())
    }

    /// A table that was not there before.
    fn found(&mut self, table: u32) {
        let Some(listed) = self.listed.get(&table) else { return };
        let name = listed.full_name();
        if !self.settings.new_tables {
            self.step(move |record| record.know(table));
        } else if !listed.has_key {
            tracing::warn!(
                table = name,
                "the table came to the publication and has no key: the rows that it has already are not read, as they could not be told from those that the stream has"
            );
            self.step(move |record| record.know(table));
        } else {
            tracing::info!(
                table = name,
                "the table came to the publication; the rows that it has already are read"
            );
            let estimate = listed.estimate;
            self.status
                .snapshots()
                .waiting(&name, board_cause(Cause::Initial), estimate);
            self.step(move |record| record.ask(table, Cause::Initial, None));
        }
    }

    /// Nothing of the table is read any more.
    pub(super) fn drop_table(&mut self, table: u32) {
        let ranges = self.planned.reading(table).map_or(0, |reading| reading.ranges.len());
        for range in (0..ranges).map(|range| (table, range)) {
            self.crew.stop(range);
            self.overlap.close(range);
        }
        self.plans.remove(&table);
        self.overlap.set_cut(table, None);
        self.overlap.set_read(table, false);
        self.step(move |record| record.cancel(table));
        let name = self.name(table);
        self.status.snapshots().cancelled(&name);
    }

    /// A table of which a range waits for a reader: one that is begun, or else one without a key, or else the next.
    fn next_table(&self, now: Instant) -> Option<u32> {
        let may = |table: &u32| self.retry.get(table).is_none_or(|at| *at <= now);
        let has_key = |table: &u32| self.listed.get(table).is_some_and(|listed| listed.has_key);
        // One of which all is read, and which was not concluded, is.
        let begun = self
            .planned
            .reading
            .iter()
            .filter(|reading| reading.is_read() || self.next_range(reading).is_some());
        let begun = begun.map(|reading| reading.table);
        let waiting = self.planned.waiting.iter().map(|waiting| waiting.table);
        let mut keyless = waiting.clone().filter(|table| may(table) && !has_key(table));
        // The stream stands still for it, so nobody else may be waiting for the stream.
        let keyless = keyless.next().filter(|_| self.crew.is_idle());
        let mut begun = begun.filter(|table| may(table) && (has_key(table) || self.crew.is_idle()));
        let mut others = waiting.filter(|table| may(table) && has_key(table));
        keyless.or_else(|| begun.next()).or_else(|| others.next())
    }

    /// Finds out how the table is read, and describes it to the encoder; whether it is still to be read.
    async fn prepare(&mut self, table: u32) -> Result<bool, PipelineError> {
        let client = self.sql.client().await?;
        let (pieces, rows) = (self.settings.parallelism, self.settings.reader.chunk_rows);
        let plan = tables::plan(&client, &self.publication, table, pieces, rows).await?;
        let has_key = self.listed.get(&table).is_some_and(|listed| listed.has_key);
        let Some(mut plan) = plan else {
            self.drop_table(table);
            return Ok(false);
        };
        if !has_key {
            plan.key.clear();
        }
        if !std::mem::replace(&mut self.is_set_apart, true) {
            // The position of a row is that of the log's end and a number that begins anew with the session: no two rows have one.
            source::write_commit_record(&client).await?;
        }
        self.publisher
            .describe(self.overlap.position(), None, &plan.published.message())
            .await?;
        let key: Vec<String> = plan
            .key
            .iter()
            .map(|column| format!("{} {}", column.name, column.type_name))
            .collect();
        let ranges = ranges(&plan);
        let name = plan.published.full_name();
        let goes_on = self
            .planned
            .reading(table)
            .is_some_and(|reading| !key.is_empty() && reading.key == key);
        let before = match goes_on {
            true => self.planned.reading(table).map_or(0, |reading| reading.rows),
            false => 0,
        };
        if goes_on {
            self.finish_ranges_without_part(table, &plan);
        } else {
            if !has_key {
                self.overlap.set_cut(table, Some(Cut::Everything));
            }
            let name = name.clone();
            self.step(move |record| {
                if !record.restart(table, key.clone(), ranges.clone()) {
                    record.begin(table, name.clone(), key.clone(), ranges.clone());
                }
            });
        }
        self.status.snapshots().begun(&name, before);
        self.overlap.set_read(table, true);
        self.plans.insert(table, plan);
        Ok(true)
    }

    /// A partition that is gone has no rows to be read.
    fn finish_ranges_without_part(&mut self, table: u32, plan: &Plan) {
        let Some(reading) = self.planned.reading(table) else {
            return;
        };
        let ranges = reading.ranges.iter().enumerate();
        let gone = ranges.filter(|(_, range)| !range.done && plan.parts.iter().all(|part| part.oid != range.relation));
        let gone: Vec<usize> = gone.map(|(number, _)| number).collect();
        for number in gone {
            self.step(move |record| record.finish_range(table, number));
        }
    }

    /// The table's next range that nobody is at. Rows that are owed come when all else is read, and one after the other: two chunks that have
    /// the same row would publish it in the order of their answers, and not of their snapshots.
    fn next_range<'a>(&self, reading: &'a Reading) -> Option<(usize, &'a KeyRange)> {
        let is_on = |number: usize| self.crew.is_on((reading.table, number));
        let ranges = || reading.ranges.iter().enumerate().filter(|(_, range)| !range.done);
        let next = ranges().find(|(number, range)| !range.one && !is_on(*number));
        next.or_else(|| {
            let busy = ranges().any(|(number, range)| !range.one || is_on(number));
            ranges().next().filter(|_| !busy)
        })
    }

    /// Gives the table's next range out; whether there was one.
    fn assign(&mut self, table: u32) -> bool {
        let (Some(plan), Some(reading)) = (self.plans.get(&table), self.planned.reading(table)) else {
            return false;
        };
        if reading.is_read() {
            self.conclude(table);
            return true;
        }
        let Some((number, range)) = self.next_range(reading) else {
            return false;
        };
        let Some(part) = plan.parts.iter().find(|part| part.oid == range.relation) else {
            return false;
        };
        let assignment = Assignment {
            table,
            range: number,
            relation: part.oid,
            relation_name: part.name.clone(),
            columns: plan.columns.clone(),
            key: plan.key.clone(),
            row_filter: plan.row_filter.clone(),
            asked: reading.filter.clone(),
            after: range.after.clone(),
            before: range.before.clone().filter(|_| !range.one),
            only: range.before.clone().filter(|_| range.one),
            shape: part.shape.clone(),
            // The key of a row that is to be read again is had from the row itself, as text.
            format: match plan.is_whole && self.publisher.reads_binary(table) {
                true => RowFormat::Binary,
                false => RowFormat::Text,
            },
        };
        let exclusive = plan.key.is_empty();
        self.crew.assign(assignment, exclusive);
        true
    }

    /// A range could not be read.
    ///
    /// # Errors
    /// Nothing else was asked for, and somebody has to do something.
    pub(super) fn failed(&mut self, range: RangeId, error: ReadError) -> Result<(), PipelineError> {
        let (table, _) = range;
        let is_exclusive = self.holds();
        self.crew.release(range);
        self.overlap.close(range);
        let name = self.name(table);
        let wait = match error.needs_somebody() {
            true => RETRY_DENIED,
            false => RETRY,
        };
        self.retry.insert(table, Instant::now() + wait);
        if error.needs_somebody() && self.settings.mode == SnapshotMode::Only {
            return Err(PipelineError::Unreadable {
                table: name,
                source: error,
            });
        }
        let text = chain(&error);
        tracing::warn!(table = name, error = text, hint = error.hint(), retry_in = ?wait, "the table cannot be read");
        self.status
            .set_last_error(format!("table {name} cannot be read: {text}"));
        self.status.snapshots().failed(&name, text);
        if is_exclusive {
            // It begins anew, and what came meanwhile will be in its rows.
            self.plans.remove(&table);
            self.overlap.set_cut(table, Some(Cut::Everything));
        }
        Ok(())
    }
}

/// Each part, between its bounds.
fn ranges(plan: &Plan) -> Vec<KeyRange> {
    let mut ranges = Vec::new();
    for part in &plan.parts {
        let bounds = part.bounds.iter().map(|bound| Some(vec![bound.clone()]));
        let after = std::iter::once(None).chain(bounds.clone());
        let before = bounds.chain(std::iter::once(None));
        ranges.extend(after.zip(before).map(|(after, before)| KeyRange {
            after,
            before,
            ..KeyRange::whole(part.oid)
        }));
    }
    ranges
}
