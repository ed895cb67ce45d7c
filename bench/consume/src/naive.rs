//! Deduplication as people write it by hand.
//!
//! It is faster than it would be if it were right: what another task has begun counts as done, and is
//! acknowledged; there is no lease that ends and can be taken over, no fencing, no attempts and no
//! content to compare.

mod handwritten;
mod offset;
mod outbox;
mod postgres;
mod redis;
mod setwise;

use bench_orders::{Order, Tally};

pub(crate) use self::{
    handwritten::{HandwrittenPostgres, HandwrittenSqlite},
    offset::Offset,
    outbox::HandwrittenOutbox,
    postgres::NaivePostgres,
    redis::NaiveRedis,
    setwise::{Savepoints, Setwise, SqliteSavepoints},
};
use crate::Result;

/// What is done with a message before it is acknowledged.
pub(crate) trait Handle: Clone + Send + Sync + 'static {
    /// Executes the order, or sees that it has been executed before.
    fn handle(&self, order: &Order, tally: &Tally) -> impl Future<Output = Result<()>> + Send;
}

/// Executes every copy.
impl Handle for () {
    async fn handle(&self, order: &Order, tally: &Tally) -> Result<()> {
        tally.work().await;
        tally.execute(order);
        Ok(())
    }
}

/// What is done with several messages before they are acknowledged.
pub(crate) trait HandleTogether {
    /// Executes the orders that were not executed before, and commits. Returns the places of those that failed, of
    /// which nothing is left.
    fn handle(
        &mut self,
        orders: &[Order],
        tally: &Tally,
    ) -> impl Future<Output = Result<Vec<usize>>> + Send;

    /// The next orders end here in a stream.
    fn reach(&mut self, _offset: i64) {}
}

/// Executes every copy.
impl HandleTogether for () {
    async fn handle(&mut self, orders: &[Order], tally: &Tally) -> Result<Vec<usize>> {
        for order in orders {
            tally.work().await;
            tally.execute(order);
        }
        Ok(Vec::new())
    }
}
