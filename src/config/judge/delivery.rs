//! `[delivery]`.

use super::Judge;
use crate::config::settings::{Delivery, Guarantee, OnBadRow};
use crate::envelope::{check_topic, message_topic, pipeline_topic};

impl Judge {
    pub(super) fn delivery(&mut self) -> Delivery {
        Delivery {
            max_in_flight: self.size("delivery.max_in_flight"),
            guarantee: match self.text("delivery.guarantee").as_str() {
                "exactly-once" => Guarantee::ExactlyOnce,
                _ => Guarantee::AtLeastOnce,
            },
            commit_interval: self.duration("delivery.commit_interval"),
            max_transaction_changes: self.integer("delivery.max_transaction_changes").unsigned_abs(),
            state_topic: self.state_topic(),
            on_bad_row: match self.text("delivery.on_bad_row").as_str() {
                "dead-letter" => OnBadRow::DeadLetter,
                _ => OnBadRow::Stop,
            },
            dead_letter_topic: self.dead_letter_topic(),
        }
    }

    fn state_topic(&mut self) -> String {
        const KEY: &str = "delivery.state_topic";
        let topic = self.text(KEY);
        const REMEDY: &str = "such as \"walferry.state\"";
        let name = self.text("name");
        if let Err(error) = check_topic(&topic) {
            self.fault(KEY, &format!("is no topic: {error}"), REMEDY);
        } else if topic == message_topic(&name) {
            self.fault(KEY, "is the topic of logical messages", REMEDY);
        } else if pipeline_topic(&self.text("delivery.dead_letter_topic"), &name).is_ok_and(|letters| letters == topic)
        {
            self.fault(KEY, "is the topic of dead letters", REMEDY);
        }
        topic
    }

    fn dead_letter_topic(&mut self) -> String {
        const KEY: &str = "delivery.dead_letter_topic";
        const REMEDY: &str = "such as \"{name}.dead-letter\"";
        let name = self.text("name");
        let topic = match pipeline_topic(&self.text(KEY), &name) {
            Ok(topic) => topic,
            Err(error) => {
                self.fault(KEY, &format!("is no topic: {error}"), REMEDY);
                return String::new();
            }
        };
        if name.is_empty() {
            return topic;
        }
        if let Err(error) = check_topic(&topic) {
            self.fault(KEY, &format!("is no topic: {error}"), REMEDY);
        } else if topic == message_topic(&name) {
            self.fault(KEY, "is the topic of logical messages", REMEDY);
        }
        topic
    }
}
