//! From a connection to a slot that can be streamed from: what is checked, what is made, in which order.
//!
//! The publication comes before the slot. A slot decodes each change with the catalog as it was at that change, so
//! one that is older than its publication fails on every change in between with "publication does not exist". A crash
//! after the first leaves a publication without a slot, which the next start finds and uses.

use std::time::Duration;

use tokio_postgres::Client;

use super::error::PipelineError;
use super::refusal::Refusal;
use super::source::{self, Settings, Slot, Table};
use crate::config::glob::TableFilter;
use crate::lsn::Lsn;
use crate::quote::{qualified, quote_identifier};
use crate::recovery::{Identity, Place};
use crate::replication::{CreateSlot, ReplicationClient};
use crate::telemetry::{State, Status};

/// What is wanted of the source.
#[derive(Debug, Clone)]
pub(super) struct Wanted {
    pub(super) slot: String,
    pub(super) publication: String,
    pub(super) create_slot: bool,
    pub(super) failover: bool,
    pub(super) create_publication: bool,
    pub(super) patterns: Vec<String>,
    pub(super) tables: TableFilter,
}

/// What this process has seen so far, across its sessions.
#[derive(Debug, Clone, Default)]
pub(super) struct Memory {
    /// Everything up to here is in Kafka, of this cluster and timeline; known once a session has streamed.
    pub(super) confirmed: Option<(Identity, Place)>,
    /// The column rules were checked against the tables, once: a table that changes later is judged as the stream describes it.
    pub(super) rules_checked: bool,
}

impl Memory {
    /// What is recorded of this cluster and timeline, or what this process knows beyond that.
    pub(super) fn latest(&self, identity: &Identity, recorded: Place) -> Place {
        match &self.confirmed {
            Some((known, place)) if known == identity => recorded.advanced(place.end_lsn, place.commit_lsn),
            _ => recorded,
        }
    }
}

pub(super) fn check_wal_level(settings: &Settings) -> Result<(), Refusal> {
    if settings.wal_level == "logical" || settings.wal_level_is_dynamic {
        return Ok(());
    }
    Err(Refusal::WalLevel {
        found: settings.wal_level.clone(),
    })
}

pub(super) fn check_identities(tables: &[Table]) -> Result<(), Refusal> {
    let lacking: Vec<String> = tables
        .iter()
        .filter(|table| table.lacks_identity)
        .map(Table::full_name)
        .collect();
    if lacking.is_empty() {
        return Ok(());
    }
    Err(Refusal::ReplicaIdentity { tables: lacking })
}

pub(super) fn check_slot(name: &str, slot: &Slot, database: &str) -> Result<(), Refusal> {
    let kind = |found: String| {
        Err(Refusal::SlotKind {
            slot: name.to_owned(),
            found,
            database: database.to_owned(),
        })
    };
    if slot.slot_type != "logical" {
        return kind(format!("a {} slot", slot.slot_type));
    }
    if slot.plugin.as_deref() != Some("pgoutput") {
        return kind(format!(
            "a slot of the plugin {:?}",
            slot.plugin.as_deref().unwrap_or_default()
        ));
    }
    if slot.database.as_deref() != Some(database) {
        return kind(format!(
            "a slot of database {:?}",
            slot.database.as_deref().unwrap_or_default()
        ));
    }
    if slot.two_phase == Some(true) {
        return Err(Refusal::SlotTwoPhase { slot: name.to_owned() });
    }
    if let Some(reason) = slot.invalidation() {
        let confirmed = slot
            .confirmed_flush_lsn
            .clone()
            .unwrap_or_else(|| "an unknown position".to_owned());
        return Err(Refusal::SlotInvalidated {
            slot: name.to_owned(),
            reason,
            confirmed,
        });
    }
    Ok(())
}

/// Finds the publication, or makes it.
pub(super) async fn publication(
    client: &Client,
    wanted: &Wanted,
    database: &str,
    server_version: u32,
) -> Result<(), PipelineError> {
    if source::publication(client, &wanted.publication).await?.is_none() {
        create_publication(client, wanted, database, server_version).await?;
    }
    let needs_identity = source::publication(client, &wanted.publication)
        .await?
        .is_some_and(|publication| publication.needs_identity);
    if needs_identity {
        check_identities(&source::published_tables(client, &wanted.publication).await?)?;
    }
    Ok(())
}

/// The tables to make the publication for.
pub(super) async fn wanted_tables(
    client: &Client,
    wanted: &Wanted,
    database: &str,
    server_version: u32,
) -> Result<Vec<Table>, PipelineError> {
    if !wanted.create_publication {
        let publication = wanted.publication.clone();
        return Err(Refusal::NoPublication {
            publication,
            database: database.to_owned(),
        }
        .into());
    }
    let mut tables = source::publishable_tables(client, server_version).await?;
    tables.retain(|table| wanted.tables.matches(&table.schema, &table.name));
    if tables.is_empty() {
        let patterns = wanted.patterns.clone();
        return Err(Refusal::NoTables {
            database: database.to_owned(),
            patterns,
        }
        .into());
    }
    Ok(tables)
}

async fn create_publication(
    client: &Client,
    wanted: &Wanted,
    database: &str,
    server_version: u32,
) -> Result<(), PipelineError> {
    let tables = wanted_tables(client, wanted, database, server_version).await?;
    // Before, not after: from the moment a table is published, its updates fail at the source.
    check_identities(&tables)?;
    let list: Vec<String> = tables
        .iter()
        .map(|table| qualified(&table.schema, &table.name))
        .collect();
    let publication = quote_identifier(&wanted.publication);
    client
        .batch_execute(&format!(
            "CREATE PUBLICATION {publication} FOR TABLE {}",
            list.join(", ")
        ))
        .await?;
    tracing::info!(
        publication = wanted.publication,
        tables = tables.len(),
        "publication created"
    );
    Ok(())
}

fn check_failover(server_version: u32) -> Result<(), Refusal> {
    if server_version >= 170_000 {
        return Ok(());
    }
    Err(Refusal::NoFailover {
        version: source::version_text(server_version),
    })
}

/// Finds the slot free and sound; where it stands. `None`: there is none.
pub(super) async fn slot(
    client: &Client,
    replication: &mut ReplicationClient,
    wanted: &Wanted,
    database: &str,
    status: &Status,
) -> Result<Option<Lsn>, PipelineError> {
    let mut waiting = false;
    loop {
        let Some(slot) = source::slot(client, &wanted.slot).await? else {
            return Ok(None);
        };
        check_slot(&wanted.slot, &slot, database)?;
        if slot.synced == Some(true) && source::is_standby(client).await? {
            return Err(PipelineError::Standby {
                slot: wanted.slot.clone(),
            });
        }
        if !slot.active {
            if wanted.failover && slot.failover != Some(true) {
                check_failover(replication.server_version())?;
                replication.set_failover(&wanted.slot).await?;
                tracing::info!(slot = wanted.slot, "the slot is copied to standbys from now on");
            }
            return Ok(Some(slot.confirmed_flush_lsn().unwrap_or(Lsn::ZERO)));
        }
        let holder = slot.holder();
        if !waiting {
            tracing::info!(
                slot = wanted.slot,
                holder,
                "the slot is held by another connection; waiting for it"
            );
            waiting = true;
        }
        status.set_state(
            State::WaitingForSlot,
            Some(format!("slot {} is held by {holder}", wanted.slot)),
        );
        status.heartbeat();
        tokio::time::sleep(Duration::from_secs(1)).await;
    }
}

/// Makes the slot, if that may be; where it starts.
pub(super) async fn missing_slot(replication: &mut ReplicationClient, wanted: &Wanted) -> Result<Lsn, PipelineError> {
    if !wanted.create_slot {
        return Err(Refusal::NoSlot {
            slot: wanted.slot.clone(),
        }
        .into());
    }
    make_slot(replication, wanted).await
}

/// Makes the slot; where it starts.
pub(super) async fn make_slot(replication: &mut ReplicationClient, wanted: &Wanted) -> Result<Lsn, PipelineError> {
    if wanted.failover {
        check_failover(replication.server_version())?;
    }
    let options = CreateSlot {
        temporary: false,
        failover: wanted.failover,
    };
    let created = replication.create_slot(&wanted.slot, &options).await?;
    tracing::info!(
        slot = wanted.slot,
        consistent_point = %created.consistent_point,
        "replication slot created; what commits from here on is streamed"
    );
    Ok(created.consistent_point)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn slot(change: impl FnOnce(&mut serde_json::Value)) -> Slot {
        let mut json = serde_json::json!({
            "plugin": "pgoutput", "slot_type": "logical", "database": "shop", "active": false,
            "restart_lsn": "0/10", "confirmed_flush_lsn": "0/20", "wal_status": "reserved", "two_phase": false,
        });
        change(&mut json);
        serde_json::from_value(json).unwrap()
    }

    fn refusal(change: impl FnOnce(&mut serde_json::Value)) -> String {
        check_slot("s", &slot(change), "shop").unwrap_err().to_string()
    }

    #[test]
    fn a_slot_that_is_not_ours_is_refused() {
        assert_eq!(check_slot("s", &slot(|_| ()), "shop"), Ok(()));
        let rest = ", not a logical slot of pgoutput in database \"shop\"";
        assert_eq!(
            refusal(|json| json["plugin"] = "wal2json".into()),
            format!("replication slot \"s\" is a slot of the plugin \"wal2json\"{rest}")
        );
        assert_eq!(
            refusal(|json| json["slot_type"] = "physical".into()),
            format!("replication slot \"s\" is a physical slot{rest}")
        );
        assert_eq!(
            refusal(|json| json["database"] = "other".into()),
            format!("replication slot \"s\" is a slot of database \"other\"{rest}")
        );
        assert!(refusal(|json| json["two_phase"] = true.into()).contains("two_phase"));
        assert!(refusal(|json| json["wal_status"] = "lost".into()).contains("0/20"));
    }

    #[test]
    fn what_is_known_of_one_timeline_says_nothing_of_another() {
        let identity = |timeline| Identity {
            system_identifier: "7".to_owned(),
            timeline,
            database_oid: 5,
            slot: "shop".to_owned(),
        };
        let memory = Memory {
            confirmed: Some((identity(1), Place::at(Lsn::new(0x20)))),
            rules_checked: true,
        };
        let recorded = Place::at(Lsn::new(0x10));
        assert_eq!(memory.latest(&identity(1), recorded), Place::at(Lsn::new(0x20)));
        assert_eq!(memory.latest(&identity(2), recorded), recorded);
    }
}
