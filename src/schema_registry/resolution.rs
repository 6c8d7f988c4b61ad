//! Whether what was written by one schema is read by another, and as the same values (Avro specification 1.12, "Schema
//! Resolution").
//!
//! A registry compares how values are laid out. That is not enough: a `decimal(10,2)` and a `decimal(12,4)` are both
//! bytes, a date and a number of microseconds are both integers, and `bytes` may be read as `string`. Such data is
//! read without an error, as something else. A change of what the bytes stand for is a change of type here. Between
//! strings it is none: the same characters are the same value, whether they are called a uuid or nothing at all.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use serde_json::Value;

use super::definition::{Names, collect_names, describe, fields, full_name, kind, meaning, resolve, space_of};

/// A place where data of one schema is not read by another.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Conflict {
    /// Names of fields from the outermost record inwards, with dots; `[]` and `{}` are items and values. Empty: the schema
    /// itself.
    pub path: String,
    /// Why.
    pub fault: Fault,
}

/// Why data is not read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Fault {
    /// The bytes cannot be read as that type.
    Unresolvable {
        /// The type that wrote.
        writer: String,
        /// The type that is to read.
        reader: String,
    },
    /// The bytes are read, as something else than was written.
    Misread {
        /// The type that wrote.
        writer: String,
        /// The type that is to read.
        reader: String,
    },
    /// The reader has a field that was not written, and no default for it.
    NoDefault {
        /// Its type.
        reader: String,
    },
}

impl Conflict {
    /// Whether a reader would notice nothing.
    pub fn is_misread(&self) -> bool {
        matches!(self.fault, Fault::Misread { .. })
    }
}

impl fmt::Display for Conflict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if !self.path.is_empty() {
            write!(f, "field {}: ", self.path)?;
        }
        match &self.fault {
            Fault::Unresolvable { writer, reader } => write!(f, "{writer} cannot be read as {reader}"),
            Fault::Misread { writer, reader } => write!(f, "{writer} would be read as {reader}, without an error"),
            Fault::NoDefault { reader } => {
                write!(f, "{reader} without a default cannot be read where it was not written")
            }
        }
    }
}

/// Where data that `writer` wrote is not read by `reader`. Empty: all of it is, as the same values.
pub fn conflicts(writer: &Value, reader: &Value) -> Vec<Conflict> {
    let mut names = Both {
        writer: BTreeMap::new(),
        reader: BTreeMap::new(),
    };
    collect_names(writer, "", &mut names.writer);
    collect_names(reader, "", &mut names.reader);
    let mut resolution = Resolution {
        names: &names,
        seen: BTreeSet::new(),
        found: Vec::new(),
    };
    resolution.types("", Side::new(writer, ""), Side::new(reader, ""));
    resolution.found
}

struct Both<'a> {
    writer: Names<'a>,
    reader: Names<'a>,
}

/// A type, and the namespace in which it stands.
#[derive(Clone, Copy)]
struct Side<'a, 's> {
    schema: &'a Value,
    space: &'s str,
}

impl<'a, 's> Side<'a, 's> {
    fn new(schema: &'a Value, space: &'s str) -> Self {
        Side { schema, space }
    }

    fn with(self, schema: &'a Value) -> Self {
        Side { schema, ..self }
    }

    /// What the type can be: the branches of a union, or itself.
    fn branches(self) -> &'a [Value] {
        match self.schema {
            Value::Array(branches) => branches,
            other => std::slice::from_ref(other),
        }
    }
}

struct Resolution<'a, 'n> {
    names: &'n Both<'a>,
    /// Pairs of records, writer's and reader's: what is named twice is reported once, and a recursive record ends.
    seen: BTreeSet<(String, String)>,
    found: Vec<Conflict>,
}

impl<'a> Resolution<'a, '_> {
    fn types(&mut self, path: &str, writer: Side<'a, '_>, reader: Side<'a, '_>) {
        let writer = writer.with(resolve(writer.schema, writer.space, &self.names.writer));
        let reader = reader.with(resolve(reader.schema, reader.space, &self.names.reader));
        if !writer.schema.is_array() && !reader.schema.is_array() {
            return self.branch(path, writer, reader);
        }
        for written in writer.branches() {
            self.union(path, writer.with(written), reader);
        }
    }

    /// One of the writer's branches, against whichever of the reader's reads it best.
    fn union(&mut self, path: &str, writer: Side<'a, '_>, reader: Side<'a, '_>) {
        let mut best: Option<(u8, Resolution<'a, '_>)> = None;
        for read in reader.branches() {
            let mut trial = Resolution {
                names: self.names,
                seen: self.seen.clone(),
                found: Vec::new(),
            };
            trial.types(path, writer.with(writer.schema), reader.with(read));
            let same_kind = || {
                let writer = resolve(writer.schema, writer.space, &self.names.writer);
                kind(writer) == kind(resolve(read, reader.space, &self.names.reader))
            };
            let rank = match trial.found.is_empty() {
                true => 0,
                false if trial.found.iter().all(Conflict::is_misread) => 1,
                false if same_kind() => 2,
                false if kind(read) != Some("null") => 3,
                false => 4,
            };
            if best.as_ref().is_none_or(|(known, _)| rank < *known) {
                best = Some((rank, trial));
            }
        }
        if let Some((_, trial)) = best {
            self.seen = trial.seen;
            self.found.extend(trial.found);
        }
    }

    /// Two types that are no unions.
    fn branch(&mut self, path: &str, writer: Side<'a, '_>, reader: Side<'a, '_>) {
        let (written, read) = (writer.schema, reader.schema);
        let texts = || (describe(written), describe(read));
        let unresolvable = |(writer, reader)| Fault::Unresolvable { writer, reader };
        let misread = |(writer, reader)| Fault::Misread { writer, reader };
        let same_meaning = meaning(written) == meaning(read);
        let plain = meaning(written).is_plain() && meaning(read).is_plain();
        let fault = match (kind(written), kind(read)) {
            (Some("record"), Some("record")) => {
                let names = (full_name(written, writer.space), full_name(read, reader.space));
                if last(&names.0) == last(&names.1) {
                    if self.seen.insert(names.clone()) {
                        let writer = Side::new(written, space_of(&names.0));
                        self.fields(path, writer, Side::new(read, space_of(&names.1)));
                    }
                    return;
                }
                unresolvable(texts())
            }
            (Some("array"), Some("array")) => return self.inner("items", &format!("{path}[]"), writer, reader),
            (Some("map"), Some("map")) => return self.inner("values", &format!("{path}{{}}"), writer, reader),
            (Some("enum"), Some("enum")) => match last_name(written) == last_name(read) && reads_symbols(written, read)
            {
                true => return,
                false => unresolvable(texts()),
            },
            (Some("fixed"), Some("fixed")) => {
                match last_name(written) == last_name(read) && written.get("size") == read.get("size") {
                    true if same_meaning => return,
                    true => misread(texts()),
                    false => unresolvable(texts()),
                }
            }
            (Some("string"), Some("string")) => return,
            (Some(same), Some(other)) if same == other => match same_meaning {
                true => return,
                false => misread(texts()),
            },
            (Some("int"), Some("long" | "float" | "double"))
            | (Some("long"), Some("float" | "double"))
            | (Some("float"), Some("double")) => match plain {
                true => return,
                false => misread(texts()),
            },
            (Some("bytes"), Some("string")) | (Some("string"), Some("bytes")) => misread(texts()),
            _ => unresolvable(texts()),
        };
        self.found.push(Conflict {
            path: path.to_owned(),
            fault,
        });
    }

    fn inner(&mut self, key: &str, path: &str, writer: Side<'a, '_>, reader: Side<'a, '_>) {
        if let (Some(written), Some(read)) = (writer.schema.get(key), reader.schema.get(key)) {
            self.types(path, writer.with(written), reader.with(read));
        }
    }

    fn fields(&mut self, path: &str, writer: Side<'a, '_>, reader: Side<'a, '_>) {
        let written = fields(writer.schema);
        for (name, field) in fields(reader.schema) {
            let path = match path.is_empty() {
                true => name.to_owned(),
                false => format!("{path}.{name}"),
            };
            let read = field.get("type").unwrap_or(&Value::Null);
            match written.iter().find(|(written, _)| *written == name) {
                Some((_, before)) => {
                    let before = before.get("type").unwrap_or(&Value::Null);
                    self.types(&path, writer.with(before), reader.with(read));
                }
                None if field.get("default").is_some() => (),
                None => self.found.push(Conflict {
                    path,
                    fault: Fault::NoDefault { reader: describe(read) },
                }),
            }
        }
    }
}

fn last(full_name: &str) -> &str {
    full_name.rsplit_once('.').map_or(full_name, |(_, name)| name)
}

fn last_name(definition: &Value) -> &str {
    last(definition.get("name").and_then(Value::as_str).unwrap_or_default())
}

/// An enum reads another's symbols if it has all of them, or a default for those that it has not.
fn reads_symbols(written: &Value, read: &Value) -> bool {
    let symbols = |schema: &Value| {
        schema
            .get("symbols")
            .and_then(Value::as_array)
            .cloned()
            .unwrap_or_default()
    };
    let known = symbols(read);
    read.get("default").is_some() || symbols(written).iter().all(|symbol| known.contains(symbol))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn row(fields: &[(&str, Value)]) -> Value {
        let fields: Vec<Value> = fields
            .iter()
            .map(|(name, kind)| match kind {
                Value::Array(_) => json!({ "name": name, "type": kind, "default": null }),
                _ => json!({ "name": name, "type": kind }),
            })
            .collect();
        json!({ "type": "record", "name": "Value", "namespace": "shop.public.t", "fields": fields })
    }

    fn decimal(precision: u32, scale: u32) -> Value {
        json!({ "type": "bytes", "logicalType": "decimal", "precision": precision, "scale": scale })
    }

    fn logical(kind: &str, logical: &str) -> Value {
        json!({ "type": kind, "logicalType": logical })
    }

    fn between(writer: &Value, reader: &Value) -> Vec<String> {
        let nullable = |kind: &Value| row(&[("c", json!(["null", kind]))]);
        conflicts(&nullable(writer), &nullable(reader))
            .iter()
            .map(ToString::to_string)
            .collect()
    }

    #[test]
    fn what_avro_promotes_is_read() {
        for (writer, reader) in [
            ("int", "int"),
            ("int", "long"),
            ("int", "float"),
            ("int", "double"),
            ("long", "float"),
            ("long", "double"),
            ("float", "double"),
        ] {
            assert_eq!(between(&json!(writer), &json!(reader)), [""; 0], "{writer} → {reader}");
        }
        for (writer, reader) in [
            ("long", "int"),
            ("double", "float"),
            ("int", "string"),
            ("string", "long"),
            ("boolean", "int"),
        ] {
            assert_eq!(
                between(&json!(writer), &json!(reader)),
                [format!("field c: {writer} cannot be read as {reader}")]
            );
        }
    }

    #[test]
    fn the_same_bytes_that_mean_something_else_are_misread() {
        for (writer, reader, was, is) in [
            (
                decimal(10, 2),
                decimal(12, 4),
                "bytes (decimal 10,2)",
                "bytes (decimal 12,4)",
            ),
            (
                decimal(10, 2),
                decimal(12, 2),
                "bytes (decimal 10,2)",
                "bytes (decimal 12,2)",
            ),
            (decimal(10, 2), json!("bytes"), "bytes (decimal 10,2)", "bytes"),
            (decimal(10, 2), json!("string"), "bytes (decimal 10,2)", "string"),
            (json!("bytes"), json!("string"), "bytes", "string"),
            (json!("string"), json!("bytes"), "string", "bytes"),
            (logical("int", "date"), json!("int"), "int (date)", "int"),
            (logical("int", "date"), json!("long"), "int (date)", "long"),
            (
                logical("int", "date"),
                logical("long", "timestamp-micros"),
                "int (date)",
                "long (timestamp-micros)",
            ),
            (
                logical("long", "local-timestamp-micros"),
                logical("long", "timestamp-micros"),
                "long (local-timestamp-micros)",
                "long (timestamp-micros)",
            ),
            (
                logical("long", "time-micros"),
                json!("double"),
                "long (time-micros)",
                "double",
            ),
            (
                json!({ "type": "long", "connect.name": "io.debezium.time.Timestamp" }),
                json!({ "type": "long", "connect.name": "io.debezium.time.MicroTimestamp" }),
                "long (io.debezium.time.Timestamp)",
                "long (io.debezium.time.MicroTimestamp)",
            ),
        ] {
            assert_eq!(
                between(&writer, &reader),
                [format!("field c: {was} would be read as {is}, without an error")]
            );
        }
    }

    #[test]
    fn a_string_is_a_string_whatever_it_is_called() {
        let uuid = logical("string", "uuid");
        assert_eq!(between(&uuid, &json!("string")), [""; 0]);
        assert_eq!(between(&json!("string"), &uuid), [""; 0]);
        let json = json!({ "type": "string", "connect.name": "io.debezium.data.Json" });
        assert_eq!(between(&json, &json!("string")), [""; 0]);
    }

    #[test]
    fn a_field_that_was_not_written_needs_a_default() {
        let old = row(&[("id", json!("int"))]);
        let new = row(&[("id", json!("int")), ("a", json!(["null", "int"])), ("b", json!("int"))]);
        assert_eq!(conflicts(&new, &old), []);
        assert_eq!(
            conflicts(&old, &new)[0].to_string(),
            "field b: int without a default cannot be read where it was not written"
        );
    }

    #[test]
    fn null_is_read_only_where_the_reader_has_it() {
        let plain = row(&[("c", json!("int"))]);
        let nullable = row(&[("c", json!(["null", "int"]))]);
        assert_eq!(conflicts(&plain, &nullable), []);
        assert_eq!(
            conflicts(&nullable, &plain)[0].to_string(),
            "field c: null cannot be read as int"
        );
    }

    #[test]
    fn an_envelope_names_a_column_once() {
        let envelope = |kind: Value| {
            json!({ "type": "record", "name": "Envelope", "namespace": "shop.public.t", "fields": [
                { "name": "before", "type": ["null", row(&[("c", json!(["null", kind]))])], "default": null },
                { "name": "after", "type": ["null", "shop.public.t.Value"], "default": null },
            ] })
        };
        let found = conflicts(&envelope(decimal(10, 2)), &envelope(decimal(10, 3)));
        assert_eq!(found.len(), 1);
        assert_eq!(found[0].path, "before.c");
        assert!(found[0].is_misread());
    }

    #[test]
    fn what_holds_other_values_is_compared_inside() {
        let array = |kind: Value| json!({ "type": "array", "items": ["null", kind] });
        assert_eq!(
            between(&array(decimal(10, 2)), &array(decimal(10, 3))),
            ["field c[]: bytes (decimal 10,2) would be read as bytes (decimal 10,3), without an error"]
        );
        assert_eq!(
            between(&array(json!("int")), &json!("int")),
            ["field c: array of [null, int] cannot be read as int"]
        );
        let map = |kind: &str| json!({ "type": "map", "values": kind });
        assert_eq!(
            between(&map("int"), &map("string")),
            ["field c{}: int cannot be read as string"]
        );
        let composite = |name: &str, kind: Value| {
            json!({ "type": "record", "name": name, "namespace": "shop.public.t.public",
                    "fields": [{ "name": "a", "type": ["null", kind], "default": null }] })
        };
        assert_eq!(
            between(&composite("money", json!("int")), &composite("money", json!("string"))),
            ["field c.a: int cannot be read as string"]
        );
        assert_eq!(
            between(&composite("money", json!("int")), &composite("price", json!("int"))),
            ["field c: record money cannot be read as record price"]
        );
    }

    #[test]
    fn a_recursive_record_ends() {
        let list = |kind: &str| {
            json!({ "type": "record", "name": "List", "fields": [
                { "name": "v", "type": kind }, { "name": "next", "type": ["null", "List"] },
            ] })
        };
        assert_eq!(conflicts(&list("int"), &list("long")), []);
        assert_eq!(conflicts(&list("long"), &list("int")).len(), 1);
    }

    #[test]
    fn enums_need_the_symbols_or_a_default_and_fixed_its_size() {
        let mood = |symbols: &[&str]| json!({ "type": "enum", "name": "mood", "symbols": symbols });
        assert_eq!(between(&mood(&["a"]), &mood(&["a", "b"])), [""; 0]);
        assert_eq!(between(&mood(&["a", "b"]), &mood(&["a"])).len(), 1);
        let lenient = json!({ "type": "enum", "name": "mood", "symbols": ["a"], "default": "a" });
        assert_eq!(between(&mood(&["a", "b"]), &lenient), [""; 0]);
        let fixed = |size: u32| json!({ "type": "fixed", "name": "f", "size": size });
        assert_eq!(between(&fixed(4), &fixed(4)), [""; 0]);
        assert_eq!(between(&fixed(4), &fixed(5)).len(), 1);
    }
}
