//! Where the reading of a log stops: at messages that cannot be handled, if nothing after them is to start.
//!
//! A transport's worker asks before it starts a message, and tells which ones stop it and which are done. What must
//! stay true: while there is a message at which it stops, nothing after it starts. That one may, to be tried again, and
//! so may those before it: the mark comes up to the first at which it stops.

use std::collections::BTreeSet;

use tokio::sync::watch;

/// The messages at which a reading stops, by numbers in the order of the log.
#[derive(Debug, Default)]
pub struct Stops(watch::Sender<BTreeSet<u64>>);

impl Stops {
    /// Nothing after this message starts before it is done. Says whether that is new.
    pub fn stop_at(&self, message: u64) -> bool {
        self.0.send_if_modified(|stopped| stopped.insert(message))
    }

    /// A message is done: those after it may start, unless another one stops them.
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
    stopped.first().is_none_or(|first| message <= *first) || stopped.contains(&message)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn while_it_stops_at_a_message_nothing_after_it_starts() {
        let stops = Stops::default();
        assert!(stops.lets_start(1) && !stops.is_stopped());
        assert!(stops.stop_at(2) && !stops.stop_at(2));
        assert!(stops.is_stopped());
        assert_eq!(
            [1, 2, 3].map(|it| stops.lets_start(it)),
            [true, true, false]
        );
        // Those that ran already.
        assert!(stops.stop_at(1) && stops.stop_at(4));
        assert_eq!(
            [1, 2, 3, 4].map(|it| stops.lets_start(it)),
            [true, true, false, true]
        );
        stops.done(1);
        stops.done(2);
        assert!(stops.lets_start(3) && !stops.lets_start(5));
        stops.done(4);
        assert!(stops.lets_start(5) && !stops.is_stopped());
    }
}
