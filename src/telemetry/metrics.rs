//! Metrics in Prometheus's text format, all of them under `walferry_`, with the process's own beside them.
//!
//! A stage is given its own handles. The hot path counts per batch: it keeps a [`TableMetrics`] or a counter, and adds
//! once to it.

#[cfg(test)]
mod documented;

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use prometheus::core::{AtomicU64, Collector, GenericGauge};
use prometheus::proto::MetricFamily;
use prometheus::{Histogram, HistogramOpts, IntCounter, IntCounterVec, IntGaugeVec, Opts, Registry, TextEncoder};

use super::snapshots::SnapshotState;
use super::state::{State, Status};

/// A gauge of an unsigned number: an LSN may be past the signed range.
pub type UnsignedGauge = GenericGauge<AtomicU64>;

/// A metric that could not be registered or written.
#[derive(Debug, thiserror::Error)]
#[error("a metric could not be registered or written")]
pub struct MetricsError(#[from] prometheus::Error);

macro_rules! closed_set {
    ($(#[$doc:meta])* $name:ident { $($variant:ident => $label:literal,)+ }) => {
        $(#[$doc])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
        pub enum $name { $(#[doc = concat!("`", $label, "`")] $variant,)+ }

        impl $name {
            /// Every member, in order.
            pub const ALL: &'static [Self] = &[$(Self::$variant,)+];

            /// The label's value.
            pub const fn label(self) -> &'static str {
                match self { $(Self::$variant => $label,)+ }
            }
        }
    };
}

pub(super) use closed_set;

closed_set! {
    /// The messages of a replication connection, counted by `replication_messages_total`.
    MessageType {
        Begin => "begin",
        Commit => "commit",
        Origin => "origin",
        Relation => "relation",
        Type => "type",
        Insert => "insert",
        Update => "update",
        Delete => "delete",
        Truncate => "truncate",
        Message => "message",
        StreamStart => "stream_start",
        StreamStop => "stream_stop",
        StreamCommit => "stream_commit",
        StreamAbort => "stream_abort",
        BeginPrepare => "begin_prepare",
        Prepare => "prepare",
        CommitPrepared => "commit_prepared",
        RollbackPrepared => "rollback_prepared",
        StreamPrepare => "stream_prepare",
        Keepalive => "keepalive",
    }
}

closed_set! {
    /// What a record says has happened; the envelope's codes. A tombstone counts under its delete's.
    RecordOp {
        Create => "c",
        Update => "u",
        Delete => "d",
        Read => "r",
        Truncate => "t",
        Message => "m",
    }
}

closed_set! {
    /// The other end of a connection that was made anew.
    Peer {
        Postgres => "postgres",
        Kafka => "kafka",
        SchemaRegistry => "schema_registry",
    }
}

closed_set! {
    /// What became of a schema that breaks with its predecessors.
    Incompatible {
        Refused => "refused",
        Registered => "registered",
        Unchecked => "unchecked",
    }
}

/// Everything that is measured. Clones share the same numbers.
#[derive(Debug, Clone)]
pub struct Metrics {
    registry: Registry,
    /// For whoever reads the replication connection.
    pub replication: ReplicationMetrics,
    /// For whoever keeps transactions that run.
    pub streamed: StreamedMetrics,
    /// For whoever hands records to Kafka and hears of their delivery.
    pub kafka: KafkaMetrics,
    /// For whoever asks the schema registry.
    pub schema_registry: SchemaRegistryMetrics,
    /// For whoever encodes rows.
    pub tables: TablesMetrics,
    reconnects: IntCounterVec,
    positions: Positions,
    state: IntGaugeVec,
}

/// Counters of the replication connection.
#[derive(Debug, Clone)]
pub struct ReplicationMetrics {
    messages: Arc<[IntCounter]>,
    /// Bytes received, with the framing of the protocol.
    pub bytes: IntCounter,
    /// Transactions received whole, those that published nothing among them.
    pub transactions: IntCounter,
    /// Those of them that the server sent again though they were published.
    pub repeated: IntCounter,
    /// Gaps that the operator accepted.
    pub gaps_accepted: IntCounter,
}

impl ReplicationMetrics {
    /// Adds `count` messages of one type.
    pub fn messages(&self, message: MessageType, count: u64) {
        let index = MessageType::ALL.iter().position(|known| *known == message);
        if let Some(counter) = index.and_then(|index| self.messages.get(index)) {
            counter.inc_by(count);
        }
    }
}

/// Transactions that are taken in while they run.
#[derive(Debug, Clone)]
pub struct StreamedMetrics {
    /// Those that have not ended.
    pub transactions: UnsignedGauge,
    /// Their bytes in memory.
    pub buffered_bytes: UnsignedGauge,
    /// Bytes in the spool's files.
    pub spooled_bytes: UnsignedGauge,
}

/// What is in flight, and how it ends.
#[derive(Debug, Clone)]
pub struct KafkaMetrics {
    /// Records handed to librdkafka and not yet confirmed.
    pub in_flight_records: UnsignedGauge,
    /// Their bytes, as `delivery.max_in_flight` counts them.
    pub in_flight_bytes: UnsignedGauge,
    commit_to_delivery: Histogram,
    transaction_commit: Histogram,
    delivery_errors: IntCounterVec,
}

impl KafkaMetrics {
    /// The time from a transaction's commit, by Postgres's clock, to the confirmation of its last record.
    pub fn commit_to_delivery(&self, elapsed: Duration) {
        self.commit_to_delivery.observe(elapsed.as_secs_f64());
    }

    /// A Kafka transaction was committed, and that took so long.
    pub fn transaction_committed(&self, elapsed: Duration) {
        self.transaction_commit.observe(elapsed.as_secs_f64());
    }

    /// A record that Kafka did not take; `kind` is from a closed set.
    pub fn delivery_error(&self, kind: &'static str) {
        self.delivery_errors.with_label_values(&[kind]).inc();
    }
}

/// Registrations.
#[derive(Debug, Clone)]
pub struct SchemaRegistryMetrics {
    /// Schemas that the registry gave an id for.
    pub registrations: IntCounter,
    incompatible: IntCounterVec,
}

impl SchemaRegistryMetrics {
    /// A schema that breaks with its predecessors.
    pub fn incompatible(&self, outcome: Incompatible) {
        self.incompatible.with_label_values(&[outcome.label()]).inc();
    }
}

/// The tables seen since the start.
#[derive(Debug, Clone)]
pub struct TablesMetrics {
    records: IntCounterVec,
    bytes: IntCounterVec,
    bad_rows: IntCounterVec,
    known: Arc<Mutex<BTreeMap<String, Arc<TableMetrics>>>>,
}

impl TablesMetrics {
    /// The handles of one table (`schema.table`), made once and then kept.
    pub fn table(&self, name: &str) -> Arc<TableMetrics> {
        let mut known = self.lock();
        if let Some(table) = known.get(name) {
            return Arc::clone(table);
        }
        let records = RecordOp::ALL
            .iter()
            .map(|op| self.records.with_label_values(&[name, op.label()]))
            .collect();
        let table = Arc::new(TableMetrics {
            records,
            bytes: self.bytes.with_label_values(&[name]),
            bad_rows: Mutex::default(),
        });
        known.insert(name.to_owned(), Arc::clone(&table));
        table
    }

    /// A row that could not be published; `reason` is from a closed set.
    pub fn bad_row(&self, table: &str, reason: &'static str) {
        let counter = self.bad_rows.with_label_values(&[table, reason]);
        counter.inc();
        self.table(table).lock_bad_rows().insert(reason, counter);
    }

    /// How many tables are counted.
    pub fn len(&self) -> usize {
        self.lock().len()
    }

    /// Whether none is.
    pub fn is_empty(&self) -> bool {
        self.lock().is_empty()
    }

    /// Forgets the tables that are not to be kept: their names are gone, and their counts with them.
    pub fn retain(&self, keep: impl Fn(&str) -> bool) {
        self.lock().retain(|name, table| {
            let kept = keep(name);
            if !kept {
                // What was never counted has no series, which is no fault.
                for op in RecordOp::ALL {
                    let _absent = self.records.remove_label_values(&[name, op.label()]);
                }
                for reason in table.lock_bad_rows().keys() {
                    let _absent = self.bad_rows.remove_label_values(&[name.as_str(), reason]);
                }
                let _absent = self.bytes.remove_label_values(&[name]);
            }
            kept
        });
    }

    /// Each table's counts.
    pub fn counts(&self) -> BTreeMap<String, TableCounts> {
        self.lock()
            .iter()
            .map(|(name, table)| (name.clone(), table.counts()))
            .collect()
    }

    /// The number of each table's records.
    pub(super) fn totals(&self) -> Vec<(String, u64)> {
        let known = self.lock();
        known
            .iter()
            .map(|(name, table)| (name.clone(), table.total()))
            .collect()
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<String, Arc<TableMetrics>>> {
        // The map is whole after a panic elsewhere: nothing is done under the lock but a lookup and an insertion.
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// One table's counters.
#[derive(Debug)]
pub struct TableMetrics {
    records: Vec<IntCounter>,
    bytes: IntCounter,
    /// By reason; few tables have any.
    bad_rows: Mutex<BTreeMap<&'static str, IntCounter>>,
}

impl TableMetrics {
    /// Adds `records` of one operation, and the `bytes` of their keys and values.
    pub fn add(&self, op: RecordOp, records: u64, bytes: u64) {
        let index = RecordOp::ALL.iter().position(|known| *known == op);
        if let Some(counter) = index.and_then(|index| self.records.get(index)) {
            counter.inc_by(records);
        }
        self.bytes.inc_by(bytes);
    }

    /// What was counted so far.
    pub fn counts(&self) -> TableCounts {
        let records: BTreeMap<&'static str, u64> = RecordOp::ALL
            .iter()
            .zip(&self.records)
            .map(|(op, counter)| (op.label(), counter.get()))
            .filter(|(_, count)| *count > 0)
            .collect();
        TableCounts {
            total: records.values().sum(),
            records,
            bytes: self.bytes.get(),
            bad_rows: self
                .lock_bad_rows()
                .iter()
                .map(|(reason, counter)| (*reason, counter.get()))
                .collect(),
        }
    }

    fn total(&self) -> u64 {
        self.records.iter().map(IntCounter::get).sum()
    }

    fn lock_bad_rows(&self) -> MutexGuard<'_, BTreeMap<&'static str, IntCounter>> {
        self.bad_rows.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// What was published of one table since the start.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize)]
pub struct TableCounts {
    /// All records.
    pub total: u64,
    /// Records by operation, those that are not zero.
    pub records: BTreeMap<&'static str, u64>,
    /// Bytes of their keys and values.
    pub bytes: u64,
    /// Rows that could not be published, by reason.
    pub bad_rows: BTreeMap<&'static str, u64>,
}

/// Gauges that are read from the [`Status`] at each scrape, so that there is one place that knows.
#[derive(Debug, Clone)]
struct Positions {
    received: UnsignedGauge,
    confirmed: UnsignedGauge,
    lag: UnsignedGauge,
    retained: UnsignedGauge,
}

/// From a transaction on an idle machine to an outage of ten minutes, in seconds.
const COMMIT_TO_DELIVERY_BUCKETS: &[f64] = &[
    0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 120.0, 300.0, 600.0,
];

impl Metrics {
    /// Registers everything in a registry of its own.
    pub fn new() -> Result<Self, MetricsError> {
        let registry = Registry::new();
        let messages = counters(
            &registry,
            "replication_messages_total",
            "Messages received on the replication connection.",
            &["type"],
        )?;
        let replication = ReplicationMetrics {
            messages: MessageType::ALL
                .iter()
                .map(|kind| messages.with_label_values(&[kind.label()]))
                .collect(),
            bytes: counter(
                &registry,
                "replication_bytes_total",
                "Bytes received on the replication connection.",
            )?,
            transactions: counter(&registry, "transactions_total", "Transactions received whole.")?,
            repeated: counter(
                &registry,
                "repeated_transactions_total",
                "Transactions that were published already and came again.",
            )?,
            gaps_accepted: counter(
                &registry,
                "gaps_accepted_total",
                "Gaps in the changes that were accepted.",
            )?,
        };
        let streamed = StreamedMetrics {
            transactions: gauge(
                &registry,
                "streamed_transactions",
                "Transactions that are taken in while they run.",
            )?,
            buffered_bytes: gauge(&registry, "buffered_bytes", "Bytes of running transactions in memory.")?,
            spooled_bytes: gauge(&registry, "spooled_bytes", "Bytes of running transactions in files.")?,
        };
        let commit_to_delivery = register(
            &registry,
            Histogram::with_opts(
                HistogramOpts::new(
                    "walferry_commit_to_delivery_seconds",
                    "From a commit in Postgres to Kafka's confirmation of the transaction's last record.",
                )
                .buckets(COMMIT_TO_DELIVERY_BUCKETS.to_vec()),
            )?,
        )?;
        let transaction_commit = register(
            &registry,
            Histogram::with_opts(
                HistogramOpts::new(
                    "walferry_transaction_commit_seconds",
                    "Exactly-once: how long the commit of a Kafka transaction takes.",
                )
                .buckets(COMMIT_TO_DELIVERY_BUCKETS.to_vec()),
            )?,
        )?;
        let kafka = KafkaMetrics {
            in_flight_records: gauge(&registry, "in_flight_records", "Records not yet confirmed by Kafka.")?,
            in_flight_bytes: gauge(&registry, "in_flight_bytes", "Bytes not yet confirmed by Kafka.")?,
            commit_to_delivery,
            transaction_commit,
            delivery_errors: counters(
                &registry,
                "delivery_errors_total",
                "Records that Kafka did not take.",
                &["kind"],
            )?,
        };
        let schema_registry = SchemaRegistryMetrics {
            registrations: counter(
                &registry,
                "schema_registrations_total",
                "Schemas that the registry gave an id for.",
            )?,
            incompatible: counters(
                &registry,
                "incompatible_schemas_total",
                "Schemas that break with their predecessors.",
                &["outcome"],
            )?,
        };
        for outcome in Incompatible::ALL {
            schema_registry.incompatible.with_label_values(&[outcome.label()]);
        }
        let tables = TablesMetrics {
            records: counters(&registry, "records_total", "Records handed to Kafka.", &["table", "op"])?,
            bytes: counters(
                &registry,
                "record_bytes_total",
                "Bytes of keys and values handed to Kafka.",
                &["table"],
            )?,
            bad_rows: counters(
                &registry,
                "bad_rows_total",
                "Rows that could not be published.",
                &["table", "reason"],
            )?,
            known: Arc::default(),
        };
        let reconnects = counters(
            &registry,
            "reconnects_total",
            "Connections that were lost and made anew.",
            &["peer"],
        )?;
        for peer in Peer::ALL {
            reconnects.with_label_values(&[peer.label()]);
        }
        let positions = Positions {
            received: gauge(&registry, "received_lsn", "The highest LSN received, as a number.")?,
            confirmed: gauge(
                &registry,
                "confirmed_flush_lsn",
                "The LSN confirmed to Postgres, as a number.",
            )?,
            lag: gauge(
                &registry,
                "replication_lag_bytes",
                "Bytes of WAL between the server's end and the confirmed LSN.",
            )?,
            retained: gauge(
                &registry,
                "retained_wal_bytes",
                "Bytes of WAL that the slot keeps on the server.",
            )?,
        };
        let state = register(
            &registry,
            IntGaugeVec::new(
                Opts::new("walferry_state", "1 for the state of the pipeline, 0 for the others."),
                &["state"],
            )?,
        )?;
        let build = register(
            &registry,
            IntGaugeVec::new(
                Opts::new("walferry_build_info", "What is running; always 1."),
                &["version", "revision"],
            )?,
        )?;
        build.with_label_values(&[super::VERSION, super::REVISION]).set(1);
        #[cfg(target_os = "linux")]
        registry.register(Box::new(prometheus::process_collector::ProcessCollector::for_self()))?;
        Ok(Self {
            registry,
            replication,
            streamed,
            kafka,
            schema_registry,
            tables,
            reconnects,
            positions,
            state,
        })
    }

    /// A connection to `peer` was lost and made anew.
    pub fn reconnected(&self, peer: Peer) {
        self.reconnects.with_label_values(&[peer.label()]).inc();
    }

    /// How often the connection to `peer` was lost and made anew.
    pub fn reconnects(&self, peer: Peer) -> u64 {
        self.reconnects.with_label_values(&[peer.label()]).get()
    }

    /// All of it in Prometheus's text format, version 0.0.4.
    pub fn render(&self, status: &Status) -> Result<String, MetricsError> {
        self.positions.received.set(status.received_lsn().as_u64());
        self.positions.confirmed.set(status.confirmed_flush_lsn().as_u64());
        self.positions.lag.set(status.lag_bytes());
        self.positions.retained.set(status.retained_wal_bytes());
        let current = status.state();
        for state in State::ALL {
            self.state
                .with_label_values(&[state.label()])
                .set(i64::from(*state == current));
        }
        let mut families = self.registry.gather();
        families.extend(snapshots(status)?);
        Ok(TextEncoder::new().encode_to_string(&families)?)
    }
}

/// The snapshots' families, made anew for each scrape: a table that the board has forgotten leaves no series.
fn snapshots(status: &Status) -> Result<Vec<MetricFamily>, MetricsError> {
    let registry = Registry::new();
    let rows = counters(&registry, "snapshot_rows_total", "Rows read for snapshots.", &["table"])?;
    for (table, read) in status.snapshots().rows_read() {
        rows.with_label_values(&[&table]).inc_by(read);
    }
    let tables = register(
        &registry,
        IntGaugeVec::new(
            Opts::new("walferry_snapshot_tables", "Tables by how far their snapshot is."),
            &["state"],
        )?,
    )?;
    for state in SnapshotState::ALL {
        tables.with_label_values(&[state.label()]);
    }
    for table in status.snapshots().view().into_iter().flat_map(|view| view.tables) {
        tables.with_label_values(&[table.state.label()]).inc();
    }
    Ok(registry.gather())
}

fn register<C: Collector + Clone + 'static>(registry: &Registry, metric: C) -> Result<C, MetricsError> {
    #[cfg(test)]
    documented::note(&metric);
    registry.register(Box::new(metric.clone()))?;
    Ok(metric)
}

fn counter(registry: &Registry, name: &str, help: &str) -> Result<IntCounter, MetricsError> {
    register(registry, IntCounter::new(format!("walferry_{name}"), help)?)
}

fn counters(registry: &Registry, name: &str, help: &str, labels: &[&str]) -> Result<IntCounterVec, MetricsError> {
    register(
        registry,
        IntCounterVec::new(Opts::new(format!("walferry_{name}"), help), labels)?,
    )
}

fn gauge(registry: &Registry, name: &str, help: &str) -> Result<UnsignedGauge, MetricsError> {
    register(registry, UnsignedGauge::new(format!("walferry_{name}"), help)?)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::lsn::Lsn;
    use crate::telemetry::snapshots::SnapshotCause;

    #[test]
    fn every_metric_is_there_and_counts() {
        let metrics = Metrics::new().unwrap();
        let status = Status::new("shop", "shop_slot", "shop_pub");
        status.received(Lsn::new(u64::MAX));
        status.set_state(State::Streaming, None);
        metrics.replication.messages(MessageType::Insert, 7);
        metrics.replication.bytes.inc_by(100);
        metrics.replication.transactions.inc();
        metrics.tables.table("public.orders").add(RecordOp::Create, 7, 700);
        metrics.tables.bad_row("public.orders", "out_of_range");
        metrics.kafka.delivery_error("too_large");
        metrics.kafka.commit_to_delivery(Duration::from_millis(3));
        metrics.kafka.in_flight_bytes.set(4096);
        metrics.streamed.spooled_bytes.set(1 << 20);
        metrics.schema_registry.registrations.inc();
        metrics.schema_registry.incompatible(Incompatible::Refused);
        metrics.reconnected(Peer::Postgres);
        let text = metrics.render(&status).unwrap();
        for line in [
            "walferry_replication_messages_total{type=\"insert\"} 7",
            "walferry_replication_messages_total{type=\"keepalive\"} 0",
            "walferry_replication_bytes_total 100",
            "walferry_transactions_total 1",
            "walferry_records_total{op=\"c\",table=\"public.orders\"} 7",
            "walferry_record_bytes_total{table=\"public.orders\"} 700",
            "walferry_bad_rows_total{reason=\"out_of_range\",table=\"public.orders\"} 1",
            "walferry_delivery_errors_total{kind=\"too_large\"} 1",
            "walferry_commit_to_delivery_seconds_bucket{le=\"0.005\"} 1",
            "walferry_in_flight_records 0",
            "walferry_in_flight_bytes 4096",
            "walferry_streamed_transactions 0",
            "walferry_buffered_bytes 0",
            "walferry_spooled_bytes 1048576",
            "walferry_schema_registrations_total 1",
            "walferry_incompatible_schemas_total{outcome=\"refused\"} 1",
            "walferry_incompatible_schemas_total{outcome=\"registered\"} 0",
            "walferry_reconnects_total{peer=\"postgres\"} 1",
            "walferry_reconnects_total{peer=\"kafka\"} 0",
            "walferry_received_lsn 18446744073709552000",
            "walferry_confirmed_flush_lsn 0",
            "walferry_retained_wal_bytes 0",
            "walferry_replication_lag_bytes 0",
            "walferry_state{state=\"streaming\"} 1",
            "walferry_state{state=\"connecting\"} 0",
        ] {
            assert!(text.lines().any(|found| found == line), "{line} is not in:\n{text}");
        }
        assert!(text.contains("walferry_build_info{revision="));
        #[cfg(target_os = "linux")]
        assert!(text.contains("process_resident_memory_bytes"));
    }

    #[test]
    fn a_forgotten_table_leaves_no_series() {
        let metrics = Metrics::new().unwrap();
        for table in 0..100 {
            let name = format!("public.t{table}");
            metrics.tables.table(&name).add(RecordOp::Create, 1, 10);
            metrics.tables.bad_row(&name, "malformed");
        }
        metrics.tables.retain(|name| name == "public.t7");
        let text = metrics.render(&Status::new("shop", "s", "p")).unwrap();
        let series: Vec<&str> = text.lines().filter(|line| line.contains("table=")).collect();
        assert_eq!(series.len(), RecordOp::ALL.len() + 2, "{series:?}");
        assert!(series.iter().all(|line| line.contains("public.t7")), "{series:?}");
        assert_eq!(metrics.tables.len(), 1);
    }

    #[test]
    fn snapshots_are_counted_by_table_and_by_state() {
        let metrics = Metrics::new().unwrap();
        let status = Status::new("shop", "s", "p");
        let lines = |wanted: &str| -> Vec<String> {
            let text = metrics.render(&status).unwrap();
            text.lines()
                .filter(|line| line.starts_with(wanted))
                .map(str::to_owned)
                .collect()
        };
        assert_eq!(lines("walferry_snapshot_rows_total"), [""; 0]);
        assert_eq!(lines("walferry_snapshot_tables").len(), SnapshotState::ALL.len());
        let board = status.snapshots();
        for table in ["public.a", "public.b", "public.c"] {
            board.waiting(table, SnapshotCause::Initial, None);
        }
        board.begun("public.a", 100);
        board.rows("public.a", 7, 2);
        board.begun("public.b", 0);
        board.rows("public.b", 3, 0);
        board.finished("public.b");
        assert_eq!(
            lines("walferry_snapshot"),
            [
                "walferry_snapshot_rows_total{table=\"public.a\"} 7",
                "walferry_snapshot_rows_total{table=\"public.b\"} 3",
                "walferry_snapshot_tables{state=\"cancelled\"} 0",
                "walferry_snapshot_tables{state=\"done\"} 1",
                "walferry_snapshot_tables{state=\"failed\"} 0",
                "walferry_snapshot_tables{state=\"paused\"} 0",
                "walferry_snapshot_tables{state=\"reading\"} 1",
                "walferry_snapshot_tables{state=\"waiting\"} 1",
            ]
        );
        board.retain(|table| table != "public.b");
        assert_eq!(
            lines("walferry_snapshot_rows_total"),
            ["walferry_snapshot_rows_total{table=\"public.a\"} 7"]
        );
    }

    #[test]
    fn a_table_is_counted_in_one_place_however_often_it_is_asked_for() {
        let metrics = Metrics::new().unwrap();
        metrics.tables.table("public.a").add(RecordOp::Update, 2, 10);
        metrics.tables.table("public.a").add(RecordOp::Delete, 1, 5);
        metrics.tables.bad_row("public.a", "too_large");
        metrics.tables.bad_row("public.a", "too_large");
        let counts = metrics.tables.counts();
        assert_eq!(
            counts.get("public.a"),
            Some(&TableCounts {
                total: 3,
                records: BTreeMap::from([("u", 2), ("d", 1)]),
                bytes: 15,
                bad_rows: BTreeMap::from([("too_large", 2)]),
            })
        );
    }
}
