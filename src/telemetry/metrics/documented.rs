//! The table in `docs/operations.md` and the metrics are the same, in both directions.

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};

use prometheus::core::Collector;

use super::*;
use crate::telemetry::snapshots::SnapshotCause;

const DOCUMENT: &str = include_str!("../../../docs/operations.md");

/// What is known of a metric without its samples: one with labels has no series before it has counted something.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Described {
    kind: String,
    labels: BTreeSet<String>,
    help: String,
}

thread_local! {
    static REGISTERED: RefCell<BTreeMap<String, Described>> = RefCell::default();
}

/// Everything that is registered passes here.
pub(super) fn note(metric: &impl Collector) {
    for (desc, family) in metric.desc().into_iter().zip(metric.collect()) {
        let described = Described {
            kind: format!("{:?}", family.get_field_type()).to_lowercase(),
            labels: desc.variable_labels.iter().cloned().collect(),
            help: desc.help.clone(),
        };
        REGISTERED.with_borrow_mut(|known| known.insert(desc.fq_name.clone(), described));
    }
}

/// All metrics of a pipeline, and what a scrape gives once each of them has counted.
fn registered() -> (BTreeMap<String, Described>, String) {
    REGISTERED.take();
    let metrics = Metrics::new().unwrap();
    let status = Status::new("shop", "s", "p");
    metrics.tables.table("public.a").add(RecordOp::Create, 1, 1);
    metrics.tables.bad_row("public.a", "too_large");
    metrics.kafka.delivery_error("too_large");
    status.snapshots().waiting("public.a", SnapshotCause::Initial, None);
    status.snapshots().begun("public.a", 0);
    status.snapshots().rows("public.a", 1, 0);
    let text = metrics.render(&status).unwrap();
    (REGISTERED.take(), text)
}

/// The rows of the document's table: name → type and labels. Names that share a row have one type.
fn documented() -> BTreeMap<String, (String, BTreeSet<String>)> {
    let section = DOCUMENT.split("\n## Metrics\n").nth(1).unwrap();
    let rows = section.lines().skip_while(|line| !line.starts_with("|---"));
    let rows = rows.skip(1).take_while(|line| line.starts_with("| "));
    let mut found = BTreeMap::new();
    for row in rows {
        let cells: Vec<&str> = row.trim_matches('|').split('|').map(str::trim).collect();
        let [names, kind, meaning] = cells[..] else {
            panic!("not three cells: {row}")
        };
        assert!(!meaning.is_empty(), "{row}");
        for name in names.split(", `").map(|name| name.trim_matches('`')) {
            let (name, labels) = name.split_once('{').unwrap_or((name, ""));
            let labels = labels
                .trim_end_matches('}')
                .split(',')
                .filter(|label| !label.is_empty());
            let labels = labels.map(str::to_owned).collect();
            let before = found.insert(format!("walferry_{name}"), (kind.to_owned(), labels));
            assert_eq!(before, None, "{name} is there twice");
        }
    }
    // These have no prefix, and are Prometheus's own.
    found.remove("walferry_process_*").expect("a row for process_*");
    found
}

#[test]
fn the_document_lists_every_metric_with_its_type_and_labels_and_no_other() {
    let (registered, _) = registered();
    let registered: BTreeMap<String, (String, BTreeSet<String>)> = registered
        .into_iter()
        .map(|(name, described)| (name, (described.kind, described.labels)))
        .collect();
    assert_eq!(documented(), registered);
}

#[test]
fn every_metric_is_explained_where_it_is_scraped() {
    let (registered, text) = registered();
    let mut explained = BTreeSet::new();
    for line in text.lines().filter_map(|line| line.strip_prefix("# HELP ")) {
        let (name, help) = line.split_once(' ').unwrap();
        if !name.starts_with("process_") {
            let known = registered
                .get(name)
                .unwrap_or_else(|| panic!("{name} is not registered in one place with the others"));
            assert_eq!(known.help, help);
            assert!(text.contains(&format!("# TYPE {name} {}\n", known.kind)), "{name}");
            assert!(help.len() > 15 && help.ends_with('.'), "{name}: {help}");
            explained.insert(name.to_owned());
        }
    }
    assert_eq!(explained, registered.into_keys().collect());
}

#[test]
fn process_metrics_are_there_too() {
    let (_, text) = registered();
    for name in [
        "process_resident_memory_bytes",
        "process_cpu_seconds_total",
        "process_open_fds",
        "process_start_time_seconds",
    ] {
        assert_eq!(
            text.contains(&format!("# HELP {name} ")),
            cfg!(target_os = "linux"),
            "{name}"
        );
    }
}
