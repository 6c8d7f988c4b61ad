//! What an operator asks of a running pipeline.

use tokio_postgres::Client;

use super::tables::Listed;
use super::{Snapshots, board_cause};
use crate::config::glob::TableFilter;
use crate::pipeline::error::chain;
use crate::quote::qualified;
use crate::snapshot::Cause;
use crate::telemetry::control::{Refused, SnapshotAnswer, SnapshotCommand, SnapshotReply};

impl Snapshots {
    pub(super) async fn command(&mut self, command: SnapshotCommand) -> SnapshotReply {
        match command {
            SnapshotCommand::Read { tables, filter } => self.ask(&tables, filter.as_deref()).await,
            SnapshotCommand::Pause => {
                tracing::info!("snapshots are paused, as asked");
                self.step(|record| record.paused = true);
                Ok(SnapshotAnswer::default())
            }
            SnapshotCommand::Resume => {
                tracing::info!("snapshots go on, as asked");
                self.step(|record| record.paused = false);
                Ok(SnapshotAnswer::default())
            }
            SnapshotCommand::Cancel { tables } => self.cancel(&tables),
        }
    }

    async fn ask(&mut self, tables: &[String], filter: Option<&str>) -> SnapshotReply {
        self.list().await.map_err(|error| error.chain())?;
        let client = self.sql.client().await.map_err(|error| chain(&error))?;
        let mut listed: Vec<Listed> = matching(tables, self.listed.values())?.cloned().collect();
        if listed.is_empty() {
            return Err(format!(
                "publication {} has no table that matches {}",
                self.publication,
                tables.join(", ")
            ));
        }
        listed.sort_by_key(Listed::full_name);
        let mut answer = SnapshotAnswer::default();
        for table in listed {
            let name = table.full_name();
            match self.refusal(&client, &table, filter).await {
                // Who asks for all of them asks for those that can be read.
                Some(_) if tables.is_empty() && !table.has_key => {}
                Some(reason) => answer.refused.push(Refused { table: name, reason }),
                None => {
                    let (oid, wanted) = (table.oid, filter.map(str::to_owned));
                    tracing::info!(
                        table = name,
                        filtered = wanted.is_some(),
                        "the table is read again, as asked"
                    );
                    self.status.snapshots().waiting(
                        &name,
                        board_cause(Cause::Asked),
                        table.estimate.filter(|_| wanted.is_none()),
                    );
                    self.step(move |record| record.ask(oid, Cause::Asked, wanted.clone()));
                    answer.accepted.push(name);
                }
            }
        }
        Ok(answer)
    }

    /// Why the table cannot be read again.
    async fn refusal(&self, client: &Client, table: &Listed, filter: Option<&str>) -> Option<String> {
        if !table.has_key {
            return Some(
                "it has no key: its rows could not be told from those that are in the topic; give it a primary key, or a replica \
                 identity index"
                    .to_owned(),
            );
        }
        if self.planned.tables().any(|oid| oid == table.oid) {
            return Some("it is being read, or waits for it".to_owned());
        }
        let filter = filter?;
        let query = format!(
            "SELECT 1 FROM {} WHERE ({filter}\n)",
            qualified(&table.schema, &table.name)
        );
        // It is parsed, and not executed; as one statement.
        let error = client.prepare(&query).await.err()?;
        Some(format!("postgres does not take the condition: {}", chain(&error)))
    }

    fn cancel(&mut self, tables: &[String]) -> SnapshotReply {
        let under_way: Vec<u32> = self.planned.tables().collect();
        let listed = under_way.iter().filter_map(|table| self.listed.get(table));
        let chosen: Vec<(u32, String)> = matching(tables, listed)?
            .map(|table| (table.oid, table.full_name()))
            .collect();
        let mut answer = SnapshotAnswer::default();
        for (table, name) in chosen {
            tracing::info!(table = name, "the table is not read any more, as asked");
            self.drop_table(table);
            answer.accepted.push(name);
        }
        Ok(answer)
    }
}

/// Those that one of the patterns is for; without any pattern, all.
fn matching<'a>(
    patterns: &[String],
    tables: impl Iterator<Item = &'a Listed>,
) -> Result<impl Iterator<Item = &'a Listed>, String> {
    let filter = match patterns {
        [] => None,
        _ => Some(TableFilter::parse(patterns, &[]).map_err(|(pattern, error)| format!("{pattern:?}: {error}"))?),
    };
    Ok(tables.filter(move |table| {
        filter
            .as_ref()
            .is_none_or(|filter| filter.matches(&table.schema, &table.name))
    }))
}
