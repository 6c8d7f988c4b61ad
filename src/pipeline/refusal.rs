//! What walferry refuses to stream from, each with its reason and its remedy. Going on would lose changes without a
//! word, or break the source.

use crate::recovery::{Gap, GapKind};

/// A definite refusal. `Display` says what is wrong and where; [`remedy`](Refusal::remedy) what to do.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Refusal {
    /// Logical decoding is off.
    #[error("wal_level is {found:?}, and logical replication needs \"logical\"")]
    WalLevel {
        /// The server's setting.
        found: String,
    },
    /// No publication of that name.
    #[error("publication {publication:?} does not exist in database {database:?}")]
    NoPublication {
        /// Its name.
        publication: String,
        /// Where it was looked for.
        database: String,
    },
    /// Nothing to make a publication of.
    #[error("no table of database {database:?} matches replication.tables = {patterns:?}")]
    NoTables {
        /// Where they were looked for.
        database: String,
        /// The patterns.
        patterns: Vec<String>,
    },
    /// Postgres refuses updates and deletes of such tables once they are published.
    #[error(
        "{} cannot carry updates and deletes: no primary key, and no replica identity instead",
        list(tables)
    )]
    ReplicaIdentity {
        /// `schema.table` of each.
        tables: Vec<String>,
    },
    /// The rows that are there already could not be read.
    #[error("the rows of {} cannot be read: the role has no right to", list(tables))]
    NotReadable {
        /// `schema.table` of each.
        tables: Vec<String>,
    },
    /// Rows would be left out without a word.
    #[error(
        "not all rows of {} can be read: row security shows the role only some",
        list(tables)
    )]
    RowSecurity {
        /// `schema.table` of each.
        tables: Vec<String>,
    },
    /// No slot, and none is to be made.
    #[error("replication slot {slot:?} does not exist")]
    NoSlot {
        /// Its name.
        slot: String,
    },
    /// Changes would be missing.
    #[error(transparent)]
    Gap(Gap),
    /// Postgres removed what the slot needs.
    #[error(
        "replication slot {slot:?} was invalidated by the server ({reason}): the log after {confirmed} is no longer there"
    )]
    SlotInvalidated {
        /// Its name.
        slot: String,
        /// What Postgres says.
        reason: String,
        /// The slot's confirmed flush LSN.
        confirmed: String,
    },
    /// To be made, and there already.
    #[error("replication slot {slot:?} exists already, and stands at {confirmed}")]
    SlotExists {
        /// Its name.
        slot: String,
        /// The slot's confirmed flush LSN.
        confirmed: String,
    },
    /// To be dropped, and in use.
    #[error("replication slot {slot:?} is in use by {holder}")]
    SlotInUse {
        /// Its name.
        slot: String,
        /// Who streams from it.
        holder: String,
    },
    /// Slots are copied to standbys from Postgres 17 on.
    #[error("replication.failover needs Postgres 17 or later, and the server is {version}")]
    NoFailover {
        /// The server's version.
        version: String,
    },
    /// Running transactions are streamed from Postgres 14 on.
    #[error("replication.streaming = \"on\" needs Postgres 14 or later, and the server is {version}")]
    NoStreaming {
        /// The server's version.
        version: String,
    },
    /// Not a slot of ours.
    #[error("replication slot {slot:?} is {found}, not a logical slot of pgoutput in database {database:?}")]
    SlotKind {
        /// Its name.
        slot: String,
        /// What it is.
        found: String,
        /// Where it should be.
        database: String,
    },
    /// Prepared transactions would come before they commit.
    #[error("replication slot {slot:?} has two_phase on: it sends transactions before they commit")]
    SlotTwoPhase {
        /// Its name.
        slot: String,
    },
}

fn list(tables: &[String]) -> String {
    let shown = tables
        .iter()
        .take(10)
        .map(String::as_str)
        .collect::<Vec<_>>()
        .join(", ");
    match tables.len().checked_sub(10) {
        Some(more) if more > 0 => format!("{shown} and {more} more tables"),
        _ if tables.len() == 1 => format!("table {shown}"),
        _ => format!("tables {shown}"),
    }
}

impl Refusal {
    /// What to do about it.
    pub fn remedy(&self) -> String {
        const LOST: &str = "Drop the slot (SELECT pg_drop_replication_slot('SLOT')), and start again: walferry names the gap, and \
                            with --accept-gap makes a new slot that starts at the present. walferry snapshot reads the tables again, \
                            to bring the topics up to date.";
        match self {
            Refusal::WalLevel { .. } => {
                "Set wal_level = logical (ALTER SYSTEM SET wal_level = 'logical') and restart Postgres.".into()
            }
            Refusal::NoPublication { publication, .. } => format!(
                "Create it (CREATE PUBLICATION \"{publication}\" FOR TABLE …), or set replication.create_publication = true \
                 and replication.tables."
            ),
            Refusal::NoTables { .. } => {
                "Create the tables first, or correct replication.tables and replication.exclude_tables; \
                 walferry's user must see them."
                    .into()
            }
            Refusal::ReplicaIdentity { .. } => {
                "Once they are published, Postgres itself refuses their UPDATE and DELETE. Add a primary key, or run \
                 ALTER TABLE … REPLICA IDENTITY FULL (or USING INDEX …), or leave them out (replication.exclude_tables, or \
                 ALTER PUBLICATION … DROP TABLE …), or publish only their inserts (WITH (publish = 'insert'))."
                    .into()
            }
            Refusal::NotReadable { .. } => {
                "GRANT USAGE ON SCHEMA … and SELECT ON … to walferry's role (on the table: SELECT on its columns alone does not let it \
                 be locked); or set snapshot.mode = \"never\": the stream itself \
                 needs no such right."
                    .into()
            }
            Refusal::RowSecurity { .. } => {
                "ALTER ROLE … BYPASSRLS; or set snapshot.mode = \"never\": the stream itself has every row.".into()
            }
            Refusal::NoSlot { .. } => {
                "Create it with walferry slot create, or set replication.create_slot = true.".into()
            }
            Refusal::Gap(gap) => {
                let found_out = match &gap.kind {
                    GapKind::Ahead { .. } => {
                        "It was dropped and made again, advanced by hand, or used by another reader. Find out which."
                    }
                    GapKind::NoSlot { .. } => "Find out who dropped it, or whether a standby without it was promoted.",
                    GapKind::System { .. } => {
                        "Point postgres.host at the cluster that this pipeline was made for, or give the new one a pipeline with \
                         a name of its own. After pg_upgrade the identifier is a new one."
                    }
                    GapKind::Database { .. } => {
                        "Was the database dropped and made again? Give it a pipeline with a name of its own."
                    }
                    GapKind::SetBack { .. } => "Was the cluster restored from an earlier copy of its files?",
                    GapKind::Timeline { .. } => {
                        "Was the cluster restored from a backup, or the old primary started again? Point postgres.host at the right \
                         server."
                    }
                };
                format!(
                    "{found_out} To go on in spite of the gap, start once with walferry run --accept-gap {}: the stream then goes \
                     on from the slot, or from a new one. walferry snapshot reads the tables again, to bring the topics up to date.",
                    gap.from
                )
            }
            Refusal::SlotInvalidated { slot, .. } => format!(
                "{} Then raise max_slot_wal_keep_size (or idle_replication_slot_timeout), so that it does not happen again.",
                LOST.replace("SLOT", slot)
            ),
            Refusal::SlotExists { .. } => {
                "A pipeline goes on from there. For one that starts at the present, drop it first: walferry slot drop.".into()
            }
            Refusal::SlotInUse { .. } => "Stop that first; walferry slot status says who it is.".into(),
            Refusal::NoFailover { .. } => "Set replication.failover = false, or upgrade the server.".into(),
            Refusal::NoStreaming { .. } => "Set replication.streaming = \"auto\", or upgrade the server.".into(),
            Refusal::SlotKind { .. } => {
                "Choose another name in replication.slot, or drop that slot if nothing needs it.".into()
            }
            Refusal::SlotTwoPhase { slot } => format!(
                "Drop it (SELECT pg_drop_replication_slot('{slot}')) and let walferry make its own, or make it without two_phase."
            ),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::lsn::Lsn;

    #[test]
    fn a_refusal_says_what_is_lost_and_what_to_do() {
        let ahead = Refusal::Gap(Gap {
            kind: GapKind::Ahead { slot: "shop".into() },
            from: Lsn::new(0x10),
            to: Some(Lsn::new(0x20)),
        });
        assert_eq!(
            ahead.to_string(),
            "replication slot \"shop\" stands past what is recorded as published: changes from 0/10 to 0/20 (16 bytes of log) are \
             not in kafka and will not come"
        );
        assert!(ahead.remedy().contains("walferry run --accept-gap 0/10"));
    }

    #[test]
    fn rows_that_cannot_be_read_are_named_by_their_tables() {
        let tables = vec!["public.a".to_owned(), "public.b".to_owned()];
        let message = Refusal::NotReadable { tables }.to_string();
        assert_eq!(
            message,
            "the rows of tables public.a, public.b cannot be read: the role has no right to"
        );
        let tables = vec!["public.a".to_owned()];
        let message = Refusal::RowSecurity { tables }.to_string();
        assert_eq!(
            message,
            "not all rows of table public.a can be read: row security shows the role only some"
        );
    }

    #[test]
    fn many_tables_are_counted_rather_than_listed() {
        let tables = (0..13).map(|n| format!("public.t{n}")).collect();
        let message = Refusal::ReplicaIdentity { tables }.to_string();
        assert!(message.starts_with("public.t0, public.t1, "), "{message}");
        assert!(
            message.contains("public.t9 and 3 more tables cannot carry"),
            "{message}"
        );
    }
}
