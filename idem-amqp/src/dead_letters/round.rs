//! One way through the letters of a queue.

use futures_util::future::join_all;

use super::{
    DeadLetterStats, LetterError, LetterOutcome, LetterResult, ReplayError, Selection,
    reading::{Held, Reading},
};
use crate::{
    error::{PublishError, Source, said},
    publisher::Publisher,
    wire::DeadLetter,
};

/// What is done with the letters that are chosen.
pub(super) enum Deed<'a> {
    Look(&'a mut Vec<DeadLetter>),
    Replay,
    Discard,
}

/// One way through the letters of a queue.
pub(super) struct Round<'a> {
    pub(super) reading: Reading,
    pub(super) publisher: Publisher,
    pub(super) delivery_limit: u64,
    pub(super) observer: Option<&'a (dyn Fn(&LetterResult<'_>) + Send + Sync)>,
    pub(super) stats: DeadLetterStats,
}

impl Round<'_> {
    pub(super) async fn go(
        mut self,
        selection: &Selection,
        deed: Deed<'_>,
    ) -> Result<DeadLetterStats, ReplayError> {
        let gone_through = self.go_through(selection, deed).await;
        let done = self.stats;
        self.reading.close().await;
        match gone_through {
            Ok(()) => Ok(done),
            Err(source) => Err(ReplayError::Interrupted { done, source }),
        }
    }

    async fn go_through(
        &mut self,
        selection: &Selection,
        mut deed: Deed<'_>,
    ) -> Result<(), Source> {
        let mut room = selection.room();
        while room > 0 {
            let batch = self.reading.next().await?;
            if batch.is_empty() {
                break;
            }
            self.stats.see(batch.len());
            let (chosen, mut left): (Vec<_>, Vec<_>) = batch.into_iter().partition(|held| {
                let chosen = room > 0 && selection.picks(&held.letter);
                room -= usize::from(chosen);
                chosen
            });
            match &mut deed {
                Deed::Look(found) => {
                    found.extend(chosen.iter().map(|held| held.letter.clone()));
                    left.extend(chosen);
                }
                Deed::Replay => left.extend(self.replay(chosen).await?),
                Deed::Discard => self.discard(chosen).await?,
            }
            self.renew(left).await?;
        }
        Ok(())
    }

    /// Those that could not be sent again.
    async fn replay(&mut self, chosen: Vec<Held>) -> Result<Vec<Held>, Source> {
        let sent = join_all(chosen.iter().map(|held| self.send_again(&held.letter))).await;
        let mut left = Vec::new();
        let mut interrupted = Ok(());
        for (held, sent) in chosen.into_iter().zip(sent) {
            match sent {
                Ok(outcome @ LetterOutcome::Replayed) => {
                    self.tell(&held.letter, &outcome);
                    self.reading.acknowledge(held.tag).await.map_err(said)?;
                }
                Ok(outcome) => {
                    self.tell(&held.letter, &outcome);
                    left.push(held);
                }
                Err(error) => interrupted = Err(error.into()),
            }
        }
        interrupted.map(|()| left)
    }

    async fn send_again(&self, letter: &DeadLetter) -> Result<LetterOutcome, PublishError> {
        if let Some(flaw) = letter.unreadable() {
            let flaw = flaw.to_owned();
            return Ok(LetterOutcome::Failed(LetterError::Unreadable { flaw }));
        }
        let Some(queue) = letter.queue() else {
            return Ok(LetterOutcome::Failed(LetterError::OriginUnknown));
        };
        let queue = queue.to_owned();
        match self.publisher.publish(&letter.again(&queue)).await {
            Ok(()) => Ok(LetterOutcome::Replayed),
            Err(PublishError::Unroutable { .. }) => {
                Ok(LetterOutcome::Failed(LetterError::OriginGone { queue }))
            }
            Err(PublishError::Refused { .. }) => {
                Ok(LetterOutcome::Failed(LetterError::Refused { queue }))
            }
            Err(error) => Err(error),
        }
    }

    async fn discard(&mut self, chosen: Vec<Held>) -> Result<(), Source> {
        for held in chosen {
            self.reading.acknowledge(held.tag).await.map_err(said)?;
            self.tell(&held.letter, &LetterOutcome::Discarded);
        }
        Ok(())
    }

    /// Puts copies in the place of letters that the broker would soon drop for being returned.
    async fn renew(&mut self, left: Vec<Held>) -> Result<(), Source> {
        let old = |held: &Held| held.letter.is_close_to(self.delivery_limit);
        let old: Vec<_> = left.into_iter().filter(old).collect();
        let publisher = &self.publisher;
        let copied = old
            .iter()
            .map(async |held| publisher.publish(&held.letter.copy()).await);
        let copied = join_all(copied);
        for (held, copied) in old.iter().zip(copied.await) {
            match copied {
                Ok(()) => self.reading.acknowledge(held.tag).await.map_err(said)?,
                Err(error @ PublishError::Refused { .. }) => {
                    tracing::warn!(letter = ?held.letter, %error, "a dead letter close to its queue's delivery limit could not be replaced by a copy");
                }
                Err(error) => return Err(error.into()),
            }
        }
        Ok(())
    }

    fn tell(&mut self, letter: &DeadLetter, outcome: &LetterOutcome) {
        self.stats.count(outcome);
        if let Some(observer) = self.observer {
            observer(&LetterResult { letter, outcome });
        }
    }
}
