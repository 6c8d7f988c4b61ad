use std::sync::{Arc, Mutex};

use super::*;

/// What an observer was told.
#[derive(Default)]
struct Told {
    advanced: Vec<u64>,
    published: u64,
    commit_times: Vec<i64>,
    broken: Vec<Failure>,
}

fn queue() -> (Progress, Arc<Mutex<Told>>) {
    let told = Arc::new(Mutex::new(Told::default()));
    let observer = {
        let told = Arc::clone(&told);
        Box::new(move |event: Event<'_>| {
            let mut told = told.lock().unwrap();
            match event {
                Event::Advanced {
                    confirmed,
                    published,
                    commit_times_us,
                } => {
                    told.published = published.as_u64();
                    told.advanced.push(confirmed.as_u64());
                    told.commit_times.extend(commit_times_us);
                }
                Event::Broken(failure) => told.broken.push(failure.clone()),
            }
        })
    };
    (Progress::new(Lsn::new(100), observer), told)
}

fn final_at_200(reason: &str) -> Failure {
    Failure::Final(format!("{reason}, in the transaction that committed at 0/C8"))
}

fn begin(progress: &Progress, commit_lsn: u64) -> Transaction {
    progress.begin(Lsn::new(commit_lsn), 7).unwrap()
}

#[test]
fn a_delivery_out_of_order_does_not_pass_what_is_in_flight_before_it() {
    let (progress, told) = queue();
    let first = begin(&progress, 200);
    let slow = first.ticket();
    first.commit(Lsn::new(210)).unwrap();
    let second = begin(&progress, 300);
    let fast = second.ticket();
    second.commit(Lsn::new(310)).unwrap();

    fast.delivered();
    assert_eq!(progress.confirmed(), Lsn::new(100));
    slow.delivered();
    assert_eq!(progress.confirmed(), Lsn::new(310));
    assert_eq!(told.lock().unwrap().advanced, [310]);
    assert_eq!(told.lock().unwrap().commit_times, [7, 7]);
}

#[test]
fn the_confirmed_lsn_is_the_end_of_the_commit_and_not_its_start() {
    let (progress, _) = queue();
    let transaction = begin(&progress, 200);
    transaction.ticket().delivered();
    assert_eq!(
        progress.confirmed(),
        Lsn::new(100),
        "an open transaction is not confirmed"
    );
    transaction.commit(Lsn::new(248)).unwrap();
    assert_eq!(progress.confirmed(), Lsn::new(248));
}

#[test]
fn a_transaction_that_published_nothing_waits_for_those_before_it() {
    let (progress, told) = queue();
    let full = begin(&progress, 200);
    let ticket = full.ticket();
    full.commit(Lsn::new(210)).unwrap();
    begin(&progress, 300).commit(Lsn::new(310)).unwrap();
    assert_eq!(progress.confirmed(), Lsn::new(100));
    ticket.delivered();
    assert_eq!(progress.confirmed(), Lsn::new(310));
    assert_eq!(
        told.lock().unwrap().commit_times,
        [7],
        "only what was published has a delivery to time"
    );
    assert_eq!(told.lock().unwrap().published, 200);
    assert_eq!(progress.published(), Lsn::new(200));
}

#[test]
fn a_keepalive_counts_at_once_when_nothing_waits() {
    let (progress, told) = queue();
    assert!(progress.keepalive(Lsn::new(500)));
    assert_eq!(progress.confirmed(), Lsn::new(500));
    assert!(progress.keepalive(Lsn::new(400)));
    assert_eq!(progress.confirmed(), Lsn::new(500), "it never goes back");
    assert_eq!(told.lock().unwrap().advanced, [500]);
    assert!(progress.is_idle());
}

#[test]
fn a_keepalive_waits_for_what_is_in_flight() {
    let (progress, _) = queue();
    let transaction = begin(&progress, 200);
    let ticket = transaction.ticket();
    transaction.commit(Lsn::new(210)).unwrap();
    assert!(progress.keepalive(Lsn::new(400)));
    assert!(progress.keepalive(Lsn::new(500)));
    assert_eq!(progress.confirmed(), Lsn::new(100));
    ticket.delivered();
    assert_eq!(progress.confirmed(), Lsn::new(500));
}

#[test]
fn a_keepalive_inside_a_transaction_does_not_count() {
    let (progress, _) = queue();
    let transaction = begin(&progress, 200);
    assert!(!progress.keepalive(Lsn::new(500)));
    transaction.commit(Lsn::new(210)).unwrap();
    assert_eq!(progress.confirmed(), Lsn::new(210));
}

#[test]
fn a_dropped_ticket_stops_the_pipeline() {
    let (progress, told) = queue();
    let transaction = begin(&progress, 200);
    drop(transaction.ticket());
    transaction.commit(Lsn::new(210)).unwrap();
    assert_eq!(
        told.lock().unwrap().broken,
        [final_at_200("a record was dropped before it was delivered")]
    );
    assert_eq!(progress.confirmed(), Lsn::new(100));
}

#[test]
fn a_failed_ticket_stops_the_pipeline_with_its_reason() {
    let (progress, told) = queue();
    let transaction = begin(&progress, 200);
    transaction.ticket().failed(Failure::Final("too large".into()));
    transaction.commit(Lsn::new(210)).unwrap();
    assert!(progress.keepalive(Lsn::new(500)));
    assert_eq!(told.lock().unwrap().broken, [final_at_200("too large")]);
    assert_eq!(progress.confirmed(), Lsn::new(100), "nothing later is confirmed either");
}

#[test]
fn a_ticket_survives_its_travel_through_the_producer() {
    let (progress, told) = queue();
    let transaction = begin(&progress, 200);
    let opaque = transaction.ticket().into_shared();
    transaction.commit(Lsn::new(210)).unwrap();
    Ticket::from_shared(opaque).delivered();
    assert_eq!(progress.confirmed(), Lsn::new(210));
    assert!(told.lock().unwrap().broken.is_empty());
}

#[test]
fn tickets_of_a_closed_connection_are_resolved_without_effect() {
    let (progress, told) = queue();
    let transaction = begin(&progress, 200);
    let (late, lost) = (transaction.ticket(), transaction.ticket());
    drop((transaction, progress));
    late.delivered();
    drop(lost);
    assert!(told.lock().unwrap().advanced.is_empty());
    assert!(told.lock().unwrap().broken.is_empty());
}

#[test]
fn a_commit_that_does_not_lie_beyond_the_last_is_refused() {
    let (progress, _) = queue();
    begin(&progress, 200).commit(Lsn::new(210)).unwrap();
    assert_eq!(
        progress.begin(Lsn::new(200), 0).unwrap_err().to_string(),
        "a transaction's commit at 0/C8 does not lie beyond 0/C8, which came before it"
    );
    let transaction = begin(&progress, 300);
    assert!(transaction.commit(Lsn::new(299)).is_err());
}
