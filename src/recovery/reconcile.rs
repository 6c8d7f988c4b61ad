//! What is recorded, held against what the server says.

use std::fmt;

use super::{Identity, Place, StateRecord};
use crate::lsn::Lsn;

/// Where one timeline ended and another began.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Switch {
    /// The timeline that ended.
    pub timeline: u32,
    /// Where.
    pub at: Lsn,
}

/// What the server says.
#[derive(Debug, Clone, Copy)]
pub struct Found<'a> {
    /// Who it is.
    pub identity: &'a Identity,
    /// The ancestors of its timeline.
    pub history: &'a [Switch],
    /// The slot's confirmed flush LSN; `None`: there is no slot.
    pub slot: Option<Lsn>,
}

/// What follows.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Reconciled {
    /// What is published of what the server sends. Without a slot: of what a new one will send.
    pub place: Place,
    /// Whether the record does not say so yet and is to be written before anything else.
    pub news: bool,
    /// The gap that the operator accepted.
    pub accepted: Option<Gap>,
    /// Changes that were published and are not in this server's history: a standby was promoted that had not received them, or the
    /// cluster was set back. From, and up to.
    pub orphaned: Option<(Lsn, Lsn)>,
}

/// Changes that nobody will ever send, or may never send.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{kind}: {}", Extent(*from, *to))]
pub struct Gap {
    /// What shows it.
    pub kind: GapKind,
    /// Everything before is published.
    pub from: Lsn,
    /// Where the slot stands, if there is one and its position means the same.
    pub to: Option<Lsn>,
}

struct Extent(Lsn, Option<Lsn>);

impl fmt::Display for Extent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.1 {
            Some(to) => write!(
                f,
                "changes from {} to {to} ({} bytes of log) are not in kafka and will not come",
                self.0,
                to.bytes_since(self.0)
            ),
            None => write!(f, "changes after {} are not in kafka and may never come", self.0),
        }
    }
}

/// What shows a gap.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum GapKind {
    /// The slot has moved past what is published.
    #[error("replication slot {slot:?} stands past what is recorded as published")]
    Ahead {
        /// The slot.
        slot: String,
    },
    /// The slot is not there.
    #[error("replication slot {slot:?} is gone")]
    NoSlot {
        /// The slot.
        slot: String,
    },
    /// Another database cluster.
    #[error(
        "the server's system identifier is {found}, and what is recorded is of {recorded}: this is another database cluster"
    )]
    System {
        /// Now.
        found: String,
        /// Recorded.
        recorded: String,
    },
    /// Another database of the cluster.
    #[error("the database's oid is {found}, and what is recorded is of {recorded}: this is another database")]
    Database {
        /// Now.
        found: u32,
        /// Recorded.
        recorded: u32,
    },
    /// A timeline that does not go on from the recorded one.
    #[error("the server is on timeline {found}, which does not descend from timeline {recorded} that is recorded")]
    Timeline {
        /// Now.
        found: u32,
        /// Recorded.
        recorded: u32,
    },
}

/// Decides from where to go on.
///
/// The invariant is `slot ≤ recorded end`, since the position is recorded before Postgres is told. Where it holds, on the same
/// timeline, everything that is not published comes. On a timeline that descends from the recorded one the same is true up to
/// the switch point; what was published beyond it is of a history that is no more, and its positions mean other changes now.
///
/// # Errors
/// A [`Gap`], unless `accepted` is its beginning: then the stream goes on from the slot.
pub fn reconcile(recorded: Option<&StateRecord>, found: Found<'_>, accepted: Option<Lsn>) -> Result<Reconciled, Gap> {
    let Some(recorded) = recorded else {
        // Nothing is known: a first start, or one of a walferry that did not record. The slot is taken as it is.
        return Ok(Reconciled {
            place: Place::at(found.slot.unwrap_or(Lsn::ZERO)),
            news: true,
            accepted: None,
            orphaned: None,
        });
    };
    let end = recorded.place.end_lsn;
    let gap = |kind, from, to| {
        let gap = Gap { kind, from, to };
        if accepted != Some(gap.from) {
            return Err(gap);
        }
        Ok(Reconciled {
            place: Place::at(found.slot.unwrap_or(Lsn::ZERO)),
            news: true,
            accepted: Some(gap),
            orphaned: None,
        })
    };
    let (now, then) = (found.identity, &recorded.identity);
    if now.system_identifier != then.system_identifier {
        let kind = GapKind::System {
            found: now.system_identifier.clone(),
            recorded: then.system_identifier.clone(),
        };
        return gap(kind, end, None);
    }
    if now.database_oid != then.database_oid {
        let kind = GapKind::Database {
            found: now.database_oid,
            recorded: then.database_oid,
        };
        return gap(kind, end, None);
    }
    let switch = found.history.iter().find(|switch| switch.timeline == then.timeline);
    if now.timeline != then.timeline && switch.is_none() {
        let kind = GapKind::Timeline {
            found: now.timeline,
            recorded: then.timeline,
        };
        return gap(kind, end, None);
    }
    let (place, orphaned) = match switch {
        Some(switch) if now.timeline != then.timeline => before(recorded.place, switch.at),
        _ => (recorded.place, None),
    };
    let slot = now.slot.clone();
    match found.slot {
        None => gap(GapKind::NoSlot { slot }, place.end_lsn, None),
        Some(position) if position > place.end_lsn => gap(GapKind::Ahead { slot }, place.end_lsn, Some(position)),
        Some(_) => Ok(Reconciled {
            place,
            news: now != then,
            accepted: None,
            orphaned,
        }),
    }
}

/// What of a place is true before the point where its timeline ended.
fn before(place: Place, end: Lsn) -> (Place, Option<(Lsn, Lsn)>) {
    let known = Place {
        end_lsn: place.end_lsn.min(end),
        ..match place.commit_lsn < end {
            true => place,
            false => Place::default(),
        }
    };
    // A part of a transaction that committed after the switch is orphaned as well; how far it reached is not recorded.
    let reached = match place.partial {
        0 => place.end_lsn,
        _ => place.end_lsn.max(place.commit_lsn),
    };
    (known, (reached > end).then_some((end, reached)))
}

/// A history file that cannot be understood.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("line {line} of the timeline history is not a timeline and the place where it ended")]
pub struct TimelineHistoryError {
    line: usize,
}

/// Reads what TIMELINE_HISTORY gives: a line for each ancestor, oldest first, of its timeline, the place where it ended, and a reason,
/// apart by white space; `#` begins a comment (`timeline.c`, `readTimeLineHistory`).
///
/// # Errors
/// A line that is something else.
pub fn timeline_history(content: &str) -> Result<Vec<Switch>, TimelineHistoryError> {
    let mut switches = Vec::new();
    for (at, line) in content.lines().enumerate() {
        let line = line.trim();
        if line.is_empty() || line.starts_with('#') {
            continue;
        }
        let mut words = line.split_whitespace();
        let switch = words
            .next()
            .and_then(|timeline| timeline.parse().ok())
            .zip(words.next().and_then(|lsn| lsn.parse().ok()));
        let Some((timeline, at)) = switch else {
            return Err(TimelineHistoryError { line: at + 1 });
        };
        switches.push(Switch { timeline, at });
    }
    Ok(switches)
}
