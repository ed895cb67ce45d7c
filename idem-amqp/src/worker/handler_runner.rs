//! One delivery from its arrival to the decision about it, by a handler whose types are known.
//!
//! `DeliveryProcessor` calls it in the delivery's task, and carries out the settlement that it returns. What must stay
//! true:
//!
//! - A delivery runs only with a running slot.
//! - Every way out is a [`DeliveryEnd`], a panic included.

use std::{
    future::{pending, ready},
    panic::{AssertUnwindSafe, catch_unwind},
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering::Relaxed},
    },
    time::Duration,
};

use futures_util::{FutureExt as _, future::BoxFuture};
use idem_core::{
    Execution, Executor, Key, Policy, Prepared, Store,
    executor::{Decoded, ExecutionKind, Moved, RunsOn, SequenceWait, Stretch, Turn},
    handler::{BatchOptions, Handler, Operation},
    settlement::{
        Circumstances, Content, Next, Retries, Room, Runner, Settlement, Tried, Tries, is_conflict,
        may_wait, settle,
    },
    store::MarkMove,
};
use tokio::time::sleep;

use super::{
    arrival::{Arrival, DeliveryEnd},
    channel_context::{ChannelContext, Slot},
    circumstances::{attempts, circumstances, counted},
    replying::reply,
    stream::Reading,
    waiting_deliveries::WaitingDelivery,
};
use crate::{
    connection::health::Waiting,
    telemetry::{AttemptEnd, FailureLog},
    topology::Queue,
    wire::{delivery::Delivery, headers, sessions},
};

mod numbered;

/// A handler without its types: what the worker's machinery sees.
pub(super) trait RunHandler: Send + Sync {
    /// Takes a delivery as far as its settlement.
    fn run<'a>(
        &'a self,
        arrival: &'a Arrival,
        queue: &'a Queue,
        context: &'a ChannelContext,
        slot: &'a mut Slot,
    ) -> BoxFuture<'a, DeliveryEnd>;

    /// How many deliveries of a stream it does in one call and commit without a record of each in the store, if it
    /// does.
    fn records_by_mark(&self) -> Option<BatchOptions> {
        None
    }

    /// Has the handler called with these, the next of the stream, and the mark moved over them.
    fn move_mark<'a>(
        &'a self,
        _deliveries: &'a [WaitingDelivery],
        _reading: &'a Reading,
    ) -> BoxFuture<'a, Moved> {
        ready(Moved::Undone(String::new())).boxed()
    }

    /// Whether its deliveries are ordered.
    fn is_ordered(&self) -> bool;

    /// What the delivery is ordered by, if its handler says so.
    fn ordered_by(&self, arrival: &Arrival) -> Option<Key>;

    /// Whether those that are ordered by the same may overtake it when it has failed.
    fn may_overtake_failed(&self) -> bool;
}

/// A handler with its store, its state and its policy.
pub(super) struct HandlerRunner<H, S, St> {
    pub(super) executor: Executor<S>,
    pub(super) state: Arc<St>,
    pub(super) policy: Policy,
    /// Whether it has told of a message that is not ordered, though its handler orders them.
    pub(super) has_met_unordered: AtomicBool,
    pub(super) handler: std::marker::PhantomData<fn() -> H>,
}

/// How long a message waits after a panic of idem's own or a type's code: in serialisation or extraction, say.
const AFTER_PANIC: Duration = Duration::from_secs(5);

impl<H, S, St> RunHandler for HandlerRunner<H, S, St>
where
    H: Handler<St>,
    H::Mode: RunsOn<S>,
    S: Store,
    St: Send + Sync + 'static,
{
    fn run<'a>(
        &'a self,
        arrival: &'a Arrival,
        queue: &'a Queue,
        context: &'a ChannelContext,
        slot: &'a mut Slot,
    ) -> BoxFuture<'a, DeliveryEnd> {
        let ran = AssertUnwindSafe(self.try_until_settled(arrival, queue, context, slot));
        let ran = ran.catch_unwind();
        Box::pin(
            ran.map(|end| {
                end.unwrap_or_else(|_| after_panic(arrival, queue, &self.policy, context))
            }),
        )
    }

    fn records_by_mark(&self) -> Option<BatchOptions> {
        self.executor.records_by_mark::<H>(&self.policy)
    }

    fn move_mark<'a>(
        &'a self,
        deliveries: &'a [WaitingDelivery],
        reading: &'a Reading,
    ) -> BoxFuture<'a, Moved> {
        Box::pin(async move {
            let Some(mark) = reading.mark_to(0) else {
                return Moved::Unknown("the handler has not begun".into());
            };
            let stretch = Stretch {
                lease: mark.lease,
                from: mark.from,
                messages: deliveries
                    .iter()
                    .map_while(WaitingDelivery::envelope_and_end)
                    .map(|(envelope, end)| (Decoded::of::<H>(envelope), end))
                    .collect(),
            };
            self.executor
                .move_mark::<H, St>(stretch, &self.policy, &*self.state)
                .await
        })
    }

    fn ordered_by(&self, arrival: &Arrival) -> Option<Key> {
        let ordered = H::ORDERED_BY?;
        // The user's decoding may panic. It does so again where the message is prepared, and is seen there.
        let order_key = catch_unwind(AssertUnwindSafe(|| ordered.of(&arrival.envelope))).ok()?;
        order_key.unwrap_or_else(|error| {
            if !self.has_met_unordered.swap(true, Relaxed) {
                tracing::warn!(scope = H::SCOPE, %error, "a message does not have what it is to be ordered by, and waits for none; others like it get no line");
            }
            None
        })
    }

    fn is_ordered(&self) -> bool {
        H::ORDERED_BY.is_some()
    }

    fn may_overtake_failed(&self) -> bool {
        H::ORDERED_BY.is_some_and(|ordered| ordered.may_overtake_failed())
    }
}

impl<H, S, St> HandlerRunner<H, S, St>
where
    H: Handler<St>,
    H::Mode: RunsOn<S>,
    S: Store,
    St: Send + Sync + 'static,
{
    async fn try_until_settled(
        &self,
        arrival: &Arrival,
        queue: &Queue,
        context: &ChannelContext,
        slot: &mut Slot,
    ) -> DeliveryEnd {
        if !slot.start_running(context).await {
            return DeliveryEnd::abandoned();
        }
        let mut circumstances = circumstances(arrival, queue, &self.policy, context);
        let mut message = match self.prepare(arrival, queue, &mut circumstances) {
            Ok(message) => as_delivered(message, arrival, context),
            Err(execution) => {
                let settlement = settle(execution.kind(), &circumstances);
                return delivery_end::<H>(arrival, &execution, None, settlement);
            }
        };
        let mut tries = Tries::new(circumstances, arrival.delivery.starts_over());
        let mut sequence_wait = None;
        // Held while the message waits: until it is dropped, the worker's health says that a store is away.
        let mut waits_for_store = None;
        loop {
            let execution = self
                .try_once(&mut message, arrival, context, &mut waits_for_store)
                .await;
            if tries.note(&tried(&execution, &message, &arrival.delivery)) {
                message.start_over();
                continue;
            }
            let kind = execution.kind();
            let room = self.make_room(
                &mut message,
                &execution,
                arrival,
                context,
                slot,
                &mut sequence_wait,
            );
            let recheck = match tries.next(kind, room) {
                Next::TryAgain => continue,
                Next::Settle(settlement) => {
                    return DeliveryEnd {
                        would_have_been: message.would_have_been(),
                        ..delivery_end::<H>(arrival, &execution, Some(message.key()), settlement)
                    };
                }
                Next::Wait(recheck) => recheck.min(numbered::longest_pause(&message)),
            };
            if execution.attempt().is_some() {
                // That attempt is over: the same owner's next claim would be taken for a repetition of its claim.
                message.renew_owner();
                let settlement = Settlement::Hold { recheck };
                log_attempt(context, queue, arrival, &message, &execution, settlement);
            }
            if waits_for_the_store(
                &execution,
                queue,
                message.key(),
                tries.count(),
                &context.failures,
            ) {
                slot.start_waiting(context);
            }
            tracing::debug!(key = %message.key(), %kind, ?recheck, "held");
            if arrival.is_ordered || arrival.keeps_place {
                // Others run meanwhile, also if there is no slot to wait.
                slot.stop_running();
            }
            let stops = wait(
                &mut message,
                kind,
                recheck,
                sequence_wait.as_ref(),
                context,
                slot,
            )
            .await;
            // A stream that stops may keep it for long, and then it is not the store that it waits for.
            waits_for_store = None;
            // What is answered runs nothing.
            if stops || !message.is_answered() && !slot.start_running(context).await {
                return delivery_end::<H>(
                    arrival,
                    &execution,
                    Some(message.key()),
                    Settlement::Leave,
                );
            }
        }
    }

    /// Gives the running slot up if the message may have to wait and there is a slot to wait in. Says what room there
    /// is to wait. A message that others wait for may wait without such a slot.
    fn make_room(
        &self,
        message: &mut Prepared<H>,
        execution: &Execution<H::Output, H::Error>,
        arrival: &Arrival,
        context: &ChannelContext,
        slot: &mut Slot,
        sequence_wait: &mut Option<SequenceWait>,
    ) -> Room {
        let kind = execution.kind();
        let is_full = may_wait(kind) && !slot.start_waiting(context) && !arrival.keeps_place;
        let begins_to_wait = self.wait_in_sequence(message, execution, sequence_wait);
        let turn = sequence_wait.as_ref().map_or(Turn::Far, SequenceWait::turn);
        Room {
            is_full,
            turn,
            is_outdated: is_full
                && match kind {
                    // This takes note of the end, and of what the message is answered with then.
                    ExecutionKind::Conflict => message.holder_ended().now_or_never().is_some(),
                    _ => begins_to_wait && turn != Turn::Near,
                },
        }
    }

    /// Has the message handled, and tells the worker's health how that went.
    async fn try_once(
        &self,
        message: &mut Prepared<H>,
        arrival: &Arrival,
        context: &ChannelContext,
        waits_for_store: &mut Option<Waiting>,
    ) -> Execution<H::Output, H::Error> {
        // `numbered.rs`: only numbered messages are ever ahead.
        if let Some(ahead) = self.ahead_with_others(message) {
            return ahead;
        }
        let handled = self.executor.handle(message, &*self.state).await;
        // What is not claimed tells nothing of the store.
        *waits_for_store = (!message.is_unclaimed())
            .then(|| context.health.saw(&handled, message.would_have_been()))
            .flatten();
        if let Some(place) = message.place_in_sequence() {
            numbered::report(&handled, &arrival.delivery, place, context);
        }
        handled
    }
}

impl<H: Operation, S, St> HandlerRunner<H, S, St> {
    /// The message, decoded and with its key, ready to be handled; or, if its publisher has withdrawn it, to be given
    /// up.
    fn prepare(
        &self,
        arrival: &Arrival,
        queue: &Queue,
        circumstances: &mut Circumstances<'_>,
    ) -> Result<Prepared<H>, Execution<H::Output, H::Error>> {
        // First: the place in a session stands in the properties, which may be unreadable.
        let flaw = unreadable(&arrival.delivery);
        if let Some(error) = flaw.or_else(|| out_of_place(&arrival.delivery, queue)) {
            return Err(Execution::Undecodable { error });
        }
        let envelope = || arrival.envelope.clone();
        // Who copies headers may have copied this one: what has a body is a message.
        if arrival.delivery.is_withdrawn()
            && arrival.envelope.body().is_empty()
            && let Some(message) = Prepared::withdrawn(envelope(), &self.policy)
        {
            circumstances.content = Content::Withdrawn;
            return Ok(message);
        }
        Prepared::new(envelope(), &self.policy)
    }
}

/// Waits until there is a point in asking again: `recheck` has passed, or what the message waits for has ended. Says
/// whether the consumer stops meanwhile.
async fn wait<H: Operation>(
    message: &mut Prepared<H>,
    kind: ExecutionKind,
    recheck: Duration,
    earlier: Option<&SequenceWait>,
    context: &ChannelContext,
    slot: &mut Slot,
) -> bool {
    if earlier.is_some() {
        // Those that it waits for need the slots among the running.
        slot.stop_running();
    }
    let over = async {
        match earlier {
            Some(earlier) => earlier.comes().await,
            None if is_conflict(kind) => message.holder_ended().await,
            None => pending().await,
        }
    };
    tokio::select! {
        () = sleep(recheck) => false,
        () = over => false,
        () = context.stopping() => true,
    }
}

/// The message, with what its delivery tells of earlier ones.
fn as_delivered<H: Operation>(
    message: Prepared<H>,
    arrival: &Arrival,
    context: &ChannelContext,
) -> Prepared<H> {
    let delivery = &arrival.delivery;
    message
        .replay(delivery.starts_over())
        .sent_again(delivery.is_replay())
        .redelivered(delivery.may_have_run())
        .attempted_before(attempts(delivery))
        .moving_mark(mark_over(arrival, context))
}

/// How the mark of its stream moves over a delivery in its handler's transaction, if it does.
fn mark_over<'a>(arrival: &Arrival, context: &'a ChannelContext) -> Option<MarkMove<'a>> {
    let (reading, _) = context.reading.as_ref().zip(context.in_order.as_ref())?;
    let offset = arrival.delivery.offset_in_stream()?;
    reading.mark_to(offset.saturating_add(1))
}

/// What a try came to, as far as that decides what comes next.
fn tried<H: Operation>(
    execution: &Execution<H::Output, H::Error>,
    message: &Prepared<H>,
    delivery: &Delivery,
) -> Tried {
    let mut tried = Tried::of(execution, message, delivery.is_replay());
    // Most brokers count deliveries themselves.
    tried.is_counted_by_delivery &= counted(delivery).is_none();
    tried
}

/// Logs what has become of an attempt.
fn log_attempt<H: Operation>(
    context: &ChannelContext,
    queue: &Queue,
    arrival: &Arrival,
    message: &Prepared<H>,
    execution: &Execution<H::Output, H::Error>,
    settlement: Settlement,
) {
    context.failures.tell(&AttemptEnd {
        queue: queue.name(),
        key: Some(message.key()),
        kind: execution.kind(),
        attempt: execution.attempt(),
        error: execution.error().as_deref(),
        would_have_been: message.would_have_been(),
        replay: arrival.delivery.is_replay(),
        settlement,
    });
}

/// What is wrong with the message's properties, if the AMQP client cannot read all of them.
pub(super) fn unreadable(delivery: &Delivery) -> Option<String> {
    let flaw = delivery.unreadable()?;
    Some(format!("its properties cannot be read: {flaw}"))
}

/// What is wrong with the place in a session that the message says it has.
fn out_of_place(delivery: &Delivery, queue: &Queue) -> Option<String> {
    match sessions::place(delivery) {
        Ok(None) => None,
        Ok(Some(_)) if queue.control_queue().is_some() => None,
        Ok(Some(_)) => Some(format!(
            "the queue `{}` serves no sessions: consume it with `consume_in_sessions`, or send the \
             message without the header `{}`",
            queue.name(),
            headers::SESSION,
        )),
        Err(error) => Some(error),
    }
}

fn after_panic(
    arrival: &Arrival,
    queue: &Queue,
    policy: &Policy,
    context: &ChannelContext,
) -> DeliveryEnd {
    let circumstances = Circumstances {
        retry_after: AFTER_PANIC,
        runner: Runner::Panicked,
        retries: if queue.stops() {
            Retries::Here
        } else {
            // Also one that others wait for: nobody is left here to try it again.
            queue.retries().into()
        },
        ..circumstances(arrival, queue, policy, context)
    };
    let kind = ExecutionKind::Failed;
    DeliveryEnd {
        error: Some("the code round the handler panicked".into()),
        settlement: settle(kind, &circumstances),
        ..DeliveryEnd::bare(kind)
    }
}

/// Whether nothing ran because of the store; says so in the log.
fn waits_for_the_store<T, E>(
    execution: &Execution<T, E>,
    queue: &Queue,
    key: &Key,
    tries: u32,
    log: &FailureLog,
) -> bool {
    match execution {
        Execution::StoreUnavailable { error } => {
            log.waits_for_store(queue.name(), key, tries, error);
        }
        Execution::RecordCorrupt { error } => {
            log.waits_for_record(queue.name(), key, tries, error);
        }
        _ => return false,
    }
    true
}

fn delivery_end<H: Operation>(
    arrival: &Arrival,
    execution: &Execution<H::Output, H::Error>,
    key: Option<&Key>,
    settlement: Settlement,
) -> DeliveryEnd {
    DeliveryEnd {
        kind: execution.kind(),
        key: key.cloned(),
        attempt: execution.attempt(),
        would_have_been: None,
        error: execution.error(),
        settlement,
        stale_number: numbered::is_stale(execution, &arrival.delivery),
        reply: (arrival.envelope.expects_reply())
            .then(|| reply::<H>(execution, settlement))
            .flatten(),
    }
}
