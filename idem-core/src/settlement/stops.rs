//! Where the reading of a log stops: at messages that cannot be handled, if nothing after them is to start.
//!
//! A transport's worker asks before it starts a message, and tells which ones stop it and which are done. What must
//! stay true: while there is a message at which it stops, no other one starts; that one may, to be tried again.

use std::collections::BTreeSet;

use tokio::sync::watch;

/// The messages at which a reading stops, by numbers that each has for itself.
#[derive(Debug, Default)]
pub struct Stops(watch::Sender<BTreeSet<u64>>);

impl Stops {
    /// Nothing else starts before this message is done. Says whether that is new.
    pub fn stop_at(&self, message: u64) -> bool {
        self.0.send_if_modified(|stopped| stopped.insert(message))
    }

    /// A message is done: the others may start, unless another one stops them.
    pub fn done(&self, message: u64) {
        self.0.send_if_modified(|stopped| stopped.remove(&message));
    }

    /// Whether there is a message at which it stops.
    pub fn is_stopped(&self) -> bool {
        !self.0.borrow().is_empty()
    }

    /// Whether this message may start.
    pub fn lets_start(&self, message: u64) -> bool {
        lets_start(&self.0.borrow(), message)
    }

    /// Waits until this message may start.
    ///
    /// # Cancel safety
    /// Nothing is lost.
    pub async fn until_starts(&self, message: u64) {
        let mut stopped = self.0.subscribe();
        // An error is impossible: this has the sender.
        let _ = stopped
            .wait_for(|stopped| lets_start(stopped, message))
            .await;
    }
}

fn lets_start(stopped: &BTreeSet<u64>, message: u64) -> bool {
    stopped.is_empty() || stopped.contains(&message)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn while_it_stops_at_a_message_that_one_alone_may_start() {
        let stops = Stops::default();
        assert!(stops.lets_start(1) && !stops.is_stopped());
        assert!(stops.stop_at(2) && !stops.stop_at(2));
        assert!(stops.is_stopped());
        assert_eq!(
            [1, 2, 3].map(|it| stops.lets_start(it)),
            [false, true, false]
        );
        // One that ran already.
        assert!(stops.stop_at(1));
        stops.done(2);
        assert_eq!(
            [1, 2, 3].map(|it| stops.lets_start(it)),
            [true, false, false]
        );
        stops.done(1);
        assert!(stops.lets_start(3) && !stops.is_stopped());
    }
}
