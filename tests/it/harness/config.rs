//! A configuration file, by key.

use super::{Database, Env, Kafka};
use std::collections::BTreeMap;
use std::fmt::Write;

/// Dotted keys and their values, as TOML writes them.
#[derive(Clone)]
pub struct Config {
    keys: BTreeMap<String, String>,
}

impl Config {
    /// A pipeline of this name from the database to the broker, by way of the shared registry. It reads no rows that are
    /// there already, unless a test sets that: most count records, and have rows before the start.
    pub fn new(name: &str, database: &Database<'_>, kafka: &Kafka) -> Self {
        Config { keys: BTreeMap::new() }
            .text("name", name)
            .text("postgres.host", "127.0.0.1")
            .set("postgres.port", &database.postgres.port.to_string())
            .text("postgres.database", &database.name)
            .text("postgres.user", "postgres")
            .text("replication.status_interval", "1s")
            .text("snapshot.mode", "never")
            .text("kafka.bootstrap_servers", &kafka.address)
            .text("schema_registry.url", &Env::get().registry)
    }

    /// Sets a key to a TOML value.
    pub fn set(mut self, key: &str, value: &str) -> Self {
        self.keys.insert(key.to_owned(), value.to_owned());
        self
    }

    /// Sets a key to a string.
    pub fn text(self, key: &str, value: &str) -> Self {
        let quoted = serde_json::to_string(value).unwrap();
        self.set(key, &quoted)
    }

    pub fn name(&self) -> String {
        serde_json::from_str(&self.keys["name"]).unwrap()
    }

    /// The slot: the pipeline's name unless set.
    pub fn slot(&self) -> String {
        self.keys
            .get("replication.slot")
            .map_or_else(|| self.name(), |v| serde_json::from_str(v).unwrap())
    }

    pub fn to_toml(&self) -> String {
        let mut text = String::new();
        for (key, value) in self.keys.iter().filter(|(key, _)| !key.contains('.')) {
            writeln!(text, "{key} = {value}").unwrap();
        }
        let mut section = "";
        for (key, value) in self.keys.iter().filter(|(key, _)| key.contains('.')) {
            let (of, key) = key.split_once('.').unwrap();
            if of != section {
                writeln!(text, "\n[{of}]").unwrap();
                section = of;
            }
            writeln!(text, "{key} = {value}").unwrap();
        }
        text
    }
}
