//! Declares again what somebody deleted while the worker runs.

use std::time::Duration;

use lapin::{
    ErrorKind,
    protocol::{AMQPErrorKind, AMQPSoftError},
};
use tokio::{sync::Mutex, time::Instant};

use idem_core::ErrorChain;

use crate::{
    error::{PublishError, library_error},
    publisher::Publisher,
    topology::Queue,
};

/// The queue's dead-letter queue and ladder, as far as they are the worker's to declare.
#[derive(Debug)]
pub(super) struct TopologyRepair {
    publisher: Publisher,
    queue: Queue,
    /// When it was last begun to declare them.
    last: Mutex<Option<Instant>>,
}

/// Between two declarations: each has a connection of its own.
const PAUSE: Duration = Duration::from_secs(5);

impl TopologyRepair {
    pub(super) fn new(publisher: Publisher, queue: Queue) -> Self {
        Self {
            publisher,
            queue,
            last: Mutex::new(None),
        }
    }

    /// Declares them if the error says that one is missing. Messages that find out together have
    /// it done once, and no sooner again than it can have helped.
    pub(super) async fn mend(&self, error: &PublishError) {
        if !self.is_ours() || !tells_of_a_gap(error) {
            return;
        }
        let found_out = Instant::now();
        let mut last = self.last.lock().await;
        if last.is_some_and(|begun| begun + PAUSE >= found_out) {
            return;
        }
        *last = Some(Instant::now());
        if let Err(error) = self.publisher.declare(self.queue.clone()).await {
            let queue = self.queue.name();
            let error = ErrorChain::of(&error).to_string();
            tracing::warn!(queue, error, "what was deleted could not be declared again");
        }
    }

    fn is_ours(&self) -> bool {
        self.queue.is_ours() || self.queue.has_ladder()
    }
}

/// A queue is missing: the message was returned. An exchange is: the channel was closed, with all
/// messages on it.
fn tells_of_a_gap(error: &PublishError) -> bool {
    match error {
        PublishError::Unroutable { .. } => true,
        PublishError::Unconfirmed(source) => library_error(&**source).is_some_and(is_not_found),
        _ => false,
    }
}

fn is_not_found(error: &lapin::Error) -> bool {
    let ErrorKind::ProtocolError(error) = error.kind() else {
        return false;
    };
    *error.kind() == AMQPErrorKind::Soft(AMQPSoftError::NOTFOUND)
}
