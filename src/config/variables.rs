//! The environment as it is written: which variables are keys, and which are nearly.

use std::collections::{BTreeMap, HashMap};

use super::environment::Environment;
use super::fault::{Fault, Origin};
use super::keys::{self, KEYS, Key, Kind, PREFIX, SEPARATOR};

/// The variables that are keys.
pub(super) struct VariableLayer {
    /// Their values, each under the one name that its key's variable has.
    pub(super) values: HashMap<String, String>,
    /// The variables as they are really spelt.
    pub(super) origins: BTreeMap<&'static str, Origin>,
}

/// Reads the environment. Case counts in the prefix only; of two spellings of a variable the lower-case one holds.
pub(super) fn read(env: &dyn Environment, faults: &mut Vec<Fault>) -> VariableLayer {
    let mut layer = VariableLayer {
        values: HashMap::new(),
        origins: BTreeMap::new(),
    };
    let mut variables = env.variables();
    variables.sort();
    for (name, value) in variables {
        let Some(name) = name.to_str() else { continue };
        let rest = name.strip_prefix(PREFIX).and_then(|rest| rest.strip_prefix(SEPARATOR));
        let Some(rest) = rest else { continue };
        let path = rest.to_ascii_lowercase().replace(SEPARATOR, ".");
        let origin = Origin::Environment(name.to_owned());
        match (keys::find(&path), value.into_string()) {
            (Some(key), Ok(text)) => {
                layer.values.insert(key.variable(), text);
                layer.origins.insert(key.path, origin);
            }
            (Some(_), Err(_)) => faults.push(Fault {
                key: path,
                origin,
                value: None,
                problem: "is not valid UTF-8".to_owned(),
                remedy: String::new(),
            }),
            // Not its value: a misspelt password is one still.
            (None, _) => faults.push(Fault {
                remedy: nearest(&path),
                key: path,
                origin,
                value: None,
                problem: "unknown key".to_owned(),
            }),
        }
    }
    layer
}

fn nearest(path: &str) -> String {
    let map = KEYS
        .iter()
        .find(|key| matches!(key.kind, Kind::Map | Kind::Rules) && path.starts_with(&format!("{}.", key.path)));
    match map {
        Some(map) => {
            let value = if map.kind == Kind::Map { "\"value\"" } else { "{ … }" };
            format!("write the whole table: {}='{{ \"name\" = {value} }}'", map.variable())
        }
        None => {
            let nearest = keys::find(keys::nearest(path)).map(Key::variable).unwrap_or_default();
            format!("the nearest known one is {nearest}")
        }
    }
}
