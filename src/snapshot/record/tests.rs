use proptest::prelude::*;

use super::*;

fn record() -> SnapshotRecord {
    SnapshotRecord::new("7".into(), 5)
}

fn key(texts: &[&str]) -> Vec<String> {
    texts.iter().map(|text| (*text).to_owned()).collect()
}

fn by(columns: &[&str]) -> Vec<String> {
    key(columns)
}

fn text(record: &SnapshotRecord) -> String {
    String::from_utf8(record.to_json()).unwrap()
}

/// A record with something in every field.
const FULL: &str = r#"{"version":1,"system_identifier":"7","database_oid":5,"known":[10,11],"waiting":[{"table":12,"cause":"asked","filter":"a > 1"}],"reading":[{"table":13,"name":"public.t","cause":"initial","filter":null,"key":["a text","b integer"],"rows":1234,"ranges":[{"relation":14,"after":["a","1"],"before":["b"],"one":false,"done":false},{"relation":14,"after":null,"before":null,"one":false,"done":true}]}],"keyless":[{"table":15,"snapshot":"10:20:11,12","lsn":"0/1A2B"}],"paused":true}"#;

#[test]
fn a_record_is_an_object_that_an_operator_can_read() {
    let record = SnapshotRecord {
        known: vec![10, 11],
        waiting: vec![Waiting {
            table: 12,
            cause: Cause::Asked,
            filter: Some("a > 1".into()),
        }],
        reading: vec![Reading {
            table: 13,
            name: "public.t".into(),
            cause: Cause::Initial,
            filter: None,
            key: by(&["a text", "b integer"]),
            rows: 1234,
            ranges: vec![
                KeyRange {
                    relation: 14,
                    after: Some(key(&["a", "1"])),
                    before: Some(key(&["b"])),
                    one: false,
                    done: false,
                },
                KeyRange {
                    done: true,
                    ..KeyRange::whole(14)
                },
            ],
        }],
        keyless: vec![Keyless {
            table: 15,
            snapshot: Visibility::parse("10:20:11,12").unwrap(),
            lsn: Lsn::new(0x1A2B),
        }],
        paused: true,
        ..record()
    };
    assert_eq!(text(&record), FULL);
    assert_eq!(SnapshotRecord::parse(FULL.as_bytes()), Ok(record));
}

#[test]
fn a_record_of_a_later_version_is_refused_whatever_else_it_has() {
    let error = SnapshotRecord::parse(br#"{"version":2,"tables":{}}"#).unwrap_err();
    assert_eq!(error, RecordError::Version(2));
    assert_eq!(error.to_string(), "it has version 2, and this walferry knows version 1");
}

#[test]
fn what_is_no_record_is_refused() {
    for (from, to) in [
        ("{", "["),
        ("\"version\":1,", ""),
        ("\"version\":1", "\"version\":\"1\""),
        ("\"paused\":true", "\"paused\":true,\"more\":1"),
        ("\"rows\":1234", "\"rows\":1234,\"more\":1"),
        ("\"done\":false", "\"done\":false,\"more\":1"),
        ("\"rows\":1234", "\"rows\":-1"),
        ("\"initial\"", "\"Initial\""),
        ("\"filter\":\"a > 1\"", "\"filter\":\"a > 1\",\"more\":1"),
        ("\"after\":null,", ""),
        ("\"lsn\"", "\"more\":1,\"lsn\""),
        ("10:20:11,12", "10:20"),
        ("0/1A2B", "1A2B"),
    ] {
        let damaged = FULL.replacen(from, to, 1);
        assert_ne!(damaged, FULL);
        let error = SnapshotRecord::parse(damaged.as_bytes()).unwrap_err();
        assert!(matches!(error, RecordError::Malformed(_)), "{damaged}");
    }
}

#[test]
fn neither_an_error_nor_debug_shows_a_rows_key() {
    for (from, to) in [
        ("[\"b\"]", "\"secret\""),
        ("[\"b\"]", "[[\"secret\"]]"),
        ("[\"b\"]", "{\"secret\":1}"),
    ] {
        let error = SnapshotRecord::parse(FULL.replacen(from, to, 1).as_bytes()).unwrap_err();
        assert_eq!(
            error.to_string(),
            "it is no record of snapshots: the key of a range is no list of texts"
        );
    }
    let record = SnapshotRecord::parse(FULL.replacen("[\"b\"]", "[\"secret\"]", 1).as_bytes()).unwrap();
    assert!(!format!("{record:?}").contains("secret"));
}

#[test]
fn a_table_goes_from_waiting_over_reading_to_known() {
    let mut record = record();
    assert!(record.is_idle());
    assert!(record.ask(10, Cause::Initial, None));
    assert!(!record.is_idle());
    assert!(record.begin(
        10,
        "public.t".into(),
        by(&["a text"]),
        vec![KeyRange::whole(10), KeyRange::whole(11)]
    ));
    assert!(record.waiting.is_empty());
    assert!(!record.is_idle());
    assert!(record.advance(10, 1, key(&["5"]), 3));
    assert!(record.advance(10, 1, key(&["9"]), 2));
    assert_eq!(record.reading[0].rows, 5);
    assert_eq!(record.reading[0].ranges[0].after, None);
    assert_eq!(record.reading[0].ranges[1].after, Some(key(&["9"])));
    assert!(!record.finish_range(10, 1));
    assert!(record.finish_range(10, 0), "the last of its ranges");
    assert!(record.finished(10));
    assert!(record.is_idle());
    assert_eq!(record.known, [10]);
}

#[test]
fn what_is_not_being_read_cannot_go_on() {
    let mut record = record();
    assert!(!record.begin(10, "public.t".into(), by(&["a text"]), vec![]));
    record.ask(10, Cause::Initial, None);
    let waiting = record.clone();
    assert!(!record.advance(10, 0, key(&["5"]), 3));
    assert!(!record.finish_range(10, 0));
    assert!(!record.finished(10));
    assert_eq!(record, waiting);
    record.begin(10, "public.t".into(), by(&["a text"]), vec![KeyRange::whole(10)]);
    assert!(!record.advance(10, 1, key(&["5"]), 3), "there is no such range");
    assert_eq!(record.reading[0].rows, 0);
}

#[test]
fn the_same_rows_are_not_asked_for_twice() {
    let mut record = record();
    let filter = || Some("a > 1".to_owned());
    assert!(record.ask(10, Cause::Initial, None));
    assert!(!record.ask(10, Cause::Asked, None));
    assert!(record.ask(10, Cause::Asked, filter()));
    assert!(!record.ask(10, Cause::Asked, filter()));
    record.begin(10, "public.t".into(), by(&["a text"]), vec![]);
    assert!(!record.ask(10, Cause::Asked, None));
    assert!(!record.ask(10, Cause::Asked, filter()));
    record.finished(10);
    assert!(record.ask(10, Cause::Asked, None), "it is read again");
}

#[test]
fn a_table_is_read_for_one_entry_at_a_time_and_for_the_first_of_them() {
    let mut record = record();
    record.ask(10, Cause::Initial, None);
    record.ask(10, Cause::Asked, Some("a > 1".into()));
    assert!(record.begin(10, "public.t".into(), by(&["a text"]), vec![]));
    assert!(!record.begin(10, "public.t".into(), by(&["a text"]), vec![]));
    record.finished(10);
    assert!(record.begin(10, "public.t".into(), by(&["a text"]), vec![]));
    assert_eq!(record.reading[0].filter.as_deref(), Some("a > 1"));
}

#[test]
fn a_table_of_which_only_some_rows_were_asked_for_is_not_known_by_it() {
    let mut record = record();
    record.ask(10, Cause::Asked, Some("a > 1".into()));
    record.ask(11, Cause::Asked, None);
    for table in [10, 11] {
        record.begin(table, "public.t".into(), by(&["a text"]), vec![]);
        record.finished(table);
    }
    assert_eq!(record.known, [11]);
    assert_eq!(record.due(&[10, 11]), [10]);
}

#[test]
fn a_cancelled_initial_snapshot_is_not_due_again() {
    let mut record = record();
    record.ask(10, Cause::Initial, None);
    record.ask(11, Cause::Initial, None);
    record.begin(11, "public.t".into(), by(&["a text"]), vec![KeyRange::whole(11)]);
    record.ask(11, Cause::Asked, Some("a > 1".into()));
    assert!(record.cancel(10));
    assert!(record.cancel(11));
    assert!(!record.cancel(12));
    assert!(record.is_idle());
    assert!(record.due(&[10, 11]).is_empty());
    assert!(
        !record.advance(11, 0, key(&["5"]), 1),
        "what was on its way comes too late"
    );
}

#[test]
fn what_was_asked_for_and_cancelled_leaves_the_initial_snapshot_due() {
    let mut record = record();
    record.ask(10, Cause::Asked, Some("a > 1".into()));
    assert!(record.cancel(10));
    assert_eq!(record.due(&[10]), [10]);
}

#[test]
fn published_tables_of_which_nothing_is_known_are_due() {
    let mut record = record();
    record.know(11);
    record.know(10);
    record.know(11);
    assert_eq!(record.known, [10, 11]);
    record.ask(12, Cause::Asked, None);
    record.ask(13, Cause::Initial, None);
    record.begin(13, "public.t".into(), by(&["a text"]), vec![]);
    assert_eq!(record.due(&[15, 10, 14, 12, 13, 11]), [15, 14]);
}

fn cut(table: u32, snapshot: &str, lsn: u64) -> Keyless {
    Keyless {
        table,
        snapshot: Visibility::parse(snapshot).unwrap(),
        lsn: Lsn::new(lsn),
    }
}

#[test]
fn what_is_not_published_any_more_is_forgotten_and_new_when_it_comes_back() {
    let mut record = SnapshotRecord::parse(FULL.as_bytes()).unwrap();
    let published = [10, 11, 12, 13, 15];
    assert!(!record.forget(&published));
    for gone in published {
        let mut record = record.clone();
        let left: Vec<u32> = published.into_iter().filter(|table| *table != gone).collect();
        assert!(record.forget(&left));
        assert_eq!(record.due(&[gone]), [gone]);
        assert!(!text(&record).contains(&format!("\"table\":{gone}")));
    }
    assert!(record.forget(&[]));
    assert_eq!(record.entries(), [0; 4]);
}

#[test]
fn a_cut_is_dropped_once_the_stream_has_passed_it() {
    let mut record = record();
    record.cut(cut(10, "10:20:", 100));
    record.cut(cut(11, "10:20:", 200));
    assert!(!record.passed(Lsn::new(99)));
    assert!(record.passed(Lsn::new(100)));
    assert_eq!(record.keyless, [cut(11, "10:20:", 200)]);
}

#[test]
fn a_table_has_one_cut_the_last() {
    let mut record = record();
    record.cut(cut(10, "10:20:", 100));
    record.cut(cut(10, "15:30:", 300));
    assert_eq!(record.keyless, [cut(10, "15:30:", 300)]);
}

#[test]
fn a_cancelled_read_of_a_table_without_a_key_takes_its_cut_with_it_and_a_finished_one_does_not() {
    for is_finished in [false, true] {
        let mut record = record();
        record.ask(10, Cause::Initial, None);
        record.begin(10, "public.t".into(), by(&["a text"]), vec![KeyRange::whole(10)]);
        record.cut(cut(10, "10:20:", 100));
        if is_finished {
            record.finished(10);
        }
        assert_eq!(record.cancel(10), !is_finished);
        assert_eq!(record.keyless.is_empty(), !is_finished);
    }
}

#[test]
fn a_cut_taken_on_a_standby_says_so_when_it_is_read_again() {
    let mut record = record();
    record.cut(Keyless {
        table: 10,
        snapshot: Visibility::parse("10:20:").unwrap().in_recovery(),
        lsn: Lsn::new(100),
    });
    let again = SnapshotRecord::parse(&record.to_json()).unwrap();
    assert!(!again.keyless[0].snapshot.sees(15));
}

#[derive(Debug, Clone)]
enum Step {
    Ask(u32, bool, bool),
    Begin(u32),
    Advance(u32),
    FinishRange(u32),
    Finished(u32),
    Cancel(u32),
    Forget(Vec<u32>),
}

fn step() -> impl Strategy<Value = Step> {
    let table = || 10_u32..14;
    prop_oneof![
        (table(), any::<bool>(), any::<bool>()).prop_map(|(table, asked, some)| Step::Ask(table, asked, some)),
        table().prop_map(Step::Begin),
        table().prop_map(Step::Advance),
        table().prop_map(Step::FinishRange),
        table().prop_map(Step::Finished),
        table().prop_map(Step::Cancel),
        prop::collection::vec(table(), 2..5).prop_map(Step::Forget),
    ]
}

proptest! {
    #[test]
    fn whatever_happens_the_record_survives_its_text_and_no_table_is_read_twice_at_once(
        steps in prop::collection::vec(step(), 0..40),
    ) {
        let mut record = record();
        for step in steps {
            match step {
                Step::Ask(table, asked, some) => {
                    let cause = if asked { Cause::Asked } else { Cause::Initial };
                    record.ask(table, cause, some.then(|| "a > 1".to_owned()));
                    prop_assert!(!record.due(&[table]).contains(&table));
                }
                Step::Begin(table) => {
                    record.begin(table, "public.t".into(), by(&["a text"]), vec![KeyRange::whole(table)]);
                }
                Step::Advance(table) => {
                    record.advance(table, 0, key(&["\\\"\t"]), 1);
                }
                Step::FinishRange(table) => {
                    record.finish_range(table, 0);
                }
                Step::Finished(table) => {
                    record.finished(table);
                }
                Step::Cancel(table) => {
                    record.cancel(table);
                    let left = format!("\"table\":{table}");
                    prop_assert!(!text(&record).contains(&left));
                }
                Step::Forget(published) => {
                    record.forget(&published);
                    prop_assert!(record.known.iter().all(|table| published.contains(table)));
                }
            }
            prop_assert_eq!(SnapshotRecord::parse(&record.to_json()), Ok(record.clone()));
            prop_assert!(record.known.is_sorted_by(|a, b| a < b));
            for reading in &record.reading {
                let same = record.reading.iter().filter(|other| other.table == reading.table);
                prop_assert_eq!(same.count(), 1);
            }
            for (at, waiting) in record.waiting.iter().enumerate() {
                let same = |other: &Waiting| (other.table, &other.filter) == (waiting.table, &waiting.filter);
                prop_assert!(!record.waiting[at + 1..].iter().any(same));
                let is_read = |other: &Reading| (other.table, &other.filter) == (waiting.table, &waiting.filter);
                prop_assert!(!record.reading.iter().any(is_read));
            }
        }
    }
}

#[test]
fn a_table_whose_key_is_another_one_is_read_anew() {
    let mut record = record();
    assert!(
        !record.restart(10, by(&["b text"]), vec![KeyRange::whole(10)]),
        "it is not being read"
    );
    record.ask(10, Cause::Initial, None);
    record.begin(10, "public.t".into(), by(&["a integer"]), vec![KeyRange::whole(10)]);
    record.advance(10, 0, key(&["5"]), 5);
    record.cut(Keyless {
        table: 10,
        snapshot: Visibility::parse("10:20:").unwrap(),
        lsn: Lsn::new(1),
    });
    assert!(record.restart(10, by(&["b text"]), vec![KeyRange::whole(10)]));
    let reading = record.reading(10).unwrap();
    assert_eq!(
        (reading.rows, reading.ranges.as_slice()),
        (0, &[KeyRange::whole(10)][..])
    );
    assert_eq!(reading.key, by(&["b text"]));
    assert!(record.keyless.is_empty());
}

#[test]
fn a_row_that_is_owed_is_a_range_of_its_own() {
    let mut record = record();
    record.ask(10, Cause::Initial, None);
    record.begin(10, "public.t".into(), by(&["a integer"]), vec![KeyRange::whole(10)]);
    assert!(!record.owe(11, 11, &key(&["5"])));
    assert!(record.owe(10, 10, &key(&["5"])));
    assert!(!record.finish_range(10, 0), "the row is still to be read");
    let range = &record.reading(10).unwrap().ranges[1];
    assert!(range.one && !range.done);
    record.advance(10, 1, key(&["5"]), 1);
    assert!(
        record.reading(10).unwrap().ranges[1].done,
        "a crash right after does not read it twice"
    );
}
