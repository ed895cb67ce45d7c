//! Claims that share a transaction.

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
        row::{self, Told},
        session::Work,
    },
};

/// Of how many sequences the numbers are looked at in one transaction, or the rows begun anew: what
/// takes statements of its own for each. The others come with the next one.
const LOOKS: usize = 16;

/// What has become of a claim.
#[derive(Debug)]
pub(super) enum Settled {
    Answered(Claimed),
    /// Others were first: it is to be asked again.
    InTheWay,
    /// It has yet to be asked: it goes with the next transaction.
    Later,
}

/// Claims of any sequences, on their way to the server.
pub(super) struct Batch<'a> {
    pub(super) claims: Vec<&'a Numbered>,
    pub(super) tools: &'a Tools,
}

/// The claims of one sequence.
struct Group<'a> {
    key: &'a str,
    /// Which of the batch's they are, in their order.
    claims: Vec<usize>,
    batch: SequenceBatch,
}

impl Work for Batch<'_> {
    type Done = Vec<Settled>;

    async fn on(&self, connection: &mut PgConnection) -> Result<Vec<Settled>, sqlx::Error> {
        let mut transaction = BatchTransaction {
            claims: &self.claims,
            step: Step::begin(connection, self.tools).await?,
            now: 0,
            below: Vec::new(),
            to_claim: Vec::new(),
            settled: self.claims.iter().map(|_| Settled::Later).collect(),
        };
        let mut groups = transaction.lock().await?;
        transaction.look(&mut groups).await?;
        transaction.decide(&mut groups);
        transaction.begin(&mut groups).await?;
        transaction.below().await?;
        transaction.claim().await?;
        transaction.save(&groups).await?;
        transaction.step.commit().await?;
        Ok(transaction.settled)
    }
}

/// A transaction, and what is left to ask in it.
struct BatchTransaction<'a, 'c> {
    claims: &'a [&'a Numbered],
    step: Step<'c>,
    /// Under the locks.
    now: i64,
    /// Which claims lie below the mark of their sequence, as it is now.
    below: Vec<(usize, Sequence)>,
    /// Which claims the ordinary rules decide about.
    to_claim: Vec<usize>,
    settled: Vec<Settled>,
}

impl<'a> BatchTransaction<'a, '_> {
    /// Those whose claims have been there for the longest come first.
    async fn lock(&mut self) -> Result<Vec<Group<'a>>, sqlx::Error> {
        let of = by_sequence(self.claims);
        let keys: Vec<&str> = of.iter().map(|(key, _)| *key).collect();
        let (mut known, now) = self.step.lock(&keys).await?;
        self.now = now;
        let groups = of.into_iter().filter_map(|(key, claims)| {
            let known = known.remove(key).unwrap_or(Ok(None));
            self.group(key, claims, known)
        });
        Ok(groups.collect())
    }

    /// A row that cannot be read is the trouble of its own claims only.
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

    /// Looks up how the numbers stand that stand in the way of a mark. What this transaction has no
    /// time for is left out of it.
    async fn look(&mut self, groups: &mut Vec<Group<'a>>) -> Result<(), sqlx::Error> {
        let mut left = LOOKS;
        groups.retain(|group| {
            let takes_long = group.batch.takes_long(&group.numbered(self.claims));
            let has_time = !takes_long || left > 0;
            left -= usize::from(takes_long && has_time);
            has_time
        });
        for group in groups {
            let claims = group.numbered(self.claims);
            let Some(numbers) = group.batch.wanted(&claims) else {
                continue;
            };
            // Most often it is the first of them that stands in the way of the others.
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

    /// Carries the claims out, one after the other, as far as that needs no records.
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

    /// If somebody else has begun a sequence meanwhile, its row is not locked here: after others have
    /// been written, two who did so could wait for each other.
    async fn begin(&mut self, groups: &mut Vec<Group<'a>>) -> Result<(), sqlx::Error> {
        let begun = groups
            .iter()
            .filter_map(|group| Some((group.key, group.batch.begun()?)));
        let begun: Vec<_> = begun.collect();
        let of_others = self.step.begins(&begun).await?;
        for group in groups.extract_if(.., |group| of_others.contains(&group.key)) {
            self.below.retain(|(at, _)| !group.claims.contains(at));
            self.to_claim.retain(|at| !group.claims.contains(at));
            for at in group.claims {
                self.settled[at] = Settled::InTheWay;
            }
        }
        for group in groups {
            if let Some(begun) = group.batch.begun_anew() {
                self.step.begins_anew(group.key, begun).await?;
            }
        }
        Ok(())
    }

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
                Ok(Below::Claim) => self.to_claim.push(*at),
                Err(error) => self.settled[*at] = Settled::Answered(Err(error)),
            }
        }
        Ok(())
    }

    /// Claims by the ordinary rules. Of those for one key the first is part of the statement.
    async fn claim(&mut self) -> Result<(), sqlx::Error> {
        let mut keys = HashSet::with_capacity(self.to_claim.len());
        let (first, behind): (Vec<usize>, Vec<usize>) = self
            .to_claim
            .iter()
            .partition(|at| keys.insert(self.claims[**at].call.key()));
        let calls: Vec<_> = first.iter().map(|at| &self.claims[*at].call).collect();
        let rows = self.step.claim(&calls).await?;
        let told: HashMap<&str, Told> = rows.iter().map(row::told).collect::<Result<_, _>>()?;
        for at in first {
            let call = &self.claims[at].call;
            let told = told.get(call.key().as_str()).unwrap_or(&Told::NOTHING);
            self.settled[at] = settled(call, told, call.read(told), Settled::InTheWay);
        }
        for at in behind {
            let call = &self.claims[at].call;
            let told = told.get(call.key().as_str()).unwrap_or(&Told::NOTHING);
            self.settled[at] = settled(call, told, call.read_behind(told), Settled::Later);
        }
        Ok(())
    }

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
    fn numbered(&self, claims: &[&'a Numbered]) -> Vec<&'a Numbered> {
        self.claims.iter().map(|at| claims[*at]).collect()
    }
}

/// The keys of the sequences, and which of the claims are of each.
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

fn settled(call: &ClaimCall, told: &Told, answer: Option<Claim>, otherwise: Settled) -> Settled {
    match (&told.record, answer) {
        (Err(unreadable), _) => Settled::Answered(Err(StoreError::Corrupt {
            key: call.key().to_string(),
            source: unreadable.to_string().into(),
        })),
        (Ok(_), Some(answer)) => Settled::Answered(Ok(answer)),
        (Ok(_), None) => otherwise,
    }
}
