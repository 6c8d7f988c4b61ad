//! `[avro]`.

use super::Judge;
use crate::config::settings::{Avro, Envelope, Nullability, Types};

impl Judge {
    pub(super) fn avro(&mut self) -> Avro {
        let types = match self.text("avro.types").as_str() {
            "debezium" => Types::Debezium,
            _ => Types::Avro,
        };
        Avro {
            envelope: match self.text("avro.envelope").as_str() {
                "row" => Envelope::Row,
                _ => Envelope::Debezium,
            },
            types,
            nullability: match (self.text("avro.nullability").as_str(), types) {
                ("catalog", _) | ("auto", Types::Debezium) => Nullability::Catalog,
                _ => Nullability::Optional,
            },
            columns: self.columns(),
        }
    }
}
