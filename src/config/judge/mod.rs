//! From the merged layers to a [`Config`]: every key is read as its kind, then every section is judged as a whole, each
//! in its own file here.

mod avro;
mod columns;
mod delivery;
mod http;
mod kafka;
mod log;
mod postgres;
mod replication;
mod schema_registry;
mod secret;
mod snapshot;
mod top;

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;

use super::environment::Environment;
use super::fault::{Fault, Origin};
use super::keys::{self, Default, KEYS, Key};
use super::layers::FoundKeys;
use super::settings::Config;
use super::value::{self, Raw, Value};

/// The value of each key, given or by default.
pub(super) type Values = BTreeMap<&'static str, Value>;

/// What is known so far, and what is wrong with it.
pub(super) struct Judge {
    found: FoundKeys,
    no_file: bool,
    pub(super) values: Values,
    pub(super) faults: Vec<Fault>,
    pub(super) warnings: Vec<String>,
}

impl Judge {
    /// Begins with the faults that the names of the keys already have.
    pub(super) fn new(found: FoundKeys, faults: Vec<Fault>, no_file: bool) -> Self {
        let mut judge = Self {
            found,
            no_file,
            values: Values::new(),
            faults,
            warnings: Vec::new(),
        };
        judge.read_values();
        judge
    }

    /// Judges section by section. The result is good for something only if there are no faults.
    pub(super) fn config(&mut self, env: &dyn Environment) -> Config {
        Config {
            name: self.name(),
            shutdown_timeout: self.duration("shutdown_timeout"),
            postgres: self.postgres(env),
            replication: self.replication(),
            snapshot: self.snapshot(),
            kafka: self.kafka(),
            delivery: self.delivery(),
            schema_registry: self.schema_registry(),
            avro: self.avro(),
            http: self.http(),
            log: self.log(),
        }
    }

    /// Reads every key as its kind. One that is at fault has its default from here on, so that the others can be
    /// judged.
    fn read_values(&mut self) {
        for key in KEYS {
            let default = match key.default {
                Default::Is(text) => text.to_owned(),
                Default::Name { .. } => self.name_for(key),
                Default::Required { .. } => String::new(),
            };
            let read = match self.found.get(key.path) {
                Some(found) => value::read(key.kind, &found.raw),
                None => value::read(key.kind, &Raw::Loose(default.clone())),
            };
            let value = match read {
                Ok(value) => Some(value),
                Err(wrong) => {
                    self.fault(key.path, &wrong.problem, &wrong.remedy);
                    value::read(key.kind, &Raw::Loose(default.clone())).ok()
                }
            };
            // An empty string is the same as none.
            let value = match (value, key.default) {
                (Some(Value::Text(text)), Default::Name { .. }) if text.is_empty() => Some(Value::Text(default)),
                (value, _) => value,
            };
            if let Some(value) = value {
                self.values.insert(key.path, value);
            }
        }
    }

    fn name_for(&self, key: &Key) -> String {
        let name = self.text("name");
        if key.path == "postgres.database" {
            name
        } else {
            identifier(&name)
        }
    }

    fn origin(&self, key: &str) -> Origin {
        self.found
            .get(key)
            .map_or(Origin::Default, |found| found.origin.clone())
    }

    fn fault(&mut self, key: &'static str, problem: &str, remedy: &str) {
        let kind = keys::find(key).map(|key| key.kind);
        let value = match (self.found.get(key), kind) {
            (Some(found), Some(kind)) => found.raw.show(kind),
            _ => None,
        };
        self.faults.push(Fault {
            key: key.to_owned(),
            origin: self.origin(key),
            value,
            problem: problem.to_owned(),
            remedy: remedy.to_owned(),
        });
    }

    /// Whether there is a value, and it is not empty.
    fn is_given(&self, key: &str) -> bool {
        match self.found.get(key).map(|found| &found.raw) {
            Some(Raw::String(text) | Raw::Loose(text)) => !text.is_empty(),
            Some(_) => true,
            None => false,
        }
    }

    fn text(&self, key: &str) -> String {
        match self.values.get(key) {
            Some(Value::Text(text)) => text.clone(),
            _ => String::new(),
        }
    }

    fn path(&self, key: &str) -> Option<PathBuf> {
        Some(self.text(key)).filter(|text| !text.is_empty()).map(PathBuf::from)
    }

    fn texts(&self, key: &str) -> Vec<String> {
        match self.values.get(key) {
            Some(Value::List(items) | Value::Texts(items)) => items.clone(),
            _ => Vec::new(),
        }
    }

    fn map(&self, key: &str) -> BTreeMap<String, String> {
        match self.values.get(key) {
            Some(Value::Map(entries)) => entries.clone(),
            _ => BTreeMap::new(),
        }
    }

    fn bool(&self, key: &str) -> bool {
        matches!(self.values.get(key), Some(Value::Bool(true)))
    }

    fn integer(&self, key: &str) -> i64 {
        match self.values.get(key) {
            Some(Value::Integer(value)) => *value,
            _ => 0,
        }
    }

    fn size(&self, key: &str) -> u64 {
        match self.values.get(key) {
            Some(Value::Size(value)) => *value,
            _ => 0,
        }
    }

    fn duration(&self, key: &str) -> Duration {
        match self.values.get(key) {
            Some(Value::Duration(value)) => *value,
            _ => Duration::ZERO,
        }
    }
}

/// A name in the characters of a slot's: `[a-z0-9_]`, 63 of them.
fn identifier(name: &str) -> String {
    name.chars()
        .map(|c| {
            if c.is_ascii_alphanumeric() {
                c.to_ascii_lowercase()
            } else {
                '_'
            }
        })
        .take(63)
        .collect()
}
