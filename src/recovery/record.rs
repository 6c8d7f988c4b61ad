//! The record itself: a JSON object, so that an operator can read it with any consumer.

use serde::{Deserialize, Serialize};

use crate::lsn::Lsn;

/// The form that is written. A record of another one was written by a later walferry.
const VERSION: u32 = 1;

/// Where the published changes end.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Place {
    /// Commit LSN of the last transaction of which anything is published; everything that committed before it is. Zero where that is
    /// not known.
    pub commit_lsn: Lsn,
    /// Everything that committed before this is published: the end of a transaction, or the position of a keepalive. The slot
    /// may be told it.
    pub end_lsn: Lsn,
    /// How many changes of the transaction at `commit_lsn` are published, if not all of it is; it then ends after `end_lsn`.
    pub partial: u64,
}

impl Place {
    /// Everything up to `lsn`, and nothing of what is later.
    pub const fn at(lsn: Lsn) -> Self {
        Place {
            commit_lsn: Lsn::ZERO,
            end_lsn: lsn,
            partial: 0,
        }
    }

    /// The same after everything that committed before `end_lsn` was published, the last of it, if anything since, by the transaction
    /// that committed at `published`.
    #[must_use]
    pub fn advanced(self, end_lsn: Lsn, published: Lsn) -> Self {
        // A position may lie before the rest of a split transaction.
        let owed = self.partial > 0 && published < self.commit_lsn && end_lsn <= self.commit_lsn;
        Place {
            commit_lsn: self.commit_lsn.max(published),
            end_lsn: self.end_lsn.max(end_lsn),
            partial: if owed { self.partial } else { 0 },
        }
    }
}

/// What the positions belong to. LSNs of two of these have nothing to do with each other.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Identity {
    /// `system_identifier` of IDENTIFY_SYSTEM: made by initdb, the same in every copy of the cluster.
    pub system_identifier: String,
    /// The timeline: a new one begins with each promotion and each recovery to a point in time.
    pub timeline: u32,
    /// The database's oid.
    pub database_oid: u32,
    /// The slot that was read. For people: it is the position that counts.
    pub slot: String,
}

/// What is recorded of a pipeline.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StateRecord {
    /// Whose positions these are.
    pub identity: Identity,
    /// Where the published changes end.
    pub place: Place,
}

#[derive(Serialize, Deserialize)]
struct Json {
    version: u32,
    system_identifier: String,
    timeline: u32,
    database_oid: u32,
    slot: String,
    commit_lsn: String,
    end_lsn: String,
    partial: u64,
}

/// A record that cannot be understood.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum RecordError {
    /// Not the object that it should be.
    #[error("it is no record of a position: {0}")]
    Malformed(String),
    /// Of a later walferry.
    #[error("it has version {0}, and this walferry knows version {VERSION}")]
    Version(u64),
}

impl StateRecord {
    /// Whether `late`, though written after `early`, says less. Under at-least-once nothing keeps an instance that slept while another
    /// took the slot over from recording late what it had confirmed before. What cannot be understood is not passed over.
    pub fn is_outdated(late: &[u8], early: &[u8]) -> bool {
        match (StateRecord::parse(late), StateRecord::parse(early)) {
            (Ok(late), Ok(early)) => late.identity == early.identity && late.place.end_lsn < early.place.end_lsn,
            _ => false,
        }
    }

    /// The bytes that are written.
    pub fn to_json(&self) -> Vec<u8> {
        let Identity {
            system_identifier,
            timeline,
            database_oid,
            slot,
        } = self.identity.clone();
        let json = Json {
            version: VERSION,
            system_identifier,
            timeline,
            database_oid,
            slot,
            commit_lsn: self.place.commit_lsn.to_string(),
            end_lsn: self.place.end_lsn.to_string(),
            partial: self.place.partial,
        };
        // Numbers and strings: there is nothing that could not be written.
        serde_json::to_vec(&json).unwrap_or_default()
    }

    /// The record in these bytes.
    ///
    /// # Errors
    /// They are something else, or of a later version.
    pub fn parse(bytes: &[u8]) -> Result<Self, RecordError> {
        let malformed = |error: &dyn std::fmt::Display| RecordError::Malformed(error.to_string());
        let value: serde_json::Value = serde_json::from_slice(bytes).map_err(|error| malformed(&error))?;
        match value.get("version").and_then(serde_json::Value::as_u64) {
            Some(version) if version != u64::from(VERSION) => return Err(RecordError::Version(version)),
            _ => {}
        }
        let json: Json = serde_json::from_value(value).map_err(|error| malformed(&error))?;
        let lsn = |text: &str| text.parse::<Lsn>().map_err(|error| malformed(&error));
        Ok(StateRecord {
            place: Place {
                commit_lsn: lsn(&json.commit_lsn)?,
                end_lsn: lsn(&json.end_lsn)?,
                partial: json.partial,
            },
            identity: Identity {
                system_identifier: json.system_identifier,
                timeline: json.timeline,
                database_oid: json.database_oid,
                slot: json.slot,
            },
        })
    }
}
