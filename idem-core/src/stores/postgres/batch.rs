//! Calls that share a statement: one for each key, and behind it the others for the same key.
//!
//! `batch_task` sends it and hands the rows back. What must stay true:
//!
//! - No key is twice in a statement, because the server refuses to change a row twice in one.
//! - Every call is answered, or returned to be asked again.
//! - Calls about one key keep the order in which they came.

use std::collections::{HashMap, hash_map::Entry};

use super::{
    call::{Ask, KeyCall},
    fault::Fault,
    row::BatchRow,
};
use crate::{message::Key, store::StoreError, stores::batcher::Waiting};

/// Calls about one key: the first is part of the statement, the others wait behind it for what its
/// row says.
struct OneKey<C: KeyCall> {
    first: Waiting<C>,
    behind: Vec<Waiting<C>>,
}

/// The calls of one statement, no key twice.
pub(super) struct Batch<C: KeyCall>(Vec<OneKey<C>>);

impl<C: KeyCall> Batch<C> {
    /// Sorts calls by key; keys are in the order of their first calls.
    pub(super) fn of(calls: Vec<Waiting<C>>) -> Self {
        let mut keys: Vec<OneKey<C>> = Vec::with_capacity(calls.len());
        let mut places: HashMap<Key, usize> = HashMap::with_capacity(calls.len());
        for call in calls {
            match places.entry(call.call.key().clone()) {
                Entry::Occupied(place) => keys[*place.get()].behind.push(call),
                Entry::Vacant(place) => {
                    place.insert(keys.len());
                    keys.push(OneKey {
                        first: call,
                        behind: Vec::new(),
                    });
                }
            }
        }
        Self(keys)
    }

    /// Whether there is nothing to ask: all callers may have gone.
    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Whether one of the calls was asked before. Then the statement must be the one that decides
    /// about every record, and not the shorter one for keys that are most likely new.
    pub(super) fn ask(&self) -> Ask {
        if self.0.iter().any(|one| one.first.is_repeated()) {
            Ask::Again
        } else {
            Ask::First
        }
    }

    /// The calls that are part of the statement.
    pub(super) fn calls(&self) -> Vec<&C> {
        self.0.iter().map(|one| &one.first.call).collect()
    }

    /// Tells the callers what the rows say about their keys. Returns the calls that have to be
    /// asked again.
    pub(super) fn answer(self, rows: &HashMap<&str, BatchRow>) -> Vec<Waiting<C>> {
        let mut again = Vec::new();
        for one in self.0 {
            let row = rows.get(one.first.call.key().as_str());
            // A key without a row has no record that the statement could see.
            one.answer(row.unwrap_or(&BatchRow::NOTHING), &mut again);
        }
        again
    }

    /// Two batches of half as many keys each, or this one if it has only one key.
    pub(super) fn halves(mut self) -> Result<[Self; 2], Self> {
        if self.0.len() < 2 {
            return Err(self);
        }
        let second = self.0.split_off(self.0.len() / 2);
        Ok([self, Self(second)])
    }

    /// Tells the first caller of each key what is the matter with its row. Returns the others: what
    /// is wrong may be the value that the first one writes, and theirs may be fine.
    pub(super) fn refuse(self, fault: &Fault) -> Vec<Waiting<C>> {
        let mut again = Vec::new();
        for one in self.0 {
            let error = fault.about(one.first.call.key());
            one.first.answer(Err(error));
            again.extend(one.behind);
        }
        again
    }

    /// Tells all callers that nothing is known: what they asked may have been carried out.
    pub(super) fn fail(self, fault: &Fault) {
        let calls = self.0.len();
        tracing::debug!(error = %fault, calls, "a batch was not carried out");
        for one in self.0 {
            for call in std::iter::once(one.first).chain(one.behind) {
                call.answer(Err(fault.unavailable()));
            }
        }
    }
}

impl<C: KeyCall> OneKey<C> {
    /// Answers the calls about this key from its row; those that need a statement of their own go
    /// into `again`.
    fn answer(self, row: &BatchRow, again: &mut Vec<Waiting<C>>) {
        // Nobody can decide about a record that cannot be read, and to ask again would not change
        // it. It is not taken for absent: that would run finished work again.
        if let Err(unreadable) = &row.record {
            let key = self.first.call.key().clone();
            for call in std::iter::once(self.first).chain(self.behind) {
                call.answer(Err(corrupt(&key, unreadable.to_string())));
            }
            return;
        }
        match self.first.call.read(row) {
            Some(answer) => {
                self.first.answer(Ok(answer));
                // These came later, so they see what the first one has left. One that would have to
                // write goes back to the queue, now as the first; it does not count as asked.
                for call in self.behind {
                    match call.call.read_unwritten(row) {
                        Some(answer) => call.answer(Ok(answer)),
                        None => again.push(call),
                    }
                }
            }
            // The statement was for new keys only, and this one is recorded. Or another transaction was first, and the
            // statement's snapshot does not see what it has left.
            None => self.ask_again(again),
        }
    }

    /// Asks all of these again, in their order. Only the first one's tries are counted: the others
    /// were not part of this statement.
    fn ask_again(self, again: &mut Vec<Waiting<C>>) {
        match self.first.ask_again() {
            Ok(first) => again.push(first),
            Err(first) => {
                let key = first.call.key();
                // An end to it, so that no caller waits for ever. The next claim is free to try
                // again.
                let crowded = format!("others were in the way at every try to reach `{key}`");
                first.answer(Err(StoreError::unavailable(crowded)));
            }
        }
        again.extend(self.behind);
    }
}

/// The error for a record that cannot be read.
fn corrupt(key: &Key, source: impl Into<Box<dyn std::error::Error + Send + Sync>>) -> StoreError {
    StoreError::Corrupt {
        key: key.to_string(),
        source: source.into(),
    }
}
