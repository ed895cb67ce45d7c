//! One delivery from arrival to verdict, by a handler whose types are known.

use std::{panic::AssertUnwindSafe, sync::Arc, time::Duration};

use futures_util::{
    FutureExt as _,
    future::{BoxFuture, Either},
};
use idem_core::{
    Envelope, Execution, ExecutionKind, Executor, Handler, HeaderSource as _, Key, Policy,
    Prepared, RunsOn, Store,
};
use tokio::time::{Instant, sleep};

use super::desk::{Desk, Seat};
use crate::{
    Queue,
    delivery::Delivery,
    retry::conflicts,
    settlement::{Circumstances, Settlement, settle},
};

/// A message as it arrived.
#[derive(Debug)]
pub(super) struct Arrival {
    pub(super) delivery: Delivery,
    pub(super) envelope: Envelope,
}

/// How a delivery ended, and what is to be done about it.
#[derive(Debug)]
pub(super) struct End {
    pub(super) kind: ExecutionKind,
    pub(super) key: Option<Key>,
    pub(super) attempt: Option<u32>,
    pub(super) error: Option<String>,
    pub(super) settlement: Settlement,
}

impl End {
    /// Nothing ran, and nothing is decided.
    pub(super) fn abandoned() -> Self {
        Self::bare(ExecutionKind::Abandoned)
    }

    /// The worker stopped while the handler was running.
    pub(super) fn interrupted() -> Self {
        Self::bare(ExecutionKind::Interrupted)
    }

    fn bare(kind: ExecutionKind) -> Self {
        Self {
            kind,
            key: None,
            attempt: None,
            error: None,
            settlement: Settlement::Leave,
        }
    }
}

/// A handler without its types: what the worker's machinery sees.
pub(super) trait Attend: Send + Sync {
    /// Takes a delivery as far as its settlement.
    fn attend<'a>(
        &'a self,
        arrival: &'a Arrival,
        queue: &'a Queue,
        desk: &'a Desk,
        seat: &'a mut Seat,
    ) -> BoxFuture<'a, End>;
}

/// A handler with its store, its state and its policy.
pub(super) struct Attendant<H, S, St> {
    pub(super) executor: Executor<S>,
    pub(super) state: Arc<St>,
    pub(super) policy: Policy,
    pub(super) handler: std::marker::PhantomData<fn() -> H>,
}

/// After a bug of the handler's own serialisation or extraction code, say.
const AFTER_PANIC: Duration = Duration::from_secs(5);

impl<H, S, St> Attend for Attendant<H, S, St>
where
    H: Handler<St>,
    H::Mode: RunsOn<S>,
    S: Store,
    St: Send + Sync + 'static,
{
    fn attend<'a>(
        &'a self,
        arrival: &'a Arrival,
        queue: &'a Queue,
        desk: &'a Desk,
        seat: &'a mut Seat,
    ) -> BoxFuture<'a, End> {
        let attended = AssertUnwindSafe(self.attend_typed(arrival, queue, desk, seat));
        let attended = attended.catch_unwind();
        Box::pin(attended.map(|end| end.unwrap_or_else(|_| after_panic(arrival, queue, desk))))
    }
}

impl<H, S, St> Attendant<H, S, St>
where
    H: Handler<St>,
    H::Mode: RunsOn<S>,
    S: Store,
    St: Send + Sync + 'static,
{
    async fn attend_typed(
        &self,
        arrival: &Arrival,
        queue: &Queue,
        desk: &Desk,
        seat: &mut Seat,
    ) -> End {
        if !seat.sit_down(desk).await {
            return End::abandoned();
        }
        let mut now = circumstances(arrival, queue, desk);
        let mut message = match Prepared::<H>::new(arrival.envelope.clone(), &self.policy) {
            Ok(message) => message.replay(arrival.delivery.starts_over()),
            Err(ended) => return end(&ended, None, settle(ended.kind(), &now)),
        };
        let mut conflict_since = None;
        let mut _waits_for_store;
        loop {
            let execution = self.executor.handle(&mut message, &*self.state).await;
            _waits_for_store = desk.vitals.saw(&execution);
            now.claims += 1;
            now.random = fastrand::f64();
            let conflict = matches!(execution, Execution::Conflict { .. });
            if conflict {
                now.held = conflict_since.get_or_insert_with(Instant::now).elapsed();
            }
            match execution {
                Execution::Conflict { remaining } => now.remaining = remaining,
                Execution::Failed { retry_after, .. } => now.retry_after = retry_after,
                _ => {}
            }
            if has_to_wait(execution.kind()) {
                now.full = !seat.step_aside(desk);
            }
            let settlement = settle(execution.kind(), &now);
            let Settlement::Hold { recheck } = settlement else {
                return end(&execution, Some(message.key()), settlement);
            };
            if execution.attempt().is_some() {
                message.renew_owner();
            }
            if waits_for_the_store(&execution, message.key(), now.claims) {
                seat.step_aside(desk);
            }
            tracing::debug!(key = %message.key(), kind = %execution.kind(), ?recheck, "held");
            let holder_ended = if conflict {
                Either::Left(self.executor.holder_ended(message.key()))
            } else {
                Either::Right(std::future::pending())
            };
            tokio::select! {
                () = sleep(recheck) => {}
                () = holder_ended => {}
                () = desk.stopping() => {
                    return end(&execution, Some(message.key()), Settlement::Leave);
                }
            }
            if !seat.sit_down(desk).await {
                return end(&execution, Some(message.key()), Settlement::Leave);
            }
        }
    }
}

fn circumstances<'a>(arrival: &Arrival, queue: &'a Queue, desk: &Desk) -> Circumstances<'a> {
    Circumstances {
        conflicts: conflicts(&arrival.delivery),
        returns: returns(&arrival.delivery),
        last_returns: arrival.delivery.is_close_to(desk.delivery_limit),
        ..Circumstances::new(queue.retries())
    }
}

/// How often the message was returned. Where the broker does not count, once is taken for often.
fn returns(delivery: &Delivery) -> u32 {
    let counts = ["x-acquired-count", "x-delivery-count"];
    let count = counts
        .iter()
        .find_map(|name| delivery.get(name)?.parse().ok());
    match count {
        Some(count) => count,
        None if delivery.is_redelivered() => u32::MAX,
        None => 0,
    }
}

/// Whether the message is not done with, and does not need its place among the running.
fn has_to_wait(kind: ExecutionKind) -> bool {
    use ExecutionKind as Kind;
    matches!(kind, Kind::Conflict | Kind::Failed | Kind::LeaseLost)
}

fn after_panic(arrival: &Arrival, queue: &Queue, desk: &Desk) -> End {
    let now = Circumstances {
        retry_after: AFTER_PANIC,
        ..circumstances(arrival, queue, desk)
    };
    End {
        error: Some("the code round the handler panicked".into()),
        settlement: settle(ExecutionKind::Failed, &now),
        ..End::bare(ExecutionKind::Failed)
    }
}

/// Whether nothing ran because of the store; says so in the log.
fn waits_for_the_store<T, E>(execution: &Execution<T, E>, key: &Key, claims: u32) -> bool {
    match execution {
        Execution::StoreUnavailable { error } => {
            let error: &(dyn std::error::Error + 'static) = error;
            tracing::warn!(%key, claims, error, "the store cannot be asked, the message waits");
        }
        Execution::RecordCorrupt { error } => {
            let error: &(dyn std::error::Error + 'static) = error;
            tracing::error!(%key, claims, error, "the store's record of this key cannot be read: mend or delete it; the message waits");
        }
        _ => return false,
    }
    true
}

fn end<T, E: idem_core::Failure>(
    execution: &Execution<T, E>,
    key: Option<&Key>,
    settlement: Settlement,
) -> End {
    End {
        kind: execution.kind(),
        key: key.cloned(),
        attempt: execution.attempt(),
        error: execution.error(),
        settlement,
    }
}
