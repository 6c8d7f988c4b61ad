//! What walferry refuses to stream from, each with its reason and its remedy. Going on would lose changes without a
//! word, or break the source.

use crate::lsn::Lsn;

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
    /// No slot, and none is to be made.
    #[error("replication slot {slot:?} does not exist")]
    NoSlot {
        /// Its name.
        slot: String,
    },
    /// The slot was there, and is not any more.
    #[error("replication slot {slot:?} is gone: changes after {confirmed} may be lost")]
    SlotGone {
        /// Its name.
        slot: String,
        /// What is known to be in Kafka.
        confirmed: Lsn,
    },
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
    /// The slot has moved past what is in Kafka.
    #[error(
        "replication slot {slot:?} stands at {found}, but only changes up to {confirmed} are in Kafka: those between are lost to this slot"
    )]
    SlotAhead {
        /// Its name.
        slot: String,
        /// Where it stands.
        found: Lsn,
        /// What is known to be in Kafka.
        confirmed: Lsn,
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
    /// Another database cluster answers.
    #[error("the server's system identifier is {found}, and was {expected}: this is another database cluster")]
    SystemIdentifier {
        /// Now.
        found: String,
        /// Before.
        expected: String,
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
        const LOST: &str = "Drop the slot (SELECT pg_drop_replication_slot('SLOT')), bring the topics up to date by other means, \
                            and start again: walferry then makes a new slot that starts at the present.";
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
            Refusal::NoSlot { .. } => {
                "Create it with walferry slot create, or set replication.create_slot = true.".into()
            }
            Refusal::SlotGone { .. } => {
                "Find out who dropped it. Bring the topics up to date by other means, then start walferry again: it makes a \
                 new slot that starts at the present."
                    .into()
            }
            Refusal::SlotInvalidated { slot, .. } => format!(
                "{} Then raise max_slot_wal_keep_size (or idle_replication_slot_timeout), so that it does not happen again.",
                LOST.replace("SLOT", slot)
            ),
            Refusal::SlotAhead { slot, .. } => format!(
                "It was dropped and made again, advanced by hand, or used by another reader. {}",
                LOST.replace("SLOT", slot)
            ),
            Refusal::SlotExists { .. } => {
                "A pipeline goes on from there. For one that starts at the present, drop it first: walferry slot drop.".into()
            }
            Refusal::SlotInUse { .. } => "Stop that first; walferry slot status says who it is.".into(),
            Refusal::NoFailover { .. } => "Set replication.failover = false, or upgrade the server.".into(),
            Refusal::SlotKind { .. } => {
                "Choose another name in replication.slot, or drop that slot if nothing needs it.".into()
            }
            Refusal::SlotTwoPhase { slot } => format!(
                "Drop it (SELECT pg_drop_replication_slot('{slot}')) and let walferry make its own, or make it without two_phase."
            ),
            Refusal::SystemIdentifier { .. } => {
                "Point postgres.host at the cluster that this pipeline was made for, or give the new cluster a pipeline (and a \
                 slot) of its own."
                    .into()
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_refusal_says_what_is_lost_and_what_to_do() {
        let ahead = Refusal::SlotAhead {
            slot: "shop".into(),
            found: Lsn::new(0x20),
            confirmed: Lsn::new(0x10),
        };
        assert_eq!(
            ahead.to_string(),
            "replication slot \"shop\" stands at 0/20, but only changes up to 0/10 are in Kafka: those between are lost to this slot"
        );
        assert!(ahead.remedy().contains("pg_drop_replication_slot('shop')"));
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
