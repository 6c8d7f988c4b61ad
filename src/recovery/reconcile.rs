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
    /// Where its log ends, asked after the record was read: it only grows, so no record can be of a later position.
    pub log_end: Lsn,
}

/// What follows.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Reconciled {
    /// What is published of what the server sends.
    pub place: Place,
    /// Whether the record does not say so yet and is to be written before anything else. Never without a slot: then one may be made,
    /// and is to be reconciled in its turn. A record of a slot that is not there yet would turn its first position into a gap.
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
    /// A log that ends before what is recorded.
    #[error(
        "the server's log ends at {found}, before what is recorded as published: it was set back, and writes other changes there now"
    )]
    SetBack {
        /// Where it ends.
        found: Lsn,
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
/// Claims, which `model` attacks:
/// - Without a gap, the place describes precisely what of the server's history is published, and the slot sends all the rest.
/// - A slot that nobody moved, on the recorded timeline or a descendant of it, is never refused.
/// - A gap of [`GapKind::Ahead`] or [`GapKind::NoSlot`] begins where the published changes end: what is missing lies in it, and
///   accepted, nothing else is missing and nothing is published twice.
/// - A gap of another kind is between histories that have nothing to do with each other: accepted, everything from the slot on is
///   published, and what both histories share may be published again.
/// - Changes are said to be orphaned just when some are, or when some may be because the record does not name the last commit.
///
/// # Errors
/// A [`Gap`], unless `accepted` is its beginning: then the stream goes on from the slot.
pub fn reconcile(recorded: Option<&StateRecord>, found: Found<'_>, accepted: Option<Lsn>) -> Result<Reconciled, Gap> {
    let slot = found.slot.unwrap_or(Lsn::ZERO);
    let Some(recorded) = recorded else {
        // Nothing is known: a first start, or one of a walferry that did not record. The slot is taken as it is.
        return Ok(Reconciled {
            place: Place::at(slot),
            news: found.slot.is_some(),
            accepted: None,
            orphaned: None,
        });
    };
    let end = recorded.place.end_lsn.max(recorded.place.commit_lsn);
    let gap = |kind, from, to, place, orphaned| {
        let gap = Gap { kind, from, to };
        if accepted != Some(gap.from) {
            return Err(gap);
        }
        Ok(Reconciled {
            place,
            news: found.slot.is_some(),
            accepted: Some(gap),
            orphaned,
        })
    };
    let foreign = |kind| gap(kind, end, None, Place::at(slot), None);
    let (now, then) = (found.identity, &recorded.identity);
    if now.system_identifier != then.system_identifier {
        return foreign(GapKind::System {
            found: now.system_identifier.clone(),
            recorded: then.system_identifier.clone(),
        });
    }
    if now.database_oid != then.database_oid {
        return foreign(GapKind::Database {
            found: now.database_oid,
            recorded: then.database_oid,
        });
    }
    let switch = found.history.iter().find(|switch| switch.timeline == then.timeline);
    if now.timeline != then.timeline && switch.is_none() {
        return foreign(GapKind::Timeline {
            found: now.timeline,
            recorded: then.timeline,
        });
    }
    let (place, orphaned) = match switch {
        Some(switch) if now.timeline != then.timeline => before(recorded.place, switch.at),
        _ => (recorded.place, None),
    };
    // Only what is in the log was ever sent, so on the same timeline it cannot end before. (Once it has grown past the record again,
    // nothing tells.)
    if found.log_end < place.end_lsn {
        return foreign(GapKind::SetBack { found: found.log_end });
    }
    // Of a transaction that is published in part, the rest comes from any slot that stands at its commit or before.
    let end = place.end_lsn.max(place.commit_lsn);
    let beyond = Place {
        end_lsn: slot,
        partial: 0,
        ..place
    };
    let name = now.slot.clone();
    match found.slot {
        None => gap(GapKind::NoSlot { slot: name }, end, None, beyond, orphaned),
        Some(slot) if slot > end => gap(GapKind::Ahead { slot: name }, end, Some(slot), beyond, orphaned),
        Some(slot) => Ok(Reconciled {
            place: Place {
                end_lsn: place.end_lsn.max(slot),
                ..place
            },
            news: now != then || slot > recorded.place.end_lsn,
            accepted: None,
            orphaned,
        }),
    }
}

/// What of a place is true before the point where its timeline ended, and what was published beyond that.
fn before(place: Place, end: Lsn) -> (Place, Option<(Lsn, Lsn)>) {
    // At-least-once does not record the last commit: there may have been one.
    let unknown = place.commit_lsn.is_zero() && place.end_lsn > end;
    if place.commit_lsn < end && !unknown {
        // Whatever lies between its last change and the place's end published nothing.
        let end_lsn = place.end_lsn.min(end);
        return (Place { end_lsn, ..place }, None);
    }
    // Everything before the last commit is published, and so is everything before the switch. How far it reached is not recorded if
    // it was split.
    (Place::at(end), Some((end, place.end_lsn.max(place.commit_lsn))))
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
