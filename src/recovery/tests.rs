use std::time::{Duration, Instant};

use super::*;
use crate::lsn::Lsn;

const LIMITS: Limits = Limits {
    interval: Duration::from_millis(200),
    changes: 10,
    longest: Duration::from_secs(30),
    idle: Duration::from_secs(1),
};

fn lsn(position: u64) -> Lsn {
    Lsn::new(position)
}

fn place(commit: u64, end: u64, partial: u64) -> Place {
    Place {
        commit_lsn: lsn(commit),
        end_lsn: lsn(end),
        partial,
    }
}

fn identity(system: &str, timeline: u32) -> Identity {
    Identity {
        system_identifier: system.to_owned(),
        timeline,
        database_oid: 16_384,
        slot: "shop".to_owned(),
    }
}

fn recorded(timeline: u32, place: Place) -> StateRecord {
    StateRecord {
        identity: identity("7", timeline),
        place,
    }
}

fn judge(recorded: &StateRecord, now: &Identity, history: &[Switch], slot: Option<u64>) -> Result<Reconciled, Gap> {
    let found = Found {
        identity: now,
        history,
        slot: slot.map(lsn),
        log_end: lsn(u64::MAX),
    };
    reconcile(Some(recorded), found, None)
}

#[test]
fn a_record_is_json_that_a_person_can_read() {
    let record = recorded(3, place(0x16_B374_D800, 0x16_B374_D848, 0));
    assert_eq!(
        String::from_utf8(record.to_json()).unwrap(),
        r#"{"version":1,"system_identifier":"7","timeline":3,"database_oid":16384,"slot":"shop","commit_lsn":"16/B374D800","end_lsn":"16/B374D848","partial":0}"#
    );
    assert_eq!(StateRecord::parse(&record.to_json()), Ok(record));
}

#[test]
fn a_record_of_another_form_is_refused_and_never_taken_for_none() {
    assert_eq!(
        StateRecord::parse(br#"{"version":2,"system_identifier":7}"#)
            .unwrap_err()
            .to_string(),
        "it has version 2, and this walferry knows version 1"
    );
    for bytes in [&b"7"[..], b"{}", b"\xff", br#"{"version":1}"#] {
        assert!(matches!(StateRecord::parse(bytes), Err(RecordError::Malformed(_))));
    }
}

#[test]
fn a_place_advances_and_still_owes_the_rest_of_a_split_transaction_until_that_is_through() {
    let split = place(200, 110, 7);
    assert_eq!(split.advanced(lsn(150), lsn(0)), place(200, 150, 7));
    assert_eq!(split.advanced(lsn(205), lsn(200)), place(200, 205, 0));
    assert_eq!(
        split.advanced(lsn(205), lsn(0)),
        place(200, 205, 0),
        "nothing of the rest was published"
    );
    assert_eq!(place(90, 100, 0).advanced(lsn(120), lsn(0)), place(90, 120, 0));
    assert_eq!(place(90, 100, 0).advanced(lsn(120), lsn(115)), place(115, 120, 0));
}

#[test]
fn a_position_that_is_recorded_late_is_outdated_by_a_later_one_of_the_same_identity_only() {
    let (low, high) = (recorded(3, place(0, 100, 0)), recorded(3, place(80, 200, 0)));
    let outdated =
        |late: &StateRecord, early: &StateRecord| StateRecord::is_outdated(&late.to_json(), &early.to_json());
    assert!(outdated(&low, &high));
    assert!(!outdated(&high, &low));
    assert!(!outdated(&low, &low));
    assert!(!outdated(&recorded(4, low.place), &high));
    assert!(!StateRecord::is_outdated(b"{}", &high.to_json()));
}

#[test]
fn what_committed_before_the_end_is_dropped_and_the_rest_is_not() {
    let mut resume = Resume::new(place(100, 110, 0));
    assert_eq!(resume.treatment(lsn(90)), Ok(Treatment::Drop));
    assert_eq!(resume.treatment(lsn(100)), Ok(Treatment::Drop));
    assert_eq!(resume.treatment(lsn(110)), Ok(Treatment::Publish { skip: 0 }));
}

#[test]
fn a_message_outside_of_a_transaction_is_dropped_though_it_ends_where_it_begins() {
    let mut resume = Resume::new(place(100, 100, 0));
    assert_eq!(resume.treatment(lsn(100)), Ok(Treatment::Drop));
    assert_eq!(resume.treatment(lsn(101)), Ok(Treatment::Publish { skip: 0 }));
}

#[test]
fn of_a_split_transaction_the_published_changes_are_skipped_once() {
    let mut resume = Resume::new(place(200, 110, 7));
    assert_eq!(resume.treatment(lsn(100)), Ok(Treatment::Drop));
    assert_eq!(resume.treatment(lsn(150)), Ok(Treatment::Drop));
    assert_eq!(resume.treatment(lsn(200)), Ok(Treatment::Publish { skip: 7 }));
    assert_eq!(resume.treatment(lsn(300)), Ok(Treatment::Publish { skip: 0 }));
}

#[test]
fn a_split_transaction_that_does_not_come_again_is_an_error() {
    let mut resume = Resume::new(place(200, 110, 7));
    assert_eq!(
        resume.treatment(lsn(300)).unwrap_err().to_string(),
        "the transaction that committed at 0/C8, of which 7 changes are published, did not come again; the one at 0/12C came instead"
    );
}

#[test]
fn without_a_record_the_slot_is_taken_as_it_is() {
    let now = identity("7", 1);
    let found = Found {
        identity: &now,
        history: &[],
        slot: Some(lsn(50)),
        log_end: lsn(u64::MAX),
    };
    assert_eq!(
        reconcile(None, found, None),
        Ok(Reconciled {
            place: place(0, 50, 0),
            news: true,
            accepted: None,
            orphaned: None
        })
    );
}

#[test]
fn a_slot_at_or_before_what_is_recorded_goes_on_and_one_past_it_is_a_gap() {
    let record = recorded(1, place(100, 110, 0));
    for slot in [20, 110] {
        let reconciled = judge(&record, &identity("7", 1), &[], Some(slot)).unwrap();
        assert_eq!((reconciled.place, reconciled.news), (place(100, 110, 0), false));
    }
    let gap = judge(&record, &identity("7", 1), &[], Some(0x200)).unwrap_err();
    assert_eq!(
        gap.to_string(),
        "replication slot \"shop\" stands past what is recorded as published: changes from 0/6E to 0/200 (402 bytes of log) are not in \
         kafka and will not come"
    );
    let gap = judge(&record, &identity("7", 1), &[], None).unwrap_err();
    assert_eq!(
        gap.to_string(),
        "replication slot \"shop\" is gone: changes after 0/6E are not in kafka and may never come"
    );
}

#[test]
fn another_cluster_or_database_is_a_gap_wherever_its_slot_stands() {
    let record = recorded(1, place(100, 110, 0));
    let gap = judge(&record, &identity("8", 1), &[], Some(50)).unwrap_err();
    assert!(matches!(gap.kind, GapKind::System { .. }), "{gap}");
    let other = Identity {
        database_oid: 16_385,
        ..identity("7", 1)
    };
    let gap = judge(&record, &other, &[], Some(50)).unwrap_err();
    assert!(matches!(gap.kind, GapKind::Database { .. }), "{gap}");
}

#[test]
fn a_log_that_ends_before_the_record_was_set_back() {
    let record = recorded(1, place(100, 110, 0));
    let now = identity("7", 1);
    let found = |log_end| Found {
        identity: &now,
        history: &[],
        slot: Some(lsn(90)),
        log_end: lsn(log_end),
    };
    assert_eq!(
        reconcile(Some(&record), found(109), None).unwrap_err().to_string(),
        "the server's log ends at 0/6D, before what is recorded as published: it was set back, and writes other changes there now: \
         changes after 0/6E are not in kafka and may never come"
    );
    assert!(reconcile(Some(&record), found(110), None).is_ok());
    let accepted = reconcile(Some(&record), found(109), Some(lsn(110))).unwrap();
    assert_eq!(accepted.place, place(0, 90, 0));
}

#[test]
fn a_gap_is_accepted_by_its_beginning_and_by_nothing_else() {
    let record = recorded(1, place(100, 110, 0));
    let now = identity("7", 1);
    let found = |slot| Found {
        identity: &now,
        history: &[],
        slot: Some(lsn(slot)),
        log_end: lsn(u64::MAX),
    };
    assert!(reconcile(Some(&record), found(0x200), Some(lsn(0x200))).is_err());
    let reconciled = reconcile(Some(&record), found(0x200), Some(lsn(110))).unwrap();
    assert_eq!((reconciled.place, reconciled.news), (place(100, 0x200, 0), true));
    assert_eq!(reconciled.accepted.map(|gap| gap.to), Some(Some(lsn(0x200))));
    // Left in place, the acceptance does nothing where there is no gap.
    assert_eq!(
        reconcile(Some(&record), found(110), Some(lsn(110))).unwrap().accepted,
        None
    );
}

#[test]
fn a_promoted_standby_that_had_received_everything_goes_on() {
    let record = recorded(1, place(100, 110, 0));
    let history = [Switch {
        timeline: 1,
        at: lsn(130),
    }];
    let reconciled = judge(&record, &identity("7", 2), &history, Some(90)).unwrap();
    assert_eq!(
        (reconciled.place, reconciled.news, reconciled.orphaned),
        (place(100, 110, 0), true, None)
    );
}

#[test]
fn what_a_promoted_standby_had_not_received_is_skipped_up_to_the_switch_only() {
    let history = [Switch {
        timeline: 1,
        at: lsn(105),
    }];
    let judged = |record: Place| judge(&recorded(1, record), &identity("7", 2), &history, Some(90)).unwrap();
    // The commit at 106 is of the old timeline; another may stand there now.
    let reconciled = judged(place(106, 110, 0));
    assert_eq!(reconciled.place, place(0, 105, 0));
    assert_eq!(reconciled.orphaned, Some((lsn(105), lsn(110))));
    let mut resume = Resume::new(reconciled.place);
    assert_eq!(resume.treatment(lsn(100)), Ok(Treatment::Drop));
    assert_eq!(resume.treatment(lsn(106)), Ok(Treatment::Publish { skip: 0 }));
    // A part of one that is lost.
    let reconciled = judged(place(200, 104, 7));
    assert_eq!(reconciled.place, place(0, 105, 0));
    assert_eq!(reconciled.orphaned, Some((lsn(105), lsn(200))));
    // A message that ends where it begins, before a part of one that is lost: it is not published again.
    let reconciled = judged(place(200, 95, 7));
    assert_eq!(Resume::new(reconciled.place).treatment(lsn(95)), Ok(Treatment::Drop));
    // And its slot may not stand past the switch.
    let gap = judge(&recorded(1, place(106, 110, 0)), &identity("7", 2), &history, Some(108)).unwrap_err();
    assert_eq!((gap.from, gap.to), (lsn(105), Some(lsn(108))));
}

#[test]
fn only_changes_are_orphaned_and_a_message_at_the_switch_is_one() {
    let history = [Switch {
        timeline: 1,
        at: lsn(105),
    }];
    let judged = |record: Place| judge(&recorded(1, record), &identity("7", 2), &history, Some(90)).unwrap();
    // Received beyond the switch, with nothing in it.
    let reconciled = judged(place(100, 300, 0));
    assert_eq!((reconciled.place, reconciled.orphaned), (place(100, 105, 0), None));
    // Nobody recorded what the last commit was.
    let reconciled = judged(place(0, 300, 0));
    assert_eq!(
        (reconciled.place, reconciled.orphaned),
        (place(0, 105, 0), Some((lsn(105), lsn(300))))
    );
    // A message that begins, and so ends, where the new timeline does.
    let reconciled = judged(place(105, 105, 0));
    assert_eq!(
        (reconciled.place, reconciled.orphaned),
        (place(0, 105, 0), Some((lsn(105), lsn(105))))
    );
}

#[test]
fn an_accepted_gap_does_not_hide_what_is_orphaned() {
    let history = [Switch {
        timeline: 1,
        at: lsn(105),
    }];
    let now = identity("7", 2);
    let found = |slot| Found {
        identity: &now,
        history: &history,
        slot,
        log_end: lsn(u64::MAX),
    };
    let record = recorded(1, place(106, 110, 0));
    for slot in [Some(lsn(108)), None] {
        let reconciled = reconcile(Some(&record), found(slot), Some(lsn(105))).unwrap();
        assert_eq!(reconciled.orphaned, Some((lsn(105), lsn(110))), "{slot:?}");
    }
    // What is published before the gap is still known to be: the next promotion may orphan it.
    let record = recorded(1, place(100, 103, 0));
    let reconciled = reconcile(Some(&record), found(Some(lsn(108))), Some(lsn(103))).unwrap();
    assert_eq!(reconciled.place, place(100, 108, 0));
}

#[test]
fn the_rest_of_a_split_transaction_comes_from_a_slot_at_its_commit_or_before() {
    let record = recorded(1, place(200, 104, 7));
    for slot in [150, 200] {
        let reconciled = judge(&record, &identity("7", 1), &[], Some(slot)).unwrap();
        assert_eq!((reconciled.place, reconciled.news), (place(200, slot, 7), true));
    }
    let gap = judge(&record, &identity("7", 1), &[], Some(201)).unwrap_err();
    assert_eq!((gap.from, gap.to), (lsn(200), Some(lsn(201))));
}

#[test]
fn without_a_slot_there_is_nothing_to_record() {
    let now = identity("7", 1);
    let found = |slot| Found {
        identity: &now,
        history: &[],
        slot,
        log_end: lsn(u64::MAX),
    };
    assert!(!reconcile(None, found(None), None).unwrap().news);
    let record = recorded(1, place(100, 110, 0));
    assert!(!reconcile(Some(&record), found(None), Some(lsn(110))).unwrap().news);
    // The slot that is made then leaves a gap with the same beginning.
    let reconciled = reconcile(Some(&record), found(Some(lsn(180))), Some(lsn(110))).unwrap();
    assert_eq!((reconciled.place, reconciled.news), (place(100, 180, 0), true));
}

#[test]
fn a_timeline_that_does_not_descend_from_the_recorded_one_is_a_gap() {
    let history = [Switch {
        timeline: 1,
        at: lsn(105),
    }];
    for (recorded_on, now_on) in [(2, 3), (2, 1)] {
        let gap = judge(
            &recorded(recorded_on, place(100, 110, 0)),
            &identity("7", now_on),
            &history,
            Some(90),
        )
        .unwrap_err();
        assert!(matches!(gap.kind, GapKind::Timeline { .. }), "{gap}");
    }
}

#[test]
fn a_timeline_history_is_read_line_by_line() {
    assert_eq!(
        timeline_history("1\t0/3000060\tno recovery target specified\n\n# a comment\n2  1/4\tx\n"),
        Ok(vec![
            Switch {
                timeline: 1,
                at: lsn(0x0300_0060)
            },
            Switch {
                timeline: 2,
                at: lsn(0x1_0000_0004)
            },
        ])
    );
    assert_eq!(
        timeline_history("1\t0/30\n2").unwrap_err().to_string(),
        "line 2 of the timeline history is not a timeline and the place where it ended"
    );
}

/// A gathering that has received everything up to 100, and a clock.
fn gathering() -> (Gathering, Instant) {
    let now = Instant::now();
    (Gathering::new(place(90, 100, 0), LIMITS, now), now)
}

#[test]
fn postgres_transactions_are_gathered_until_the_interval_is_over() {
    let (mut gathering, now) = gathering();
    for at in [110, 120] {
        gathering.begin(lsn(at)).unwrap();
        gathering.opened(now);
        gathering.changes(2);
        assert!(gathering.is_cut());
        gathering.seal(lsn(at + 5));
    }
    assert_eq!(gathering.due(now + Duration::from_millis(199)), None);
    assert_eq!(gathering.deadline(), Some(now + Duration::from_millis(200)));
    assert_eq!(
        gathering.due(now + Duration::from_millis(200)),
        Some(place(120, 125, 0))
    );
    gathering.committed(place(120, 125, 0), now);
    assert_eq!((gathering.rest(), gathering.deadline()), (None, None));
}

#[test]
fn a_transaction_in_its_middle_is_waited_for_though_the_interval_is_over() {
    let (mut gathering, now) = gathering();
    gathering.begin(lsn(110)).unwrap();
    gathering.opened(now);
    gathering.changes(9);
    assert_eq!(gathering.due(now + Duration::from_secs(29)), None);
    gathering.seal(lsn(115));
    assert_eq!(gathering.due(now + Duration::from_secs(29)), Some(place(110, 115, 0)));
}

#[test]
fn one_larger_than_the_limit_is_split_and_says_how_much_of_it_is_published() {
    let (mut gathering, now) = gathering();
    gathering.begin(lsn(110)).unwrap();
    gathering.opened(now);
    gathering.changes(10);
    assert_eq!(gathering.due(now), Some(place(110, 100, 10)));
    gathering.committed(place(110, 100, 10), now);
    assert!(!gathering.is_cut());
    assert_eq!(
        gathering.rest(),
        None,
        "nothing more is published than what is recorded"
    );
    gathering.opened(now);
    gathering.changes(13);
    assert_eq!(gathering.due(now + LIMITS.longest), Some(place(110, 100, 13)));
    gathering.seal(lsn(115));
    assert_eq!(gathering.rest(), Some(place(110, 115, 0)));
}

#[test]
fn a_split_transaction_goes_on_after_a_restart_from_what_is_recorded() {
    let now = Instant::now();
    let mut gathering = Gathering::new(place(110, 100, 10), LIMITS, now);
    gathering.idle(lsn(105));
    assert_eq!(gathering.rest(), None, "a position before its commit is no news");
    assert_eq!(gathering.begin(lsn(110)), Ok(Treatment::Publish { skip: 10 }));
    gathering.changes(4);
    assert_eq!(gathering.rest(), None);
    gathering.opened(now);
    gathering.changes(12);
    assert_eq!(gathering.rest(), Some(place(110, 100, 12)));
    gathering.seal(lsn(115));
    assert_eq!(gathering.rest(), Some(place(110, 115, 0)));
}

#[test]
fn a_small_transaction_is_not_cut_because_earlier_ones_fill_the_kafka_transaction() {
    let (mut gathering, now) = gathering();
    gathering.begin(lsn(110)).unwrap();
    gathering.opened(now);
    gathering.changes(8);
    gathering.seal(lsn(115));
    gathering.begin(lsn(120)).unwrap();
    gathering.changes(2);
    assert_eq!(gathering.due(now), None);
    gathering.changes(3);
    assert_eq!(gathering.due(now), None);
    gathering.seal(lsn(125));
    assert_eq!(gathering.due(now), Some(place(120, 125, 0)));
}

#[test]
fn a_change_that_is_half_sent_cuts_the_kafka_transaction() {
    let (mut gathering, now) = gathering();
    gathering.begin(lsn(110)).unwrap();
    gathering.opened(now);
    gathering.changes(1);
    gathering.seal(lsn(115));
    assert!(!gathering.is_cut());
    gathering.begin(lsn(120)).unwrap();
    assert!(!gathering.is_cut());
    // Of the records of its first change one is sent, and the next one waits for room.
    gathering.sending();
    assert!(gathering.is_cut());
    gathering.changes(2);
    gathering.seal(lsn(125));
    assert!(!gathering.is_cut());
    assert_eq!(gathering.rest(), Some(place(120, 125, 0)));
}

#[test]
fn a_transaction_without_changes_moves_the_end_and_not_the_last_commit() {
    let (mut gathering, now) = gathering();
    gathering.begin(lsn(110)).unwrap();
    gathering.seal(lsn(115));
    assert_eq!(gathering.due(now + LIMITS.idle), Some(place(90, 115, 0)));
}

#[test]
fn positions_alone_are_recorded_at_the_idle_interval() {
    let (mut gathering, now) = gathering();
    assert_eq!(gathering.deadline(), None);
    gathering.idle(lsn(300));
    gathering.begin(lsn(310)).unwrap();
    gathering.idle(lsn(400));
    assert_eq!(gathering.due(now + LIMITS.idle), None, "a transaction is open");
    gathering.seal(lsn(315));
    assert_eq!(gathering.deadline(), Some(now + LIMITS.idle));
    assert_eq!(gathering.due(now + LIMITS.idle), Some(place(90, 315, 0)));
}

#[test]
fn what_is_dropped_is_recorded_by_nothing() {
    let (mut gathering, now) = gathering();
    assert_eq!(gathering.begin(lsn(95)), Ok(Treatment::Drop));
    gathering.changes(1_000);
    gathering.seal(lsn(99));
    assert_eq!((gathering.rest(), gathering.due(now + LIMITS.longest)), (None, None));
}
