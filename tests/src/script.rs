//! A handler that does what the test says, and writes down what it did.

use std::{fmt, sync::Arc};

use futures_util::future::BoxFuture;
use idem_amqp::{handler::Member, prelude::*, sqlx::PgConnection};
use serde::{Deserialize, Serialize};
use tokio::{sync::Semaphore, time::Instant};

use crate::{
    journal::Journal,
    ledger::{Charge, in_postgres},
    manner::Manner,
};

/// The message of most tests.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Order {
    /// The key.
    pub id: String,
    /// Content that is not the key.
    pub amount_cents: i64,
    /// How it behaves at workers that are processes of their own.
    #[serde(default, skip_serializing_if = "Manner::is_ordinary")]
    pub manner: Manner,
}

impl Order {
    /// An order for 12.99.
    pub fn new(id: &str) -> Self {
        Self {
            id: id.into(),
            amount_cents: 1299,
            manner: Manner::Ordinary,
        }
    }

    /// Whether its handler takes its time.
    pub fn is_slow(&self) -> bool {
        self.id.starts_with("slow")
    }

    /// Whether it fails the call for all orders that share it.
    pub fn is_poison(&self) -> bool {
        self.id.starts_with("poison")
    }

    /// The same, behaving like this.
    #[must_use]
    pub fn behaving(mut self, manner: Manner) -> Self {
        self.manner = manner;
        self
    }
}

/// One time that the handler was called.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Call {
    /// The order's id.
    pub id: String,
    /// The queue it came from.
    pub queue: String,
    /// Which attempt it is.
    pub attempt: u32,
    /// Whether the broker had delivered the message before.
    pub redelivered: bool,
    /// Whether the attempt before ended without a word.
    pub in_doubt: bool,
    /// When it was called.
    pub at: Instant,
}

impl Call {
    fn of_member(order: &Member<Order>) -> Self {
        let delivery = order.envelope().extension::<Delivery>();
        let delivery = delivery.expect("the worker says how it was delivered");
        Self {
            id: order.id.clone(),
            queue: delivery.queue().into(),
            attempt: order.attempt().number(),
            redelivered: delivery.is_redelivered(),
            in_doubt: order.attempt().is_in_doubt(),
            at: Instant::now(),
        }
    }
}

/// What a handler does; the worker's state. Clones share the journals.
#[derive(Clone)]
pub struct Script {
    act: Arc<Act>,
    /// Calls of the handler.
    pub calls: Journal<Call>,
    /// Calls that returned `Ok`.
    pub effects: Journal<Call>,
    /// Calls whose future was dropped before it returned.
    pub dropped: Journal<Call>,
    /// The orders of each call of a handler that takes several at once.
    pub batches: Journal<Vec<String>>,
}

type Act = dyn Fn(Call) -> BoxFuture<'static, Result<(), Failed>> + Send + Sync;

impl Script {
    /// A handler that does this.
    pub fn new<Fut>(act: impl Fn(Call) -> Fut + Send + Sync + 'static) -> Self
    where
        Fut: Future<Output = Result<(), Failed>> + Send + 'static,
    {
        Self {
            act: Arc::new(move |call| Box::pin(act(call))),
            calls: Journal::default(),
            effects: Journal::default(),
            dropped: Journal::default(),
            batches: Journal::default(),
        }
    }

    /// A handler that always succeeds.
    pub fn succeeding() -> Self {
        Self::new(async |_| Ok(()))
    }

    /// A handler that never returns.
    pub fn hanging() -> Self {
        Self::new(async |_| std::future::pending().await)
    }

    /// A handler whose calls wait for a permit each, if they are of this kind, and succeed then. All others succeed at
    /// once.
    pub fn waiting(
        waits: impl Fn(&Call) -> bool + Send + Sync + 'static,
    ) -> (Self, Arc<Semaphore>) {
        let gate = Arc::new(Semaphore::new(0));
        let opened = Arc::clone(&gate);
        let script = Self::new(move |call| {
            let gate = waits(&call).then(|| Arc::clone(&opened));
            async move {
                if let Some(gate) = gate {
                    gate.acquire().await?.forget();
                }
                Ok(())
            }
        });
        (script, gate)
    }

    /// A handler whose calls for the order `slow` wait for a permit each.
    pub fn slow() -> (Self, Arc<Semaphore>) {
        Self::waiting(|call| call.id == "slow")
    }

    /// Does what the test says.
    ///
    /// # Errors
    /// If the test says so.
    pub async fn play(
        self,
        order: Order,
        attempt: Attempt,
        delivery: Delivery,
    ) -> Result<(), Failed> {
        let call = Call {
            id: order.id,
            queue: delivery.queue().into(),
            attempt: attempt.number(),
            redelivered: delivery.is_redelivered(),
            in_doubt: attempt.is_in_doubt(),
            at: Instant::now(),
        };
        self.calls.write(call.clone());
        let mut unfinished = Unfinished {
            call: Some(call.clone()),
            dropped: self.dropped.clone(),
        };
        let ended = (self.act)(call.clone()).await;
        unfinished.call = None;
        if ended.is_ok() {
            self.effects.write(call);
        }
        ended
    }

    /// Does what the test says for each order of a batch, one after the other. An order of which the test says an error
    /// is failed by its place.
    pub async fn begin_batch(&self, orders: &Batch<Order>) {
        let ids = orders.iter().map(|order| order.id.clone());
        self.batches.write(ids.collect());
        for (place, order) in orders.iter().enumerate() {
            let call = Call::of_member(order);
            self.calls.write(call.clone());
            if let Err(error) = (self.act)(call).await {
                orders.fail(place, error);
            }
        }
    }

    /// Ends the call: an order that is [poison](Order::is_poison) fails it, after all was written.
    ///
    /// # Errors
    /// If one is.
    pub fn end_batch(&self, orders: &Batch<Order>) -> Result<Vec<String>, Failed> {
        if orders.accepted().any(|order| order.is_poison()) {
            return Err(Failed::rejected("nobody can swallow it"));
        }
        let ended = orders.accepted().map(|order| {
            self.effects.write(Call::of_member(order));
            order.id.clone()
        });
        Ok(ended.collect())
    }

    /// How many orders the largest batch had.
    pub fn largest_batch(&self) -> usize {
        let batches = self.batches.entries();
        batches.iter().map(Vec::len).max().unwrap_or(0)
    }

    /// No order lost, none doubled: exactly these took effect, once each.
    ///
    /// # Panics
    /// If others did, or one of them did more than once.
    #[track_caller]
    pub fn assert_effects<I: AsRef<str>>(&self, ids: impl IntoIterator<Item = I>) {
        let mut expected: Vec<_> = ids.into_iter().map(|id| id.as_ref().to_owned()).collect();
        let mut effects: Vec<_> = self.effects.entries().into_iter().map(|e| e.id).collect();
        expected.sort();
        effects.sort();
        assert_eq!(effects, expected, "effects, and the orders expected");
    }

    /// The attempts of all calls, in their order.
    pub fn attempts(&self) -> Vec<u32> {
        let calls = self.calls.entries();
        calls.into_iter().map(|call| call.attempt).collect()
    }
}

struct Unfinished {
    call: Option<Call>,
    dropped: Journal<Call>,
}

impl Drop for Unfinished {
    fn drop(&mut self) {
        if let Some(call) = self.call.take() {
            self.dropped.write(call);
        }
    }
}

impl fmt::Debug for Script {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Script")
            .field("calls", &self.calls.entries())
            .finish_non_exhaustive()
    }
}

/// Charges an order, as the script says.
///
/// # Errors
/// If the script says so.
#[idempotent(key = "id", scope = "orders.charge")]
pub async fn charge(
    order: Order,
    State(script): State<Script>,
    attempt: Attempt,
    delivery: Delivery,
) -> Result<(), Failed> {
    script.play(order, attempt, delivery).await
}

/// The same in a transaction of `PostgreSQL`, with a row of its own.
///
/// # Errors
/// If the script says so, or the row cannot be written.
#[idempotent(key = "id", scope = "orders.charge")]
pub async fn charge_on_postgres(
    order: Order,
    State(script): State<Script>,
    attempt: Attempt,
    delivery: Delivery,
    db: &mut PgConnection,
) -> Result<(), Failed> {
    in_postgres::write(db, &Charge::new(&order.id, attempt.number(), "here")).await?;
    script.play(order, attempt, delivery).await
}

/// Another handler of the same orders, with a scope of its own.
///
/// # Errors
/// If the script says so.
#[idempotent(key = "id", scope = "orders.notify")]
pub async fn notify(
    order: Order,
    State(script): State<Script>,
    attempt: Attempt,
    delivery: Delivery,
) -> Result<(), Failed> {
    script.play(order, attempt, delivery).await
}
