//! Queues as the broker sees them, and which of a test's own still hold messages.

use idem_servers::QueueState;
use tokio::task::spawn_blocking;

use super::Bed;
use crate::journal::eventually;

/// Where messages wait that failed, and copies that another worker is at. They come back to their
/// queue, perhaps when nobody consumes it any more.
const RUNGS: [&str; 9] = [
    "idem.retry.200ms",
    "idem.retry.500ms",
    "idem.retry.1s",
    "idem.retry.5s",
    "idem.retry.15s",
    "idem.retry.1m",
    "idem.retry.5m",
    "idem.retry.15m",
    "idem.retry.1h",
];

impl Bed {
    /// A queue as the broker sees it; `None` if it is not there.
    pub async fn state_of(&self, queue: &str) -> Option<QueueState> {
        self.states_of(&[queue.to_owned()]).await.pop()
    }

    /// Those of the queues that hold messages. Nobody can tell whose messages are on a rung: those of other tests
    /// count, too.
    pub(super) async fn stuck(&self, queues: &[String]) -> Vec<QueueState> {
        let rungs = RUNGS.map(str::to_owned);
        let names: Vec<_> = queues.iter().cloned().chain(rungs).collect();
        let mut states = self.states_of(&names).await;
        states.retain(|state| state.ready + state.unacked > 0);
        states
    }

    /// Asks again if the broker cannot tell: RabbitMQ 3.10 answers nobody while one of its queues is too busy to.
    async fn states_of(&self, names: &[String]) -> Vec<QueueState> {
        eventually("a broker that tells what its queues hold", || async {
            let (broker, vhost, names) = (self.broker.clone(), self.vhost.clone(), names.to_vec());
            let told = spawn_blocking(move || broker.queues_named(&vhost, &names)).await;
            told.expect("rabbitmqctl does not panic")
        })
        .await
    }
}
