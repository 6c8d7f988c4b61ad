//! `[avro]`.

use super::Judge;
use crate::config::settings::{Avro, Envelope};

impl Judge {
    pub(super) fn avro(&mut self) -> Avro {
        Avro {
            envelope: match self.text("avro.envelope").as_str() {
                "row" => Envelope::Row,
                _ => Envelope::Debezium,
            },
            columns: self.columns(),
        }
    }
}
