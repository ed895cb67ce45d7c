//! Which message has which number, until it is confirmed.

use std::{
    collections::{BTreeMap, VecDeque},
    mem,
    sync::Arc,
};

use crate::{
    error::PublishError,
    wire::{
        Publication,
        publication::{Destination, Identity},
    },
};

#[cfg(test)]
mod tests;

/// Numbers in use, unless set: as many as the publisher has in one batch.
const ROOM: u32 = 256;

/// Messages that another call had confirmed, and whose own callers have not come back for yet: so many times as many as
/// may be in flight. After an outage all callers may come back for what another call had confirmed.
const REMEMBERED: usize = 4;

/// The numbers of one stream.
#[derive(Debug)]
pub(super) struct Ledger {
    next: u64,
    room: u32,
    open: BTreeMap<u64, Entry>,
    /// Messages whose numbers another call has withdrawn: their own callers may come for them.
    given_up: VecDeque<(u64, Taken)>,
    /// Messages that another call had confirmed, for their own callers.
    confirmed_for_others: VecDeque<Identity>,
    /// Where the first message went to.
    destination: Option<Destination>,
    /// Where the one went to that was confirmed last.
    way: Option<Destination>,
}

/// Which call published a message until it was confirmed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Caller {
    /// The one that has it published.
    Own,
    /// One that found it left behind.
    Another,
}

#[derive(Debug)]
struct Entry {
    publication: Arc<Publication>,
    /// How many calls are publishing it.
    calls: u32,
    /// How many calls wait to withdraw it: no other call begins to publish it.
    wanted: u32,
    /// Whether its number is given up.
    withdrawn: bool,
    /// Whether a try may have brought the message to the broker.
    may_have_arrived: bool,
}

/// A message that is its caller's again.
#[derive(Debug, Clone)]
pub(super) struct Taken {
    pub(super) publication: Arc<Publication>,
    pub(super) may_have_arrived: bool,
}

/// A message with its number, not confirmed.
#[derive(Debug, Clone)]
pub(super) struct Open {
    pub(super) number: u64,
    pub(super) publication: Arc<Publication>,
    /// Whether the number is published without the message.
    pub(super) withdrawn: bool,
    pub(super) may_have_arrived: bool,
}

/// What a call that is to withdraw a number has to do.
#[derive(Debug)]
pub(super) enum Withdrawing {
    /// Nothing: no message has the number, or it was confirmed.
    Unknown,
    /// Nothing more: another call has published the number without the message.
    Done(Taken),
    /// Wait: calls are publishing it, and it may be confirmed yet.
    Busy,
    /// Publish the number without the message.
    Publish(Open),
}

/// What a call that is to publish a message has to do.
#[derive(Debug)]
pub(super) enum Entered {
    /// Nothing: another call had it confirmed.
    Confirmed,
    /// Publish this one until it is confirmed: its own, or one that was left behind.
    Publish(Open),
    /// Wait: as many numbers are in use as may be.
    Full,
}

impl Default for Ledger {
    fn default() -> Self {
        Self {
            next: 0,
            room: ROOM,
            open: BTreeMap::new(),
            given_up: VecDeque::new(),
            confirmed_for_others: VecDeque::new(),
            destination: None,
            way: None,
        }
    }
}

impl Ledger {
    pub(super) fn room(&mut self, numbers: u32) {
        self.room = numbers;
    }

    pub(super) fn unconfirmed(&self) -> usize {
        self.open.len()
    }

    /// The first message says where all of them go.
    pub(super) fn bound_for(&mut self, publication: &Publication) -> Result<(), PublishError> {
        let other = publication.destination();
        let first = self.destination.get_or_insert_with(|| other.clone());
        if first.takes(&other) {
            return Ok(());
        }
        Err(PublishError::OtherDestination {
            first: first.to_string(),
            other: other.to_string(),
        })
    }

    pub(super) fn enter(&mut self, publication: &Publication) -> Entered {
        if let Some(open) = self.left_behind() {
            return Entered::Publish(open);
        }
        if self.forget(publication) {
            return Entered::Confirmed;
        }
        let mut on_their_way = self.open.iter_mut();
        if let Some((number, entry)) = on_their_way
            .find(|(_, entry)| !entry.withdrawn && entry.publication.is_same(publication))
        {
            if entry.wanted > 0 {
                return Entered::Full;
            }
            return Entered::Publish(entry.open(*number));
        }
        let lowest = self.open.keys().next().copied().unwrap_or(self.next);
        if self.next >= lowest.saturating_add(self.room.into()) {
            return Entered::Full;
        }
        let number = self.next;
        self.next += 1;
        let mut entry = Entry {
            publication: Arc::new(publication.clone()),
            calls: 0,
            wanted: 0,
            withdrawn: false,
            may_have_arrived: false,
        };
        let open = entry.open(number);
        self.open.insert(number, entry);
        Entered::Publish(open)
    }

    /// The lowest number that nobody sees to.
    pub(super) fn left_behind(&mut self) -> Option<Open> {
        let mut open = self.open.iter_mut();
        let (number, entry) = open.find(|(_, entry)| entry.calls == 0 && entry.wanted == 0)?;
        Some(entry.open(*number))
    }

    /// A way that leads to the stream's queues: the message's own may not.
    pub(super) fn way(&self) -> Option<Destination> {
        self.way.clone()
    }

    /// Gives the number up, unless a call is publishing its message.
    pub(super) fn withdraw(&mut self, number: u64) -> Withdrawing {
        let Some(entry) = self.open.get_mut(&number) else {
            let at = self.given_up.iter().position(|(known, _)| *known == number);
            let given_up = at.and_then(|at| self.given_up.remove(at));
            return given_up.map_or(Withdrawing::Unknown, |(_, taken)| Withdrawing::Done(taken));
        };
        if entry.calls > 0 {
            return Withdrawing::Busy;
        }
        entry.withdrawn = true;
        Withdrawing::Publish(entry.open(number))
    }

    /// A call waits to withdraw the number, if a message has it.
    pub(super) fn want(&mut self, number: u64) -> bool {
        let entry = self.open.get_mut(&number);
        entry.map(|entry| entry.wanted += 1).is_some()
    }

    /// It waits no longer.
    pub(super) fn want_no_longer(&mut self, number: u64) {
        if let Some(entry) = self.open.get_mut(&number) {
            entry.wanted -= 1;
        }
    }

    /// Notes that the message may have come to the broker, or that this try has certainly not brought it there.
    /// Returns what was known before.
    pub(super) fn set_may_have_arrived(&mut self, number: u64, it_may: bool) -> bool {
        let entry = self.open.get_mut(&number).filter(|entry| !entry.withdrawn);
        entry.is_some_and(|entry| mem::replace(&mut entry.may_have_arrived, it_may))
    }

    /// The broker has it. What another call published is remembered for its own.
    pub(super) fn confirm(&mut self, open: &Open, by: Caller) {
        let was_open = self.open.remove(&open.number).is_some();
        if open.withdrawn {
            if by == Caller::Another && was_open {
                self.give_back(open);
            }
            return;
        }
        self.way = Some(open.publication.destination());
        match by {
            Caller::Own => {
                self.forget(&open.publication);
            }
            Caller::Another if was_open => self.remember(&open.publication),
            Caller::Another => {}
        }
    }

    fn give_back(&mut self, open: &Open) {
        if self.given_up.len() >= self.remembered()
            && let Some((number, _)) = self.given_up.pop_front()
        {
            tracing::warn!(
                number,
                "nobody came back for a message that was withdrawn; it is forgotten"
            );
        }
        self.given_up.push_back((open.number, open.taken()));
    }

    fn remembered(&self) -> usize {
        let room = usize::try_from(self.room).unwrap_or(usize::MAX);
        room.saturating_mul(REMEMBERED)
    }

    fn remember(&mut self, publication: &Publication) {
        if self.confirmed_for_others.len() >= self.remembered() {
            self.confirmed_for_others.pop_front();
        }
        self.confirmed_for_others.extend(publication.identity());
    }

    /// Whether another call had it confirmed.
    fn forget(&mut self, publication: &Publication) -> bool {
        if self.confirmed_for_others.is_empty() {
            return false;
        }
        let Some(identity) = publication.identity() else {
            return false;
        };
        let at = self
            .confirmed_for_others
            .iter()
            .position(|known| *known == identity);
        at.and_then(|at| self.confirmed_for_others.remove(at))
            .is_some()
    }

    /// A call no longer sees to it.
    pub(super) fn leave(&mut self, number: u64) {
        if let Some(entry) = self.open.get_mut(&number) {
            entry.calls -= 1;
        }
    }
}

impl Entry {
    fn open(&mut self, number: u64) -> Open {
        self.calls += 1;
        Open {
            number,
            publication: Arc::clone(&self.publication),
            withdrawn: self.withdrawn,
            may_have_arrived: self.may_have_arrived,
        }
    }
}

impl Open {
    pub(super) fn taken(&self) -> Taken {
        Taken {
            publication: Arc::clone(&self.publication),
            may_have_arrived: self.may_have_arrived,
        }
    }
}
