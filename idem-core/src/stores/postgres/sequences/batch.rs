//! Claims of numbered messages that share a transaction, of one sequence or of many.
//!
//! A task of `claim_task` carries a [`Batch`] out on its connection. What must stay true:
//!
//! - All of it is committed, or nothing.
//! - Every claim is answered, or said to be asked again.
//! - The first claim of a sequence always gets an answer sooner or later, so no claim is put off for ever.
//!
//! Nobody waits for each other for ever, because all transactions lock in one order: the rows of
//! sequences by their keys, then the sequences that begin, then the records that are claimed by
//! theirs. The records that the mark has passed are removed last, without waiting.

use std::collections::{HashMap, HashSet};

use sqlx::PgConnection;

use super::{
    Claimed, Numbered,
    sequence_batch::{Next, SequenceBatch},
    step::{Known, Step},
    tools::Tools,
};
use crate::{
    store::{
        Claim, StoreError,
        rules::sequence::{Below, Sequence},
    },
    stores::postgres::{
        call::KeyCall as _,
        claims::ClaimCall,
        link::Work,
        row::{self, BatchRow},
    },
};

/// How many sequences get statements of their own in one transaction, for their numbers to be
/// looked at or for a row to begin anew. The claims of the others come with the next transaction,
/// so that no lock is held for long.
const LOOKS: usize = 16;

/// What has become of a claim in a transaction that is committed.
#[derive(Debug)]
pub(super) enum Settled {
    /// Its caller can be told.
    Answered(Claimed),
    /// Another transaction was first. It is to be asked again, and that counts towards its tries.
    InTheWay,
    /// It was not decided. It goes with the next transaction, and that costs it no try.
    Later,
}

/// Claims of any sequences, on their way to the server, in the order in which they came.
pub(super) struct Batch<'a> {
    pub(super) claims: Vec<&'a Numbered>,
    pub(super) tools: &'a Tools,
}

/// The claims of one sequence in a batch.
struct Group<'a> {
    /// The key of the sequence.
    key: &'a str,
    /// Which of the batch's claims they are, in the order in which they came.
    claims: Vec<usize>,
    /// What is decided about them.
    batch: SequenceBatch,
}

impl Work for Batch<'_> {
    /// What has become of each claim, in their order.
    type Done = Vec<Settled>;

    /// The whole transaction. An error leaves nothing behind: the transaction is rolled back when
    /// it is dropped. After a lost commit it may be carried out twice, which does no harm: the same
    /// owners get the same leases.
    async fn on(&self, connection: &mut PgConnection) -> Result<Vec<Settled>, sqlx::Error> {
        let mut transaction = BatchTransaction {
            claims: &self.claims,
            step: Step::begin(connection, self.tools).await?,
            now: 0,
            below: Vec::new(),
            to_claim: Vec::new(),
            // Whatever is left out below goes with the next transaction.
            settled: self.claims.iter().map(|_| Settled::Later).collect(),
        };
        // In this order, because of the locks (see above), and because each step decides from what
        // the one before has read. `below` comes before `claim`, because it hands claims on to it.
        let mut groups = transaction.lock().await?;
        transaction.look(&mut groups).await?;
        transaction.decide(&mut groups);
        transaction.begin(&mut groups).await?;
        transaction.below().await?;
        transaction.claim().await?;
        // After the claims: a claim may wait for a worker who writes, and to keep removed rows
        // locked meanwhile could make two transactions wait for each other.
        transaction.save(&groups).await?;
        // Nobody is told anything before this. An acquired key whose commit is lost would be
        // acquired by another as well.
        transaction.step.commit().await?;
        Ok(transaction.settled)
    }
}

/// A transaction, and what is left to ask in it. The numbers are indices into `claims`.
struct BatchTransaction<'a, 'c> {
    claims: &'a [&'a Numbered],
    step: Step<'c>,
    /// The time when the last of the rows was locked, in microseconds of the server's clock.
    now: i64,
    /// The claims below the mark of their sequence, each with the sequence as it was then.
    below: Vec<(usize, Sequence)>,
    /// The claims about which the ordinary rules decide.
    to_claim: Vec<usize>,
    /// What has become of each claim so far.
    settled: Vec<Settled>,
}

impl<'a> BatchTransaction<'a, '_> {
    /// Locks the rows of all sequences, and groups the claims by sequence. The sequences whose
    /// claims have waited longest come first, so that these are looked at first.
    async fn lock(&mut self) -> Result<Vec<Group<'a>>, sqlx::Error> {
        let of = by_sequence(self.claims);
        let keys: Vec<&str> = of.iter().map(|(key, _)| *key).collect();
        // One statement for all, which locks in the order of the keys.
        let (mut known, now) = self.step.lock(&keys).await?;
        self.now = now;
        let groups = of.into_iter().filter_map(|(key, claims)| {
            let known = known.remove(key).unwrap_or(Ok(None));
            self.group(key, claims, known)
        });
        Ok(groups.collect())
    }

    /// The claims of a sequence, or `None` if its row cannot be read: that is the trouble of its
    /// own claims only, which are told so.
    fn group(&mut self, key: &'a str, claims: Vec<usize>, known: Known) -> Option<Group<'a>> {
        match known {
            Ok(known) => Some(Group {
                key,
                claims,
                batch: SequenceBatch::new(known, self.now),
            }),
            Err(error) => {
                for at in claims {
                    let why = format!("the sequence `{key}` cannot be read: {error}");
                    self.settled[at] = Settled::Answered(Err(StoreError::unavailable(why)));
                }
                None
            }
        }
    }

    /// Looks up how the numbers stand that are in the way of a mark. Sequences for which this
    /// transaction has no time are left out of it, with all of their claims.
    async fn look(&mut self, groups: &mut Vec<Group<'a>>) -> Result<(), sqlx::Error> {
        let mut left = LOOKS;
        groups.retain(|group| {
            let takes_long = group.batch.takes_long(&group.numbered(self.claims));
            let has_time = !takes_long || left > 0;
            // The first ones get the time. The claims that are left out stay in front of the queue,
            // so that they are among the first next time.
            left -= usize::from(takes_long && has_time);
            has_time
        });
        for group in groups {
            let claims = group.numbered(self.claims);
            let Some(numbers) = group.batch.wanted(&claims) else {
                continue;
            };
            // Most often it is the first number that stands in the way of the others. Then the
            // rest, up to a thousand rows, is not read.
            let first = numbers.start..numbers.end.min(numbers.start + 1);
            let mut standings = self.step.standings(group.key, first, self.now).await?;
            let stuck = |first| group.batch.stands_still(&claims, first);
            if !standings.first().copied().is_some_and(stuck) {
                standings = self.step.standings(group.key, numbers, self.now).await?;
            }
            group.batch.learn(standings);
        }
        Ok(())
    }

    /// Decides about the claims, one after the other in the order in which they came, as far as
    /// that needs no records.
    fn decide(&mut self, groups: &mut [Group<'a>]) {
        for Group { claims, batch, .. } in groups {
            for &at in &*claims {
                match batch.next(self.claims[at]) {
                    Next::Answered(answer) => self.settled[at] = Settled::Answered(Ok(answer)),
                    Next::Claim => self.to_claim.push(at),
                    Next::Below(sequence) => self.below.push((at, sequence)),
                    Next::Later => {}
                }
            }
        }
    }

    /// Writes the rows of sequences that begin. If somebody else has begun one meanwhile, its row
    /// is not locked here: after others have been written, two transactions that do so could wait
    /// for each other.
    async fn begin(&mut self, groups: &mut Vec<Group<'a>>) -> Result<(), sqlx::Error> {
        let begun = groups
            .iter()
            .filter_map(|group| Some((group.key, group.batch.begun()?)));
        let begun: Vec<_> = begun.collect();
        let of_others = self.step.begins(&begun).await?;
        // All that was decided for such a sequence was decided without its real mark, so none of it
        // counts. The next transaction finds the row and locks it.
        for group in groups.extract_if(.., |group| of_others.contains(&group.key)) {
            self.below.retain(|(at, _)| !group.claims.contains(at));
            self.to_claim.retain(|at| !group.claims.contains(at));
            for at in group.claims {
                self.settled[at] = Settled::InTheWay;
            }
        }
        for group in groups {
            // The row of the one that has expired is there, and locked since the beginning.
            if let Some(begun) = group.batch.begun_anew() {
                self.step.begins_anew(group.key, begun).await?;
            }
        }
        Ok(())
    }

    /// Decides about the claims below their mark, from their records and from the exceptions.
    async fn below(&mut self) -> Result<(), sqlx::Error> {
        let asked: Vec<_> = self
            .below
            .iter()
            .map(|(at, sequence)| (self.claims[*at], *sequence))
            .collect();
        let decided = self.step.below(&asked).await?;
        for ((at, _), decided) in self.below.iter().zip(decided) {
            match decided {
                Ok(Below::Answered(answer)) => self.settled[*at] = Settled::Answered(Ok(answer)),
                // A replay, or one that is quarantined or tried again: the ordinary rules decide.
                Ok(Below::Claim) => self.to_claim.push(*at),
                Err(error) => self.settled[*at] = Settled::Answered(Err(error)),
            }
        }
        Ok(())
    }

    /// Claims by the ordinary rules, all keys in one statement. Of the claims for one key only the
    /// first is part of it, because a statement cannot write a row twice.
    async fn claim(&mut self) -> Result<(), sqlx::Error> {
        let mut keys = HashSet::with_capacity(self.to_claim.len());
        let (first, behind): (Vec<usize>, Vec<usize>) = self
            .to_claim
            .iter()
            .partition(|at| keys.insert(self.claims[**at].call.key()));
        let calls: Vec<_> = first.iter().map(|at| &self.claims[*at].call).collect();
        let rows = self.step.claim(&calls).await?;
        // A key that there is no row about was taken by a transaction that this statement's
        // snapshot does not see yet.
        let rows: HashMap<&str, BatchRow> =
            rows.iter().map(row::of_call).collect::<Result<_, _>>()?;
        for at in first {
            let call = &self.claims[at].call;
            let row = rows.get(call.key().as_str()).unwrap_or(&BatchRow::NOTHING);
            self.settled[at] = settled(call, row, call.read(row), Settled::InTheWay);
        }
        // Copies of the first one: they are answered from its row if that needs no write. If it
        // does, they are asked again, in a statement of their own.
        for at in behind {
            let call = &self.claims[at].call;
            let row = rows.get(call.key().as_str()).unwrap_or(&BatchRow::NOTHING);
            self.settled[at] = settled(call, row, call.read_unwritten(row), Settled::Later);
        }
        Ok(())
    }

    /// Writes what has come of the looks: marks, exceptions, and how long records are kept.
    async fn save(&mut self, groups: &[Group<'a>]) -> Result<(), sqlx::Error> {
        for group in groups {
            if let (Some(known), Some(looked)) = (group.batch.known(), group.batch.looked()) {
                self.step.save(group.key, known, looked, self.now).await?;
            }
        }
        Ok(())
    }
}

impl<'a> Group<'a> {
    /// The claims themselves.
    fn numbered(&self, claims: &[&'a Numbered]) -> Vec<&'a Numbered> {
        self.claims.iter().map(|at| claims[*at]).collect()
    }
}

/// The keys of the sequences, and which of the claims are of each: both in the order in which they
/// came.
fn by_sequence<'a>(claims: &[&'a Numbered]) -> Vec<(&'a str, Vec<usize>)> {
    let mut groups: Vec<(&str, Vec<usize>)> = Vec::new();
    let mut places: HashMap<&str, usize> = HashMap::new();
    for (at, claim) in claims.iter().enumerate() {
        let key = claim.place.sequence.as_str();
        let place = *places.entry(key).or_insert(groups.len());
        if place == groups.len() {
            groups.push((key, Vec::new()));
        }
        groups[place].1.push(at);
    }
    groups
}

/// What a row says to a claim: its answer, or that the record cannot be read, or `otherwise`.
fn settled(call: &ClaimCall, row: &BatchRow, answer: Option<Claim>, otherwise: Settled) -> Settled {
    match (&row.record, answer) {
        (Err(unreadable), _) => Settled::Answered(Err(StoreError::Corrupt {
            key: call.key().to_string(),
            source: unreadable.to_string().into(),
        })),
        (Ok(_), Some(answer)) => Settled::Answered(Ok(answer)),
        (Ok(_), None) => otherwise,
    }
}
