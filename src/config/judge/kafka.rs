//! `[kafka]`.

use std::collections::BTreeMap;
use std::path::Path;

use super::Judge;
use super::secret::read_secret;
use crate::config::fault::{Fault, redact};
use crate::config::properties::is_secret_property;
use crate::config::secret::REDACTED;
use crate::config::settings::{Kafka, Truncate};
use crate::config::value;
use crate::envelope::TopicTemplate;
use crate::kafka::refused_property;

impl Judge {
    pub(super) fn kafka(&mut self) -> Kafka {
        let bootstrap_servers = self.text("kafka.bootstrap_servers");
        if bootstrap_servers.split(',').any(|server| server.trim().is_empty()) {
            self.fault(
                "kafka.bootstrap_servers",
                "has an empty server",
                "write host:port, comma-separated",
            );
        }
        let topic = self.text("kafka.topic");
        if let Err(error) = topic.parse::<TopicTemplate>() {
            self.fault(
                "kafka.topic",
                &format!("is no template: {error}"),
                "such as \"{name}.{schema}.{table}\"",
            );
        }
        if self.integer("kafka.replication_factor") == 0 {
            self.fault(
                "kafka.replication_factor",
                "is out of range",
                "must be -1 for the broker's default, or 1 and more",
            );
        }
        let integer = |judge: &Self, key| i32::try_from(judge.integer(key)).unwrap_or(1);
        Kafka {
            bootstrap_servers,
            topic,
            create_topics: self.bool("kafka.create_topics"),
            partitions: integer(self, "kafka.partitions"),
            replication_factor: integer(self, "kafka.replication_factor"),
            topic_config: self.map("kafka.topic_config"),
            properties: self.properties(),
            tombstones: self.bool("kafka.tombstones"),
            truncate: match self.text("kafka.truncate").as_str() {
                "skip" => Truncate::Skip,
                _ => Truncate::Emit,
            },
        }
    }

    /// The properties with the secrets that come from files, and without those that are refused.
    fn properties(&mut self) -> BTreeMap<String, String> {
        let written = self.map("kafka.properties");
        let mut properties = BTreeMap::new();
        for (name, text) in &written {
            let path = format!("kafka.properties.{}", value::quote(name));
            let origin = self.origin("kafka.properties");
            let shown = if is_secret_property(name) {
                REDACTED.to_owned()
            } else {
                redact(text)
            };
            if let Some(reason) = refused_property(name) {
                self.faults.push(Fault {
                    key: path,
                    origin,
                    value: Some(value::quote(&shown)),
                    problem: "walferry owns this property".to_owned(),
                    remedy: format!("leave it out: {reason}"),
                });
                continue;
            }
            match name.strip_suffix("_file").filter(|base| is_secret_property(base)) {
                Some(base) if written.contains_key(base) => self.faults.push(Fault {
                    key: path,
                    origin,
                    value: Some(value::quote(&shown)),
                    problem: format!("is set, and so is {}", value::quote(base)),
                    remedy: "keep one of the two".to_owned(),
                }),
                Some(base) => match read_secret(Path::new(text)) {
                    Ok(secret) => {
                        properties.insert(base.to_owned(), secret.expose().to_owned());
                    }
                    Err(problem) => self.faults.push(Fault {
                        key: path,
                        origin,
                        value: Some(value::quote(&shown)),
                        problem,
                        remedy: "give a file that holds the secret and nothing else".to_owned(),
                    }),
                },
                None => {
                    properties.insert(name.clone(), text.clone());
                }
            }
        }
        properties
    }
}
