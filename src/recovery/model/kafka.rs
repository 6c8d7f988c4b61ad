//! Kafka: one log with transactions of one transactional id, its coordinator, and readers with `read_committed`.

use std::collections::BTreeMap;

use super::super::StateRecord;

#[derive(Debug, Clone)]
pub(super) enum Body {
    Change(u32),
    State(Vec<u8>),
    Sentinel(u32),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Status {
    Open,
    Committed,
    Aborted,
}

/// What becomes of a request to commit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Fate {
    /// It is carried out, but the answer is lost.
    LostAnswer,
    /// It never arrives.
    LostRequest,
    /// It arrives when nobody waits for it any more.
    Late,
}

/// The producer hears an error. It knows nothing more by it.
#[derive(Debug)]
pub(super) struct Failed;

#[derive(Debug, Default)]
pub(super) struct Kafka {
    /// Transaction and record, by offset.
    log: Vec<(usize, Body)>,
    transactions: Vec<Status>,
    epoch: u32,
    open: Option<usize>,
    late: Option<(u32, usize)>,
    pub(super) fate: Option<Fate>,
    /// How often each change is in a committed transaction.
    pub(super) published: BTreeMap<u32, u32>,
    /// The last state record that is committed.
    pub(super) recorded: Option<StateRecord>,
    /// The transactions that were committed since somebody looked.
    pub(super) fresh: Vec<usize>,
}

impl Kafka {
    /// InitProducerId: the transaction that is open is aborted, and whoever has an older epoch is refused from now on.
    pub(super) fn fence(&mut self) -> u32 {
        self.abort();
        self.epoch += 1;
        self.epoch
    }

    /// The epoch, without a new one: what a producer has that shares the transactional id and does not fence.
    pub(super) fn epoch(&self) -> u32 {
        self.epoch
    }

    /// The coordinator aborts what is open for too long, and refuses its producer.
    pub(super) fn time_out(&mut self) {
        if self.open.is_some() {
            self.fence();
        }
    }

    fn abort(&mut self) {
        if let Some(open) = self.open.take() {
            self.transactions[open] = Status::Aborted;
        }
    }

    pub(super) fn begin(&mut self, epoch: u32) -> Result<usize, Failed> {
        if epoch != self.epoch || self.open.is_some() {
            return Err(Failed);
        }
        self.transactions.push(Status::Open);
        self.open = Some(self.transactions.len() - 1);
        self.open.ok_or(Failed)
    }

    pub(super) fn produce(&mut self, epoch: u32, transaction: usize, body: Body) -> Result<(), Failed> {
        if epoch != self.epoch || self.open != Some(transaction) {
            return Err(Failed);
        }
        self.log.push((transaction, body));
        Ok(())
    }

    /// `Ok`: it is committed. `Err`: perhaps.
    pub(super) fn commit(&mut self, epoch: u32, transaction: usize) -> Result<(), Failed> {
        match self.fate.take() {
            None => self.carry_out(epoch, transaction),
            Some(Fate::LostRequest) => Err(Failed),
            Some(Fate::LostAnswer) => self.carry_out(epoch, transaction).and(Err(Failed)),
            Some(Fate::Late) => {
                self.late = Some((epoch, transaction));
                Err(Failed)
            }
        }
    }

    /// A request arrives that was under way.
    pub(super) fn arrive(&mut self) {
        if let Some((epoch, transaction)) = self.late.take() {
            let _too_late_for_an_answer = self.carry_out(epoch, transaction);
        }
    }

    fn carry_out(&mut self, epoch: u32, transaction: usize) -> Result<(), Failed> {
        if epoch != self.epoch || self.open != Some(transaction) {
            return Err(Failed);
        }
        self.open = None;
        self.transactions[transaction] = Status::Committed;
        for (of, body) in &self.log {
            if let (Body::Change(change), true) = (body, *of == transaction) {
                *self.published.entry(*change).or_default() += 1;
            }
        }
        self.recorded = self.state_of(transaction).or(self.recorded.take());
        self.fresh.push(transaction);
        Ok(())
    }

    /// The records of committed transactions, up to the first open one. The reader's broker may lag by `lag` records.
    fn read(&self, lag: usize) -> impl DoubleEndedIterator<Item = &(usize, Body)> {
        let stable = self.log.iter().position(|(of, _)| Some(*of) == self.open);
        let end = stable.unwrap_or(self.log.len()).min(self.log.len().saturating_sub(lag));
        self.log[..end]
            .iter()
            .filter(|(of, _)| self.transactions[*of] == Status::Committed)
    }

    /// The last state record that a reader sees; `Err`: it has not got as far as the sentinel.
    pub(super) fn state(&self, lag: usize, sentinel: Option<u32>) -> Result<Option<StateRecord>, Failed> {
        let seen = |(_, body): &(usize, Body)| matches!(body, Body::Sentinel(nonce) if Some(*nonce) == sentinel);
        if sentinel.is_some() && !self.read(lag).any(seen) {
            return Err(Failed);
        }
        Ok(self.read(lag).rev().find_map(state))
    }

    /// What is committed: transaction and change, in their order.
    pub(super) fn changes(&self) -> impl Iterator<Item = (usize, u32)> {
        self.read(0).filter_map(|(of, body)| match body {
            Body::Change(change) => Some((*of, *change)),
            _ => None,
        })
    }

    /// The state record of a transaction.
    pub(super) fn state_of(&self, transaction: usize) -> Option<StateRecord> {
        let mut records = self.log.iter().rev().filter(|(of, _)| *of == transaction);
        records.find_map(state)
    }
}

fn state((_, body): &(usize, Body)) -> Option<StateRecord> {
    match body {
        Body::State(json) => Some(StateRecord::parse(json).unwrap()),
        _ => None,
    }
}
