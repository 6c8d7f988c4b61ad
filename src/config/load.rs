//! From file and environment to a [`Config`]: where the file is, and the steps from its text to the report.

use std::fs;
use std::path::{Path, PathBuf};

use super::environment::Environment;
use super::fault::{ConfigErrors, Fault, Origin};
use super::judge::{Judge, Values};
use super::settings::Config;
use super::value::Value;
use super::{file, layers, variables};

/// The environment variable that names the file.
pub const FILE_VARIABLE: &str = "WALFERRY_CONFIG";

/// Where the file is looked for when nobody names it.
pub const DEFAULT_FILES: &[&str] = &["walferry.toml", "/etc/walferry/walferry.toml"];

/// A valid configuration, and where it came from.
#[derive(Debug, Clone)]
pub struct Loaded {
    /// What the rest uses.
    pub config: Config,
    /// The file; none where everything came from the environment.
    pub path: Option<PathBuf>,
    /// What is no fault, but somebody should know.
    pub warnings: Vec<String>,
    values: Values,
}

impl Loaded {
    /// The effective configuration as TOML that loads again, secrets redacted.
    pub fn to_toml(&self) -> String {
        super::reference::render(false, |key| self.values.get(key.path).map(Value::to_toml))
    }
}

/// Loads the configuration from `path`, else from the file that `WALFERRY_CONFIG` names, else from the first of
/// [`DEFAULT_FILES`] that is there, else from the environment alone; environment variables lie over the file.
pub fn load(path: Option<&Path>, env: &dyn Environment) -> Result<Loaded, ConfigErrors> {
    let named = path.map(Path::to_owned);
    let named = named.or_else(|| env.variable(FILE_VARIABLE).map(PathBuf::from));
    let path = named.or_else(|| DEFAULT_FILES.iter().map(PathBuf::from).find(|path| path.exists()));
    let Some(path) = path else { return judge(None, env) };
    let text = fs::read(&path).map_err(|error| error.to_string());
    let text = text.and_then(|bytes| {
        let invalid = |error: std::string::FromUtf8Error| {
            format!("not valid UTF-8 after byte {}", error.utf8_error().valid_up_to())
        };
        String::from_utf8(bytes).map_err(invalid)
    });
    match text {
        Ok(text) => judge(Some((&path, text.trim_start_matches('\u{feff}'))), env),
        Err(error) => Err(ConfigErrors {
            faults: vec![Fault {
                key: String::new(),
                origin: Origin::WholeFile(path),
                value: None,
                problem: format!("the configuration file cannot be read: {error}"),
                remedy: "name it with -c FILE or WALFERRY_CONFIG; `walferry config example` prints one to begin with"
                    .to_owned(),
            }],
        }),
    }
}

/// Loads the configuration from a text and the environment.
pub fn load_text(path: &Path, text: &str, env: &dyn Environment) -> Result<Loaded, ConfigErrors> {
    judge(Some((path, text)), env)
}

fn judge(file: Option<(&Path, &str)>, env: &dyn Environment) -> Result<Loaded, ConfigErrors> {
    let path = file.map(|(path, _)| path.to_owned());
    let mut faults = Vec::new();
    let file_layer = match file {
        Some((path, text)) => match file::read(path, text, &mut faults) {
            Some(layer) => Some(layer),
            None => return Err(ConfigErrors { faults }),
        },
        None => None,
    };
    let variable_layer = variables::read(env, &mut faults);
    let Ok(found) = layers::merge(file_layer, variable_layer) else {
        faults.push(Fault {
            key: String::new(),
            origin: path.map_or(Origin::Default, Origin::WholeFile),
            value: None,
            problem: "the file and the environment cannot be merged".to_owned(),
            remedy: String::new(),
        });
        return Err(ConfigErrors { faults });
    };
    let mut judge = Judge::new(found, faults, path.is_none());
    let config = judge.config(env);
    if judge.faults.is_empty() {
        Ok(Loaded {
            config,
            path,
            warnings: judge.warnings,
            values: judge.values,
        })
    } else {
        Err(ConfigErrors { faults: judge.faults })
    }
}
