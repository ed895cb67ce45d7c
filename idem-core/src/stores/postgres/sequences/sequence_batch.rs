//! The claims of one sequence that share a transaction, decided one after the other.
//!
//! `Batch` asks it under the lock of the sequence's row, and sends what it decides. It is pure: no
//! statement is sent here.
//!
//! What must stay true: each claim is answered as if those before it were committed already. Where
//! that cannot be known, because it depends on what this transaction has yet to write, the claim
//! waits for the next one. The first claim of a sequence never has to wait, so all get through in
//! the end.

use std::{collections::BTreeSet, ops::Range};

use super::Numbered;
use crate::store::{
    Claim,
    rules::sequence::{self, Entered, Looked, Placed, Sequence, Standing},
};

#[cfg(test)]
mod tests;

/// A sequence whose row is locked, and what its claims have come to so far.
pub(super) struct SequenceBatch {
    /// The sequence as the claims so far have left it; `None` while there is none.
    known: Option<Sequence>,
    /// Whether it had a row when it was locked, expired or not.
    has_row: bool,
    /// The time under the lock, in microseconds of the server's clock.
    now: i64,
    /// Whether one of the claims has begun it.
    begins: bool,
    /// The mark when the row was locked. Numbers from here on that are below the mark now were
    /// passed by a look of this transaction.
    locked_at: u64,
    /// How the numbers from `locked_at` on stood then; as many as were asked for.
    standings: Vec<Standing>,
    /// The numbers that claims of this transaction ask for, or have acquired.
    claimed: BTreeSet<u64>,
    /// What the looks so far come to, all together.
    looked: Option<Looked>,
}

/// What is next for a claim.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Next {
    /// This is its answer.
    Answered(Claim),
    /// The ordinary rules decide about its key.
    Claim,
    /// It lies below the mark: its record and the exceptions are to be looked up.
    Below(Sequence),
    /// It is for the next transaction. The first claim never is, if the standings that it wants
    /// were found.
    Later,
}

impl SequenceBatch {
    /// A sequence as it was found under the lock, expired or not.
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

    /// Whether these claims need statements of their own, beside those that all sequences share: to
    /// begin anew in the row of an expired sequence, or to look at numbers.
    pub(super) fn takes_long(&self, claims: &[&Numbered]) -> bool {
        let expired = |sequence: Sequence| sequence.expires_at <= self.now;
        self.known.is_some_and(expired) || self.wanted(claims).is_some()
    }

    /// Which numbers the claims have to look at, as the sequence is now: all ranges begin at the
    /// mark, so the longest has the others in it.
    pub(super) fn wanted(&self, claims: &[&Numbered]) -> Option<Range<u64>> {
        let looks = claims.iter().filter_map(|claim| self.looks(claim));
        looks.max_by_key(|numbers| numbers.end)
    }

    /// Whether the mark stays where it is for all of these claims if the number at the mark stands
    /// so. Then the rest need not be read.
    pub(super) fn stands_still(&self, claims: &[&Numbered], first: Standing) -> bool {
        let lookers = claims.iter().filter(|claim| self.looks(claim).is_some());
        self.known.is_some_and(|sequence| {
            lookers.into_iter().all(|claim| {
                let (request, place) = (&claim.call.request, &claim.place);
                sequence::stands_still(&sequence, first, request, place, self.now)
            })
        })
    }

    /// Takes the standings of the numbers that are wanted, or of the first of them.
    pub(super) fn learn(&mut self, standings: Vec<Standing>) {
        self.standings = standings;
    }

    /// Carries out a claim, as far as that can be done without its record. To be called for each
    /// claim in the order in which they came.
    pub(super) fn next(&mut self, claim: &Numbered) -> Next {
        let (request, place) = (&claim.call.request, &claim.place);
        match sequence::enter(self.known.as_ref(), request, place, self.now) {
            Entered::Ahead(why) => Next::Answered(why.into()),
            Entered::Unknown => Next::Claim,
            Entered::Begun(sequence) => {
                self.begins = true;
                // Nothing was read for a sequence that had no mark.
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

    /// The sequence, if it begins and has no row yet: a row is to be inserted.
    pub(super) fn begun(&self) -> Option<&Sequence> {
        let begins = self.begins && !self.has_row;
        self.known.as_ref().filter(|_| begins)
    }

    /// The sequence, if it begins in the row of one that has expired: that row is to be written.
    pub(super) fn begun_anew(&self) -> Option<&Sequence> {
        let begins = self.begins && self.has_row;
        self.known.as_ref().filter(|_| begins)
    }

    /// The sequence as it was locked, or as its claims have left it.
    pub(super) fn known(&self) -> Option<&Sequence> {
        self.known.as_ref()
    }

    /// What is to be written about all looks together; `None` if nobody has looked.
    pub(super) fn looked(&self) -> Option<&Looked> {
        self.looked.as_ref()
    }

    /// Which numbers this claim would look at.
    fn looks(&self, claim: &Numbered) -> Option<Range<u64>> {
        let (request, place) = (&claim.call.request, &claim.place);
        match sequence::enter(self.known.as_ref(), request, place, self.now) {
            Entered::Known(_, numbers) => numbers,
            Entered::Ahead(_) | Entered::Unknown | Entered::Begun(_) => None,
        }
    }

    /// Where the claim stands, once the mark has moved as far as it does for it.
    fn place(&mut self, sequence: &Sequence, claim: &Numbered) -> Next {
        self.known = Some(*sequence);
        let number = claim.place.number;
        match sequence.place(&claim.place) {
            Placed::Ahead(why) => Next::Answered(why.into()),
            Placed::Ordinary => {
                // The claims behind it must see this number as one that may run.
                self.claimed.insert(number);
                Next::Claim
            }
            // A look of this transaction has passed it. Its record is not removed yet and its
            // exception not listed, so what the statements would find is not what is to be
            // answered.
            Placed::Below if number >= self.locked_at => Next::Later,
            Placed::Below => Next::Below(*sequence),
        }
    }

    /// Moves the mark, and notes what is to be written; `None` if that cannot be decided from what
    /// is known here.
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
        // Not all numbers were read, because the mark seemed stuck at the first one. It is no
        // longer: a look at a part of them would end too early, and put `look_by` off all the same.
        if !all && !standings.first().copied().is_some_and(stuck) {
            return None;
        }
        let looked = sequence::look(sequence, &standings, request, place, now);
        let keeps = |looked: &Looked| looked.kept.is_some();
        // Two ranges to keep do not fit into one statement. This is rare: the second look is due
        // only if the first ended at its limit, or if its claim has another retention.
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

    /// How these numbers stand when the claims before this one have been carried out, as far as
    /// that was read. `None` if one of those claims asks for an answer that the mark would pass.
    fn standings(&self, numbers: Range<u64>) -> Option<Vec<Standing>> {
        let standing = |number: u64| {
            let at = usize::try_from(number - self.locked_at).ok()?;
            let read = *self.standings.get(at)?;
            Some(match read {
                // The look would remove the record, or make it an exception, before the claim that
                // comes first has read it.
                Standing::Completed | Standing::Refused | Standing::GivenUp
                    if self.claimed.contains(&number) =>
                {
                    None
                }
                // A claim before this one most likely acquires it, so it may run: it must not be
                // skipped as missing.
                Standing::Missing if self.claimed.contains(&number) => Some(Standing::Waiting),
                _ => Some(read),
            })
        };
        numbers.map_while(standing).collect()
    }
}

/// Two looks in one, the second of which began where the first had ended. So each number is in one
/// of the two lists once.
fn together(first: Looked, second: Looked) -> Looked {
    Looked {
        sequence: second.sequence,
        removed: [first.removed, second.removed].concat(),
        exceptions: [first.exceptions, second.exceptions].concat(),
        kept: second.kept.or(first.kept),
    }
}
