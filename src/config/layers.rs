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
