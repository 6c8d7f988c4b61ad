//! Following the tables that were asked for to their end.

use std::collections::BTreeSet;
use std::net::SocketAddr;
use std::time::{Duration, Instant};

use super::super::progress::{self, Bars, Follower};
use super::super::{Exit, output};
use super::{SnapshotError, look};
use crate::telemetry::snapshots::{SnapshotState, SnapshotView};

const EVERY: Duration = Duration::from_millis(500);

/// A pipeline that is started anew has to wait for its slot and its record first.
const PATIENCE: Duration = Duration::from_secs(60);

/// Where it stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Standing {
    /// Something is still to be read.
    Running,
    /// The pipeline does not list one of them (any more).
    Missing,
    /// Everything has ended; this way.
    Ended(Exit),
}

/// What is on the screen, or was written.
struct Shown {
    bars: Option<Bars>,
    follower: Follower,
}

impl Shown {
    fn update(&mut self, view: &SnapshotView) {
        let events = self.follower.look(view, Instant::now());
        match &mut self.bars {
            Some(bars) => bars.show(view),
            None => {
                for event in events {
                    output::notice(&format!("{}\n", progress::line(&event)));
                }
            }
        }
    }

    fn clear(&mut self) {
        if let Some(bars) = &mut self.bars {
            bars.clear();
        }
    }
}

/// Waits until the tables have ended, and gives them as they are then.
pub(super) fn wait(address: SocketAddr, tables: &[String]) -> Result<(SnapshotView, Exit), SnapshotError> {
    let wanted: BTreeSet<&str> = tables.iter().map(String::as_str).collect();
    let mut shown = Shown {
        bars: progress::screen().map(Bars::new),
        follower: Follower::default(),
    };
    let mut lost: Option<Instant> = None;
    let ended = loop {
        let look = look(address).map(|view| only(view, &wanted));
        let is_patient = lost.is_none_or(|since| since.elapsed() < PATIENCE);
        match look {
            Ok(view) => {
                shown.update(&view);
                match standing(&view, &wanted) {
                    Standing::Ended(exit) => break Ok((view, exit)),
                    Standing::Running => lost = None,
                    Standing::Missing if is_patient => {
                        lost.get_or_insert_with(Instant::now);
                    }
                    Standing::Missing => {
                        shown.clear();
                        output::notice(
                            "walferry: the pipeline lists some of the tables no more: it was started anew; its log tells what became of them\n",
                        );
                        break Ok((view, Exit::Failed));
                    }
                }
            }
            Err(_) if is_patient => {
                lost.get_or_insert_with(Instant::now);
            }
            Err(error) => break Err(error),
        }
        std::thread::sleep(EVERY);
    };
    shown.clear();
    ended
}

/// These tables alone, with the counts of them.
fn only(mut view: SnapshotView, wanted: &BTreeSet<&str>) -> SnapshotView {
    let all = view.tables.len();
    view.tables.retain(|table| wanted.contains(table.table.as_str()));
    let count = |number: usize| u64::try_from(number).unwrap_or(u64::MAX);
    view.due = false;
    view.tables_total = count(wanted.len());
    view.tables_ended = count(view.tables.iter().filter(|table| table.state.has_ended()).count());
    view.rows = view
        .tables
        .iter()
        .fold(0, |rows, table| rows.saturating_add(table.rows));
    if view.tables.len() != all {
        // Those of the pipeline as a whole are about other tables too.
        (view.percent, view.remaining_seconds) = (None, None);
    }
    view
}

fn standing(view: &SnapshotView, wanted: &BTreeSet<&str>) -> Standing {
    if view.tables.len() < wanted.len() {
        return Standing::Missing;
    }
    if view.tables.iter().any(|table| !table.state.has_ended()) {
        return Standing::Running;
    }
    let done = view.tables.iter().all(|table| table.state == SnapshotState::Done);
    Standing::Ended(match done {
        true => Exit::Stopped,
        false => Exit::Failed,
    })
}

#[cfg(test)]
mod tests {
    use super::super::super::neighbour::tests::serve;
    use super::super::super::progress::tests::reading;
    use super::*;
    use crate::telemetry::snapshots::TableSnapshot;

    fn table(name: &str, state: SnapshotState) -> TableSnapshot {
        TableSnapshot { state, ..reading(name) }
    }

    fn view(tables: Vec<TableSnapshot>) -> SnapshotView {
        SnapshotView {
            tables,
            ..SnapshotView::nothing()
        }
    }

    fn answer(view: &SnapshotView) -> String {
        format!("HTTP/1.1 200 OK\r\n\r\n{}", serde_json::to_string(view).unwrap())
    }

    #[test]
    fn it_waits_for_the_tables_that_were_asked_for_and_for_no_others() {
        let other = || table("public.other", SnapshotState::Reading);
        let of = |a, b| view(vec![table("public.a", a), table("public.b", b), other()]);
        let (address, server) = serve(vec![
            answer(&of(SnapshotState::Reading, SnapshotState::Waiting)),
            answer(&of(SnapshotState::Done, SnapshotState::Paused)),
            answer(&of(SnapshotState::Done, SnapshotState::Done)),
        ]);
        let (last, exit) = wait(address, &["public.a".to_owned(), "public.b".to_owned()]).unwrap();
        assert_eq!(exit, Exit::Stopped);
        let names: Vec<&str> = last.tables.iter().map(|table| table.table.as_str()).collect();
        assert_eq!(
            (names, last.tables_ended, last.tables_total),
            (vec!["public.a", "public.b"], 2, 2)
        );
        assert_eq!(server.join().unwrap().len(), 3);
    }

    #[test]
    fn a_pipeline_that_is_started_anew_in_the_meantime_is_waited_for() {
        let (address, server) = serve(vec![
            "no HTTP\r\n".to_owned(),
            answer(&view(vec![])),
            answer(&view(vec![table("public.a", SnapshotState::Cancelled)])),
        ]);
        let (_, exit) = wait(address, &["public.a".to_owned()]).unwrap();
        assert_eq!(exit, Exit::Failed);
        assert_eq!(server.join().unwrap().len(), 3);
    }

    #[test]
    fn all_must_be_done_for_it_to_have_gone_well() {
        let wanted = BTreeSet::from(["a", "b"]);
        let of = |a, b| standing(&view(vec![table("a", a), table("b", b)]), &wanted);
        let done = SnapshotState::Done;
        assert_eq!(of(done, done), Standing::Ended(Exit::Stopped));
        for other in [SnapshotState::Cancelled, SnapshotState::Failed] {
            assert_eq!(of(done, other), Standing::Ended(Exit::Failed));
        }
        for other in [SnapshotState::Waiting, SnapshotState::Reading, SnapshotState::Paused] {
            assert_eq!(of(done, other), Standing::Running);
        }
        assert_eq!(standing(&view(vec![table("a", done)]), &wanted), Standing::Missing);
    }
}
