//! What is particular to numbered messages: their waits, and what they tell of their sequences.

use std::time::Duration;

use idem_core::{
    Execution, Prepared, Store,
    executor::SequenceWait,
    handler::{Answer, Operation, Refusal},
    message::SequencePlace,
};

use super::{super::channel_context::ChannelContext, HandlerRunner};
use crate::wire::delivery::Delivery;

/// How long what waits for a missing number may be silent, so that it is skipped in time: half of that
/// would be too long for the store.
pub(super) fn longest_pause<H: Operation>(message: &Prepared<H>) -> Duration {
    let place = message.place_in_sequence();
    let patience = place.and_then(|place| place.skip_after);
    patience.map_or(Duration::MAX, |patience| patience / 4)
}

impl<H: Operation, S: Store, St> HandlerRunner<H, S, St> {
    /// A message that is ahead waits for its turn. Says whether it begins to.
    pub(super) fn wait_in_sequence<T, E>(
        &self,
        message: &Prepared<H>,
        execution: &Execution<T, E>,
        wait: &mut Option<SequenceWait>,
    ) -> bool {
        let waited = wait.is_some();
        match (execution, message.place_in_sequence()) {
            (Execution::Ahead { mark, .. }, Some(place)) if !waited => {
                *wait = Some(self.executor.wait_in_sequence(place, *mark));
            }
            (Execution::Ahead { mark, .. }, Some(_)) => {
                if let Some(wait) = wait {
                    wait.is_still_ahead(*mark);
                }
            }
            _ => *wait = None,
        }
        wait.is_some() && !waited
    }

    /// If a lower number of its sequence is known to be ahead, so is this one.
    pub(super) fn ahead_with_others<T, E>(&self, message: &Prepared<H>) -> Option<Execution<T, E>> {
        let place = message.place_in_sequence()?;
        let mark = self.executor.waiting_below(place)?;
        let window = place.window;
        Some(Execution::Ahead { mark, window })
    }
}

/// Tells whether it has to wait for an earlier one, or comes long after its number was done.
pub(super) fn report<T, E>(
    execution: &Execution<T, E>,
    delivery: &Delivery,
    place: &SequencePlace,
    context: &ChannelContext,
) {
    let queue = delivery.queue();
    if is_stale(execution, delivery) {
        context.health.stale_number(queue, place);
    }
    let ahead_of = match execution {
        Execution::Ahead { mark, .. } => Some(*mark),
        // Nothing was learned.
        Execution::StoreUnavailable { .. }
        | Execution::Undecodable { .. }
        | Execution::Invalid { .. } => return,
        _ => None,
    };
    context.health.numbered(queue, place, ahead_of);
}

/// Whether it comes for the first time, and its number was done so long ago that nothing is kept of it:
/// its producer may have used the number twice.
pub(super) fn is_stale<T, E>(execution: &Execution<T, E>, delivery: &Delivery) -> bool {
    let Execution::Duplicate { outcome, .. } = execution else {
        return false;
    };
    let forgotten = matches!(
        outcome.answer(),
        Answer::Forgotten(refusal) if refusal.code() == Refusal::STALE
    );
    forgotten && !delivery.may_have_run() && !delivery.is_replay()
}
