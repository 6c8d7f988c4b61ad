//! `walferry check`: everything `run` needs, looked at without changing anything.

use serde::Serialize;

use super::error::PipelineError;
use super::observer::Silent;
use super::prepare::{self, Wanted};
use super::published::{self, PublishedTable};
use super::source::{self, Settings};
use super::sql::Sql;
use super::{Refusal, readable, rules, settings};
use crate::config::{Config, SnapshotMode};
use crate::kafka::Producer;
use crate::replication::{PostgresSettings, ReplicationClient};
use crate::schema_registry::Registry;

/// What was found, in the order in which it was looked at.
#[derive(Debug, Serialize)]
pub struct Report {
    /// The findings.
    pub checks: Vec<Check>,
}

/// One thing that `run` needs.
#[derive(Debug, Serialize)]
pub struct Check {
    /// What was looked at.
    pub subject: &'static str,
    /// How it stands.
    #[serde(flatten)]
    pub outcome: Outcome,
}

/// How one thing stands.
#[derive(Debug, Serialize)]
#[serde(tag = "outcome", rename_all = "snake_case")]
pub enum Outcome {
    /// As it should be.
    Passed {
        /// What was found.
        detail: String,
    },
    /// Not as it should be.
    Failed {
        /// What is wrong.
        reason: String,
        /// How to mend it.
        remedy: Option<String>,
    },
    /// Not looked at, since something before it failed.
    Skipped {
        /// What failed.
        because: &'static str,
    },
}

impl Report {
    /// Whether `run` would have what it needs.
    pub fn passed(&self) -> bool {
        self.checks
            .iter()
            .all(|check| matches!(check.outcome, Outcome::Passed { .. }))
    }
}

type Finding = Result<String, PipelineError>;

/// Looks at Postgres, the publication, the slot, Kafka and the schema registry.
pub async fn check(config: &Config) -> Report {
    let mut report = Report { checks: Vec::new() };
    report.postgres(config).await;
    report.add("kafka", kafka(config).await);
    report.add("schema registry", registry(config).await);
    report
}

impl Report {
    fn add(&mut self, subject: &'static str, finding: Finding) -> bool {
        let outcome = match finding {
            Ok(detail) => Outcome::Passed { detail },
            Err(error) => Outcome::Failed {
                reason: error.chain(),
                remedy: error.hint(),
            },
        };
        let passed = matches!(outcome, Outcome::Passed { .. });
        self.checks.push(Check { subject, outcome });
        passed
    }

    fn skip(&mut self, subjects: &[&'static str], because: &'static str) {
        let skipped = subjects.iter().map(|subject| Check {
            subject,
            outcome: Outcome::Skipped { because },
        });
        self.checks.extend(skipped);
    }

    async fn postgres(&mut self, config: &Config) {
        const LATER: &[&str] = &[
            "wal_level",
            "publication",
            "replica identities",
            "column rules",
            "snapshot",
            "slot",
            "spool",
        ];
        let postgres = settings::postgres(config);
        let sql = Sql::new(postgres.clone());
        let client = match sql.client().await {
            Ok(client) => client,
            Err(error) => {
                self.add("postgres", Err(error.into()));
                return self.skip(&[&["replication connection"], LATER].concat(), "postgres");
            }
        };
        let found = match source::settings(&client).await {
            Ok(found) => found,
            Err(error) => {
                self.add("postgres", Err(error.into()));
                return self.skip(&[&["replication connection"], LATER].concat(), "postgres");
            }
        };
        self.add(
            "postgres",
            Ok(format!(
                "connected to database {:?} as {:?}",
                found.database, config.postgres.user
            )),
        );
        let version = match identify(&postgres).await {
            Ok((version, detail)) => {
                self.add("replication connection", Ok(detail));
                version
            }
            Err(error) => {
                self.add("replication connection", Err(error.with_server(&postgres.address())));
                return self.skip(LATER, "replication connection");
            }
        };
        self.add("wal_level", wal_level(&found));
        let wanted = match settings::wanted(config) {
            Ok(wanted) => wanted,
            Err(error) => {
                self.add("publication", Err(error));
                return self.skip(
                    &["replica identities", "column rules", "snapshot", "slot", "spool"],
                    "publication",
                );
            }
        };
        let publication = publication(&client, &wanted, &found, version).await;
        let (finding, tables) = match publication {
            Ok((detail, tables)) => (Ok(detail), Some(tables)),
            Err(error) => (Err(error), None),
        };
        self.add("publication", finding);
        match tables {
            Some(tables) => {
                let finding = prepare::check_identities(&tables.with_identity)
                    .map(|()| "every published update and delete can be carried".to_owned());
                self.add("replica identities", finding.map_err(PipelineError::from));
                self.add("column rules", column_rules(config, &sql, &tables.published).await);
                self.add("snapshot", snapshot(config, &client, &tables.published).await);
            }
            None => self.skip(&["replica identities", "column rules", "snapshot"], "publication"),
        }
        self.add("slot", slot(&client, &wanted, &found).await);
        self.add("spool", settings::streaming(config).check(version).await);
    }
}

async fn identify(postgres: &PostgresSettings) -> Result<(u32, String), PipelineError> {
    let mut client = ReplicationClient::connect(postgres).await?;
    let system = client.identify_system().await?;
    let version = client.server_version();
    let detail = format!(
        "PostgreSQL {}, system identifier {}, timeline {}",
        source::version_text(version),
        system.system_identifier,
        system.timeline
    );
    Ok((version, detail))
}

fn wal_level(found: &Settings) -> Finding {
    prepare::check_wal_level(found)?;
    Ok(found.wal_level.clone())
}

/// What `run` would publish.
struct Tables {
    /// Those whose updates and deletes are published.
    with_identity: Vec<source::Table>,
    published: Vec<PublishedTable>,
}

/// The publication, and its tables.
async fn publication(
    client: &tokio_postgres::Client,
    wanted: &Wanted,
    found: &Settings,
    version: u32,
) -> Result<(String, Tables), PipelineError> {
    let name = &wanted.publication;
    let Some(publication) = source::publication(client, name).await? else {
        let tables = prepare::wanted_tables(client, wanted, &found.database, version).await?;
        let detail = format!("run will create publication {name:?} for {} tables", tables.len());
        let published = published::of_tables(client, &tables).await?;
        let with_identity = tables;
        return Ok((
            detail,
            Tables {
                with_identity,
                published,
            },
        ));
    };
    let tables = source::published_tables(client, name).await?;
    let detail = format!("publication {name:?} has {} tables", tables.len());
    let tables = Tables {
        with_identity: if publication.needs_identity { tables } else { Vec::new() },
        published: published::of_publication(client, name).await?,
    };
    Ok((detail, tables))
}

async fn column_rules(config: &Config, sql: &Sql, tables: &[PublishedTable]) -> Finding {
    let settings = settings::publish(config)?;
    rules::check(&settings, sql, tables).await?;
    Ok(match config.avro.columns.len() {
        0 => "none".to_owned(),
        1 => "one, which fits the published tables".to_owned(),
        count => format!("{count}, which fit the published tables"),
    })
}

async fn snapshot(config: &Config, client: &tokio_postgres::Client, tables: &[PublishedTable]) -> Finding {
    if config.snapshot.mode == SnapshotMode::Never {
        return Ok("only what walferry snapshot asks for (snapshot.mode = \"never\")".to_owned());
    }
    match readable::check(client, tables).await? {
        Some(refusal) => Err(refusal.into()),
        None => Ok("the rows of all published tables can be read".to_owned()),
    }
}

async fn slot(client: &tokio_postgres::Client, wanted: &Wanted, found: &Settings) -> Finding {
    let name = &wanted.slot;
    match source::slot(client, name).await? {
        None if wanted.create_slot => Ok(format!("run will create slot {name:?}, which starts at the present")),
        None => Err(Refusal::NoSlot { slot: name.clone() }.into()),
        Some(slot) => {
            prepare::check_slot(name, &slot, &found.database)?;
            let position = slot.confirmed_flush_lsn.as_deref().unwrap_or("an unknown position");
            Ok(match slot.active_pid {
                Some(pid) => format!("slot {name:?} stands at {position}; process {pid} of the server streams from it"),
                None => format!("slot {name:?} stands at {position}, and is free"),
            })
        }
    }
}

async fn kafka(config: &Config) -> Finding {
    let producer = Producer::new(&settings::kafka(config), std::sync::Arc::new(Silent))?;
    let cluster = producer.probe().await?;
    Ok(format!(
        "cluster {}, brokers {}, {} topics",
        cluster.cluster_id.as_deref().unwrap_or("without an id"),
        cluster.brokers.join(", "),
        cluster.topics.len()
    ))
}

async fn registry(config: &Config) -> Finding {
    let registry = Registry::new(settings::schema_registry(config))?;
    registry.probe().await?;
    Ok(format!("answers at {}", config.schema_registry.urls.join(", ")))
}
