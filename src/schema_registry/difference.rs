//! What differs between two Avro schemas, for people to read.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;

use super::definition::{Names, PRIMITIVES, collect_names, describe, fields, full_name, kind, resolve, space_of};

/// Compares two schemas (JSON text) field by field and gives a line for each difference, in the order of the new
/// schema's fields and the removed ones after them. Empty where no field differs.
///
/// A nullable record is compared as the record; documentation and order are not compared. Logical types are, and
/// precision and scale: reading one decimal as another gives wrong numbers without an error.
pub fn difference(old: &str, new: &str) -> Vec<String> {
    let (Ok(old), Ok(new)) = (serde_json::from_str(old), serde_json::from_str(new)) else {
        return vec!["the two schemas cannot be compared, since one is not JSON".to_owned()];
    };
    let mut comparison = Comparison {
        old_names: BTreeMap::new(),
        new_names: BTreeMap::new(),
        compared: BTreeSet::new(),
        lines: Vec::new(),
    };
    collect_names(&old, "", &mut comparison.old_names);
    collect_names(&new, "", &mut comparison.new_names);
    comparison.types("", &old, &new, ("", ""));
    comparison.lines
}

struct Comparison<'a> {
    old_names: Names<'a>,
    new_names: Names<'a>,
    /// Pairs of records seen: one defined once and named twice is reported once, and a recursive one ends.
    compared: BTreeSet<(String, String)>,
    lines: Vec<String>,
}

impl<'a> Comparison<'a> {
    /// `spaces`: the enclosing namespaces, old and new.
    fn types(&mut self, path: &str, old: &'a Value, new: &'a Value, spaces: (&str, &str)) {
        let old = resolve(old, spaces.0, &self.old_names);
        let new = resolve(new, spaces.1, &self.new_names);
        if let (Some(old_inner), Some(new_inner)) = (nested(old), nested(new)) {
            return self.types(path, old_inner, new_inner, spaces);
        }
        let at = |what: String| {
            if path.is_empty() {
                what
            } else {
                format!("field {path}: {what}")
            }
        };
        match (kind(old), kind(new)) {
            (Some("record"), Some("record")) => {
                let names = (full_name(old, spaces.0), full_name(new, spaces.1));
                if names.0 != names.1 {
                    self.lines.push(at(format!("record {} became {}", names.0, names.1)));
                }
                if self.compared.insert(names.clone()) {
                    self.fields(path, old, new, (space_of(&names.0), space_of(&names.1)));
                }
            }
            (Some("array"), Some("array")) => {
                if let (Some(old), Some(new)) = (old.get("items"), new.get("items")) {
                    self.types(&format!("{path}[]"), old, new, spaces);
                }
            }
            (Some("map"), Some("map")) => {
                if let (Some(old), Some(new)) = (old.get("values"), new.get("values")) {
                    self.types(&format!("{path}{{}}"), old, new, spaces);
                }
            }
            _ => {
                let (was, is) = (describe(old), describe(new));
                if was != is {
                    self.lines.push(at(format!("type changed from {was} to {is}")));
                }
            }
        }
    }

    fn fields(&mut self, path: &str, old: &'a Value, new: &'a Value, spaces: (&str, &str)) {
        let (old, new) = (fields(old), fields(new));
        let below = |name: &str| {
            if path.is_empty() {
                name.to_owned()
            } else {
                format!("{path}.{name}")
            }
        };
        for &(name, field) in &new {
            let path = below(name);
            let kind = field.get("type").unwrap_or(&Value::Null);
            let Some(&(_, before)) = old.iter().find(|(old, _)| *old == name) else {
                let default = if field.get("default").is_some() {
                    "with a default"
                } else {
                    "without a default"
                };
                self.lines
                    .push(format!("field {path}: added, type {}, {default}", describe(kind)));
                continue;
            };
            self.types(&path, before.get("type").unwrap_or(&Value::Null), kind, spaces);
            match (before.get("default"), field.get("default")) {
                (Some(_), None) => self.lines.push(format!("field {path}: lost its default")),
                (None, Some(_)) => self.lines.push(format!("field {path}: got a default")),
                (was, is) if was != is => self.lines.push(format!("field {path}: default changed")),
                _ => (),
            }
        }
        for &(name, field) in old.iter().filter(|(name, _)| !new.iter().any(|(new, _)| new == name)) {
            let kind = field.get("type").unwrap_or(&Value::Null);
            let default = if field.get("default").is_some() {
                "had a default"
            } else {
                "had no default"
            };
            self.lines.push(format!(
                "field {}: removed, type {}, {default}",
                below(name),
                describe(kind)
            ));
        }
    }
}

/// What stands in a union of null and one complex type; a union of null and a simple one is told as it is.
fn nested(schema: &Value) -> Option<&Value> {
    let branches = schema.as_array()?;
    let mut others = branches.iter().filter(|branch| branch.as_str() != Some("null"));
    let only = others.next().filter(|_| branches.len() == 2)?;
    let complex = match only {
        Value::String(name) => !PRIMITIVES.contains(&name.as_str()),
        other => matches!(kind(other), Some("record" | "array" | "map")),
    };
    (complex && others.next().is_none()).then_some(only)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(fields: &str) -> String {
        format!(r#"{{"type":"record","name":"Value","namespace":"shop.public.t","fields":[{fields}]}}"#)
    }

    #[test]
    fn fields_added_removed_and_changed_are_told_apart() {
        let old = row(
            r#"{"name":"id","type":"int"},{"name":"gone","type":["null","string"],"default":null},
               {"name":"price","type":["null",{"type":"bytes","logicalType":"decimal","precision":10,"scale":2}]},
               {"name":"n","type":["null","int"],"default":null}"#,
        );
        let new = row(r#"{"name":"id","type":"int"},{"name":"fresh","type":"string"},
               {"name":"price","type":["null",{"type":"bytes","logicalType":"decimal","precision":10,"scale":3}]},
               {"name":"n","type":["null","string"]}"#);
        assert_eq!(
            difference(&old, &new),
            [
                "field fresh: added, type string, without a default",
                "field price: type changed from [null, bytes (decimal 10,2)] to [null, bytes (decimal 10,3)]",
                "field n: type changed from [null, int] to [null, string]",
                "field n: lost its default",
                "field gone: removed, type [null, string], had a default",
            ]
        );
    }

    #[test]
    fn a_record_inside_an_envelope_is_compared_once_though_named_twice() {
        let envelope = |kind: &str| {
            format!(
                r#"{{"type":"record","name":"Envelope","namespace":"shop.public.t","fields":[
                    {{"name":"before","type":["null",{{"type":"record","name":"Value","fields":[
                        {{"name":"id","type":"{kind}"}}]}}],"default":null}},
                    {{"name":"after","type":["null","Value"],"default":null}}]}}"#
            )
        };
        assert_eq!(
            difference(&envelope("int"), &envelope("string")),
            ["field before.id: type changed from int to string"]
        );
    }

    #[test]
    fn equal_schemas_differ_nowhere_and_recursive_ones_end() {
        let list = r#"{"type":"record","name":"List","fields":[{"name":"next","type":["null","List"]}]}"#;
        assert_eq!(difference(list, list), Vec::<String>::new());
    }

    #[test]
    fn a_type_that_stops_being_a_record_is_a_change_of_type() {
        assert_eq!(
            difference(&row(r#"{"name":"id","type":"int"}"#), r#"{"type":"string"}"#),
            ["type changed from record Value to string"]
        );
        assert_eq!(
            difference("{", "\"int\""),
            ["the two schemas cannot be compared, since one is not JSON"]
        );
    }

    #[test]
    fn items_of_arrays_are_compared() {
        let array = |item: &str| {
            row(&format!(
                r#"{{"name":"tags","type":{{"type":"array","items":"{item}"}}}}"#
            ))
        };
        assert_eq!(
            difference(&array("int"), &array("string")),
            ["field tags[]: type changed from int to string"]
        );
    }
}
