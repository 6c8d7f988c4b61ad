//! What was written, key by key: the file, and the environment over it.

use std::collections::BTreeMap;
use std::path::Path;

use toml::Spanned;
use toml::de::{DeTable, DeValue};

use super::environment::Environment;
use super::fault::{Fault, Origin};
use super::keys::{self, KEYS, Kind, PREFIX, SECTIONS};
use super::value::Raw;

/// A value as it was written, and where.
#[derive(Clone, PartialEq)]
pub(super) struct Found {
    pub(super) raw: Raw,
    pub(super) origin: Origin,
}

/// The values of the known keys.
pub(super) type FoundKeys = BTreeMap<&'static str, Found>;

/// Reads the file's text. A fault of syntax stops here: what stands after it may mean something else.
pub(super) fn from_file(path: &Path, text: &str, faults: &mut Vec<Fault>) -> Option<FoundKeys> {
    let (document, errors) = DeTable::parse_recoverable(text);
    let file = File { path, text };
    if !errors.is_empty() {
        for error in errors {
            let at = error.span().map_or(0, |span| span.start);
            // The line itself may hold a password, so it is not shown.
            faults.push(Fault {
                key: String::new(),
                origin: file.origin(at),
                value: None,
                problem: format!(
                    "column {}: invalid TOML: {}",
                    file.column(at),
                    error.message().replace('\n', ", ")
                ),
                remedy: String::new(),
            });
        }
        return None;
    }
    let mut found = FoundKeys::new();
    for (name, value) in document.get_ref() {
        file.top(name.get_ref(), name.span().start, value, &mut found, faults);
    }
    Some(found)
}

struct File<'a> {
    path: &'a Path,
    text: &'a str,
}

impl File<'_> {
    fn origin(&self, at: usize) -> Origin {
        let before = self.text.get(..at).unwrap_or(self.text);
        Origin::File {
            path: self.path.to_owned(),
            line: before.matches('\n').count() + 1,
        }
    }

    fn column(&self, at: usize) -> usize {
        let before = self.text.get(..at).unwrap_or(self.text);
        before.rsplit('\n').next().map_or(0, |line| line.chars().count()) + 1
    }

    fn top(&self, name: &str, at: usize, value: &Spanned<DeValue<'_>>, found: &mut FoundKeys, faults: &mut Vec<Fault>) {
        let known_section = SECTIONS
            .iter()
            .any(|(section, _)| !section.is_empty() && *section == name);
        match (known_section, value.get_ref()) {
            (true, DeValue::Table(table)) => {
                for (key, value) in table {
                    self.one(
                        &format!("{name}.{}", key.get_ref()),
                        key.span().start,
                        value,
                        found,
                        faults,
                    );
                }
            }
            (true, _) => faults.push(Fault {
                key: name.to_owned(),
                origin: self.origin(at),
                value: None,
                problem: "is a section".to_owned(),
                remedy: format!("write [{name}] and its keys below"),
            }),
            (false, DeValue::Table(_)) => {
                let sections: Vec<&str> = SECTIONS
                    .iter()
                    .map(|(section, _)| *section)
                    .filter(|s| !s.is_empty())
                    .collect();
                let near = sections
                    .iter()
                    .find(|section| strsim::jaro_winkler(name, section) > 0.85);
                let remedy = match near {
                    Some(section) => format!("the nearest known one is [{section}]"),
                    None => format!("the known ones are {}", sections.join(", ")),
                };
                faults.push(Fault {
                    key: format!("[{name}]"),
                    origin: self.origin(at),
                    value: None,
                    problem: "unknown section".to_owned(),
                    remedy,
                });
            }
            (false, _) => self.one(name, at, value, found, faults),
        }
    }

    fn one(&self, path: &str, at: usize, value: &Spanned<DeValue<'_>>, found: &mut FoundKeys, faults: &mut Vec<Fault>) {
        let origin = self.origin(at);
        match keys::find(path) {
            Some(key) => {
                found.insert(
                    key.path,
                    Found {
                        raw: Raw::from_toml(value.get_ref()),
                        origin,
                    },
                );
            }
            // Not its value: a misspelt password is one still.
            None => faults.push(Fault {
                key: path.to_owned(),
                origin,
                value: None,
                problem: "unknown key".to_owned(),
                remedy: format!("the nearest known one is {}", keys::nearest(path)),
            }),
        }
    }
}

/// Lays the environment over what the file says.
pub(super) fn from_environment(env: &dyn Environment, found: &mut FoundKeys, faults: &mut Vec<Fault>) {
    let mut variables = env.variables();
    variables.sort();
    for (name, value) in variables {
        let Some(name) = name.to_str() else { continue };
        let Some(rest) = name.strip_prefix(PREFIX) else {
            continue;
        };
        let origin = Origin::Environment(name.to_owned());
        let path = rest.to_ascii_lowercase().replace("__", ".");
        let Some(key) = KEYS.iter().find(|key| key.path == path) else {
            let map = KEYS
                .iter()
                .find(|key| key.kind == Kind::Map && path.starts_with(&format!("{}.", key.path)));
            let remedy = match map {
                Some(map) => format!("write the whole table: {}='{{ \"name\" = \"value\" }}'", map.variable()),
                None => {
                    let nearest = keys::find(keys::nearest(&path))
                        .map(keys::Key::variable)
                        .unwrap_or_default();
                    format!("the nearest known one is {nearest}")
                }
            };
            faults.push(Fault {
                key: path,
                origin,
                value: None,
                problem: "unknown key".to_owned(),
                remedy,
            });
            continue;
        };
        match value.into_string() {
            Ok(text) => {
                found.insert(
                    key.path,
                    Found {
                        raw: Raw::Loose(text),
                        origin,
                    },
                );
            }
            Err(_) => faults.push(Fault {
                key: key.path.to_owned(),
                origin,
                value: None,
                problem: "is not valid UTF-8".to_owned(),
                remedy: String::new(),
            }),
        }
    }
}
