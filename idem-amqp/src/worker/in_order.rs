//! The deliveries of a stream whose mark alone says what is done: one call of the handler after the other, with as many
//! as wait.
//!
//! `consumer` hands each delivery over as it comes, and starts [`handle_in_order`] when nobody is at them. What must
//! stay true:
//!
//! - A call begins with the delivery at the mark, and has those that follow it.
//! - While the delivery at the mark is not done, nothing else is called.
//! - Once it is unknown whether a delivery is done, nothing is called on its channel any more.
//! - Each delivery is counted, also one that is left.
// docs/decisions/0049

use std::{
    panic::AssertUnwindSafe,
    sync::{
        Arc,
        atomic::{AtomicU32, Ordering::Relaxed},
    },
};

use futures_util::FutureExt as _;
use idem_core::{
    executor::{Moved, StreamMarks},
    settlement::NextCall,
};
use tokio::time::sleep;
use tracing::Instrument as _;

use super::{
    arrival::DeliveryEnd,
    channel_context::{ChannelContext, Slot},
    delivery_processor::DeliveryProcessor,
    stream::Reading,
    waiting_deliveries::{WaitingDeliveries, WaitingDelivery},
};

/// Handles what waits on a channel, until nothing does. What is not called any more is left to the broker.
pub(super) async fn handle_in_order(
    waiting: Arc<WaitingDeliveries>,
    processor: Arc<DeliveryProcessor>,
    context: Arc<ChannelContext>,
) {
    let Some(reading) = context.reading.clone() else {
        return;
    };
    let calls = Calls {
        waiting: &waiting,
        processor: &processor,
        context: &context,
        reading: &reading,
        tries: AtomicU32::new(0),
    };
    match AssertUnwindSafe(calls.until_nothing_waits())
        .catch_unwind()
        .await
    {
        Ok(true) => return,
        Ok(false) => {}
        Err(_) => {
            tracing::error!(
                queue = processor.queue.name(),
                "the code that handles messages panicked: the stream is read anew"
            );
            calls.end_reading();
        }
    }
    for left in waiting.ends() {
        left.span.in_scope(|| processor.abandon(&left.arrival));
    }
}

/// The calls on one channel.
struct Calls<'a> {
    waiting: &'a WaitingDeliveries,
    processor: &'a DeliveryProcessor,
    context: &'a ChannelContext,
    reading: &'a Reading,
    /// How often in a row the store gave no transaction.
    tries: AtomicU32,
}

impl Calls<'_> {
    /// `false` if something waits that is not called any more.
    async fn until_nothing_waits(&self) -> bool {
        loop {
            let next = tokio::select! {
                biased;
                () = self.context.stopping() => return false,
                next = self.waiting.next() => next,
            };
            let goes_on = match next {
                None => return true,
                Some(NextCall::Alone(delivery)) => self.alone(delivery).await,
                Some(NextCall::Together(deliveries)) => self.together(deliveries).await,
            };
            if !goes_on {
                return false;
            }
        }
    }

    /// Sees one delivery through. Says whether others may follow.
    async fn alone(&self, delivery: WaitingDelivery) -> bool {
        let WaitingDelivery {
            tag, arrival, span, ..
        } = delivery;
        let Self {
            processor,
            context,
            reading,
            ..
        } = self;
        if !self.is_at_the_mark(tag) {
            span.in_scope(|| processor.abandon(&arrival));
            return false;
        }
        let slot = Slot::on_arrival(context, tag);
        let served = processor.serve(tag, arrival, context, slot, None);
        served.instrument(span).await;
        let is_done = reading.is_done(tag);
        if is_done {
            self.waiting.passed(1, Vec::new());
        } else {
            // It is delivered again, and those behind it after that.
            self.end_reading();
        }
        is_done
    }

    /// Has the handler called with these. Says whether others may follow.
    async fn together(&self, mut deliveries: Vec<WaitingDelivery>) -> bool {
        let Self {
            waiting,
            processor,
            context,
            reading,
            ..
        } = self;
        let Some(moved) = self.call(&deliveries).await else {
            self.leave(deliveries);
            return false;
        };
        let error = match moved {
            Moved::Over(keys) => {
                self.tries.store(0, Relaxed);
                let rest = deliveries.split_off(keys.len());
                let passed = deliveries.len();
                for (delivery, key) in deliveries.into_iter().zip(keys) {
                    context.acknowledge(delivery.tag);
                    delivery.span.in_scope(|| {
                        let end = DeliveryEnd::executed(key);
                        processor.end(&delivery.arrival, &end, context, delivery.came);
                    });
                }
                if passed > 0 {
                    reading.mark_is_in_store();
                }
                waiting.passed(passed, rest);
                return true;
            }
            Moved::Undone(error) => {
                let messages = deliveries.len();
                if waiting.undone(deliveries) {
                    tracing::warn!(
                        queue = processor.queue.name(),
                        messages,
                        error,
                        "a call failed: it is made again with fewer messages, to find the one that it fails of"
                    );
                }
                return true;
            }
            Moved::Unavailable(error) => {
                let after = StreamMarks::AGAIN.wait(self.tries.fetch_add(1, Relaxed) + 1);
                tracing::warn!(
                    queue = processor.queue.name(),
                    error,
                    ?after,
                    "the store gives no transaction: the stream waits"
                );
                waiting.give_back(deliveries);
                tokio::select! {
                    () = sleep(after) => {}
                    () = context.stopping() => {}
                }
                return true;
            }
            Moved::Closed if context.stops() => None,
            Moved::Closed => Some("the executor was closed by somebody else".to_owned()),
            Moved::Unknown(error) => Some(error),
        };
        if let Some(error) = error {
            tracing::warn!(
                queue = processor.queue.name(),
                error,
                "whether messages of the stream are done is not known: it is read anew from its mark"
            );
        }
        self.leave(deliveries);
        self.end_reading();
        false
    }

    /// The stream is read anew from its mark, on another channel; unless this one ends by itself.
    fn end_reading(&self) {
        if !self.context.stops() {
            self.reading.end();
        }
    }

    /// Leaves these to the broker.
    fn leave(&self, deliveries: Vec<WaitingDelivery>) {
        let Self {
            processor, context, ..
        } = self;
        let is_interrupted = processor.deadline.is_cancelled();
        for WaitingDelivery {
            arrival,
            span,
            came,
            ..
        } in deliveries
        {
            span.in_scope(|| {
                if is_interrupted {
                    processor.end(&arrival, &DeliveryEnd::interrupted(), context, came);
                } else {
                    processor.abandon(&arrival);
                }
            });
        }
    }

    /// `None` if nothing is called any more, or the call was dropped when the grace period was over.
    async fn call(&self, deliveries: &[WaitingDelivery]) -> Option<Moved> {
        let Self {
            processor,
            context,
            reading,
            ..
        } = self;
        let tag = deliveries[0].tag;
        tokio::select! {
            biased;
            () = reading.until_may_start(tag) => {}
            () = context.stopping() => return None,
        }
        if !self.is_at_the_mark(tag) {
            return None;
        }
        let mut slot = Slot::on_arrival(context, tag);
        if !slot.start_running(context).await {
            return None;
        }
        // Before anything is called: the channel may end at any time.
        reading.set_may_commit(true);
        let moved = tokio::select! {
            biased;
            moved = processor.runner.move_mark(deliveries, reading) => moved,
            () = processor.deadline.cancelled() => return None,
            // It could not commit any more, and would hold locks that whoever reads now waits for.
            () = context.closed.cancelled() => return None,
        };
        reading.set_may_commit(matches!(moved, Moved::Unknown(_)));
        Some(moved)
    }

    /// Whether all before it is done. If not, the reading ends: the mark would pass what is not done.
    fn is_at_the_mark(&self, tag: u64) -> bool {
        let is_next = self.reading.is_next(tag);
        if !is_next {
            self.end_reading();
        }
        is_next
    }
}
