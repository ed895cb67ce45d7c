//! How often each order was executed, and since when.

use std::{
    sync::{
        Arc, OnceLock,
        atomic::{AtomicU32, AtomicU64, Ordering::Relaxed},
    },
    time::{Duration, Instant},
};

use tokio::time::sleep;

use crate::{Error, Order, Result, Stopwatch};

/// What a contestant's handler counts with; clones count together.
#[derive(Clone, Debug)]
pub struct Tally {
    counts: Arc<Counts>,
    stopwatch: Option<Arc<Stopwatch>>,
    /// Times what is published for each order.
    events: Option<Arc<Stopwatch>>,
    /// When that is to leave.
    events_after: Duration,
    handler_time: Duration,
}

#[derive(Debug)]
struct Counts {
    /// Before the first delivery.
    began: Instant,
    /// Nanoseconds after that.
    first_delivery: AtomicU64,
    /// How many copies of each order are in the queue.
    copies: Vec<u32>,
    executions: Vec<AtomicU32>,
    failure: OnceLock<String>,
}

impl Tally {
    /// For a queue with these orders.
    pub fn new(orders: &[usize]) -> Self {
        let distinct = orders.iter().max().map_or(0, |last| last + 1);
        let mut copies = vec![0; distinct];
        for &order in orders {
            copies[order] += 1;
        }
        Self {
            counts: Arc::new(Counts {
                began: Instant::now(),
                first_delivery: AtomicU64::new(u64::MAX),
                executions: copies.iter().map(|_| AtomicU32::new(0)).collect(),
                copies,
                failure: OnceLock::new(),
            }),
            stopwatch: None,
            events: None,
            events_after: Duration::ZERO,
            handler_time: Duration::ZERO,
        }
    }

    /// One that times each order, too.
    pub fn timed_by(self, stopwatch: Arc<Stopwatch>) -> Self {
        Self {
            stopwatch: Some(stopwatch),
            ..self
        }
    }

    /// One that times what is published for each order, from the end of its handler, and has it leave so long after.
    pub fn with_events_timed_by(self, events: Arc<Stopwatch>, after: Duration) -> Self {
        Self {
            events: Some(events),
            events_after: after,
            ..self
        }
    }

    /// One whose handlers take this long.
    pub fn taking(self, handler_time: Duration) -> Self {
        Self {
            handler_time,
            ..self
        }
    }

    /// What takes its time in a handler, once a call: a service that is asked, say.
    pub async fn work(&self) {
        if !self.handler_time.is_zero() {
            sleep(self.handler_time).await;
        }
    }

    /// The order of this id is acknowledged, or about to be.
    pub fn done(&self, id: &str) {
        if let Some(stopwatch) = &self.stopwatch {
            stopwatch.stop(id);
        }
    }

    /// What the handler is for.
    pub fn execute(&self, order: &Order) {
        self.counts.executions[order.number].fetch_add(1, Relaxed);
        let delivered = order.delivered.duration_since(self.counts.began);
        let delivered = u64::try_from(delivered.as_nanos()).unwrap_or(u64::MAX);
        self.counts.first_delivery.fetch_min(delivered, Relaxed);
    }

    /// How long after its order an event is to leave; zero for at once.
    pub fn events_after(&self) -> Duration {
        self.events_after
    }

    /// The handler of an order has published its event, and returns.
    pub fn published(&self, order: &Order) {
        if let Some(events) = &self.events {
            events.start(order.number);
        }
    }

    /// For tasks that nobody waits for: what went wrong is told in the end.
    pub fn note(&self, outcome: Result<()>) {
        if let Err(error) = outcome {
            let _ = self.counts.failure.set(error.to_string());
        }
    }

    /// How many orders there are.
    pub fn orders(&self) -> usize {
        self.counts.copies.len()
    }

    /// When the first order was decoded, if any was executed.
    pub fn first_delivery(&self) -> Option<Instant> {
        let after = self.counts.first_delivery.load(Relaxed);
        (after < u64::MAX).then(|| self.counts.began + Duration::from_nanos(after))
    }

    /// From the first delivery until `end`; none if there was no delivery.
    pub fn seconds_until(&self, end: Instant) -> f64 {
        let total = self.first_delivery().map(|first| end - first);
        total.unwrap_or_default().as_secs_f64()
    }

    /// How often each order has been executed so far.
    pub fn counts(&self) -> Vec<u32> {
        let counts = self.counts.executions.iter();
        counts.map(|count| count.load(Relaxed)).collect()
    }

    /// Counts what another process has executed.
    pub fn add(&self, counts: &[u32]) {
        for (count, more) in self.counts.executions.iter().zip(counts) {
            count.fetch_add(*more, Relaxed);
        }
    }

    /// How many executions there were, if each order was executed as often as it should be: once,
    /// or once for each copy.
    ///
    /// # Errors
    /// It was not; or something was [noted](Self::note).
    pub fn executions(&self, deduplicated: bool) -> Result<u32> {
        if let Some(failure) = self.counts.failure.get() {
            return Err(failure.as_str().into());
        }
        let mut total = 0;
        for (number, copies) in self.counts.copies.iter().enumerate() {
            let expected = if deduplicated { 1 } else { *copies };
            let executed = self.counts.executions[number].load(Relaxed);
            if executed != expected {
                return Err(wrong(number, executed, expected));
            }
            total += executed;
        }
        Ok(total)
    }
}

fn wrong(number: usize, executed: u32, expected: u32) -> Error {
    format!("order {number} was executed {executed} times instead of {expected}").into()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::body;

    fn order(number: usize) -> Order {
        Order::decode(&body(number)).unwrap()
    }

    /// Two orders, of the first two copies.
    fn executed(numbers: &[usize]) -> Tally {
        let tally = Tally::new(&[0, 1, 0]);
        for &number in numbers {
            tally.execute(&order(number));
        }
        tally
    }

    #[test]
    fn each_order_is_counted_by_itself() {
        assert_eq!(executed(&[0, 1]).executions(true).unwrap(), 2);
        assert_eq!(executed(&[0, 1, 0]).executions(false).unwrap(), 3);
        for (numbers, deduplicated, complaint) in [
            (
                &[0, 1, 0][..],
                true,
                "order 0 was executed 2 times instead of 1",
            ),
            (&[0][..], true, "order 1 was executed 0 times instead of 1"),
            (
                &[0, 1, 1][..],
                false,
                "order 0 was executed 1 times instead of 2",
            ),
        ] {
            let error = executed(numbers).executions(deduplicated).unwrap_err();
            assert_eq!(error.to_string(), complaint);
        }
    }

    #[test]
    fn what_other_processes_executed_counts_too() {
        let sum = executed(&[0]);
        sum.add(&executed(&[1]).counts());
        assert_eq!(sum.executions(true).unwrap(), 2);
        sum.add(&executed(&[1]).counts());
        assert_eq!(sum.counts(), [1, 2]);
        assert!(sum.executions(true).is_err());
    }

    #[test]
    fn no_delivery_takes_no_time() {
        let tally = executed(&[]);
        assert_eq!(tally.first_delivery(), None);
        assert!(tally.seconds_until(Instant::now()) < 1e-9);
    }

    #[test]
    fn a_failed_task_fails_the_count() {
        let tally = executed(&[0, 1]);
        tally.note(Err("the connection is gone".into()));
        let error = tally.executions(true).unwrap_err();
        assert_eq!(error.to_string(), "the connection is gone");
    }

    #[test]
    fn time_runs_from_the_first_delivery_whoever_is_executed_first() {
        let tally = Tally::new(&[0, 1]);
        let delivered = |number, after| Order {
            delivered: tally.counts.began + Duration::from_secs(after),
            ..order(number)
        };
        tally.execute(&delivered(1, 3));
        tally.execute(&delivered(0, 2));
        let end = tally.counts.began + Duration::from_secs(10);
        assert!((tally.seconds_until(end) - 8.0).abs() < 1e-6);
    }
}
