//! The claims of one sequence that share a transaction, decided one after the other.
//!
//! `Batch` asks it under the lock of the sequence's row, and sends what it decides. It is pure: no
//! statement is sent here.

use std::{collections::BTreeSet, ops::Range};

use super::Numbered;
use crate::store::{
    Claim,
    rules::sequence::{self, Entered, Looked, Placed, Sequence, Standing},
};

#[cfg(test)]
mod tests;

/// A sequence whose row is locked.
pub(super) struct SequenceBatch {
    known: Option<Sequence>,
    /// Whether there is a row.
    has_row: bool,
    /// Under the lock.
    now: i64,
    begins: bool,
    /// Nothing at this number or above was below the mark when the row was locked.
    locked_at: u64,
    /// Of the numbers from there on; of as many as were asked for.
    standings: Vec<Standing>,
    /// What claims of the transaction ask for, or have.
    claimed: BTreeSet<u64>,
    looked: Option<Looked>,
}

/// What is next for a claim.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Next {
    Answered(Claim),
    /// The ordinary rules decide about its key.
    Claim,
    /// It lies below the mark, and what is known of it is to be looked up.
    Below(Sequence),
    /// It is for the next transaction. Never said of the first claim, if it found the standings that
    /// were wanted.
    Later,
}

impl SequenceBatch {
    pub(super) fn new(known: Option<Sequence>, now: i64) -> Self {
        Self {
            known,
            has_row: known.is_some(),
            now,
            begins: false,
            locked_at: known.map_or(0, |sequence| sequence.mark),
            standings: Vec::new(),
            claimed: BTreeSet::new(),
            looked: None,
        }
    }

    /// Whether these claims need more statements than those that all sequences share.
    pub(super) fn takes_long(&self, claims: &[&Numbered]) -> bool {
        let expired = |sequence: Sequence| sequence.expires_at <= self.now;
        self.known.is_some_and(expired) || self.wanted(claims).is_some()
    }

    /// Which numbers some of these claims have to look at.
    pub(super) fn wanted(&self, claims: &[&Numbered]) -> Option<Range<u64>> {
        let looks = claims.iter().filter_map(|claim| self.looks(claim));
        looks.max_by_key(|numbers| numbers.end)
    }

    /// Whether the mark stays where it is for all of these claims if the number there stands so.
    pub(super) fn stands_still(&self, claims: &[&Numbered], first: Standing) -> bool {
        let lookers = claims.iter().filter(|claim| self.looks(claim).is_some());
        self.known.is_some_and(|sequence| {
            lookers.into_iter().all(|claim| {
                let (request, place) = (&claim.call.request, &claim.place);
                sequence::stands_still(&sequence, first, request, place, self.now)
            })
        })
    }

    /// How the numbers stand that are wanted, or the first of them.
    pub(super) fn learn(&mut self, standings: Vec<Standing>) {
        self.standings = standings;
    }

    /// Carries out a claim, as far as that can be done without its record.
    pub(super) fn next(&mut self, claim: &Numbered) -> Next {
        let (request, place) = (&claim.call.request, &claim.place);
        match sequence::enter(self.known.as_ref(), request, place, self.now) {
            Entered::Ahead(why) => Next::Answered(why.into()),
            Entered::Unknown => Next::Claim,
            Entered::Begun(sequence) => {
                self.begins = true;
                self.locked_at = sequence.mark;
                self.place(&sequence, claim)
            }
            Entered::Known(sequence, None) => self.place(&sequence, claim),
            Entered::Known(sequence, Some(numbers)) => match self.look(&sequence, numbers, claim) {
                Some(sequence) => self.place(&sequence, claim),
                None => Next::Later,
            },
        }
    }

    /// What begins and has no row yet.
    pub(super) fn begun(&self) -> Option<&Sequence> {
        let begins = self.begins && !self.has_row;
        self.known.as_ref().filter(|_| begins)
    }

    /// What begins in the row of one that has expired.
    pub(super) fn begun_anew(&self) -> Option<&Sequence> {
        let begins = self.begins && self.has_row;
        self.known.as_ref().filter(|_| begins)
    }

    /// As locked, or as its claims have left it.
    pub(super) fn known(&self) -> Option<&Sequence> {
        self.known.as_ref()
    }

    /// What is to be written about all looks together.
    pub(super) fn looked(&self) -> Option<&Looked> {
        self.looked.as_ref()
    }

    fn looks(&self, claim: &Numbered) -> Option<Range<u64>> {
        let (request, place) = (&claim.call.request, &claim.place);
        match sequence::enter(self.known.as_ref(), request, place, self.now) {
            Entered::Known(_, numbers) => numbers,
            Entered::Ahead(_) | Entered::Unknown | Entered::Begun(_) => None,
        }
    }

    fn place(&mut self, sequence: &Sequence, claim: &Numbered) -> Next {
        self.known = Some(*sequence);
        let number = claim.place.number;
        match sequence.place(&claim.place) {
            Placed::Ahead(why) => Next::Answered(why.into()),
            Placed::Ordinary => {
                self.claimed.insert(number);
                Next::Claim
            }
            // What has become of it is not written yet.
            Placed::Below if number >= self.locked_at => Next::Later,
            Placed::Below => Next::Below(*sequence),
        }
    }

    /// Moves the mark; `None` if that cannot be decided from what is known here.
    fn look(
        &mut self,
        sequence: &Sequence,
        numbers: Range<u64>,
        claim: &Numbered,
    ) -> Option<Sequence> {
        let (request, place, now) = (&claim.call.request, &claim.place, self.now);
        let standings = self.standings(numbers.clone())?;
        let stuck = |first| sequence::stands_still(sequence, first, request, place, now);
        let all = (numbers.end - numbers.start).try_into() == Ok(standings.len());
        if !all && !standings.first().copied().is_some_and(stuck) {
            return None;
        }
        let looked = sequence::look(sequence, &standings, request, place, now);
        let keeps = |looked: &Looked| looked.kept.is_some();
        if keeps(&looked) && self.looked.as_ref().is_some_and(keeps) {
            return None;
        }
        let moved = looked.sequence;
        self.looked = Some(match self.looked.take() {
            None => looked,
            Some(before) => together(before, looked),
        });
        Some(moved)
    }

    /// How these numbers stand, as far as that was read, when the claims before this one have been
    /// carried out. `None` if one of them asks for an answer that the mark would pass.
    fn standings(&self, numbers: Range<u64>) -> Option<Vec<Standing>> {
        let standing = |number: u64| {
            let at = usize::try_from(number - self.locked_at).ok()?;
            let read = *self.standings.get(at)?;
            Some(match read {
                Standing::Completed | Standing::Refused | Standing::GivenUp
                    if self.claimed.contains(&number) =>
                {
                    None
                }
                Standing::Missing if self.claimed.contains(&number) => Some(Standing::Waiting),
                _ => Some(read),
            })
        };
        numbers.map_while(standing).collect()
    }
}

/// Two looks in one, the second of which began where the first had ended.
fn together(first: Looked, second: Looked) -> Looked {
    Looked {
        sequence: second.sequence,
        removed: [first.removed, second.removed].concat(),
        exceptions: [first.exceptions, second.exceptions].concat(),
        kept: second.kept.or(first.kept),
    }
}
