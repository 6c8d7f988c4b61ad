//! What is recorded of a pipeline's snapshots: a JSON object beside the position's, so that an operator can read it with any
//! consumer.
//!
//! Tables are named by their oid; names are for people.

use std::fmt;

use serde::{Deserialize, Deserializer, Serialize};

use super::Visibility;
use crate::lsn::Lsn;

/// The form that is written. A record of another one was written by a later walferry.
const VERSION: u32 = 1;

/// Why a table is read.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Cause {
    /// It was there before the stream began, or before it was published.
    Initial,
    /// Somebody asked for it.
    Asked,
}

/// A table that is still to be read.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Waiting {
    /// Its oid.
    pub table: u32,
    /// Why.
    pub cause: Cause,
    /// The rows that were asked for, if not all: a condition in SQL.
    pub filter: Option<String>,
}

/// A table of which some is read.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Reading {
    /// Its oid.
    pub table: u32,
    /// Its qualified name.
    pub name: String,
    /// Why.
    pub cause: Cause,
    /// The rows that were asked for, if not all: a condition in SQL.
    pub filter: Option<String>,
    /// The columns of the key that it is read by, each with its type: keys of others are no places in these. None: it has no key.
    pub key: Vec<String>,
    /// How many of its rows Kafka has.
    pub rows: u64,
    /// What it is read in.
    pub ranges: Vec<KeyRange>,
}

impl Reading {
    /// Whether Kafka has all of its ranges.
    pub fn is_read(&self) -> bool {
        self.ranges.iter().all(|range| range.done)
    }
}

/// A range of the key, read from its one end to the other. Its `Debug` shows no key.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct KeyRange {
    /// The relation that holds the rows: the table, or a partition of it.
    pub relation: u32,
    /// What is read lies beyond this: the key of the last row that Kafka has, at first the range's lower bound; the text of the key's
    /// columns, or of the first of them.
    #[serde(deserialize_with = "key")]
    pub after: Option<Vec<String>>,
    /// What is read lies before this or is it: the range's upper bound.
    #[serde(deserialize_with = "key")]
    pub before: Option<Vec<String>>,
    /// It is the one row of the key `before`.
    #[serde(default)]
    pub one: bool,
    /// Whether all of it is read.
    pub done: bool,
}

/// The other errors of serde name what they found, and here that might be a row's value.
fn key<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Vec<String>>, D::Error> {
    Option::deserialize(deserializer).map_err(|_| serde::de::Error::custom("the key of a range is no list of texts"))
}

impl fmt::Debug for KeyRange {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("KeyRange")
            .field("relation", &self.relation)
            .field("has_after", &self.after.is_some())
            .field("has_before", &self.before.is_some())
            .field("one", &self.one)
            .field("done", &self.done)
            .finish()
    }
}

impl KeyRange {
    /// The one row of this key.
    pub fn one(relation: u32, key: &[String]) -> Self {
        KeyRange {
            relation,
            after: None,
            before: Some(key.to_vec()),
            one: true,
            done: false,
        }
    }

    /// All of a relation.
    pub fn whole(relation: u32) -> Self {
        KeyRange {
            relation,
            after: None,
            before: None,
            one: false,
            done: false,
        }
    }
}

/// The snapshot under which a table without a key was read.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "KeylessJson", into = "KeylessJson")]
pub struct Keyless {
    /// The table's oid.
    pub table: u32,
    /// Changes of it by transactions that this sees are in the rows.
    pub snapshot: Visibility,
    /// Every such transaction was committed before this.
    pub lsn: Lsn,
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct KeylessJson {
    table: u32,
    snapshot: String,
    lsn: String,
}

impl TryFrom<KeylessJson> for Keyless {
    type Error = String;

    fn try_from(json: KeylessJson) -> Result<Self, String> {
        Ok(Keyless {
            table: json.table,
            snapshot: Visibility::parse(&json.snapshot).map_err(|error| error.to_string())?,
            lsn: json
                .lsn
                .parse()
                .map_err(|error: crate::lsn::ParseLsnError| error.to_string())?,
        })
    }
}

impl From<Keyless> for KeylessJson {
    fn from(keyless: Keyless) -> Self {
        KeylessJson {
            table: keyless.table,
            snapshot: keyless.snapshot.to_string(),
            lsn: keyless.lsn.to_string(),
        }
    }
}

/// How far a pipeline's snapshots are.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SnapshotRecord {
    /// `system_identifier` of IDENTIFY_SYSTEM. Oids and keys of two clusters have nothing to do with each other.
    pub system_identifier: String,
    /// The database's oid.
    pub database_oid: u32,
    /// Tables that need no initial snapshot any more, ascending.
    pub known: Vec<u32>,
    /// Tables that are still to be read, in this order.
    pub waiting: Vec<Waiting>,
    /// Tables of which some is read; none twice.
    pub reading: Vec<Reading>,
    /// Tables without a key whose rows the stream would bring once more.
    pub keyless: Vec<Keyless>,
    /// Whether reading has been stopped until somebody resumes it.
    pub paused: bool,
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Json {
    version: u32,
    system_identifier: String,
    database_oid: u32,
    known: Vec<u32>,
    waiting: Vec<Waiting>,
    reading: Vec<Reading>,
    keyless: Vec<Keyless>,
    paused: bool,
}

/// A record that cannot be understood.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum RecordError {
    /// Not the object that it should be.
    #[error("it is no record of snapshots: {0}")]
    Malformed(String),
    /// Of a later walferry.
    #[error("it has version {0}, and this walferry knows version {VERSION}")]
    Version(u64),
}

impl SnapshotRecord {
    /// That of a pipeline of this database of which nothing is read, and nothing due.
    pub fn new(system_identifier: String, database_oid: u32) -> Self {
        SnapshotRecord {
            system_identifier,
            database_oid,
            known: Vec::new(),
            waiting: Vec::new(),
            reading: Vec::new(),
            keyless: Vec::new(),
            paused: false,
        }
    }

    /// The bytes that are written.
    pub fn to_json(&self) -> Vec<u8> {
        let record = self.clone();
        let json = Json {
            version: VERSION,
            system_identifier: record.system_identifier,
            database_oid: record.database_oid,
            known: record.known,
            waiting: record.waiting,
            reading: record.reading,
            keyless: record.keyless,
            paused: record.paused,
        };
        // Numbers, strings and lists of them: there is nothing that could not be written.
        serde_json::to_vec(&json).unwrap_or_default()
    }

    /// The record in these bytes.
    ///
    /// # Errors
    /// They are something else, or of a later version.
    pub fn parse(bytes: &[u8]) -> Result<Self, RecordError> {
        let malformed = |error: serde_json::Error| RecordError::Malformed(error.to_string());
        let value: serde_json::Value = serde_json::from_slice(bytes).map_err(malformed)?;
        match value.get("version").and_then(serde_json::Value::as_u64) {
            Some(version) if version != u64::from(VERSION) => return Err(RecordError::Version(version)),
            _ => {}
        }
        let json: Json = serde_json::from_value(value).map_err(malformed)?;
        Ok(SnapshotRecord {
            system_identifier: json.system_identifier,
            database_oid: json.database_oid,
            known: json.known,
            waiting: json.waiting,
            reading: json.reading,
            keyless: json.keyless,
            paused: json.paused,
        })
    }

    /// Whether nothing is left to read.
    pub fn is_idle(&self) -> bool {
        self.waiting.is_empty() && self.reading.is_empty()
    }

    /// Has a table read, after those that wait already. Not where the same rows of it are waiting or being read: then false.
    pub fn ask(&mut self, table: u32, cause: Cause, filter: Option<String>) -> bool {
        let waits = |entry: &Waiting| entry.table == table && entry.filter == filter;
        let is_read = |entry: &Reading| entry.table == table && entry.filter == filter;
        if self.waiting.iter().any(waits) || self.reading.iter().any(is_read) {
            return false;
        }
        self.waiting.push(Waiting { table, cause, filter });
        true
    }

    /// The tables that wait or are being read.
    pub fn tables(&self) -> impl Iterator<Item = u32> {
        let waiting = self.waiting.iter().map(|entry| entry.table);
        waiting.chain(self.reading.iter().map(|entry| entry.table))
    }

    /// How far the table is that is being read.
    pub fn reading(&self, table: u32) -> Option<&Reading> {
        self.reading.iter().find(|entry| entry.table == table)
    }

    /// The first entry of a table turns from waiting to being read, in these ranges. Not where none waits, or while the table is being
    /// read for an earlier one: then false.
    pub fn begin(&mut self, table: u32, name: String, key: Vec<String>, ranges: Vec<KeyRange>) -> bool {
        let waits = self.waiting.iter().position(|entry| entry.table == table);
        let Some(at) = waits.filter(|_| self.of(table).is_none()) else {
            return false;
        };
        let Waiting { table, cause, filter } = self.waiting.remove(at);
        self.reading.push(Reading {
            table,
            name,
            cause,
            filter,
            key,
            rows: 0,
            ranges,
        });
        true
    }

    /// The table that is being read is read anew: its key is another one, or it has none. False where it is not being read.
    pub fn restart(&mut self, table: u32, key: Vec<String>, ranges: Vec<KeyRange>) -> bool {
        self.keyless.retain(|entry| entry.table != table);
        let Some(reading) = self.of(table) else {
            return false;
        };
        (reading.key, reading.rows, reading.ranges) = (key, 0, ranges);
        true
    }

    /// One row more is to be read, the one of this key. False where the table is not being read.
    pub fn owe(&mut self, table: u32, relation: u32, key: &[String]) -> bool {
        let Some(reading) = self.of(table) else {
            return false;
        };
        reading.ranges.push(KeyRange::one(relation, key));
        true
    }

    /// Kafka has `rows` more rows of a range, the last of them with the key `after`. False where the table is not being read any more.
    pub fn advance(&mut self, table: u32, range: usize, after: Vec<String>, rows: u64) -> bool {
        let Some(reading) = self.of(table) else {
            return false;
        };
        let Some(range) = reading.ranges.get_mut(range) else {
            return false;
        };
        if !after.is_empty() {
            range.after = Some(after);
        }
        range.done |= range.one;
        reading.rows = reading.rows.saturating_add(rows);
        true
    }

    /// All of a range is in Kafka; whether with it all of the table's ranges are.
    pub fn finish_range(&mut self, table: u32, range: usize) -> bool {
        let Some(reading) = self.of(table) else {
            return false;
        };
        if let Some(range) = reading.ranges.get_mut(range) {
            range.done = true;
        }
        reading.is_read()
    }

    /// All of a table's rows are in Kafka. It is known from now on, unless only some of its rows were asked for. False where it was
    /// not being read.
    pub fn finished(&mut self, table: u32) -> bool {
        let Some(at) = self.reading.iter().position(|entry| entry.table == table) else {
            return false;
        };
        let reading = self.reading.remove(at);
        if reading.cause == Cause::Initial || reading.filter.is_none() {
            self.know(table);
        }
        true
    }

    /// A table needs no initial snapshot.
    pub fn know(&mut self, table: u32) {
        if let Err(at) = self.known.binary_search(&table) {
            self.known.insert(at, table);
        }
    }

    /// A table is not read any more, nor does it wait; whether it was or did. If its initial snapshot is what is cancelled, it is
    /// known from now on: it would be due again at once.
    pub fn cancel(&mut self, table: u32) -> bool {
        let is_initial = |cause: Cause| cause == Cause::Initial;
        let causes = |entry: u32, cause: Cause| (entry == table).then_some(cause);
        let waiting = self.waiting.iter().filter_map(|entry| causes(entry.table, entry.cause));
        let reading = self.reading.iter().filter_map(|entry| causes(entry.table, entry.cause));
        let cancelled: Vec<Cause> = waiting.chain(reading).collect();
        if self.of(table).is_some() {
            // Its rows are not all there, so neither are the changes that its snapshot saw.
            self.keyless.retain(|entry| entry.table != table);
        }
        self.waiting.retain(|entry| entry.table != table);
        self.reading.retain(|entry| entry.table != table);
        if cancelled.iter().any(|cause| is_initial(*cause)) {
            self.know(table);
        }
        !cancelled.is_empty()
    }

    /// The published tables of which nothing is known: neither read nor being read nor waiting. They came to the publication since.
    pub fn due(&self, published: &[u32]) -> Vec<u32> {
        let is_new = |table: &u32| {
            !self.known.contains(table)
                && !self.waiting.iter().any(|entry| entry.table == *table)
                && !self.reading.iter().any(|entry| entry.table == *table)
        };
        published.iter().copied().filter(is_new).collect()
    }

    /// Forgets what is not published any more; whether there was anything. If it comes back, it is new.
    pub fn forget(&mut self, published: &[u32]) -> bool {
        let before = self.entries();
        self.known.retain(|table| published.contains(table));
        self.waiting.retain(|entry| published.contains(&entry.table));
        self.reading.retain(|entry| published.contains(&entry.table));
        self.keyless.retain(|entry| published.contains(&entry.table));
        self.entries() != before
    }

    /// A table without a key is read under this snapshot, in the place of any earlier one.
    pub fn cut(&mut self, cut: Keyless) {
        self.keyless.retain(|entry| entry.table != cut.table);
        self.keyless.push(cut);
    }

    /// Everything that was committed before `lsn` has been delivered: no change comes any more that the snapshots of tables without a
    /// key saw before it. Whether there was one.
    pub fn passed(&mut self, lsn: Lsn) -> bool {
        let before = self.keyless.len();
        self.keyless.retain(|entry| entry.lsn > lsn);
        self.keyless.len() != before
    }

    fn of(&mut self, table: u32) -> Option<&mut Reading> {
        self.reading.iter_mut().find(|entry| entry.table == table)
    }

    fn entries(&self) -> [usize; 4] {
        [
            self.known.len(),
            self.waiting.len(),
            self.reading.len(),
            self.keyless.len(),
        ]
    }
}

#[cfg(test)]
mod tests;
