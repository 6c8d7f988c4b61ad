//! The keys above all sections.

use super::Judge;
use crate::config::load::DEFAULT_FILES;

impl Judge {
    pub(super) fn name(&mut self) -> String {
        let name = self.text("name");
        if name.is_empty() {
            // One that is there and of the wrong type has its fault already.
            if !self.faults.iter().any(|fault| fault.key == "name") {
                let remedy = if self.no_file {
                    format!(
                        "there is no configuration file at {}: name one with -c FILE, or set WALFERRY__NAME",
                        DEFAULT_FILES.join(" or ")
                    )
                } else {
                    "give the pipeline a name, such as name = \"shop\"".to_owned()
                };
                self.fault("name", "is missing", &remedy);
            }
        } else if name.len() > 63 || !name.chars().all(is_topic_character) {
            self.fault(
                "name",
                "begins every topic's name",
                "use 1 to 63 of a-z, A-Z, 0-9, '.', '_' and '-'",
            );
        }
        name
    }
}

fn is_topic_character(c: char) -> bool {
    c.is_ascii_alphanumeric() || matches!(c, '.' | '_' | '-')
}
