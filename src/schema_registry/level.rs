//! A subject's compatibility level: what a new schema must be to the older ones ("Schema Evolution and Compatibility" of
//! Confluent's documentation).

use std::fmt;

use serde_json::Value;

use super::resolution::{Conflict, conflicts};

/// A compatibility level.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Level {
    name: String,
}

impl Level {
    pub(super) const NONE: &str = "NONE";

    pub(super) fn new(name: impl Into<String>) -> Self {
        Level { name: name.into() }
    }

    /// Whether anything goes.
    pub fn is_none(&self) -> bool {
        self.name == Self::NONE
    }

    /// Whether all older schemas count, and not the latest alone.
    pub(super) fn is_transitive(&self) -> bool {
        self.name.ends_with("_TRANSITIVE")
    }

    /// What stands between an older schema and a new one at this level. At NONE: what would at BACKWARD. A level that is not
    /// known is taken for the strictest.
    pub(super) fn conflicts(&self, old: &Value, new: &Value) -> Vec<Conflict> {
        let mut found = Vec::new();
        let direction = self.name.trim_end_matches("_TRANSITIVE");
        if direction != "FORWARD" {
            found.extend(conflicts(old, new));
        }
        if !matches!(direction, "BACKWARD" | Self::NONE) {
            for conflict in conflicts(new, old) {
                // One that shows in both directions is told once.
                if !found.iter().any(|known| known.path == conflict.path) {
                    found.push(conflict);
                }
            }
        }
        found
    }
}

impl fmt::Display for Level {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.name)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn each_level_looks_in_its_own_direction() {
        let row = |kind: &str| json!({ "type": "record", "name": "V", "fields": [{ "name": "c", "type": kind }] });
        let found = |level: &str, old: &str, new: &str| {
            let found = Level::new(level).conflicts(&row(old), &row(new));
            found.iter().map(ToString::to_string).collect::<Vec<_>>()
        };
        let wider = "field c: long cannot be read as int";
        for (level, widening, narrowing) in [
            ("NONE", 0, 1),
            ("BACKWARD", 0, 1),
            ("BACKWARD_TRANSITIVE", 0, 1),
            ("FORWARD", 1, 0),
            ("FORWARD_TRANSITIVE", 1, 0),
            ("FULL", 1, 1),
            ("FULL_TRANSITIVE", 1, 1),
            ("SOMETHING_NEW", 1, 1),
        ] {
            assert_eq!(found(level, "int", "long"), vec![wider; widening], "{level}");
            assert_eq!(found(level, "long", "int"), vec![wider; narrowing], "{level}");
        }
    }
}
