//! What the source says of itself: settings, publication, slot. Questions only; `prepare` decides.

use std::time::Duration;

use serde::Deserialize;
use tokio_postgres::{Client, Error};

use crate::lsn::Lsn;

/// Settings of the server that matter here.
#[derive(Debug, Clone)]
pub(super) struct Settings {
    pub(super) database: String,
    pub(super) database_oid: u32,
    /// As `server_version_num` has it.
    pub(super) server_version: u32,
    pub(super) wal_level: String,
    /// The server can turn logical decoding on by itself when a slot is made (Postgres 19 on).
    pub(super) wal_level_is_dynamic: bool,
    /// `None`: the server never gives up on a silent client.
    pub(super) wal_sender_timeout: Option<Duration>,
}

pub(super) async fn settings(client: &Client) -> Result<Settings, Error> {
    let query = "SELECT current_database()::text, current_setting('wal_level'),
            EXISTS (SELECT FROM pg_catalog.pg_settings WHERE name = 'effective_wal_level'),
            (SELECT setting::int8 FROM pg_catalog.pg_settings WHERE name = 'wal_sender_timeout'),
            current_setting('server_version_num')::int8::oid,
            (SELECT oid FROM pg_catalog.pg_database WHERE datname = current_database())";
    let row = client.query_one(query, &[]).await?;
    let timeout_ms: Option<i64> = row.try_get(3)?;
    Ok(Settings {
        database: row.try_get(0)?,
        server_version: row.try_get(4)?,
        database_oid: row.try_get(5)?,
        wal_level: row.try_get(1)?,
        wal_level_is_dynamic: row.try_get(2)?,
        wal_sender_timeout: timeout_ms
            .and_then(|ms| u64::try_from(ms).ok())
            .filter(|ms| *ms > 0)
            .map(Duration::from_millis),
    })
}

/// A row of `pg_replication_slots`, whatever columns this server's version has.
#[derive(Debug, Clone, Deserialize)]
pub(super) struct Slot {
    pub(super) plugin: Option<String>,
    pub(super) slot_type: String,
    pub(super) database: Option<String>,
    pub(super) active: bool,
    pub(super) active_pid: Option<i32>,
    pub(super) restart_lsn: Option<String>,
    pub(super) confirmed_flush_lsn: Option<String>,
    /// Postgres 13 on; `lost` once invalidated.
    pub(super) wal_status: Option<String>,
    /// Postgres 16.
    #[serde(default)]
    pub(super) conflicting: Option<bool>,
    /// Postgres 17 on.
    #[serde(default)]
    pub(super) invalidation_reason: Option<String>,
    /// Postgres 14 on.
    #[serde(default)]
    pub(super) two_phase: Option<bool>,
    /// Postgres 13 on: bytes of log that can still be written before the slot is invalidated.
    #[serde(default)]
    pub(super) safe_wal_size: Option<i64>,
    /// Postgres 17 on: it is copied to standbys.
    #[serde(default)]
    pub(super) failover: Option<bool>,
    /// Postgres 17 on: it is such a copy, or was one before its server was promoted.
    #[serde(default)]
    pub(super) synced: Option<bool>,
}

impl Slot {
    pub(super) fn confirmed_flush_lsn(&self) -> Option<Lsn> {
        self.confirmed_flush_lsn.as_deref()?.parse().ok()
    }

    pub(super) fn restart_lsn(&self) -> Option<Lsn> {
        self.restart_lsn.as_deref()?.parse().ok()
    }

    /// Who streams from it.
    pub(super) fn holder(&self) -> String {
        self.active_pid.map_or_else(
            || "another process".to_owned(),
            |pid| format!("process {pid} of the server"),
        )
    }

    /// Why the server will not serve it any more.
    pub(super) fn invalidation(&self) -> Option<String> {
        if let Some(reason) = &self.invalidation_reason {
            return Some(reason.clone());
        }
        if self.conflicting == Some(true) {
            return Some("conflict with recovery".into());
        }
        let lost = self.wal_status.as_deref() == Some("lost");
        // Before Postgres 13 had a word for it, and for a while in 13, only the missing position tells.
        let gone = self.wal_status.is_some() && self.restart_lsn.is_none();
        (lost || gone).then(|| "max_slot_wal_keep_size was exceeded".into())
    }
}

pub(super) async fn slot(client: &Client, name: &str) -> Result<Option<Slot>, Error> {
    let query = "SELECT to_jsonb(s) FROM pg_catalog.pg_replication_slots s WHERE s.slot_name = $1::text::name";
    let Some(row) = client.query_opt(query, &[&name]).await? else {
        return Ok(None);
    };
    let slot: tokio_postgres::types::Json<Slot> = row.try_get(0)?;
    Ok(Some(slot.0))
}

/// A publication.
#[derive(Debug, Clone)]
pub(super) struct Publication {
    /// It publishes updates or deletes.
    pub(super) needs_identity: bool,
}

pub(super) async fn publication(client: &Client, name: &str) -> Result<Option<Publication>, Error> {
    let query = "SELECT pubupdate OR pubdelete FROM pg_catalog.pg_publication WHERE pubname = $1::text::name";
    let Some(row) = client.query_opt(query, &[&name]).await? else {
        return Ok(None);
    };
    Ok(Some(Publication {
        needs_identity: row.try_get(0)?,
    }))
}

/// A table that is published or could be.
#[derive(Debug, Clone)]
pub(super) struct Table {
    pub(super) oid: u32,
    pub(super) schema: String,
    pub(super) name: String,
    /// Postgres will refuse its updates once they are published.
    pub(super) lacks_identity: bool,
}

impl Table {
    pub(super) fn full_name(&self) -> String {
        format!("{}.{}", self.schema, self.name)
    }
}

/// Has no columns to identify an old row by: `d` without a primary key, `n`, or `i` whose index was dropped. (A
/// partitioned table's own identity does not count: the partitions carry the rows.)
const LACKS_IDENTITY: &str = "c.relkind = 'r' AND NOT (c.relreplident = 'f'
        OR c.relreplident = 'd' AND EXISTS (SELECT FROM pg_catalog.pg_index i WHERE i.indrelid = c.oid AND i.indisprimary)
        OR c.relreplident = 'i' AND EXISTS (SELECT FROM pg_catalog.pg_index i WHERE i.indrelid = c.oid AND i.indisreplident))";

pub(super) async fn published_tables(client: &Client, publication: &str) -> Result<Vec<Table>, Error> {
    let query = format!(
        "SELECT c.oid, n.nspname::text, c.relname::text, {LACKS_IDENTITY}
         FROM pg_catalog.pg_publication_tables p
         JOIN pg_catalog.pg_namespace n ON n.nspname = p.schemaname
         JOIN pg_catalog.pg_class c ON c.relnamespace = n.oid AND c.relname = p.tablename
         WHERE p.pubname = $1::text::name ORDER BY 2, 3"
    );
    tables(client.query(&query, &[&publication]).await?)
}

/// Every table that a publication could have: permanent, and the user's own.
pub(super) async fn publishable_tables(client: &Client, server_version: u32) -> Result<Vec<Table>, Error> {
    // A partitioned table itself can be published from Postgres 13 on; before, its partitions are.
    let kinds = if server_version >= 130_000 { "'r', 'p'" } else { "'r'" };
    let query = format!(
        "SELECT c.oid, n.nspname::text, c.relname::text, {LACKS_IDENTITY}
         FROM pg_catalog.pg_class c JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace
         WHERE c.relkind IN ({kinds}) AND c.relpersistence = 'p'
           AND n.nspname NOT IN ('pg_catalog', 'information_schema') AND n.nspname NOT LIKE 'pg\\_%' ORDER BY 2, 3"
    );
    tables(client.query(&query, &[]).await?)
}

fn tables(rows: Vec<tokio_postgres::Row>) -> Result<Vec<Table>, Error> {
    rows.iter()
        .map(|row| {
            Ok(Table {
                oid: row.try_get(0)?,
                schema: row.try_get(1)?,
                name: row.try_get(2)?,
                lacks_identity: row.try_get(3)?,
            })
        })
        .collect()
}

/// Whether the server follows another.
pub(super) async fn is_standby(client: &Client) -> Result<bool, Error> {
    client
        .query_one("SELECT pg_catalog.pg_is_in_recovery()", &[])
        .await?
        .try_get(0)
}

/// Whether commits wait for standbys: then one may be in the log, and sent, that other transactions do not see yet.
pub(super) async fn has_synchronous_standbys(client: &Client) -> Result<bool, Error> {
    let query = "SELECT current_setting('synchronous_standby_names') <> ''";
    client.query_one(query, &[]).await?.try_get(0)
}

/// What is running now: `xmin:xmax:xip`.
pub(super) async fn snapshot(client: &Client) -> Result<String, Error> {
    let query = "SELECT pg_catalog.txid_current_snapshot()::text";
    client.query_one(query, &[]).await?.try_get(0)
}

/// Commits a transaction that changes nothing. The server writes its log out for it, and what is before it.
pub(super) async fn write_commit_record(client: &Client) -> Result<(), Error> {
    let query = "SELECT pg_catalog.txid_current()";
    client.query_one(query, &[]).await.map(drop)
}

/// A connection to the server.
#[derive(Debug, Clone, serde::Serialize)]
pub struct Connection {
    /// The server's process.
    pub pid: i32,
    /// Its role.
    pub user: Option<String>,
    /// `application_name`.
    pub application: Option<String>,
    /// `None`: a unix socket, or not for this user to see.
    pub address: Option<String>,
}

pub(super) async fn connection(client: &Client, pid: i32) -> Result<Option<Connection>, Error> {
    let query = "SELECT usename::text, application_name, host(client_addr)
        FROM pg_catalog.pg_stat_activity WHERE pid = $1";
    let Some(row) = client.query_opt(query, &[&pid]).await? else {
        return Ok(None);
    };
    Ok(Some(Connection {
        pid,
        user: row.try_get(0)?,
        application: row.try_get::<_, Option<String>>(1)?.filter(|name| !name.is_empty()),
        address: row.try_get(2)?,
    }))
}

pub(super) async fn drop_slot(client: &Client, name: &str) -> Result<(), Error> {
    let query = "SELECT pg_catalog.pg_drop_replication_slot($1::text::name)";
    client.execute(query, &[&name]).await.map(drop)
}

/// Where the server's log ends now.
pub(super) async fn current_lsn(client: &Client) -> Result<Option<Lsn>, Error> {
    let query = "SELECT CASE WHEN pg_catalog.pg_is_in_recovery() THEN pg_catalog.pg_last_wal_replay_lsn()
                        ELSE pg_catalog.pg_current_wal_flush_lsn() END::text";
    let text: Option<String> = client.query_one(query, &[]).await?.try_get(0)?;
    Ok(text.and_then(|text| text.parse().ok()))
}

/// `server_version_num` as people say it: 150019 is 15.19.
pub(super) fn version_text(version: u32) -> String {
    format!("{}.{}", version / 10_000, version % 10_000)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn slot(json: &str) -> Slot {
        serde_json::from_str(json).unwrap()
    }

    #[test]
    fn a_slot_of_any_version_is_understood() {
        let ten = slot(
            r#"{"slot_name":"s","plugin":"pgoutput","slot_type":"logical","datoid":1,"database":"d","temporary":false,
                "active":false,"active_pid":null,"xmin":null,"catalog_xmin":"5","restart_lsn":"0/10","confirmed_flush_lsn":"0/20"}"#,
        );
        assert_eq!(ten.confirmed_flush_lsn(), Some(Lsn::new(0x20)));
        assert_eq!(ten.invalidation(), None);
    }

    #[test]
    fn an_invalidated_slot_is_known_by_each_versions_own_sign() {
        let base = r#""plugin":"pgoutput","slot_type":"logical","database":"d","active":false"#;
        let lost = slot(&format!(
            r#"{{{base},"restart_lsn":null,"confirmed_flush_lsn":"0/20","wal_status":"lost"}}"#
        ));
        assert_eq!(
            lost.invalidation().as_deref(),
            Some("max_slot_wal_keep_size was exceeded")
        );
        let conflict = slot(&format!(
            r#"{{{base},"restart_lsn":"0/10","wal_status":"reserved","conflicting":true}}"#
        ));
        assert_eq!(conflict.invalidation().as_deref(), Some("conflict with recovery"));
        let idle = slot(&format!(
            r#"{{{base},"wal_status":"lost","invalidation_reason":"idle_timeout"}}"#
        ));
        assert_eq!(idle.invalidation().as_deref(), Some("idle_timeout"));
    }
}
