//! Publishes replies, so that an address that the broker cannot bear disturbs nobody else's.
//!
//! RabbitMQ 3.10 and 4.0 close the connection by which something is published to an address of a direct
//! reply that they cannot decode; 3.10 does so also where the address is of a node that is not in its
//! cluster. Publishers of requests choose the addresses, and all replies share a connection.
// docs/decisions/0027

use std::{
    collections::HashSet,
    sync::{Mutex, PoisonError},
    time::Duration,
};

use lapin::{
    ErrorKind,
    protocol::{AMQPErrorKind, AMQPHardError},
};
use tokio::{sync, time::Instant};

use crate::{
    error::{PublishError, library_error},
    publisher::{Batching, Publisher},
    wire::{
        Publication,
        reply::{Address, Node},
    },
};

/// Publishes the replies of a worker.
#[derive(Debug)]
pub(super) struct Replier {
    publisher: Publisher,
    /// Nodes to whose addresses a reply was published, and the broker had nothing against it.
    proven: Mutex<HashSet<Node>>,
    /// Held by whoever publishes alone.
    alone: sync::Mutex<Tolerance>,
}

/// Why a reply was not taken.
#[derive(Debug)]
pub(super) enum Untaken {
    /// It may be tried again.
    Yet(PublishError),
    /// The broker closes the connection by it.
    Harmful(PublishError),
    /// It may be harmful, and there were too many of these.
    Suspect,
}

/// A cluster has a few nodes. Publishers can make more names up where the broker takes any.
const MOST_NODES: usize = 1024;

/// How many connections may be closed by addresses: [`BURST`](Self::BURST) at once, one in
/// [`EVERY`](Self::EVERY) in the long run.
#[derive(Debug)]
struct Tolerance {
    /// When all those that were closed will be made up for.
    made_up_for: Instant,
}

impl Tolerance {
    const EVERY: Duration = Duration::from_secs(1);
    const BURST: u32 = 16;

    fn new(now: Instant) -> Self {
        Self { made_up_for: now }
    }

    fn is_used_up(&self, now: Instant) -> bool {
        self.made_up_for >= now + Self::EVERY * Self::BURST
    }

    fn closed(&mut self, now: Instant) {
        self.made_up_for = self.made_up_for.max(now) + Self::EVERY;
    }
}

impl Replier {
    pub(super) fn new(publisher: Publisher) -> Self {
        Self {
            publisher,
            proven: Mutex::default(),
            alone: sync::Mutex::new(Tolerance::new(Instant::now())),
        }
    }

    /// Publishes a reply once. One to an address that may do harm is published with no others, whose
    /// replies would be published again with it.
    pub(super) async fn publish(
        &self,
        reply: &Publication,
        to: &Address,
        batching: Batching,
    ) -> Result<(), Untaken> {
        if batching == Batching::Shared && !self.may_harm(to) {
            return self.publisher.publish(reply).await.map_err(Untaken::Yet);
        }
        // One after the other, so that other replies get their turn in between.
        let mut tolerance = self.alone.lock().await;
        let now = Instant::now();
        if self.may_harm(to) {
            if tolerance.is_used_up(now) {
                return Err(Untaken::Suspect);
            }
        } else if batching == Batching::Shared {
            drop(tolerance);
            return self.publisher.publish(reply).await.map_err(Untaken::Yet);
        }
        match self.publisher.publish_alone(reply).await {
            Ok(()) => {
                self.has_proven(to);
                Ok(())
            }
            Err(error) if is_crash(&error) && *to != Address::Queue => {
                tolerance.closed(now);
                Err(Untaken::Harmful(error))
            }
            Err(error) => Err(Untaken::Yet(error)),
        }
    }

    fn may_harm(&self, to: &Address) -> bool {
        match to {
            Address::Queue => false,
            Address::Channel(Some(node)) => !self.proven().contains(node),
            Address::Channel(None) | Address::Malformed => true,
        }
    }

    fn has_proven(&self, to: &Address) {
        let Address::Channel(Some(node)) = to else {
            return;
        };
        let mut proven = self.proven();
        if proven.len() >= MOST_NODES {
            proven.clear();
        }
        proven.insert(node.clone());
    }

    fn proven(&self) -> std::sync::MutexGuard<'_, HashSet<Node>> {
        // What is written under the lock is never half done.
        self.proven.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Whether something that was published ended the broker's channel from within. Of several that were
/// published together, that may be another one's doing.
pub(super) fn is_crash(error: &PublishError) -> bool {
    let PublishError::Unconfirmed(source) = error else {
        return false;
    };
    let crash = AMQPErrorKind::Hard(AMQPHardError::INTERNALERROR);
    match library_error(&**source).map(lapin::Error::kind) {
        Some(ErrorKind::ProtocolError(error)) => *error.kind() == crash,
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use lapin::protocol::AMQPError;

    use crate::error::said;

    use super::*;

    #[test]
    fn so_many_closed_connections_are_borne_at_once_and_one_a_second_in_the_long_run() {
        let start = Instant::now();
        let mut tolerance = Tolerance::new(start);
        let mut closed = |now| {
            let mut times = 0;
            while !tolerance.is_used_up(now) {
                tolerance.closed(now);
                times += 1;
            }
            times
        };
        assert_eq!(closed(start), 16);
        assert_eq!(closed(start), 0);
        assert_eq!(closed(start + Duration::from_secs(1)), 1);
        assert_eq!(closed(start + Duration::from_secs(4)), 3);
        assert_eq!(closed(start + Duration::from_hours(1)), 16);
    }

    #[test]
    fn only_an_internal_error_of_the_brokers_is_laid_on_an_address() {
        let closed = |kind| {
            let error = AMQPError::new(AMQPErrorKind::Hard(kind), "no".into());
            let error = lapin::Error::from(ErrorKind::ProtocolError(error));
            PublishError::Unconfirmed(said(error))
        };
        assert!(is_crash(&closed(AMQPHardError::INTERNALERROR)));
        for error in [
            closed(AMQPHardError::CONNECTIONFORCED),
            PublishError::Unconfirmed("the link broke".into()),
            PublishError::Refused {
                routing_key: "replies".into(),
            },
        ] {
            assert!(!is_crash(&error), "{error:?}");
        }
    }
}
