//! The layers, one over the other: the file, and the environment over it, merged into one tree by the `config` crate.
//!
//! `config` takes a name for a path wherever it merges: `a.b` at the top of a file, in quotes too, is `b` in a table
//! `a`; `a[9]` is an array of ten; a variable lies over a section as well as over a key; and all variables are lower
//! case to it. So each layer gives it known names alone, and a fault for every other. Below a section it takes names as
//! they are; a table whose names are data, such as `kafka.properties`, is taken from the tree as a whole.

use std::collections::BTreeMap;
use std::fmt;

use ::config::{Config, ConfigError, File, FileFormat, Map, Source, Value, ValueKind};

use super::fault::Origin;
use super::file::{self, FileLayer};
use super::keys::{KEYS, Key, PREFIX, SEPARATOR};
use super::value::Raw;
use super::variables::VariableLayer;

/// A value as it was written, and where.
#[derive(Clone, PartialEq)]
pub(super) struct Found {
    pub(super) raw: Raw,
    pub(super) origin: Origin,
}

/// The values of the keys that are given.
pub(super) type FoundKeys = BTreeMap<&'static str, Found>;

/// Merges the layers. The error may hold text of the file, so nobody should show it.
pub(super) fn merge(file: Option<FileLayer>, variables: VariableLayer) -> Result<FoundKeys, ConfigError> {
    let mut builder = Config::builder();
    if let Some(layer) = &file {
        builder = builder.add_source(KnownNames(File::from_str(&layer.text, FileFormat::Toml)));
    }
    let environment = ::config::Environment::with_prefix(PREFIX)
        .separator(SEPARATOR)
        .source(Some(variables.values));
    let tree = builder.add_source(environment).build()?.cache;

    let (mut in_file, mut aside) = file.map_or_else(Default::default, |layer| (layer.origins, layer.aside));
    let mut in_environment = variables.origins;
    let mut found = FoundKeys::new();
    for key in KEYS {
        let value = value_of(&tree, key);
        let (raw, origin) = match (in_environment.remove(key.path), in_file.remove(key.path)) {
            (Some(origin), _) => (value.map(Raw::from_variable), origin),
            (None, Some(origin)) => (aside.remove(key.path).or_else(|| value.map(Raw::from_tree)), origin),
            (None, None) => continue,
        };
        if let Some(raw) = raw {
            found.insert(key.path, Found { raw, origin });
        }
    }
    Ok(found)
}

fn value_of<'a>(tree: &'a Value, key: &Key) -> Option<&'a Value> {
    let under = |value: &'a Value, name: &str| match &value.kind {
        ValueKind::Table(table) => table.get(name),
        _ => None,
    };
    match key.split() {
        ("", name) => under(tree, name),
        (section, name) => under(under(tree, section)?, name),
    }
}

/// A source without the names at its top that are not ours.
#[derive(Clone)]
struct KnownNames<S>(S);

impl<S> Source for KnownNames<S>
where
    S: Source + Clone + Send + Sync + 'static,
{
    fn clone_into_box(&self) -> Box<dyn Source + Send + Sync> {
        Box::new(self.clone())
    }

    fn collect(&self) -> Result<Map<String, Value>, ConfigError> {
        let mut names = self.0.collect()?;
        names.retain(|name, _| file::is_known_at_the_top(name));
        Ok(names)
    }
}

/// Without the text of the source, which may hold secrets.
impl<S> fmt::Debug for KnownNames<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("KnownNames").finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;
    use std::path::Path;

    use crate::config::{Config, ConfigErrors, load_text};

    fn read(text: &str, variables: &[(&str, &str)]) -> Result<Config, ConfigErrors> {
        let variables: BTreeMap<String, String> = variables
            .iter()
            .map(|(name, value)| ((*name).to_owned(), (*value).to_owned()))
            .collect();
        let text = format!("name = \"shop\"\n{text}");
        load_text(Path::new("walferry.toml"), &text, &variables).map(|loaded| loaded.config)
    }

    fn faults(text: &str, variables: &[(&str, &str)]) -> Vec<String> {
        let error = read(text, variables).unwrap_err();
        error.faults.iter().map(ToString::to_string).collect()
    }

    fn map(entries: &[(&str, &str)]) -> BTreeMap<String, String> {
        entries
            .iter()
            .map(|(name, value)| ((*name).to_owned(), (*value).to_owned()))
            .collect()
    }

    #[test]
    fn the_names_in_a_table_keep_their_dots_brackets_and_capitals() {
        let config = read(
            "[kafka.properties]\n\"linger.ms\" = 5\n\"Linger.MS\" = \"6\"\n\"a[9]\" = \"x\"\n\" \" = \"y\"\n",
            &[],
        );
        assert_eq!(
            config.unwrap().kafka.properties,
            map(&[(" ", "y"), ("Linger.MS", "6"), ("a[9]", "x"), ("linger.ms", "5")])
        );
    }

    #[test]
    fn a_table_of_the_environment_replaces_that_of_the_file() {
        let config = read(
            "[kafka.properties]\n\"linger.ms\" = 5\n",
            &[("WALFERRY__KAFKA__PROPERTIES", "{ \"Batch.Size\" = 9 }")],
        );
        assert_eq!(config.unwrap().kafka.properties, map(&[("Batch.Size", "9")]));
    }

    #[test]
    fn numbers_in_a_table_stay_as_they_are_written() {
        let config = read(
            "[kafka.properties]\na = 1.50\nb = 1e3\nc = 99999999999999999999\nd = 0x10\n",
            &[],
        );
        assert_eq!(
            config.unwrap().kafka.properties,
            map(&[("a", "1.50"), ("b", "1e3"), ("c", "99999999999999999999"), ("d", "16")])
        );
    }

    #[test]
    fn a_quoted_name_at_the_top_is_no_path() {
        assert_eq!(
            faults(
                "\"postgres.port\" = 1\n\"name[99999999999]\" = 1\n\"shutdown_timeout[-99999999999]\" = 1\n",
                &[]
            ),
            [
                "name[99999999999] (walferry.toml, line 3): unknown key; the nearest known one is name",
                "\"postgres.port\" (walferry.toml, line 2): unknown key; the nearest known one is postgres.port",
                "shutdown_timeout[-99999999999] (walferry.toml, line 4): unknown key; the nearest known one is shutdown_timeout",
            ]
        );
    }

    #[test]
    fn a_variable_of_an_unknown_name_touches_nothing() {
        assert_eq!(
            faults(
                "[postgres]\nport = 99999\n",
                &[
                    ("WALFERRY__POSTGRES", "x"),
                    ("WALFERRY__KAFKA__TOPIC[99999999999]", "x"),
                    ("walferry__http__listen", "x"),
                    ("WALFERRY_HTTP__LISTEN", "x"),
                ]
            ),
            [
                "kafka.topic[99999999999] (environment variable WALFERRY__KAFKA__TOPIC[99999999999]): unknown key; \
                 the nearest known one is WALFERRY__KAFKA__TOPIC",
                "postgres (environment variable WALFERRY__POSTGRES): unknown key; \
                 the nearest known one is WALFERRY__POSTGRES__USER",
                "postgres.port = 99999 (walferry.toml, line 3): is out of range; must be a whole number from 1 to 65535",
            ]
        );
    }

    #[test]
    fn what_the_tree_cannot_hold_hides_no_other_fault() {
        assert_eq!(
            faults(
                "shutdown_timeout = 1e999\n[postgres]\nport = -99999999999999999999\nuser = 2026-01-01\n[http]\nlisten = \"x\"\n\
                 [log]\nlevels = [1, 0xffffffffffffffffff, 1.5]\nformat = \"xml\"\n",
                &[]
            ),
            [
                "log.levels (walferry.toml, line 9): unknown key; the nearest known one is log.level",
                "shutdown_timeout = 1e999 (walferry.toml, line 2): is a float; must be a duration such as \"10s\", in ms, \
                 s, m or h, from 0s to 1h",
                "postgres.port = -99999999999999999999 (walferry.toml, line 4): is out of range; must be a whole number \
                 from 1 to 65535",
                "postgres.user = 2026-01-01 (walferry.toml, line 5): is a date or time; must be a string",
                "log.format = \"xml\" (walferry.toml, line 10): is not known; must be one of text, json",
                "http.listen = \"x\" (walferry.toml, line 7): is not an address and a port; such as \"127.0.0.1:8080\" or \
                 \"[::]:8080\"",
            ]
        );
    }

    #[test]
    fn a_variable_mends_a_value_that_the_tree_cannot_hold() {
        let config = read(
            "[postgres]\nport = 99999999999999999999\n",
            &[("WALFERRY__POSTGRES__PORT", "5433")],
        );
        assert_eq!(config.unwrap().postgres.port, 5433);
    }

    #[test]
    fn a_section_that_is_none_is_a_fault_though_a_variable_makes_it_one() {
        assert_eq!(
            faults("postgres = 5\n", &[("WALFERRY__POSTGRES__PORT", "5433")]),
            ["postgres (walferry.toml, line 2): is a section; write [postgres] and its keys below"]
        );
    }

    proptest::proptest! {
        #[test]
        fn every_number_and_date_can_be_merged(
            value in "[+-]?(0x[0-9a-f]{1,40}|0o[0-7]{1,40}|0b[01]{1,140}|[1-9][0-9_]{0,40}(\\.[0-9]{1,3})?(e[+-]?[0-9]{1,4})?|inf|nan)\
                      |[0-9]{4}-0[1-9]-1[0-9](T1[0-9]:00:00(\\.[0-9]{1,3})?Z?)?",
            key in proptest::sample::select(vec!["x", "[kafka]\npartitions", "[kafka.properties]\nx", "[x.y]\nz"]),
        ) {
            for text in [format!("{key} = {value}"), format!("{key} = [{value}, {{ a = {value}, b = {value} }}] # é\n")] {
                if let Err(error) = read(&text, &[]) {
                    proptest::prop_assert!(!error.to_string().contains("cannot be merged"), "{}\n{}", text, error);
                }
            }
        }
    }
}
