//! The ids that were given, by subject and schema. Bounded, since a table may change for ever.

use std::collections::HashMap;

/// A subject's schemas in use at a time are one or two; a pipeline that lags, or goes back after a restart, meets some more.
const OF_A_SUBJECT: usize = 32;
/// Schemas' text in all.
const BYTES: usize = 64 << 20;

#[derive(Debug)]
struct Known {
    id: u32,
    used: u64,
}

/// Subject → schema → id. What was not used for longest goes first; its id is asked for again when it is needed.
#[derive(Debug, Default)]
pub(super) struct Ids {
    subjects: HashMap<String, HashMap<String, Known>>,
    bytes: usize,
    clock: u64,
}

impl Ids {
    pub(super) fn get(&mut self, subject: &str, schema: &str) -> Option<u32> {
        let known = self.subjects.get_mut(subject)?.get_mut(schema)?;
        self.clock = self.clock.wrapping_add(1);
        known.used = self.clock;
        Some(known.id)
    }

    pub(super) fn insert(&mut self, subject: &str, schema: &str, id: u32) {
        self.clock = self.clock.wrapping_add(1);
        let used = self.clock;
        let schemas = self.subjects.entry(subject.to_owned()).or_default();
        if schemas.insert(schema.to_owned(), Known { id, used }).is_none() {
            self.bytes = self.bytes.saturating_add(schema.len());
        }
        if schemas.len() > OF_A_SUBJECT
            && let Some(oldest) = schemas
                .iter()
                .min_by_key(|(_, known)| known.used)
                .map(|(text, _)| text.clone())
        {
            schemas.remove(&oldest);
            self.bytes = self.bytes.saturating_sub(oldest.len());
        }
        if self.bytes > BYTES {
            self.shrink(BYTES / 4 * 3);
        }
    }

    fn shrink(&mut self, to: usize) {
        let all = self.subjects.values().flat_map(|schemas| schemas.iter());
        let mut by_age: Vec<(u64, usize)> = all.map(|(text, known)| (known.used, text.len())).collect();
        by_age.sort_unstable_by_key(|(used, _)| std::cmp::Reverse(*used));
        let mut kept = 0;
        let oldest = by_age
            .iter()
            .take_while(|(_, length)| {
                kept += length;
                kept <= to
            })
            .last()
            .map_or(u64::MAX, |(used, _)| *used);
        let mut bytes = 0;
        self.subjects.retain(|_, schemas| {
            schemas.retain(|_, known| known.used >= oldest);
            bytes += schemas.keys().map(String::len).sum::<usize>();
            !schemas.is_empty()
        });
        self.bytes = bytes;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn known(ids: &Ids) -> usize {
        ids.subjects.values().map(HashMap::len).sum()
    }

    #[test]
    fn a_table_that_changes_for_ever_keeps_its_last_schemas() {
        let mut ids = Ids::default();
        ids.insert("kept-value", "first", 1);
        for n in 0..10_000 {
            ids.insert("t-value", &format!("schema {n}"), n);
            assert_eq!(ids.get("t-value", "schema 0"), Some(0), "what is in use stays");
        }
        assert_eq!(known(&ids), OF_A_SUBJECT + 1);
        assert_eq!(ids.get("t-value", "schema 9999"), Some(9999));
        assert_eq!(ids.get("t-value", "schema 9000"), None);
        assert_eq!(ids.get("kept-value", "first"), Some(1));
    }

    #[test]
    fn many_tables_keep_what_was_used_last_within_the_bound() {
        let mut ids = Ids::default();
        let text = "x".repeat(1 << 20);
        for n in 0..200 {
            ids.insert(&format!("t{n}-value"), &text, n);
            assert!(ids.bytes <= BYTES);
        }
        assert!((48..=64).contains(&known(&ids)), "{}", known(&ids));
        assert_eq!(ids.subjects.len(), known(&ids), "no subject is left empty");
        assert_eq!(ids.get("t199-value", &text), Some(199));
        assert_eq!(ids.get("t0-value", &text), None);
    }
}
