//! Calls that share a statement.

use std::collections::{HashMap, hash_map::Entry};

use tokio::sync::oneshot;

use super::{
    fault::Fault,
    lane::{Ask, Call},
    row::Told,
};
use crate::{message::Key, store::StoreError};

/// How often a call is asked again because others were in its way, before it is given up.
const ASKED_AT_MOST: u8 = 20;

/// A call whose caller waits for the answer.
#[derive(Debug)]
pub(super) struct Waiting<C: Call> {
    call: C,
    caller: oneshot::Sender<Result<C::Answer, StoreError>>,
    asked: u8,
}

impl<C: Call> Waiting<C> {
    pub(super) fn new(call: C, caller: oneshot::Sender<Result<C::Answer, StoreError>>) -> Self {
        Self {
            call,
            caller,
            asked: 0,
        }
    }

    /// Whether it has to be carried out: nobody would work under a claim that nobody waits for,
    /// and its key would wait for the lease to end.
    pub(super) fn is_wanted(&self) -> bool {
        !(C::MAY_BE_DROPPED && self.caller.is_closed())
    }

    pub(super) fn bytes(&self) -> usize {
        self.call.bytes()
    }

    fn tell(self, answer: Result<C::Answer, StoreError>) {
        // A caller that was dropped meanwhile does not care.
        let _ = self.caller.send(answer);
    }
}

/// Calls about one key: the first is part of the statement, the others wait behind it.
struct Turn<C: Call> {
    first: Waiting<C>,
    behind: Vec<Waiting<C>>,
}

/// The calls of one statement, no key twice.
pub(super) struct Batch<C: Call>(Vec<Turn<C>>);

impl<C: Call> Batch<C> {
    pub(super) fn of(calls: Vec<Waiting<C>>) -> Self {
        let mut turns: Vec<Turn<C>> = Vec::with_capacity(calls.len());
        let mut places: HashMap<Key, usize> = HashMap::with_capacity(calls.len());
        for call in calls {
            match places.entry(call.call.key().clone()) {
                Entry::Occupied(place) => turns[*place.get()].behind.push(call),
                Entry::Vacant(place) => {
                    place.insert(turns.len());
                    turns.push(Turn {
                        first: call,
                        behind: Vec::new(),
                    });
                }
            }
        }
        Self(turns)
    }

    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub(super) fn ask(&self) -> Ask {
        if self.0.iter().any(|turn| turn.first.asked > 0) {
            Ask::Again
        } else {
            Ask::First
        }
    }

    pub(super) fn calls(&self) -> Vec<&C> {
        self.0.iter().map(|turn| &turn.first.call).collect()
    }

    /// Tells the callers what the rows say about their keys; returns the calls that have to be
    /// asked again.
    pub(super) fn answer(self, rows: &HashMap<&str, Told>) -> Vec<Waiting<C>> {
        let mut again = Vec::new();
        for turn in self.0 {
            let told = rows.get(turn.first.call.key().as_str());
            turn.answer(told.unwrap_or(&Told::NOTHING), &mut again);
        }
        again
    }

    /// Two batches of half as many calls, or this one if it has only one.
    pub(super) fn halves(mut self) -> Result<[Self; 2], Self> {
        if self.0.len() < 2 {
            return Err(self);
        }
        let second = self.0.split_off(self.0.len() / 2);
        Ok([self, Self(second)])
    }

    /// Tells the first caller of each key what is the matter with its row; the others have rows of their
    /// own to try.
    pub(super) fn refuse(self, fault: &Fault) -> Vec<Waiting<C>> {
        let mut again = Vec::new();
        for turn in self.0 {
            let error = fault.about(turn.first.call.key());
            turn.first.tell(Err(error));
            again.extend(turn.behind);
        }
        again
    }

    /// Tells all callers that nothing is known.
    pub(super) fn fail(self, fault: &Fault) {
        let calls = self.0.len();
        tracing::debug!(error = %fault, calls, "a batch was not carried out");
        for turn in self.0 {
            for call in std::iter::once(turn.first).chain(turn.behind) {
                call.tell(Err(fault.unavailable()));
            }
        }
    }
}

impl<C: Call> Turn<C> {
    fn answer(self, told: &Told, again: &mut Vec<Waiting<C>>) {
        if let Err(unreadable) = &told.record {
            let key = self.first.call.key().clone();
            for call in std::iter::once(self.first).chain(self.behind) {
                call.tell(Err(corrupt(&key, unreadable.to_string())));
            }
            return;
        }
        match self.first.call.answer(told) {
            Some(answer) => {
                self.first.tell(Ok(answer));
                for call in self.behind {
                    match call.call.answer_behind(told) {
                        Some(answer) => call.tell(Ok(answer)),
                        None => again.push(call),
                    }
                }
            }
            None => self.ask_again(again),
        }
    }

    fn ask_again(mut self, again: &mut Vec<Waiting<C>>) {
        self.first.asked += 1;
        if self.first.asked < ASKED_AT_MOST {
            again.push(self.first);
        } else {
            let key = self.first.call.key();
            let crowded = format!("others were in the way at every try to reach `{key}`");
            self.first.tell(Err(StoreError::unavailable(crowded)));
        }
        again.extend(self.behind);
    }
}

fn corrupt(key: &Key, source: impl Into<Box<dyn std::error::Error + Send + Sync>>) -> StoreError {
    StoreError::Corrupt {
        key: key.to_string(),
        source: source.into(),
    }
}
