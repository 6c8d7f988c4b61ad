//! The server: a log of commits on timelines, a slot, and one walsender that holds it.

use std::collections::{BTreeMap, VecDeque};

use super::super::{Identity, Switch};
use crate::lsn::Lsn;

/// A commit. Positions are those of its record.
#[derive(Debug, Clone)]
pub(super) struct Commit {
    pub(super) start: u64,
    pub(super) end: u64,
    /// A logical message outside of a transaction: it is sent as ending where it begins.
    pub(super) message: bool,
    pub(super) changes: Vec<u32>,
}

/// The log of one timeline, with what it has of its ancestors.
#[derive(Debug, Clone, Default)]
pub(super) struct Log {
    pub(super) commits: Vec<Commit>,
    pub(super) flushed: u64,
    pub(super) history: Vec<Switch>,
}

/// What a walsender sends.
#[derive(Debug, Clone, Copy)]
pub(super) enum Sent {
    Begin(u64),
    Change(u32),
    Commit(u64),
    Keepalive(u64),
}

/// A walsender's connection.
#[derive(Debug)]
pub(super) struct Session {
    id: u32,
    /// Everything that committed before is sent, or about to be.
    position: u64,
    sending: VecDeque<Sent>,
}

/// Whose positions: the system's number and the timeline.
pub(super) type Line = (u32, u32);

#[derive(Debug)]
pub(super) struct Server {
    pub(super) line: Line,
    pub(super) logs: BTreeMap<Line, Log>,
    pub(super) slot: Option<u64>,
    holder: Option<u32>,
    sessions: u32,
    changes: u32,
}

impl Server {
    pub(super) fn new() -> Self {
        let log = Log {
            flushed: 100,
            ..Log::default()
        };
        Server {
            line: (1, 1),
            logs: BTreeMap::from([((1, 1), log)]),
            slot: None,
            holder: None,
            sessions: 0,
            changes: 0,
        }
    }

    pub(super) fn log(&self) -> &Log {
        &self.logs[&self.line]
    }

    fn log_mut(&mut self) -> &mut Log {
        self.logs.get_mut(&self.line).unwrap()
    }

    /// Other records for `before` bytes, then a commit.
    pub(super) fn write(&mut self, before: u64, changes: u32, message: bool) {
        let first = self.changes;
        self.changes += changes;
        let log = self.log_mut();
        let start = log.flushed + before;
        log.flushed = start + 8;
        log.commits.push(Commit {
            start,
            end: start + 8,
            message,
            changes: (first..first + changes).collect(),
        });
    }

    /// Records that are no commits.
    pub(super) fn grow(&mut self, bytes: u64) {
        self.log_mut().flushed += bytes;
    }

    pub(super) fn is_held(&self) -> bool {
        self.holder.is_some()
    }

    pub(super) fn hold(&mut self) -> Option<Session> {
        let position = self.slot.filter(|_| self.holder.is_none())?;
        self.sessions += 1;
        self.holder = Some(self.sessions);
        Some(Session {
            id: self.sessions,
            position,
            sending: VecDeque::new(),
        })
    }

    /// The walsender is gone, whether the client knows it or not.
    pub(super) fn free(&mut self) {
        self.holder = None;
    }

    /// The client hung up.
    pub(super) fn release(&mut self, session: &Session) {
        if self.holder == Some(session.id) {
            self.holder = None;
        }
    }

    /// The next thing that the walsender sends; `Err`: it is gone.
    pub(super) fn next(&self, session: &mut Session, keepalive: bool) -> Result<Sent, ()> {
        if self.holder != Some(session.id) {
            return Err(());
        }
        if let Some(sent) = session.sending.pop_front() {
            return Ok(sent);
        }
        let Some(commit) = self
            .log()
            .commits
            .iter()
            .find(|commit| commit.start >= session.position)
        else {
            session.position = session.position.max(self.log().flushed);
            return Ok(Sent::Keepalive(session.position));
        };
        session.position = commit.end;
        session.sending.extend(commit.changes.iter().copied().map(Sent::Change));
        session.sending.push_back(Sent::Commit(match commit.message {
            true => commit.start,
            false => commit.end,
        }));
        if !keepalive {
            return Ok(Sent::Begin(commit.start));
        }
        // The furthest that it could name: where the next record begins.
        session.sending.push_front(Sent::Begin(commit.start));
        Ok(Sent::Keepalive(commit.start))
    }

    /// Takes a status update. Postgres ignores one that goes back.
    pub(super) fn confirm(&mut self, session: &Session, position: u64) {
        if self.holder == Some(session.id) {
            self.slot = self.slot.map(|slot| slot.max(position));
        }
    }

    /// Whether everything is sent.
    pub(super) fn is_drained(&self, session: &Session) -> bool {
        session.sending.is_empty() && session.position >= self.log().flushed
    }

    /// A new slot begins where the log ends.
    pub(super) fn create_slot(&mut self) {
        self.slot = self.slot.or(Some(self.log().flushed));
    }

    /// A standby of `line` is promoted that lacks its last `lost` commits. The slot was copied to it, `slot` bytes behind, or not.
    /// Whether the new timeline descends from the one before it.
    pub(super) fn promote(&mut self, line: Line, lost: usize, slot: Option<u64>) -> bool {
        let mut log = self.logs[&line].clone();
        let kept = log.commits.len().saturating_sub(lost);
        if let Some(first_lost) = log.commits.get(kept) {
            log.flushed = first_lost.start;
        }
        log.commits.truncate(kept);
        // A standby that has not come to where the last timelines began goes on from the one on which it stands.
        let at = Lsn::new(log.flushed);
        let ahead = log.history.iter().position(|switch| switch.at > at);
        let timeline = ahead.map_or(line.1, |first| log.history[first].timeline);
        log.history.truncate(ahead.unwrap_or(log.history.len()));
        log.history.push(Switch { timeline, at });
        let descends = (line.0, timeline) == self.line;
        let newest = self.logs.keys().filter(|of| of.0 == line.0).map(|of| of.1).max();
        self.line = (line.0, newest.unwrap_or(0) + 1);
        self.slot = self
            .slot
            .zip(slot)
            .map(|(position, behind)| position.min(log.flushed).saturating_sub(behind));
        self.logs.insert(self.line, log);
        self.free();
        descends
    }

    /// Another cluster stands there, with a slot of the same name or none.
    pub(super) fn replace(&mut self, flushed: u64, slot: Option<u64>) {
        self.line = (self.line.0 + 1, 1);
        let log = Log {
            flushed,
            ..Log::default()
        };
        self.logs.insert(self.line, log);
        self.slot = slot.map(|behind| flushed.saturating_sub(behind));
        self.free();
    }
}

pub(super) fn identity((system, timeline): Line) -> Identity {
    Identity {
        system_identifier: system.to_string(),
        timeline,
        database_oid: 5,
        slot: "shop".to_owned(),
    }
}

pub(super) fn line(identity: &Identity) -> Line {
    (identity.system_identifier.parse().unwrap(), identity.timeline)
}
