//! Deduplication as people write it by hand.
//!
//! It is faster than it would be if it were right: what another task has begun counts as done, and is
//! acknowledged; there is no lease that ends and can be taken over, no fencing, no attempts and no
//! content to compare.

mod handwritten;
mod postgres;
mod redis;

use bench_orders::{Order, Tally};

pub(crate) use self::{
    handwritten::{HandwrittenPostgres, HandwrittenSqlite},
    postgres::NaivePostgres,
    redis::NaiveRedis,
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
        tally.execute(order);
        Ok(())
    }
}
