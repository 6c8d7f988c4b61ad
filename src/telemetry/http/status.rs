//! `/status` and `/status/history`: what people and the page at `/` ask for.

use std::cmp::Reverse;
use std::collections::{BTreeMap, HashMap};
use std::time::SystemTime;

use axum::extract::{RawQuery, State as Shared};
use axum::http::StatusCode;
use serde::Serialize;

use super::{Answer, Served, TEXT, answer, json};
use crate::telemetry::errors::RecentError;
use crate::telemetry::history::tenths;
use crate::telemetry::metrics::{Peer, TableCounts};
use crate::telemetry::snapshots::{SnapshotState, SnapshotView};
use crate::telemetry::state::{LastError, rfc3339};
use crate::telemetry::{REVISION, VERSION};

pub(super) async fn show(Shared(served): Shared<Served>, RawQuery(query): RawQuery) -> Answer {
    match most_tables(query.as_deref().unwrap_or_default()) {
        Ok(most) => json(StatusCode::OK, &Report::new(&served, most)),
        Err(error) => answer(StatusCode::BAD_REQUEST, TEXT, error),
    }
}

pub(super) async fn history(Shared(served): Shared<Served>) -> Answer {
    json(StatusCode::OK, &served.history.view())
}

/// `tables=N`: how many tables are wanted at most.
fn most_tables(query: &str) -> Result<Option<usize>, String> {
    let Some(number) = query.split('&').find_map(|pair| pair.strip_prefix("tables=")) else {
        return Ok(None);
    };
    let parsed = number.parse();
    parsed
        .map(Some)
        .map_err(|_| "tables is not a number: write how many tables are wanted, such as /status?tables=50\n".to_owned())
}

/// In the order in which people read it.
#[derive(Debug, Serialize)]
struct Report {
    name: String,
    version: &'static str,
    revision: &'static str,
    state: &'static str,
    reason: Option<String>,
    since: String,
    started_at: String,
    uptime_seconds: u64,
    postgres: PostgresReport,
    positions: PositionsReport,
    lag_bytes: u64,
    lag_seconds: Option<f64>,
    retained_wal_bytes: u64,
    streamed: StreamedReport,
    in_flight: InFlightReport,
    reconnects: BTreeMap<&'static str, u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    snapshot: Option<SnapshotView>,
    /// With those that `tables` leaves out.
    tables_counted: usize,
    tables: BTreeMap<String, TableReport>,
    last_bad_row: Option<ErrorReport>,
    last_error: Option<ErrorReport>,
    recent_errors: Vec<RecentErrorReport>,
}

#[derive(Debug, Serialize)]
struct PostgresReport {
    server_version: Option<String>,
    slot: String,
    publication: String,
}

#[derive(Debug, Serialize)]
struct PositionsReport {
    received_lsn: String,
    confirmed_flush_lsn: String,
    wal_end_lsn: String,
}

/// Transactions that run.
#[derive(Debug, Serialize)]
struct StreamedReport {
    transactions: u64,
    buffered_bytes: u64,
    spooled_bytes: u64,
}

#[derive(Debug, Serialize)]
struct InFlightReport {
    records: u64,
    bytes: u64,
    limit_bytes: Option<u64>,
}

#[derive(Debug, Serialize)]
struct TableReport {
    #[serde(flatten)]
    counts: TableCounts,
    records_per_second: Option<f64>,
}

#[derive(Debug, Serialize)]
struct ErrorReport {
    at: String,
    text: String,
}

#[derive(Debug, Serialize)]
struct RecentErrorReport {
    at: String,
    first_at: String,
    times: u64,
    text: String,
}

impl From<LastError> for ErrorReport {
    fn from(error: LastError) -> Self {
        ErrorReport {
            at: rfc3339(error.at),
            text: error.text,
        }
    }
}

impl From<RecentError> for RecentErrorReport {
    fn from(error: RecentError) -> Self {
        RecentErrorReport {
            at: rfc3339(error.at),
            first_at: rfc3339(error.first_at),
            times: error.times,
            text: error.text,
        }
    }
}

impl Report {
    fn new(served: &Served, most: Option<usize>) -> Self {
        let Served {
            status,
            metrics,
            history,
            ..
        } = served;
        let snapshot = status.snapshot();
        let uptime = SystemTime::now()
            .duration_since(snapshot.started_at)
            .unwrap_or_default();
        let counts = metrics.tables.counts();
        Self {
            name: snapshot.name,
            version: VERSION,
            revision: REVISION,
            state: snapshot.state.label(),
            reason: snapshot.reason,
            since: rfc3339(snapshot.since),
            started_at: rfc3339(snapshot.started_at),
            uptime_seconds: uptime.as_secs(),
            postgres: PostgresReport {
                server_version: snapshot.server_version,
                slot: snapshot.slot,
                publication: snapshot.publication,
            },
            positions: PositionsReport {
                received_lsn: snapshot.received_lsn.to_string(),
                confirmed_flush_lsn: snapshot.confirmed_flush_lsn.to_string(),
                wal_end_lsn: snapshot.wal_end.to_string(),
            },
            lag_bytes: snapshot.lag_bytes,
            lag_seconds: history.lag(status).map(|lag| tenths(lag.as_secs_f64())),
            retained_wal_bytes: snapshot.retained_wal_bytes,
            streamed: StreamedReport {
                transactions: metrics.streamed.transactions.get(),
                buffered_bytes: metrics.streamed.buffered_bytes.get(),
                spooled_bytes: metrics.streamed.spooled_bytes.get(),
            },
            in_flight: InFlightReport {
                records: metrics.kafka.in_flight_records.get(),
                bytes: metrics.kafka.in_flight_bytes.get(),
                limit_bytes: status.in_flight_limit(),
            },
            reconnects: Peer::ALL
                .iter()
                .map(|peer| (peer.label(), metrics.reconnects(*peer)))
                .collect(),
            snapshot: status.snapshots().view().map(|view| most_urgent(view, most)),
            tables_counted: counts.len(),
            tables: busiest(counts, &history.rates(), most),
            last_bad_row: snapshot.last_bad_row.map(ErrorReport::from),
            last_error: snapshot.last_error.map(ErrorReport::from),
            recent_errors: snapshot
                .recent_errors
                .into_iter()
                .map(RecentErrorReport::from)
                .collect(),
        }
    }
}

/// The tables with the most records of late, and of these with as many the ones with the most in all.
fn busiest(
    counts: BTreeMap<String, TableCounts>,
    rates: &HashMap<String, f64>,
    most: Option<usize>,
) -> BTreeMap<String, TableReport> {
    let reports = counts.into_iter().map(|(name, counts)| {
        let records_per_second = rates.get(&name).copied();
        let report = TableReport {
            counts,
            records_per_second,
        };
        (name, report)
    });
    let Some(most) = most else {
        return reports.collect();
    };
    let mut reports: Vec<(String, TableReport)> = reports.collect();
    let rate = |report: &TableReport| report.records_per_second.unwrap_or_default();
    reports.sort_by(|(_, one), (_, other)| {
        let by_rate = rate(other).total_cmp(&rate(one));
        by_rate.then_with(|| other.counts.total.cmp(&one.counts.total))
    });
    reports.into_iter().take(most).collect()
}

/// The tables that are being read or need somebody first; those that have ended last, the latest of them first.
fn most_urgent(mut view: SnapshotView, most: Option<usize>) -> SnapshotView {
    if let Some(most) = most {
        view.tables.sort_by_key(|table| {
            let rank = match table.state {
                SnapshotState::Reading => 0,
                SnapshotState::Failed => 1,
                SnapshotState::Paused => 2,
                SnapshotState::Waiting => 3,
                SnapshotState::Cancelled | SnapshotState::Done => 4,
            };
            (rank, Reverse(table.finished_at.clone()))
        });
        view.tables.truncate(most);
    }
    view
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::super::tests::{fetch, start};
    use super::*;
    use crate::lsn::Lsn;
    use crate::telemetry::metrics::RecordOp;
    use crate::telemetry::snapshots::SnapshotCause;
    use crate::telemetry::state::State;

    #[tokio::test]
    async fn the_status_shows_positions_tables_and_the_last_errors() {
        let (server, status, metrics) = start().await;
        status.set_state(State::Streaming, None);
        status.set_server_version("18.1");
        status.received(Lsn::new(0x1_0000_0040));
        status.wal_end(Lsn::new(0x1_0000_0080));
        status.confirmed(Lsn::new(0x1_0000_0010));
        status.set_retained_wal_bytes(4096);
        status.set_in_flight_limit(65_536);
        metrics.streamed.transactions.set(2);
        metrics.streamed.spooled_bytes.set(512);
        status.set_last_error("connection reset by peer");
        status.set_last_error("connection reset by peer");
        metrics.reconnected(Peer::Postgres);
        metrics.tables.table("public.orders").add(RecordOp::Create, 3, 300);
        let (code, content_type, body) = fetch(&server, "/status").await;
        assert_eq!((code, content_type.as_str()), (200, "application/json"));
        let mut found: Value = serde_json::from_str(&body).unwrap();
        for field in ["started_at", "since", "uptime_seconds", "revision", "version"] {
            assert!(found.as_object_mut().unwrap().remove(field).is_some(), "{field}");
        }
        for time in ["/last_error/at", "/recent_errors/0/at", "/recent_errors/0/first_at"] {
            assert!(found.pointer_mut(time).unwrap().take().is_string(), "{time}");
        }
        assert!(found.pointer_mut("/lag_seconds").unwrap().take().is_f64());
        assert_eq!(
            found,
            json!({
                "name": "shop",
                "state": "streaming",
                "reason": null,
                "postgres": { "server_version": "18.1", "slot": "shop_slot", "publication": "shop_pub" },
                "positions": { "received_lsn": "1/40", "confirmed_flush_lsn": "1/10", "wal_end_lsn": "1/80" },
                "lag_bytes": 112,
                "lag_seconds": null,
                "retained_wal_bytes": 4096,
                "streamed": { "transactions": 2, "buffered_bytes": 0, "spooled_bytes": 512 },
                "in_flight": { "records": 0, "bytes": 0, "limit_bytes": 65_536 },
                "reconnects": { "kafka": 0, "postgres": 1, "schema_registry": 0 },
                "tables_counted": 1,
                "tables": {
                    "public.orders": {
                        "total": 3, "records": { "c": 3 }, "bytes": 300, "bad_rows": {}, "records_per_second": null,
                    },
                },
                "last_bad_row": null,
                "last_error": { "at": null, "text": "connection reset by peer" },
                "recent_errors": [{ "at": null, "first_at": null, "times": 2, "text": "connection reset by peer" }],
            })
        );
    }

    #[tokio::test]
    async fn the_status_shows_snapshots_once_there_was_one() {
        let (server, status, _) = start().await;
        let snapshot = async || {
            let (_, _, body) = fetch(&server, "/status").await;
            let found: Value = serde_json::from_str(&body).unwrap();
            found.get("snapshot").cloned()
        };
        assert_eq!(snapshot().await, None);
        status
            .snapshots()
            .waiting("public.orders", SnapshotCause::Asked, Some(10));
        assert_eq!(
            snapshot().await,
            Some(json!({
                "due": false,
                "paused": null,
                "tables_ended": 0,
                "tables_total": 1,
                "rows": 0,
                "percent": 0.0,
                "remaining_seconds": null,
                "tables": [{
                    "table": "public.orders",
                    "cause": "asked",
                    "state": "waiting",
                    "rows": 0,
                    "superseded": 0,
                    "estimated_rows": 10,
                    "percent": 0.0,
                    "rows_per_second": null,
                    "remaining_seconds": null,
                    "started_at": null,
                    "finished_at": null,
                    "reason": null,
                }],
            }))
        );
    }

    #[tokio::test]
    async fn the_history_has_a_sample_from_the_start_on() {
        let (server, _, _) = start().await;
        let (code, content_type, body) = loop {
            let answered = fetch(&server, "/status/history").await;
            if answered.2.contains("age_seconds") {
                break answered;
            }
        };
        assert_eq!((code, content_type.as_str()), (200, "application/json"));
        let mut found: Value = serde_json::from_str(&body).unwrap();
        assert!(found.pointer_mut("/samples/0/age_seconds").unwrap().take().is_f64());
        assert_eq!(
            found,
            json!({
                "interval_seconds": 5,
                "kept": 180,
                "samples": [{
                    "age_seconds": null,
                    "state": "connecting",
                    "lag_bytes": null,
                    "lag_seconds": null,
                    "in_flight_bytes": 0,
                    "records_per_second": null,
                }],
            })
        );
    }

    #[tokio::test]
    async fn of_many_tables_the_busiest_are_shown_where_so_many_are_asked_for() {
        let (server, status, metrics) = start().await;
        for number in 1..=9 {
            let name = format!("public.t{number}");
            metrics.tables.table(&name).add(RecordOp::Create, number, 10);
            status.snapshots().waiting(&name, SnapshotCause::Initial, None);
        }
        status.snapshots().begun("public.t5", 0);
        status.snapshots().failed("public.t7", "no right to read it");
        status.snapshots().finished("public.t1");
        let (_, _, body) = fetch(&server, "/status?tables=3").await;
        let found: Value = serde_json::from_str(&body).unwrap();
        let names: Vec<&String> = found["tables"].as_object().unwrap().keys().collect();
        assert_eq!(names, ["public.t7", "public.t8", "public.t9"]);
        assert_eq!(found["tables_counted"], 9);
        let read = found["snapshot"]["tables"].as_array().unwrap();
        let read: Vec<&Value> = read.iter().map(|table| &table["table"]).collect();
        assert_eq!(read, ["public.t5", "public.t7", "public.t2"]);
        assert_eq!(found["snapshot"]["tables_total"], 9);
        let (code, _, body) = fetch(&server, "/status?tables=all").await;
        assert_eq!(code, 400);
        assert_eq!(
            body,
            "tables is not a number: write how many tables are wanted, such as /status?tables=50\n"
        );
    }

    #[test]
    fn the_rate_of_late_counts_for_more_than_the_total() {
        let counts = |total| TableCounts {
            total,
            records: BTreeMap::new(),
            bytes: 0,
            bad_rows: BTreeMap::new(),
        };
        let tables = BTreeMap::from([
            ("public.old".to_owned(), counts(1_000)),
            ("public.older".to_owned(), counts(900)),
            ("public.busy".to_owned(), counts(3)),
        ]);
        let rates = HashMap::from([("public.busy".to_owned(), 0.5), ("public.old".to_owned(), 0.0)]);
        let shown = busiest(tables, &rates, Some(2));
        assert_eq!(shown.keys().collect::<Vec<_>>(), ["public.busy", "public.old"]);
    }
}
