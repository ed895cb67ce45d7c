//! When each message was published, and when its consumer was done with it.

use std::{
    collections::HashMap,
    sync::{Mutex, MutexGuard, PoisonError},
    time::{Duration, Instant},
};

use tokio::sync::Notify;

use crate::{Result, id};

/// One for the publisher and its consumer.
#[derive(Debug)]
pub struct Stopwatch {
    /// By the orders' ids.
    numbers: HashMap<String, usize>,
    times: Mutex<Vec<Time>>,
    stopped: Notify,
}

#[derive(Clone, Copy, Debug)]
enum Time {
    Unknown,
    Since(Instant),
    Took(Duration),
}

impl Stopwatch {
    /// For orders with the numbers below this one.
    pub fn new(orders: usize) -> Self {
        Self {
            numbers: (0..orders).map(|number| (id(number), number)).collect(),
            times: Mutex::new(vec![Time::Unknown; orders]),
            stopped: Notify::new(),
        }
    }

    /// The order is about to be published.
    pub fn start(&self, number: usize) {
        self.times()[number] = Time::Since(Instant::now());
    }

    /// The consumer is done with the order of this id.
    pub fn stop(&self, id: &str) {
        let now = Instant::now();
        let Some(&number) = self.numbers.get(id) else {
            return;
        };
        let time = &mut self.times()[number];
        if let Time::Since(start) = *time {
            *time = Time::Took(now - start);
        }
        self.stopped.notify_one();
    }

    /// Waits until the consumer is done with the order. One waits at a time.
    pub async fn stopped(&self, number: usize) {
        while !matches!(self.times()[number], Time::Took(_)) {
            self.stopped.notified().await;
        }
    }

    /// How long each order took, in the order of their numbers.
    ///
    /// # Errors
    /// An order has no end.
    pub fn delays(&self) -> Result<Vec<Duration>> {
        let took = |time: &Time| match time {
            Time::Took(delay) => Ok(*delay),
            Time::Unknown | Time::Since(_) => Err("an order was not done with".into()),
        };
        self.times().iter().map(took).collect()
    }

    fn times(&self) -> MutexGuard<'_, Vec<Time>> {
        self.times.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn each_order_is_timed_by_itself() {
        let stopwatch = Stopwatch::new(2);
        stopwatch.start(0);
        stopwatch.start(1);
        stopwatch.stop(&id(1));
        stopwatch.stopped(1).await;
        assert!(stopwatch.delays().is_err(), "order 0 is not done with");
        stopwatch.stop("of another test");
        stopwatch.stop(&id(0));
        let [slow, fast] = stopwatch.delays().unwrap()[..] else {
            panic!("there are two orders");
        };
        assert!(slow >= fast);
    }
}
