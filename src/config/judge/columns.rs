//! `avro.columns`: each rule by itself. Whether it fits the columns that it covers is known once there are tables.

use std::path::Path;

use super::Judge;
use super::secret::read_secret;
use crate::config::fault::Fault;
use crate::config::glob::ColumnPattern;
use crate::config::keys::Kind;
use crate::config::secret::Secret;
use crate::config::settings::{ColumnAction, ColumnRule};
use crate::config::value::{self, Raw, SALT, Value};

/// The keys of a rule, and what each must be.
const KEYS: [(&str, Kind); 8] = [
    ("exclude", Kind::Bool),
    ("mask", Kind::Choice(&["sha256", "fixed"])),
    (SALT, Kind::Secret),
    ("salt_file", Kind::Text),
    ("with", Kind::Text),
    ("type", Kind::Choice(&["string"])),
    ("truncate", Kind::Integer(1, 1_000_000_000)),
    ("required", Kind::Bool),
];

/// What is wrong with a rule: the key in it (or the rule as a whole), the problem, the remedy.
type Problem = (Option<&'static str>, String, String);

impl Judge {
    pub(super) fn columns(&mut self) -> Vec<ColumnRule> {
        let Some(Value::Rules(written)) = self.values.get("avro.columns").cloned() else {
            return Vec::new();
        };
        let mut rules = Vec::new();
        for (pattern, keys) in &written {
            if let Err(error) = ColumnPattern::parse(pattern) {
                self.rule_fault(pattern, keys, (None, format!("the pattern {error}"), String::new()));
            }
            let (values, unread) = read(keys);
            if !unread.is_empty() {
                for (key, problem, remedy) in unread {
                    self.push_rule_fault(pattern, Some(key), None, problem, remedy);
                }
                continue;
            }
            match values.action() {
                Ok(action) => rules.push(ColumnRule {
                    pattern: pattern.clone(),
                    action,
                    required: values.bool("required").unwrap_or(true),
                }),
                Err(problem) => self.rule_fault(pattern, keys, problem),
            }
        }
        rules
    }

    fn rule_fault(&mut self, pattern: &str, keys: &[(String, Raw)], (key, problem, remedy): Problem) {
        let value = key.and_then(|key| {
            let raw = keys.iter().find(|(name, _)| name == key).map(|(_, raw)| raw)?;
            raw.show(kind_of(key)?)
        });
        self.push_rule_fault(pattern, key, value, problem, remedy);
    }

    fn push_rule_fault(
        &mut self,
        pattern: &str,
        key: Option<&str>,
        value: Option<String>,
        problem: String,
        remedy: String,
    ) {
        let rule = format!("avro.columns.{}", value::quote(pattern));
        self.faults.push(Fault {
            key: key.map_or_else(|| rule.clone(), |key| format!("{rule}.{key}")),
            origin: self.origin("avro.columns"),
            value,
            problem,
            remedy,
        });
    }
}

fn kind_of(key: &str) -> Option<Kind> {
    KEYS.iter().find(|(name, _)| *name == key).map(|(_, kind)| *kind)
}

/// The values of one rule.
struct Values(Vec<(&'static str, Value)>);

/// Reads each key as its kind; what cannot be read comes with its problem and remedy.
fn read(keys: &[(String, Raw)]) -> (Values, Vec<(&str, String, String)>) {
    let mut values = Vec::new();
    let mut faults = Vec::new();
    for (name, raw) in keys {
        match KEYS.iter().find(|(known, _)| known == name) {
            Some((known, kind)) => match value::read(*kind, raw) {
                Ok(value) => values.push((*known, value)),
                Err(wrong) => faults.push((name.as_str(), wrong.problem, wrong.remedy)),
            },
            None => faults.push((name.as_str(), "unknown key".to_owned(), nearest(name))),
        }
    }
    (Values(values), faults)
}

fn nearest(name: &str) -> String {
    let best = KEYS
        .iter()
        .map(|(known, _)| (strsim::jaro_winkler(name, known), *known))
        .max_by(|a, b| a.0.total_cmp(&b.0));
    best.map_or_else(String::new, |(_, known)| format!("the nearest known one is {known}"))
}

impl Values {
    fn get(&self, key: &str) -> Option<&Value> {
        self.0.iter().find(|(known, _)| *known == key).map(|(_, value)| value)
    }

    fn bool(&self, key: &str) -> Option<bool> {
        match self.get(key) {
            Some(Value::Bool(value)) => Some(*value),
            _ => None,
        }
    }

    /// A string that is not empty.
    fn text(&self, key: &str) -> Option<&str> {
        match self.get(key) {
            Some(Value::Text(text)) if !text.is_empty() => Some(text),
            _ => None,
        }
    }

    /// The first of these keys that is there.
    fn first(&self, keys: &[&'static str]) -> Option<&'static str> {
        keys.iter().copied().find(|key| self.get(key).is_some())
    }

    /// None of `others` may stand beside `key`.
    fn alone(&self, key: &'static str, others: &[&'static str]) -> Result<(), Problem> {
        match self.first(others) {
            None => Ok(()),
            Some(other) => Err((
                Some(other),
                format!("makes no sense beside {key}"),
                "keep one of the two".to_owned(),
            )),
        }
    }

    fn action(&self) -> Result<ColumnAction, Problem> {
        const MASK: [&str; 3] = [SALT, "salt_file", "with"];
        if let Some(exclude) = self.bool("exclude") {
            self.alone("exclude", &["mask", "type", "truncate", SALT, "salt_file", "with"])?;
            return Ok(if exclude {
                ColumnAction::Exclude
            } else {
                ColumnAction::Keep
            });
        }
        let Some(mask) = self.text("mask") else {
            if let Some(key) = self.first(&MASK) {
                let mask = if key == "with" { "fixed" } else { "sha256" };
                return Err((
                    Some(key),
                    "is set without mask".to_owned(),
                    format!("set mask = \"{mask}\", or leave it out"),
                ));
            }
            return self.as_text();
        };
        self.alone("mask", &["truncate"])?;
        if mask == "fixed" {
            self.alone("mask = \"fixed\"", &[SALT, "salt_file"])?;
            return match self.get("with") {
                Some(Value::Text(with)) => Ok(ColumnAction::Fixed { with: with.clone() }),
                _ => Err((
                    Some("mask"),
                    "needs a text to put in the value's place".to_owned(),
                    "set with, such as with = \"***\"".to_owned(),
                )),
            };
        }
        self.alone("mask = \"sha256\"", &["with"])?;
        Ok(ColumnAction::Sha256 { salt: self.salt()? })
    }

    fn as_text(&self) -> Result<ColumnAction, Problem> {
        let truncate = match self.get("truncate") {
            Some(Value::Integer(characters)) => u32::try_from(*characters).ok(),
            _ => None,
        };
        match (self.text("type"), truncate) {
            (Some(_), truncate) => Ok(ColumnAction::Text { truncate }),
            (None, Some(characters)) => Ok(ColumnAction::Truncate { characters }),
            (None, None) => Err((
                None,
                "says nothing of the column".to_owned(),
                "set exclude, mask, type or truncate; exclude = false leaves a column as it is where another pattern covers it"
                    .to_owned(),
            )),
        }
    }

    fn salt(&self) -> Result<Secret, Problem> {
        let inline = match self.get(SALT) {
            Some(Value::Secret(salt)) if !salt.expose().is_empty() => Some(salt.clone()),
            _ => None,
        };
        match (inline, self.text("salt_file")) {
            (Some(_), Some(_)) => Err((
                Some("salt_file"),
                "is set, and so is salt".to_owned(),
                "keep one of the two".to_owned(),
            )),
            (Some(salt), None) => Ok(salt),
            (None, Some(path)) => read_secret(Path::new(path)).map_err(|problem| {
                let remedy = "give a file that holds the salt and nothing else".to_owned();
                (Some("salt_file"), problem, remedy)
            }),
            (None, None) => Err((
                Some("mask"),
                "needs a salt: without one, whoever guesses a value can tell that it is the one".to_owned(),
                "set salt_file, or salt".to_owned(),
            )),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;
    use std::path::Path as FilePath;

    use super::*;
    use crate::config::{Loaded, load_text};

    fn load(rules: &str, variables: &[(&str, &str)]) -> Result<Loaded, String> {
        let variables: BTreeMap<String, String> = variables
            .iter()
            .map(|(name, value)| ((*name).to_owned(), (*value).to_owned()))
            .collect();
        let text = format!("name = \"shop\"\n[avro.columns]\n{rules}\n");
        load_text(FilePath::new("walferry.toml"), &text, &variables).map_err(|errors| {
            let faults: Vec<String> = errors.faults.iter().map(ToString::to_string).collect();
            faults.join("\n")
        })
    }

    fn action(rule: &str) -> Result<ColumnAction, String> {
        let loaded = load(&format!("\"a.b.c\" = {{ {rule} }}"), &[])?;
        let [rule] = <[ColumnRule; 1]>::try_from(loaded.config.avro.columns).unwrap();
        assert_eq!(rule.pattern, "a.b.c");
        Ok(rule.action)
    }

    #[test]
    fn each_rule_is_read() {
        let salt = Secret::new("pepper");
        for (rule, expected) in [
            ("exclude = true", ColumnAction::Exclude),
            ("exclude = false", ColumnAction::Keep),
            (
                "mask = \"sha256\", salt = \"pepper\"",
                ColumnAction::Sha256 { salt: salt.clone() },
            ),
            (
                "mask = \"sha256\", salt = \"pepper\", type = \"string\"",
                ColumnAction::Sha256 { salt },
            ),
            (
                "mask = \"fixed\", with = \"***\"",
                ColumnAction::Fixed { with: "***".into() },
            ),
            (
                "mask = \"fixed\", with = \"\"",
                ColumnAction::Fixed { with: String::new() },
            ),
            ("type = \"string\"", ColumnAction::Text { truncate: None }),
            (
                "type = \"string\", truncate = 9",
                ColumnAction::Text { truncate: Some(9) },
            ),
            ("truncate = 20", ColumnAction::Truncate { characters: 20 }),
        ] {
            assert_eq!(action(rule), Ok(expected), "{rule}");
        }
    }

    #[test]
    fn a_rule_that_makes_no_sense_is_refused_with_its_key() {
        for (rule, fault) in [
            ("", "\"a.b.c\" (walferry.toml, line 2): says nothing of the column"),
            (
                "required = false",
                "\"a.b.c\" (walferry.toml, line 2): says nothing of the column",
            ),
            (
                "exclude = true, mask = \"fixed\"",
                "\"a.b.c\".mask = \"fixed\" (walferry.toml, line 2): makes no sense beside exclude; keep one of the two",
            ),
            (
                "mask = \"sha256\"",
                "\"a.b.c\".mask = \"sha256\" (walferry.toml, line 2): needs a salt: ",
            ),
            (
                "mask = \"sha256\", salt = \"hunter2\", salt_file = \"/x\"",
                "\"a.b.c\".salt_file = \"/x\" (walferry.toml, line 2): is set, and so is salt; keep one of the two",
            ),
            (
                "mask = \"sha256\", salt_file = \"/nowhere/at/all\"",
                "\"a.b.c\".salt_file = \"/nowhere/at/all\" (walferry.toml, line 2): cannot be read: ",
            ),
            (
                "mask = \"sha256\", salt = \"hunter2\", truncate = 8",
                "\"a.b.c\".truncate = 8 (walferry.toml, line 2): makes no sense beside mask",
            ),
            (
                "mask = \"fixed\"",
                "\"a.b.c\".mask = \"fixed\" (walferry.toml, line 2): needs a text",
            ),
            (
                "mask = \"fixed\", with = \"x\", salt = \"hunter2\"",
                "\"a.b.c\".salt = <redacted> (walferry.toml, line 2): makes no sense beside mask = \"fixed\"",
            ),
            (
                "salt = \"hunter2\"",
                "\"a.b.c\".salt = <redacted> (walferry.toml, line 2): is set without mask; set mask = \"sha256\"",
            ),
            (
                "truncate = 0",
                "\"a.b.c\".truncate (walferry.toml, line 2): is out of range; must be a whole number from 1 to 1000000000",
            ),
            (
                "mask = \"md5\"",
                "\"a.b.c\".mask (walferry.toml, line 2): is not known; must be one of sha256, fixed",
            ),
            (
                "mask = \"sha256\", slat = \"hunter2\"",
                "\"a.b.c\".slat (walferry.toml, line 2): unknown key; the nearest known one is salt",
            ),
            (
                "exclude = \"yes\"",
                "\"a.b.c\".exclude (walferry.toml, line 2): is a string; must be true or false",
            ),
        ] {
            let found = action(rule).unwrap_err();
            assert!(found.starts_with(&format!("avro.columns.{fault}")), "{rule}\n{found}");
            assert!(!found.contains("hunter2"), "{found}");
        }
    }

    #[test]
    fn every_rule_at_fault_is_reported() {
        let faults = load(
            "\"a.b\" = { exclude = true }\n\"a.b.c\" = { exlude = true, truncate = \"9\" }\n\"a.b.d\" = { mask = \"fixed\" }",
            &[],
        );
        assert_eq!(
            faults.unwrap_err(),
            "avro.columns.\"a.b\" (walferry.toml, line 2): the pattern names no column: write schema.table.column, with a name \
             that contains a dot in double quotes\n\
             avro.columns.\"a.b.c\".exlude (walferry.toml, line 2): unknown key; the nearest known one is exclude\n\
             avro.columns.\"a.b.c\".truncate (walferry.toml, line 2): is a string; must be a whole number from 1 to 1000000000\n\
             avro.columns.\"a.b.d\".mask = \"fixed\" (walferry.toml, line 2): needs a text to put in the value's place; \
             set with, such as with = \"***\""
        );
    }

    #[test]
    fn a_pattern_without_quotes_is_told_to_have_them() {
        let fault = load("public.users.email = { exclude = true }", &[]).unwrap_err();
        assert_eq!(
            fault,
            "avro.columns (walferry.toml, line 2): has a table in the table at \"public\"; put the whole pattern in quotes, such as \
             \"public.users.email\" = { … }"
        );
        assert!(
            load("\"a.b.c\" = true", &[])
                .unwrap_err()
                .contains("has a boolean at \"a.b.c\"")
        );
    }

    #[test]
    fn rules_may_come_from_a_variable_and_a_table_each() {
        let loaded = load(
            "\"x.y.z\" = { exclude = true }",
            &[(
                "WALFERRY__AVRO__COLUMNS",
                "{ \"a.b.C\" = { truncate = 5, required = false, type = \"string\" } }",
            )],
        )
        .unwrap();
        let expected = ColumnRule {
            pattern: "a.b.C".to_owned(),
            action: ColumnAction::Text { truncate: Some(5) },
            required: false,
        };
        assert_eq!(loaded.config.avro.columns, [expected]);
        let loaded = load(
            "[avro.columns.\"A[9].b.c\"]\nexclude = true\n[avro.columns.'d.e.\"F.g\"']\ntruncate = 1",
            &[],
        );
        let patterns: Vec<String> = loaded
            .unwrap()
            .config
            .avro
            .columns
            .into_iter()
            .map(|rule| rule.pattern)
            .collect();
        assert_eq!(patterns, ["A[9].b.c", "d.e.\"F.g\""]);
    }

    #[test]
    fn what_is_shown_loads_again_and_has_no_salt() {
        let loaded = load(
            "'a.b.\"c\"' = { mask = \"sha256\", salt = \"hunter2\" }\n\"a.b.d\" = { truncate = 3, type = \"string\" }",
            &[],
        )
        .unwrap();
        let shown = loaded.to_toml();
        assert!(
            shown.contains(
                "columns = { \"a.b.\\\"c\\\"\" = { \"mask\" = \"sha256\", \"salt\" = \"<redacted>\" }, \
                 \"a.b.d\" = { \"truncate\" = 3, \"type\" = \"string\" } }\n"
            ),
            "{shown}"
        );
        assert!(!format!("{loaded:?}{shown}").contains("hunter2"));
        let again = load_text(FilePath::new("walferry.toml"), &shown, &BTreeMap::new()).unwrap();
        assert_eq!(again.to_toml(), shown);
    }
}
