//! The queue against a model so simple that it is plainly right: a list of everything received, scanned anew after each step.

use std::sync::{Arc, Mutex};

use proptest::prelude::*;

use super::*;

#[derive(Debug, Clone)]
enum Step {
    Begin,
    Enqueue,
    Commit,
    Keepalive,
    /// Resolve the outstanding ticket at this place (modulo how many there are).
    Deliver(usize),
    Fail(usize),
    DropTicket(usize),
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        6 => Just(Step::Begin),
        12 => Just(Step::Enqueue),
        6 => Just(Step::Commit),
        3 => Just(Step::Keepalive),
        16 => any::<usize>().prop_map(Step::Deliver),
        1 => any::<usize>().prop_map(Step::Fail),
        1 => any::<usize>().prop_map(Step::DropTicket),
    ]
}

/// Something received: where it ends (if known), and how many of its records are unresolved or lost.
struct Received {
    end: Option<u64>,
    unresolved: usize,
}

fn model_confirmed(start: u64, received: &[Received]) -> u64 {
    let prefix = received
        .iter()
        .take_while(|entry| entry.end.is_some() && entry.unresolved == 0);
    prefix.filter_map(|entry| entry.end).fold(start, u64::max)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2_000))]

    #[test]
    fn the_confirmed_lsn_is_always_that_of_the_naive_model(steps in prop::collection::vec(step(), 1..120)) {
        let told = Arc::new(Mutex::new((100_u64, 0_usize)));
        let observer = {
            let told = Arc::clone(&told);
            Box::new(move |event: Event<'_>| {
                let mut told = told.lock().unwrap();
                match event {
                    Event::Advanced { confirmed, .. } => {
                        assert!(confirmed.as_u64() > told.0, "it only ever advances");
                        told.0 = confirmed.as_u64();
                    }
                    Event::Broken(_) => told.1 += 1,
                }
            })
        };
        let progress = Progress::new(Lsn::new(100), observer);
        let mut clock = 100;
        let mut received: Vec<Received> = Vec::new();
        let mut open: Option<Transaction> = None;
        let mut tickets: Vec<(usize, Ticket)> = Vec::new();
        let mut lost = 0;

        for step in steps {
            clock += 10;
            match step {
                Step::Begin if open.is_none() => {
                    open = Some(progress.begin(Lsn::new(clock), 0).unwrap());
                    received.push(Received { end: None, unresolved: 0 });
                }
                Step::Enqueue => if let Some(transaction) = &open {
                    let at = received.len() - 1;
                    received[at].unresolved += 1;
                    tickets.push((at, transaction.ticket()));
                },
                Step::Commit => if let Some(transaction) = open.take() {
                    transaction.commit(Lsn::new(clock)).unwrap();
                    received.last_mut().unwrap().end = Some(clock);
                },
                Step::Keepalive => {
                    let counted = progress.keepalive(Lsn::new(clock));
                    prop_assert_eq!(counted, open.is_none());
                    if counted {
                        received.push(Received { end: Some(clock), unresolved: 0 });
                    }
                }
                Step::Deliver(n) if !tickets.is_empty() => {
                    let (at, ticket) = tickets.swap_remove(n % tickets.len());
                    received[at].unresolved -= 1;
                    ticket.delivered();
                }
                Step::Fail(n) if !tickets.is_empty() => {
                    tickets.swap_remove(n % tickets.len()).1.failed(Failure::Passing("refused".into()));
                    lost += 1;
                }
                Step::DropTicket(n) if !tickets.is_empty() => {
                    drop(tickets.swap_remove(n % tickets.len()));
                    lost += 1;
                }
                _ => {}
            }
            let expected = model_confirmed(100, &received);
            prop_assert_eq!(progress.confirmed().as_u64(), expected);
            prop_assert_eq!(*told.lock().unwrap(), (expected, lost));
            prop_assert_eq!(progress.is_idle(), received.iter().all(|e| e.end.is_some() && e.unresolved == 0));
        }
        for (_, ticket) in tickets {
            let _ = ticket.into_shared();
        }
    }
}
