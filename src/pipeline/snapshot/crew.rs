//! The readers, and what each of them is at.

use std::collections::BTreeMap;
use std::sync::Arc;

use tokio::sync::mpsc;

use super::overlap::RangeId;
use crate::lsn::Lsn;
use crate::snapshot::{Assignment, Event, Reader, ReaderSettings};

/// Batches that wait to be published, of each reader.
const BACKLOG: usize = 2;

struct Member {
    reader: Reader,
    at: Option<RangeId>,
}

/// At most so many readers as tables may be read at once.
pub(super) struct Crew {
    settings: Arc<ReaderSettings>,
    most: usize,
    members: BTreeMap<usize, Member>,
    /// No number is given twice, so that the last words of one that is gone are known for what they are.
    numbers: usize,
    sender: mpsc::Sender<Event>,
    events: mpsc::Receiver<Event>,
    /// A table that is read while the stream stands still, and the position of its rows.
    exclusive: Option<(RangeId, Lsn)>,
}

impl Crew {
    pub(super) fn new(settings: Arc<ReaderSettings>, most: usize) -> Self {
        let (sender, events) = mpsc::channel(most.saturating_mul(BACKLOG).max(1));
        Crew {
            settings,
            most,
            members: BTreeMap::new(),
            numbers: 0,
            sender,
            events,
            exclusive: None,
        }
    }

    pub(super) fn events(&mut self) -> &mut mpsc::Receiver<Event> {
        &mut self.events
    }

    pub(super) fn has_event(&self) -> bool {
        !self.events.is_empty()
    }

    /// Whether another range may be given out.
    pub(super) fn has_idle(&self) -> bool {
        self.exclusive.is_none() && self.busy() < self.most
    }

    fn busy(&self) -> usize {
        self.members.values().filter(|member| member.at.is_some()).count()
    }

    /// Whether nobody reads.
    pub(super) fn is_idle(&self) -> bool {
        self.busy() == 0
    }

    /// Whether this reader is at this range.
    pub(super) fn is_at(&self, reader: usize, range: RangeId) -> bool {
        self.members.get(&reader).is_some_and(|member| member.at == Some(range))
    }

    /// Whether any is.
    pub(super) fn is_on(&self, range: RangeId) -> bool {
        self.members.values().any(|member| member.at == Some(range))
    }

    /// Gives a range out. `exclusive`: the stream stands still until it is released.
    pub(super) fn assign(&mut self, assignment: Assignment, exclusive: bool) {
        let range = (assignment.table, assignment.range);
        let idle = self.members.iter_mut().find(|(_, member)| member.at.is_none());
        let given = idle.is_some_and(|(_, member)| {
            let taken = member.reader.assign(assignment.clone());
            member.at = taken.then_some(range);
            taken
        });
        if !given {
            self.numbers += 1;
            let reader = Reader::start(self.numbers, Arc::clone(&self.settings), self.sender.clone());
            let at = reader.assign(assignment).then_some(range);
            self.members.insert(self.numbers, Member { reader, at });
        }
        if exclusive {
            self.exclusive = Some((range, Lsn::ZERO));
        }
    }

    /// The range's reader is free.
    pub(super) fn release(&mut self, range: RangeId) {
        for member in self.members.values_mut().filter(|member| member.at == Some(range)) {
            member.at = None;
        }
        self.exclusive.take_if(|(exclusive, _)| *exclusive == range);
    }

    /// The range's reader is stopped where it is.
    pub(super) fn stop(&mut self, range: RangeId) {
        self.members.retain(|_, member| member.at != Some(range));
        self.exclusive.take_if(|(exclusive, _)| *exclusive == range);
    }

    /// Whoever has nothing to do goes, and its connection with it.
    pub(super) fn dismiss(&mut self) {
        self.members.retain(|_, member| member.at.is_some());
    }

    /// The table that is read while the stream stands still, and the position of its rows.
    pub(super) fn exclusive(&self) -> Option<(RangeId, Lsn)> {
        self.exclusive
    }

    /// That position is known.
    pub(super) fn set_exclusive_lsn(&mut self, lsn: Lsn) {
        if let Some((_, position)) = self.exclusive.as_mut() {
            *position = lsn;
        }
    }
}
