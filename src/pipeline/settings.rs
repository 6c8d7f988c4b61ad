//! The configuration → each stage's own settings.

use std::sync::Arc;
use std::time::Duration;

use super::error::PipelineError;
use super::prepare::Wanted;
use super::publish::{OnBadRow, OnTruncate, PublishSettings};
use super::rules::Rules;
use super::snapshot::{SnapshotMode, SnapshotSettings};
use super::streamed::{Streaming, StreamingSettings};
use crate::avro::{EncoderSettings, EnvelopeKind, Nullability, TypeDialect};
use crate::config::glob::TableFilter;
use crate::config::{self, Config};
use crate::kafka::{KafkaSettings, StateTopic};
use crate::recovery::{Limits, StateRecord};
use crate::replication::{PostgresSettings, RootCert, SslMode};
use crate::schema_registry::{Auth, OnIncompatible, RegistrySettings, SubjectStrategy};
use crate::snapshot::ReaderSettings;
use crate::spool;

/// While nothing is published, a position is recorded this often at most.
const IDLE_INTERVAL: Duration = Duration::from_secs(1);

/// The registry answers in milliseconds, or something is wrong with it.
const REGISTRY_TIMEOUT: Duration = Duration::from_secs(10);

pub(super) fn postgres(config: &Config) -> PostgresSettings {
    let postgres = &config.postgres;
    PostgresSettings {
        hosts: postgres.hosts.clone(),
        port: postgres.port,
        database: postgres.database.clone(),
        user: postgres.user.clone(),
        password: postgres.password.clone(),
        sslmode: match postgres.sslmode {
            config::SslMode::Disable => SslMode::Disable,
            config::SslMode::Allow => SslMode::Allow,
            config::SslMode::Prefer => SslMode::Prefer,
            config::SslMode::Require => SslMode::Require,
            config::SslMode::VerifyCa => SslMode::VerifyCa,
            config::SslMode::VerifyFull => SslMode::VerifyFull,
        },
        sslrootcert: postgres.sslrootcert.as_ref().map(|root| match root {
            config::RootCert::System => RootCert::System,
            config::RootCert::File(path) => RootCert::File(path.clone()),
        }),
        sslcert: postgres.sslcert.clone(),
        sslkey: postgres.sslkey.clone(),
        connect_timeout: postgres.connect_timeout,
        application_name: format!("walferry {}", config.name),
    }
}

pub(super) fn wanted(config: &Config) -> Result<Wanted, PipelineError> {
    let replication = &config.replication;
    let tables = TableFilter::parse(&replication.tables, &replication.exclude_tables)
        .map_err(|(pattern, source)| PipelineError::Pattern { pattern, source })?;
    Ok(Wanted {
        slot: replication.slot.clone(),
        publication: replication.publication.clone(),
        create_slot: replication.create_slot,
        failover: replication.failover,
        create_publication: replication.create_publication,
        patterns: replication.tables.clone(),
        tables,
    })
}

pub(super) fn publish(config: &Config) -> Result<PublishSettings, PipelineError> {
    let rules =
        Rules::new(&config.avro.columns).map_err(|(pattern, source)| PipelineError::Pattern { pattern, source })?;
    Ok(PublishSettings {
        rules: Arc::new(rules),
        encoder: EncoderSettings {
            envelope: match config.avro.envelope {
                config::Envelope::Debezium => EnvelopeKind::Debezium,
                config::Envelope::Row => EnvelopeKind::Row,
            },
            types: match config.avro.types {
                config::Types::Avro => TypeDialect::Avro,
                config::Types::Debezium => TypeDialect::Debezium,
            },
            nullability: match config.avro.nullability {
                config::Nullability::Optional => Nullability::Optional,
                config::Nullability::Catalog => Nullability::Catalog,
            },
            pipeline: config.name.clone(),
            // Known once connected; Postgres's own spelling counts.
            database: config.postgres.database.clone(),
            tombstones: config.kafka.tombstones,
            version: env!("CARGO_PKG_VERSION").to_owned(),
        },
        topic: config.kafka.topic.parse()?,
        subject: match config.schema_registry.subject {
            config::Subject::TopicName => SubjectStrategy::TopicName,
            config::Subject::RecordName => SubjectStrategy::RecordName,
            config::Subject::TopicRecordName => SubjectStrategy::TopicRecordName,
        },
        truncate: match config.kafka.truncate {
            config::Truncate::Emit => OnTruncate::Emit,
            config::Truncate::Skip => OnTruncate::Skip,
        },
        on_bad_row: match config.delivery.on_bad_row {
            config::OnBadRow::Stop => OnBadRow::Stop,
            config::OnBadRow::DeadLetter => OnBadRow::DeadLetter {
                topic: config.delivery.dead_letter_topic.clone(),
            },
        },
        // Text is what every type can be read from; binary is a choice for tables whose types all have it.
        binary: config.replication.format == config::Format::Binary,
    })
}

pub(super) fn kafka(config: &Config) -> KafkaSettings {
    let kafka = &config.kafka;
    KafkaSettings {
        bootstrap_servers: kafka.bootstrap_servers.clone(),
        client_id: format!("walferry-{}", config.name),
        properties: kafka.properties.clone(),
        create_topics: kafka.create_topics,
        partitions: kafka.partitions,
        replication_factor: kafka.replication_factor,
        topic_config: kafka.topic_config.clone(),
        max_in_flight: config.delivery.max_in_flight,
        transactional_id: None,
    }
}

/// Where the position is recorded.
pub(super) fn state(config: &Config) -> StateTopic {
    StateTopic {
        topic: config.delivery.state_topic.clone(),
        outdated: StateRecord::is_outdated,
        pipeline: config.name.clone(),
    }
}

/// When Kafka transactions are committed.
pub(super) fn transactions(config: &Config, kafka: &KafkaSettings) -> Limits {
    Limits {
        interval: config.delivery.commit_interval,
        changes: config.delivery.max_transaction_changes,
        // The rest is for the commit itself.
        longest: kafka.transaction_timeout() / 2,
        idle: config.delivery.commit_interval.max(IDLE_INTERVAL),
    }
}

pub(super) fn streaming(config: &Config) -> StreamingSettings {
    let replication = &config.replication;
    StreamingSettings {
        streaming: match replication.streaming {
            config::Streaming::Auto => Streaming::Auto,
            config::Streaming::On => Streaming::On,
            config::Streaming::Off => Streaming::Off,
        },
        directory: replication.spool_dir.clone(),
        limits: spool::Limits {
            memory: replication.spool_memory,
            files: replication.spool_max_size,
        },
    }
}

pub(super) fn snapshot(config: &Config) -> SnapshotSettings {
    let snapshot = &config.snapshot;
    SnapshotSettings {
        mode: match snapshot.mode {
            config::SnapshotMode::Initial => SnapshotMode::Initial,
            config::SnapshotMode::Never => SnapshotMode::Never,
            config::SnapshotMode::Only => SnapshotMode::Only,
        },
        new_tables: snapshot.new_tables == config::NewTables::Initial && snapshot.mode != config::SnapshotMode::Never,
        parallelism: usize::try_from(snapshot.parallelism).unwrap_or(1),
        max_rows_per_second: snapshot.max_rows_per_second,
        max_retained_wal: snapshot.max_retained_wal,
        reader: Arc::new(ReaderSettings {
            postgres: postgres(config),
            chunk_rows: snapshot.chunk_rows,
            statement_timeout: snapshot.statement_timeout,
            lock_timeout: snapshot.lock_timeout,
        }),
    }
}

pub(super) fn schema_registry(config: &Config) -> RegistrySettings {
    let registry = &config.schema_registry;
    let auth = match (&registry.username, &registry.bearer_token) {
        (Some(username), _) => {
            let password = registry.password.as_ref().map(|password| password.expose().to_owned());
            Auth::Basic {
                username: username.clone(),
                password: password.unwrap_or_default(),
            }
        }
        (None, Some(token)) => Auth::Bearer(token.expose().to_owned()),
        (None, None) => Auth::None,
    };
    RegistrySettings {
        urls: registry.urls.clone(),
        auth,
        ssl_ca: registry.ssl_ca.clone(),
        register: registry.register,
        on_incompatible: match registry.on_incompatible {
            config::OnIncompatible::Stop => OnIncompatible::Stop,
            config::OnIncompatible::Register => OnIncompatible::Register,
        },
        timeout: REGISTRY_TIMEOUT,
    }
}
