//! Many callers that do the same, again and again, for a while.

use std::{
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::{Duration, Instant},
};

use bench_driver::stores::Pace;
use tokio::task::JoinSet;

use crate::Result;

/// When a round is over; what was begun is brought to its end, and counts.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Until {
    /// This long after its beginning.
    Over(Duration),
    /// After this many operations.
    Done(u64),
}

/// Lets `callers` do `operation` until the round is over, each one after the other. Operations are
/// numbered from zero.
///
/// # Errors
///
/// That of an operation, which ends the round.
pub(crate) async fn run<F, Fut>(callers: usize, until: Until, operation: F) -> Result<Pace>
where
    F: Fn(u64) -> Fut + Clone + Send + 'static,
    Fut: Future<Output = Result<()>> + Send + 'static,
{
    let begun = Arc::new(AtomicU64::new(0));
    let start = Instant::now();
    let mut tasks = JoinSet::new();
    for _ in 0..callers {
        tasks.spawn(call(start, until, Arc::clone(&begun), operation.clone()));
    }
    let mut operations = 0;
    while let Some(caller) = tasks.join_next().await {
        operations += caller??;
    }
    Ok(Pace {
        operations,
        seconds: start.elapsed().as_secs_f64(),
    })
}

async fn call<F, Fut>(
    start: Instant,
    until: Until,
    begun: Arc<AtomicU64>,
    operation: F,
) -> Result<u64>
where
    F: Fn(u64) -> Fut,
    Fut: Future<Output = Result<()>>,
{
    let mut operations = 0;
    loop {
        let number = begun.fetch_add(1, Ordering::Relaxed);
        let over = match until {
            Until::Over(duration) => start.elapsed() >= duration,
            Until::Done(count) => number >= count,
        };
        if over {
            return Ok(operations);
        }
        operation(number).await?;
        operations += 1;
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Mutex;

    use super::*;

    #[tokio::test]
    async fn every_operation_is_done_once_whoever_does_it() {
        let done = Arc::new(Mutex::new(Vec::new()));
        let log = Arc::clone(&done);
        let operation = move |number| {
            let log = Arc::clone(&log);
            async move {
                tokio::task::yield_now().await;
                log.lock().unwrap().push(number);
                Ok(())
            }
        };
        let pace = run(3, Until::Done(10), operation).await.unwrap();
        assert_eq!(pace.operations, 10);
        let mut done = done.lock().unwrap().clone();
        done.sort_unstable();
        assert_eq!(done, (0..10).collect::<Vec<_>>());
    }

    #[tokio::test]
    async fn a_failed_operation_fails_the_round() {
        let end = run(2, Until::Done(5), async |_| Err("no".into())).await;
        assert_eq!(end.unwrap_err().to_string(), "no");
    }
}
