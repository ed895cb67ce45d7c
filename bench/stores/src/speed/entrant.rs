//! One of the two that are compared, with the names that it has completed.

use std::{sync::Arc, time::Duration};

use bench_driver::stores::{Measurement, Pace, Side};

use crate::{
    Result,
    contender::Contender,
    names::Names,
    round::{self, Until},
    tell,
};

/// How many keys of a round are claimed again after it, to see that they are completed.
const SAMPLE: u64 = 500;

#[derive(Debug)]
pub(crate) struct Entrant<C> {
    side: Side,
    code: Arc<C>,
    names: Arc<Names>,
    /// Of a hundred operations.
    duplicates: u64,
}

impl<C: Contender> Entrant<C> {
    pub(crate) fn new(side: Side, code: C, duplicates: u64) -> Self {
        Self {
            side,
            code: Arc::new(code),
            names: Arc::new(Names::new()),
            duplicates,
        }
    }

    /// How many keys it has completed.
    pub(crate) fn completed(&self) -> u64 {
        self.names.handed_out()
    }

    /// A round that nobody hears of; all that it does is new, so that there are names to repeat.
    pub(crate) async fn warm_up(&self, callers: usize, over: Duration) -> Result<()> {
        let (code, names) = (Arc::clone(&self.code), Arc::clone(&self.names));
        let first = move |_| {
            let (code, names) = (Arc::clone(&code), Arc::clone(&names));
            async move { code.first(&names.next()).await }
        };
        round::run(callers, Until::Over(over), first).await?;
        Ok(())
    }

    /// A round, told, and its keys looked at.
    pub(crate) async fn perform(&self, callers: usize, over: Duration) -> Result<()> {
        let before = self.completed();
        let pace = self.round(callers, over, before).await?;
        self.look_at(before..self.completed(), callers).await?;
        tell::measured(&Measurement::Speed {
            callers,
            side: self.side,
            pace,
        })
    }

    async fn round(&self, callers: usize, over: Duration, completed: u64) -> Result<Pace> {
        let (code, names) = (Arc::clone(&self.code), Arc::clone(&self.names));
        let duplicates = self.duplicates;
        let operation = move |number: u64| {
            let (code, names) = (Arc::clone(&code), Arc::clone(&names));
            async move {
                // A first round that is over before anything is done has nothing to repeat.
                if completed > 0 && number % 100 < duplicates {
                    code.again(&names.name(number % completed)).await
                } else {
                    code.first(&names.next()).await
                }
            }
        };
        round::run(callers, Until::Over(over), operation).await
    }

    /// Claims some of the keys again: each must be completed.
    async fn look_at(&self, numbers: std::ops::Range<u64>, callers: usize) -> Result<()> {
        let count = SAMPLE.min(numbers.end - numbers.start);
        let step = (numbers.end - numbers.start) / count.max(1);
        let (code, names) = (Arc::clone(&self.code), Arc::clone(&self.names));
        let again = move |number| {
            let (code, names) = (Arc::clone(&code), Arc::clone(&names));
            async move { code.again(&names.name(numbers.start + number * step)).await }
        };
        round::run(callers, Until::Done(count), again).await?;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{naive::NaiveMemory, ours::Ours};
    use idem_core::{
        Key, MemoryStore, Policy, Store,
        store::{Claim, ClaimRequest},
    };

    #[tokio::test]
    async fn a_round_completes_keys_that_nobody_else_completes() {
        let store = MemoryStore::new();
        let entrant = Entrant::new(Side::Idem, Ours(store.clone()), 10);
        let moment = Duration::from_millis(5);
        entrant.warm_up(3, moment).await.unwrap();
        entrant.round(3, moment, entrant.completed()).await.unwrap();
        for number in 0..entrant.completed() {
            let key = Key::new("orders.charge", entrant.names.name(number)).unwrap();
            let claim = store.claim(&ClaimRequest::new(key, &Policy::DEFAULT)).await;
            assert!(matches!(claim, Ok(Claim::Completed { .. })), "{claim:?}");
        }
    }

    #[tokio::test]
    async fn a_key_that_is_not_completed_is_noticed() {
        let entrant = Entrant::new(Side::Naive, NaiveMemory::default(), 0);
        let _never_completed = entrant.names.next();
        let error = entrant.look_at(0..1, 1).await.unwrap_err().to_string();
        assert!(error.ends_with("is not done"), "{error}");
    }
}
