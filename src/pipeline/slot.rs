//! `walferry slot`: the slot as an operator sees it, made and dropped by hand.

use serde::Serialize;

use super::error::PipelineError;
use super::prepare;
use super::refusal::Refusal;
pub use super::source::Connection;
use super::source::{self, Slot};
use super::{settings, sql::Sql};
use crate::config::Config;
use crate::lsn::Lsn;
use crate::replication::ReplicationClient;

/// How the slot stands. Sizes in bytes; JSON has the same names.
#[derive(Debug, Serialize)]
pub struct SlotStatus {
    /// Its name.
    pub slot: String,
    /// The database that it decodes.
    pub database: Option<String>,
    /// Everything that committed up to here is confirmed.
    pub confirmed_flush_lsn: Option<Lsn>,
    /// Where the server's log ends.
    pub wal_end: Option<Lsn>,
    /// From the confirmed flush LSN to the end of the log.
    pub lag_bytes: Option<u64>,
    /// The server keeps its log from here on.
    pub restart_lsn: Option<Lsn>,
    /// From there to the end of the log.
    pub retained_wal_bytes: Option<u64>,
    /// `reserved`, `extended`, `unreserved`, `lost` (view `pg_replication_slots`); Postgres 13 on.
    pub wal_status: Option<String>,
    /// What can be written to the log before the slot is invalidated; `None`: without limit, or before Postgres 13.
    pub safe_wal_size: Option<i64>,
    /// Whether it is copied to standbys; Postgres 17 on.
    pub failover: Option<bool>,
    /// Who streams from it.
    pub holder: Option<Connection>,
    /// Why `run` would refuse it.
    pub refused: Option<Refused>,
}

/// Why a slot cannot be used.
#[derive(Debug, Serialize)]
pub struct Refused {
    /// What is wrong.
    pub reason: String,
    /// What to do.
    pub remedy: String,
}

/// Looks at the slot.
///
/// # Errors
/// Postgres cannot be asked, or there is no such slot.
pub async fn status(config: &Config) -> Result<SlotStatus, PipelineError> {
    let sql = Sql::new(settings::postgres(config));
    let client = sql.client().await?;
    let found = source::settings(&client).await?;
    let name = &config.replication.slot;
    let slot = existing(&client, name).await?;
    let wal_end = source::current_lsn(&client).await?;
    let holder = match slot.active_pid {
        Some(pid) => source::connection(&client, pid).await?,
        None => None,
    };
    Ok(describe(name, &slot, wal_end, holder, &found.database))
}

async fn existing(client: &tokio_postgres::Client, name: &str) -> Result<Slot, PipelineError> {
    let slot = source::slot(client, name).await?;
    Ok(slot.ok_or_else(|| Refusal::NoSlot { slot: name.to_owned() })?)
}

fn describe(name: &str, slot: &Slot, wal_end: Option<Lsn>, holder: Option<Connection>, database: &str) -> SlotStatus {
    let behind = |position: Option<Lsn>| wal_end.zip(position).map(|(end, position)| end.bytes_since(position));
    let refused = prepare::check_slot(name, slot, database).err().map(|refusal| Refused {
        reason: refusal.to_string(),
        remedy: refusal.remedy(),
    });
    SlotStatus {
        slot: name.to_owned(),
        database: slot.database.clone(),
        confirmed_flush_lsn: slot.confirmed_flush_lsn(),
        wal_end,
        lag_bytes: behind(slot.confirmed_flush_lsn()),
        restart_lsn: slot.restart_lsn(),
        retained_wal_bytes: behind(slot.restart_lsn()),
        wal_status: slot.wal_status.clone(),
        safe_wal_size: slot.safe_wal_size,
        failover: slot.failover,
        holder,
        refused,
    }
}

/// Makes the slot, and before it the publication where that is missing and may be made. The slot's first position.
///
/// # Errors
/// There is one of that name, or Postgres cannot make it.
pub async fn create(config: &Config) -> Result<Lsn, PipelineError> {
    let wanted = settings::wanted(config)?;
    let postgres = settings::postgres(config);
    let mut replication = ReplicationClient::connect(&postgres).await?;
    replication.identify_system().await?;
    let sql = Sql::new(postgres);
    let client = sql.client().await?;
    let found = source::settings(&client).await?;
    prepare::check_wal_level(&found)?;
    if let Some(slot) = source::slot(&client, &wanted.slot).await? {
        return Err(Refusal::SlotExists {
            slot: wanted.slot,
            confirmed: slot
                .confirmed_flush_lsn
                .unwrap_or_else(|| "an unknown position".to_owned()),
        }
        .into());
    }
    // A slot that is older than its publication fails on every change in between.
    prepare::publication(&client, &wanted, &found.database, replication.server_version()).await?;
    prepare::make_slot(&mut replication, &wanted).await
}

/// Drops the slot; where it stood.
///
/// # Errors
/// There is none, it is not this pipeline's, or somebody streams from it.
pub async fn drop(config: &Config) -> Result<Option<Lsn>, PipelineError> {
    let sql = Sql::new(settings::postgres(config));
    let client = sql.client().await?;
    let found = source::settings(&client).await?;
    let name = &config.replication.slot;
    let slot = existing(&client, name).await?;
    match prepare::check_slot(name, &slot, &found.database) {
        // What cannot be used any more is what one wants to drop.
        Ok(()) | Err(Refusal::SlotInvalidated { .. } | Refusal::SlotTwoPhase { .. }) => {}
        Err(refusal) => return Err(refusal.into()),
    }
    if slot.active {
        let (slot, holder) = (name.clone(), slot.holder());
        return Err(Refusal::SlotInUse { slot, holder }.into());
    }
    source::drop_slot(&client, name).await?;
    Ok(slot.confirmed_flush_lsn())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn slot(change: impl FnOnce(&mut serde_json::Value)) -> Slot {
        let mut json = serde_json::json!({
            "plugin": "pgoutput", "slot_type": "logical", "database": "shop", "active": false,
            "restart_lsn": "0/1000", "confirmed_flush_lsn": "0/2000", "wal_status": "extended",
            "safe_wal_size": 1_048_576, "two_phase": false, "failover": true,
        });
        change(&mut json);
        serde_json::from_value(json).unwrap()
    }

    #[test]
    fn distances_are_to_the_end_of_the_log() {
        let status = describe("s", &slot(|_| ()), Some(Lsn::new(0x3000)), None, "shop");
        assert_eq!(
            (status.lag_bytes, status.retained_wal_bytes),
            (Some(0x1000), Some(0x2000))
        );
        assert_eq!((status.safe_wal_size, status.failover), (Some(1_048_576), Some(true)));
        assert!(status.refused.is_none());
    }

    #[test]
    fn what_run_would_refuse_is_said_with_its_remedy() {
        let lost = slot(|json| {
            json["wal_status"] = "lost".into();
            json["restart_lsn"] = serde_json::Value::Null;
        });
        let status = describe("s", &lost, Some(Lsn::new(0x3000)), None, "shop");
        let refused = status.refused.unwrap();
        assert!(refused.reason.contains("invalidated"), "{}", refused.reason);
        assert!(refused.remedy.contains("max_slot_wal_keep_size"), "{}", refused.remedy);
        assert_eq!(status.retained_wal_bytes, None);
    }
}
