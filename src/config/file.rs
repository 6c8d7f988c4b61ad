//! The file as it is written: its syntax, its names, and the line of each value.

use std::collections::BTreeMap;
use std::ops::Range;
use std::path::Path;

use toml::Spanned;
use toml::de::{DeTable, DeValue};

use super::fault::{Fault, Origin};
use super::keys::{self, SECTIONS};
use super::value::{self, Raw};

/// What the tree of the layers does not say of the file.
pub(super) struct FileLayer {
    /// The text for the tree, with a 0 for whatever the tree cannot hold.
    pub(super) text: String,
    /// Where the known keys stand.
    pub(super) origins: BTreeMap<&'static str, Origin>,
    /// Those whose value the tree cannot hold, as it was written.
    pub(super) aside: BTreeMap<&'static str, Raw>,
}

/// Reads the file's text. A fault of syntax stops here: what stands after it may mean something else.
pub(super) fn read(path: &Path, text: &str, faults: &mut Vec<Fault>) -> Option<FileLayer> {
    let (document, errors) = DeTable::parse_recoverable(text);
    let mut reader = Reader {
        path,
        text,
        faults,
        origins: BTreeMap::new(),
        aside: BTreeMap::new(),
    };
    if !errors.is_empty() {
        for error in errors {
            reader.syntax(&error);
        }
        return None;
    }
    for (name, value) in document.get_ref() {
        reader.top(name.get_ref(), name.span().start, value);
    }
    Some(FileLayer {
        text: without_unheld(text, document.get_ref()),
        origins: reader.origins,
        aside: reader.aside,
    })
}

struct Reader<'a> {
    path: &'a Path,
    text: &'a str,
    faults: &'a mut Vec<Fault>,
    origins: BTreeMap<&'static str, Origin>,
    aside: BTreeMap<&'static str, Raw>,
}

impl Reader<'_> {
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

    /// A fault that shows no value: what is misplaced or misspelt may be a password still.
    fn fault(&mut self, key: String, at: usize, problem: String, remedy: String) {
        self.faults.push(Fault {
            key,
            origin: self.origin(at),
            value: None,
            problem,
            remedy,
        });
    }

    fn syntax(&mut self, error: &toml::de::Error) {
        let at = error.span().map_or(0, |span| span.start);
        let message = error.message().replace('\n', ", ");
        let problem = format!("column {}: invalid TOML: {message}", self.column(at));
        self.fault(String::new(), at, problem, String::new());
    }

    fn top(&mut self, name: &str, at: usize, value: &Spanned<DeValue<'_>>) {
        match (is_section(name), value.get_ref()) {
            (true, DeValue::Table(table)) => {
                for (key, value) in table {
                    self.one(&format!("{name}.{}", key.get_ref()), key.span().start, value);
                }
            }
            (true, _) => {
                let remedy = format!("write [{name}] and its keys below");
                self.fault(name.to_owned(), at, "is a section".to_owned(), remedy);
            }
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
                self.fault(format!("[{name}]"), at, "unknown section".to_owned(), remedy);
            }
            // Quoted: without the quotes, the name would be a key of a section.
            (false, _) if name.contains('.') => self.unknown(value::quote(name), name, at),
            (false, _) => self.one(name, at, value),
        }
    }

    fn one(&mut self, path: &str, at: usize, value: &Spanned<DeValue<'_>>) {
        let Some(key) = keys::find(path) else {
            return self.unknown(path.to_owned(), path, at);
        };
        self.origins.insert(key.path, self.origin(at));
        let mut unheld = Vec::new();
        find_unheld(value, &mut unheld);
        if !unheld.is_empty() {
            self.aside.insert(key.path, Raw::from_toml(value.get_ref()));
        }
    }

    fn unknown(&mut self, shown: String, path: &str, at: usize) {
        let remedy = format!("the nearest known one is {}", keys::nearest(path));
        self.fault(shown, at, "unknown key".to_owned(), remedy);
    }
}

/// Whether the file may hold this name at its top.
pub(super) fn is_known_at_the_top(name: &str) -> bool {
    is_section(name) || keys::find(name).is_some_and(|key| key.split().0.is_empty())
}

fn is_section(name: &str) -> bool {
    !name.is_empty() && SECTIONS.iter().any(|(section, _)| *section == name)
}

/// Finds what the tree cannot hold as it was written: a date would be a string there, a float would be spelt anew, and
/// for an integer beyond 64 bits the whole file would be refused, with all that could be said of it.
fn find_unheld(value: &Spanned<DeValue<'_>>, found: &mut Vec<Range<usize>>) {
    match value.get_ref() {
        DeValue::Datetime(_) | DeValue::Float(_) => found.push(value.span()),
        DeValue::Integer(number) => {
            if i64::from_str_radix(number.as_str(), number.radix()).is_err() {
                found.push(value.span());
            }
        }
        DeValue::Array(items) => items.iter().for_each(|item| find_unheld(item, found)),
        DeValue::Table(table) => table.values().for_each(|value| find_unheld(value, found)),
        DeValue::String(_) | DeValue::Boolean(_) => {}
    }
}

/// The text with a 0 in the place of everything that the tree cannot hold.
fn without_unheld(text: &str, document: &DeTable<'_>) -> String {
    let mut unheld = Vec::new();
    document.values().for_each(|value| find_unheld(value, &mut unheld));
    unheld.sort_by_key(|span| span.start);
    let mut kept = String::with_capacity(text.len());
    let mut end = 0;
    for span in unheld {
        kept.push_str(text.get(end..span.start).unwrap_or_default());
        kept.push('0');
        end = span.end;
    }
    kept.push_str(text.get(end..).unwrap_or_default());
    kept
}
