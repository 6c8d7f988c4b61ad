//! From what was written to a [`Config`]: parse everything, judge everything, then report everything.

use std::collections::BTreeMap;
use std::fs;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::time::Duration;

use super::environment::Environment;
use super::fault::{ConfigErrors, Fault, Origin};
use super::glob::TablePattern;
use super::keys::{self, Default, KEYS, Key};
use super::pgpass;
use super::properties::is_secret_property;
use super::registry_url::{self, RegistryUrl};
use super::secret::{REDACTED, Secret};
use super::settings::*;
use super::source::{self, FoundKeys};
use super::value::{self, Raw, Value};
use crate::envelope::TopicTemplate;
use crate::kafka::refused_property;

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

type Values = BTreeMap<&'static str, Value>;

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
    let mut faults = Vec::new();
    let mut found = match file {
        Some((path, text)) => match source::from_file(path, text, &mut faults) {
            Some(found) => found,
            None => return Err(ConfigErrors { faults }),
        },
        None => FoundKeys::new(),
    };
    source::from_environment(env, &mut found, &mut faults);
    let mut judge = Judge {
        found,
        values: Values::new(),
        faults,
        no_file: file.is_none(),
    };
    judge.read_values();
    let (config, warnings) = judge.config(env);
    if judge.faults.is_empty() {
        Ok(Loaded {
            config,
            path: file.map(|(path, _)| path.to_owned()),
            warnings,
            values: judge.values,
        })
    } else {
        Err(ConfigErrors { faults: judge.faults })
    }
}

struct Judge {
    found: FoundKeys,
    values: Values,
    faults: Vec<Fault>,
    no_file: bool,
}

impl Judge {
    /// Reads every key as its kind. One that is at fault has its default from here on, so that the others can be
    /// judged.
    fn read_values(&mut self) {
        for key in KEYS {
            let default = match key.default {
                Default::Is(text) => text.to_owned(),
                Default::Name { .. } => self.name_for(key),
                Default::Required { .. } => String::new(),
            };
            let read = match self.found.get(key.path) {
                Some(found) => value::read(key.kind, &found.raw),
                None => value::read(key.kind, &Raw::Loose(default.clone())),
            };
            let value = match read {
                Ok(value) => Some(value),
                Err(wrong) => {
                    self.fault(key.path, &wrong.problem, &wrong.remedy);
                    value::read(key.kind, &Raw::Loose(default.clone())).ok()
                }
            };
            // An empty string is the same as none.
            let value = match (value, key.default) {
                (Some(Value::Text(text)), Default::Name { .. }) if text.is_empty() => Some(Value::Text(default)),
                (value, _) => value,
            };
            if let Some(value) = value {
                self.values.insert(key.path, value);
            }
        }
    }

    fn name_for(&self, key: &Key) -> String {
        let name = self.text("name");
        if key.path == "postgres.database" {
            name
        } else {
            identifier(&name)
        }
    }

    fn config(&mut self, env: &dyn Environment) -> (Config, Vec<String>) {
        let mut warnings = Vec::new();
        let name = self.name();
        let shutdown_timeout = self.duration("shutdown_timeout");
        let mut postgres = self.postgres();
        let given = self.is_given("postgres.password") || self.is_given("postgres.password_file");
        if postgres.password.is_none() && !given {
            let Postgres {
                hosts,
                port,
                database,
                user,
                ..
            } = &postgres;
            let login = pgpass::Login {
                hosts,
                port: *port,
                database,
                user,
            };
            postgres.password = pgpass::look_up(env, login, &mut warnings);
        }
        let config = Config {
            name,
            shutdown_timeout,
            postgres,
            replication: self.replication(),
            kafka: self.kafka(),
            delivery: Delivery {
                max_in_flight: self.size("delivery.max_in_flight"),
            },
            schema_registry: self.schema_registry(),
            avro: Avro {
                envelope: match self.text("avro.envelope").as_str() {
                    "row" => Envelope::Row,
                    _ => Envelope::Debezium,
                },
            },
            http: Http { listen: self.listen() },
            log: Log {
                level: match self.text("log.level").as_str() {
                    "error" => LogLevel::Error,
                    "warn" => LogLevel::Warn,
                    "debug" => LogLevel::Debug,
                    "trace" => LogLevel::Trace,
                    _ => LogLevel::Info,
                },
                format: match self.text("log.format").as_str() {
                    "json" => LogFormat::Json,
                    _ => LogFormat::Text,
                },
            },
        };
        (config, warnings)
    }

    fn name(&mut self) -> String {
        let name = self.text("name");
        if name.is_empty() {
            // One that is there and of the wrong type has its fault already.
            if !self.faults.iter().any(|fault| fault.key == "name") {
                let remedy = if self.no_file {
                    format!(
                        "there is no configuration file at {}: name one with -c FILE, or set WALFERRY__NAME",
                        DEFAULT_FILES.join(" or ")
                    )
                } else {
                    "give the pipeline a name, such as name = \"shop\"".to_owned()
                };
                self.fault("name", "is missing", &remedy);
            }
        } else if name.len() > 63 || !name.chars().all(is_topic_character) {
            self.fault(
                "name",
                "begins every topic's name",
                "use 1 to 63 of a-z, A-Z, 0-9, '.', '_' and '-'",
            );
        }
        name
    }

    fn postgres(&mut self) -> Postgres {
        let hosts = self.texts("postgres.host");
        if hosts.is_empty() {
            self.fault(
                "postgres.host",
                "is empty",
                "give a name, an address or a socket directory",
            );
        }
        for host in &hosts {
            if host.contains("://") || host.contains('=') {
                self.fault(
                    "postgres.host",
                    "is a connection string",
                    "give only the host here, and the rest in its own keys",
                );
            } else if !host.starts_with('/') && host.contains(':') && host.parse::<std::net::Ipv6Addr>().is_err() {
                self.fault(
                    "postgres.host",
                    "has a colon, and is no IPv6 address",
                    "give the port in postgres.port",
                );
            }
        }
        let name_given = !self.text("name").is_empty();
        if self.text("postgres.database").is_empty() && name_given {
            self.fault("postgres.database", "is empty", "name the database");
        }
        if self.text("postgres.user").is_empty() {
            self.fault("postgres.user", "is empty", "name the role");
        }
        let (sslmode, sslrootcert) = self.tls();
        let sslcert = self.path("postgres.sslcert");
        let sslkey = self.path("postgres.sslkey");
        match (&sslcert, &sslkey) {
            (Some(_), None) => {
                self.fault(
                    "postgres.sslcert",
                    "is set without postgres.sslkey",
                    "give both, or neither",
                );
            }
            (None, Some(_)) => {
                self.fault(
                    "postgres.sslkey",
                    "is set without postgres.sslcert",
                    "give both, or neither",
                );
            }
            _ => {}
        }
        Postgres {
            hosts,
            port: u16::try_from(self.integer("postgres.port")).unwrap_or(5432),
            database: self.text("postgres.database"),
            user: self.text("postgres.user"),
            password: self.secret("postgres.password", "postgres.password_file"),
            sslmode,
            sslrootcert,
            sslcert,
            sslkey,
            connect_timeout: self.duration("postgres.connect_timeout"),
        }
    }

    fn tls(&mut self) -> (SslMode, Option<RootCert>) {
        let root = match self.text("postgres.sslrootcert").as_str() {
            "" => None,
            "system" => Some(RootCert::System),
            path => Some(RootCert::File(PathBuf::from(path))),
        };
        if root == Some(RootCert::System) && !self.is_given("postgres.sslmode") {
            self.values
                .insert("postgres.sslmode", Value::Text("verify-full".to_owned()));
        }
        let mode = match self.text("postgres.sslmode").as_str() {
            "disable" => SslMode::Disable,
            "allow" => SslMode::Allow,
            "require" => SslMode::Require,
            "verify-ca" => SslMode::VerifyCa,
            "verify-full" => SslMode::VerifyFull,
            _ => SslMode::Prefer,
        };
        if root == Some(RootCert::System) && mode != SslMode::VerifyFull {
            self.fault(
                "postgres.sslmode",
                "is too weak for postgres.sslrootcert = \"system\": anybody can have a certificate that the system trusts",
                "set it to verify-full, or give the file of your own certificate authority as sslrootcert",
            );
        }
        if root.is_none() && matches!(mode, SslMode::VerifyCa | SslMode::VerifyFull) {
            self.fault(
                "postgres.sslmode",
                "needs postgres.sslrootcert to verify against",
                "set sslrootcert to a PEM file, or to \"system\"",
            );
        }
        (mode, root)
    }

    fn replication(&mut self) -> Replication {
        let slot = self.text("replication.slot");
        let publication = self.text("replication.publication");
        if !self.text("name").is_empty() {
            let slot_character = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_';
            if slot.is_empty() || slot.len() > 63 || !slot.chars().all(slot_character) {
                self.fault(
                    "replication.slot",
                    "cannot be the name of a slot",
                    "use 1 to 63 of a-z, 0-9 and _",
                );
            }
            if publication.is_empty() || publication.len() > 63 || publication.contains('\0') {
                self.fault(
                    "replication.publication",
                    "cannot be the name of a publication",
                    "use 1 to 63 bytes",
                );
            }
        }
        for key in ["replication.tables", "replication.exclude_tables"] {
            for pattern in self.texts(key) {
                if let Err(error) = TablePattern::parse(&pattern) {
                    self.fault(key, &format!("the pattern {} {error}", value::quote(&pattern)), "");
                }
            }
        }
        if self.bool("replication.create_publication") && self.texts("replication.tables").is_empty() {
            self.fault(
                "replication.tables",
                "is empty, but replication.create_publication needs it",
                "name tables, such as [\"public.*\"], or set create_publication = false",
            );
        }
        Replication {
            slot,
            publication,
            create_slot: self.bool("replication.create_slot"),
            create_publication: self.bool("replication.create_publication"),
            tables: self.texts("replication.tables"),
            exclude_tables: self.texts("replication.exclude_tables"),
            format: match self.text("replication.format").as_str() {
                "text" => Format::Text,
                "binary" => Format::Binary,
                _ => Format::Auto,
            },
            status_interval: self.duration("replication.status_interval"),
        }
    }

    fn kafka(&mut self) -> Kafka {
        let bootstrap_servers = self.text("kafka.bootstrap_servers");
        if bootstrap_servers.split(',').any(|server| server.trim().is_empty()) {
            self.fault(
                "kafka.bootstrap_servers",
                "has an empty server",
                "write host:port, comma-separated",
            );
        }
        let topic = self.text("kafka.topic");
        if let Err(error) = topic.parse::<TopicTemplate>() {
            self.fault(
                "kafka.topic",
                &format!("is no template: {error}"),
                "such as \"{name}.{schema}.{table}\"",
            );
        }
        if self.integer("kafka.replication_factor") == 0 {
            self.fault(
                "kafka.replication_factor",
                "is out of range",
                "must be -1 for the broker's default, or 1 and more",
            );
        }
        let integer = |judge: &Self, key| i32::try_from(judge.integer(key)).unwrap_or(1);
        Kafka {
            bootstrap_servers,
            topic,
            create_topics: self.bool("kafka.create_topics"),
            partitions: integer(self, "kafka.partitions"),
            replication_factor: integer(self, "kafka.replication_factor"),
            topic_config: self.map("kafka.topic_config"),
            properties: self.properties(),
            tombstones: self.bool("kafka.tombstones"),
            truncate: match self.text("kafka.truncate").as_str() {
                "skip" => Truncate::Skip,
                _ => Truncate::Emit,
            },
        }
    }

    /// The properties with the secrets that come from files, and without those that are refused.
    fn properties(&mut self) -> BTreeMap<String, String> {
        let written = self.map("kafka.properties");
        let mut properties = BTreeMap::new();
        for (name, text) in &written {
            let path = format!("kafka.properties.{}", value::quote(name));
            let origin = self.origin("kafka.properties");
            let shown = if is_secret_property(name) {
                REDACTED.to_owned()
            } else {
                super::fault::redact(text)
            };
            if let Some(reason) = refused_property(name) {
                self.faults.push(Fault {
                    key: path,
                    origin,
                    value: Some(value::quote(&shown)),
                    problem: "walferry owns this property".to_owned(),
                    remedy: format!("leave it out: {reason}"),
                });
                continue;
            }
            match name.strip_suffix("_file").filter(|base| is_secret_property(base)) {
                Some(base) if written.contains_key(base) => self.faults.push(Fault {
                    key: path,
                    origin,
                    value: Some(value::quote(&shown)),
                    problem: format!("is set, and so is {}", value::quote(base)),
                    remedy: "keep one of the two".to_owned(),
                }),
                Some(base) => match read_secret(Path::new(text)) {
                    Ok(secret) => {
                        properties.insert(base.to_owned(), secret.expose().to_owned());
                    }
                    Err(problem) => self.faults.push(Fault {
                        key: path,
                        origin,
                        value: Some(value::quote(&shown)),
                        problem,
                        remedy: "give a file that holds the secret and nothing else".to_owned(),
                    }),
                },
                None => {
                    properties.insert(name.clone(), text.clone());
                }
            }
        }
        properties
    }

    fn schema_registry(&mut self) -> SchemaRegistry {
        let written = self.texts("schema_registry.url");
        if written.is_empty() {
            self.fault(
                "schema_registry.url",
                "is empty",
                "give a URL, such as \"http://127.0.0.1:8081\"",
            );
        }
        let mut urls: Vec<RegistryUrl> = Vec::new();
        for text in &written {
            match registry_url::parse(text) {
                Ok(url) => urls.push(url),
                Err(problem) => {
                    self.fault(
                        "schema_registry.url",
                        problem,
                        "such as \"https://registry.example:8081\"",
                    );
                }
            }
        }
        let mut username = Some(self.text("schema_registry.username")).filter(|name| !name.is_empty());
        let mut password = self.secret("schema_registry.password", "schema_registry.password_file");
        let bearer_token = self.secret("schema_registry.bearer_token", "schema_registry.bearer_token_file");
        let in_urls: Vec<&(String, Option<Secret>)> = urls.iter().filter_map(|url| url.credentials.as_ref()).collect();
        let first = in_urls.first().map(|credentials| (*credentials).clone());
        let differ = in_urls.iter().any(|credentials| Some(*credentials) != first.as_ref());
        if differ || (!in_urls.is_empty() && in_urls.len() != urls.len()) {
            self.fault(
                "schema_registry.url",
                "has not the same credentials in every URL",
                "give them once, in schema_registry.username and schema_registry.password",
            );
        }
        if let Some((url_username, url_password)) = first {
            if username.is_some() || password.is_some() || bearer_token.is_some() {
                self.fault(
                    "schema_registry.url",
                    "holds credentials, and there are others in schema_registry.username, password or bearer_token",
                    "keep one of the two",
                );
            }
            username = Some(url_username);
            password = url_password;
        } else if username.is_some() && bearer_token.is_some() {
            self.fault(
                "schema_registry.username",
                "is set, and so is schema_registry.bearer_token",
                "keep the username for basic authentication or the token for bearer authentication",
            );
        } else if username.is_none() && password.is_some() {
            self.fault(
                "schema_registry.username",
                "is missing, but there is a password",
                "give both, or neither",
            );
        }
        SchemaRegistry {
            urls: urls.into_iter().map(|url| url.base).collect(),
            username,
            password,
            bearer_token,
            ssl_ca: self.path("schema_registry.ssl_ca"),
            subject: match self.text("schema_registry.subject").as_str() {
                "record-name" => Subject::RecordName,
                "topic-record-name" => Subject::TopicRecordName,
                _ => Subject::TopicName,
            },
            register: self.bool("schema_registry.register"),
        }
    }

    fn listen(&mut self) -> SocketAddr {
        self.text("http.listen").parse().unwrap_or_else(|_| {
            self.fault(
                "http.listen",
                "is not an address and a port",
                "such as \"127.0.0.1:8080\" or \"[::]:8080\"",
            );
            SocketAddr::from(([127, 0, 0, 1], 8080))
        })
    }

    /// A secret from its key or from the file that its other key names.
    fn secret(&mut self, key: &'static str, file_key: &'static str) -> Option<Secret> {
        let inline = match self.values.get(key) {
            Some(Value::Secret(secret)) if !secret.expose().is_empty() => Some(secret.clone()),
            _ => None,
        };
        let file = self.path(file_key);
        match (inline, file) {
            (Some(_), Some(_)) => {
                self.fault(file_key, &format!("is set, and so is {key}"), "keep one of the two");
                None
            }
            (inline, None) => inline,
            (None, Some(path)) => match read_secret(&path) {
                Ok(secret) => Some(secret),
                Err(problem) => {
                    self.fault(file_key, &problem, "give a file that holds the secret and nothing else");
                    None
                }
            },
        }
    }

    fn origin(&self, key: &str) -> Origin {
        self.found
            .get(key)
            .map_or(Origin::Default, |found| found.origin.clone())
    }

    fn fault(&mut self, key: &'static str, problem: &str, remedy: &str) {
        let kind = keys::find(key).map(|key| key.kind);
        let value = match (self.found.get(key), kind) {
            (Some(found), Some(kind)) => found.raw.show(kind),
            _ => None,
        };
        self.faults.push(Fault {
            key: key.to_owned(),
            origin: self.origin(key),
            value,
            problem: problem.to_owned(),
            remedy: remedy.to_owned(),
        });
    }

    /// Whether there is a value, and it is not empty.
    fn is_given(&self, key: &str) -> bool {
        match self.found.get(key).map(|found| &found.raw) {
            Some(Raw::String(text) | Raw::Loose(text)) => !text.is_empty(),
            Some(_) => true,
            None => false,
        }
    }

    fn text(&self, key: &str) -> String {
        match self.values.get(key) {
            Some(Value::Text(text)) => text.clone(),
            _ => String::new(),
        }
    }

    fn path(&self, key: &str) -> Option<PathBuf> {
        Some(self.text(key)).filter(|text| !text.is_empty()).map(PathBuf::from)
    }

    fn texts(&self, key: &str) -> Vec<String> {
        match self.values.get(key) {
            Some(Value::List(items) | Value::Texts(items)) => items.clone(),
            _ => Vec::new(),
        }
    }

    fn map(&self, key: &str) -> BTreeMap<String, String> {
        match self.values.get(key) {
            Some(Value::Map(entries)) => entries.clone(),
            _ => BTreeMap::new(),
        }
    }

    fn bool(&self, key: &str) -> bool {
        matches!(self.values.get(key), Some(Value::Bool(true)))
    }

    fn integer(&self, key: &str) -> i64 {
        match self.values.get(key) {
            Some(Value::Integer(value)) => *value,
            _ => 0,
        }
    }

    fn size(&self, key: &str) -> u64 {
        match self.values.get(key) {
            Some(Value::Size(value)) => *value,
            _ => 0,
        }
    }

    fn duration(&self, key: &str) -> Duration {
        match self.values.get(key) {
            Some(Value::Duration(value)) => *value,
            _ => Duration::ZERO,
        }
    }
}

/// A name in the characters of a slot's: `[a-z0-9_]`, 63 of them.
fn identifier(name: &str) -> String {
    name.chars()
        .map(|c| {
            if c.is_ascii_alphanumeric() {
                c.to_ascii_lowercase()
            } else {
                '_'
            }
        })
        .take(63)
        .collect()
}

fn is_topic_character(c: char) -> bool {
    c.is_ascii_alphanumeric() || matches!(c, '.' | '_' | '-')
}

/// Reads a secret; line breaks at the end are the editor's.
fn read_secret(path: &Path) -> Result<Secret, String> {
    let text = fs::read_to_string(path).map_err(|error| format!("cannot be read: {error}"))?;
    let secret = Secret::new(text.trim_end_matches(['\n', '\r']));
    if secret.expose().is_empty() {
        Err("is an empty file".to_owned())
    } else {
        Ok(secret)
    }
}
