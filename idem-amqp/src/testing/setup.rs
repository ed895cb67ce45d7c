//! How a harness is made.

use std::sync::Arc;

use idem_core::{
    executor::RunsOn,
    handler::Handler,
    testing::{self, FaultyStore, Ground, InMemory},
};

use super::Harness;
use crate::topology::Queue;

/// A harness in the making: how the application's state is made, and what it stands on.
///
/// ```test_harness
/// # use idem_amqp::{
/// #     Policy, Queue, executor::ExecutionKind, prelude::*, testing::{Message, Setup},
/// # };
/// # #[idempotent(key = message_id(), scope = "orders.note")]
/// # async fn note(_: serde_json::Value) -> Result<(), Failed> { Err(Failed::retry("no room yet")) }
/// #[tokio::test(start_paused = true)]
/// async fn a_note_is_tried_twice() {
///     let queue = Queue::quorum("notes").policy(Policy::builder().max_attempts(2).build_const());
///     let harness = Setup::new(|| ()).consume::<note>(queue);
///     let ended = harness.see_through(&Message::json("hello").message_id("m-1")).await;
///     assert_eq!((ended.kind(), ended.attempt()), (ExecutionKind::Exhausted, Some(2)));
/// }
/// ```
#[derive(Debug)]
#[must_use]
pub struct Setup<St, G = InMemory>(testing::Setup<St, G>);

impl<St: Send + Sync + 'static> Setup<St> {
    /// Starts with what makes the application's state: the harness makes one, and
    /// [`assert_idempotent`](super::assert_idempotent) makes one for each run. `Setup::new(|| ())` is for
    /// handlers that take none.
    ///
    /// # Panics
    /// If tokio's clock is not paused.
    pub fn new(make_state: impl Fn() -> St + 'static) -> Self {
        Self(testing::Setup::new(make_state))
    }

    /// For atomic handlers that take `&mut SqliteConnection`: on a temporary file with these tables, by
    /// `CREATE TABLE` statements.
    ///
    /// # Panics
    /// If the file cannot be written, or SQLite does not understand the statements.
    #[cfg(feature = "sqlite")]
    pub async fn sqlite(self, schema: &str) -> Setup<St, super::OnSqlite> {
        Setup(self.0.sqlite(schema).await)
    }
}

impl<St: Send + Sync + 'static, G: Ground> Setup<St, G> {
    /// Consumes a queue with a handler, as a worker does: `.consume::<charge>("orders.charge")`. What the
    /// queue says about retries and policy is heeded.
    pub fn consume<H>(self, queue: impl Into<Queue>) -> Harness<H, St, G>
    where
        H: Handler<St>,
        H::Mode: RunsOn<FaultyStore<G::Store>>,
    {
        let (make, ground) = self.0.into_parts();
        let state = Arc::new(make());
        Harness::on(ground, state, make, queue.into())
    }
}
