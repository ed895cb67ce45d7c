//! What the broker says about its queues; askers that come together share one answer.

use std::time::Instant;

use idem_servers::{Broker, QueueState};
use tokio::{sync::Mutex, task::spawn_blocking};

use crate::journal::eventually;

/// Where messages wait that failed, and copies that another worker is at. They come back to their
/// queue, perhaps when nobody consumes it any more.
const RUNGS: [&str; 7] = [
    "idem.retry.1s",
    "idem.retry.5s",
    "idem.retry.15s",
    "idem.retry.1m",
    "idem.retry.5m",
    "idem.retry.15m",
    "idem.retry.1h",
];

/// The counts of one vhost.
#[derive(Debug)]
pub struct Counts {
    broker: Broker,
    vhost: String,
    last: Mutex<Option<(Instant, Vec<QueueState>)>>,
}

impl Counts {
    pub(super) fn of(broker: &Broker) -> Self {
        Self {
            broker: broker.clone(),
            vhost: "/".into(),
            last: Mutex::new(None),
        }
    }

    pub(super) fn vhost(mut self, vhost: &str) -> Self {
        self.vhost = vhost.into();
        self
    }

    /// Those of the queues that hold messages, asked after this call began. Nobody can tell whose
    /// messages are on a rung: those of other tests count, too.
    pub(super) async fn stuck(&self, queues: &[String]) -> Vec<QueueState> {
        let asked = Instant::now();
        let mut last = self.last.lock().await;
        if last.as_ref().is_none_or(|(begun, _)| *begun < asked) {
            *last = Some((Instant::now(), self.ask().await));
        }
        let (_, states) = last.as_ref().expect("asked just now");
        let ours = |name: &String| queues.contains(name) || RUNGS.contains(&name.as_str());
        let ours = states.iter().filter(|state| ours(&state.name));
        let stuck = ours.filter(|state| state.ready + state.unacked > 0);
        stuck.cloned().collect()
    }

    /// Asks again if the broker cannot tell: RabbitMQ 3.10 answers nobody while one of its queues is too busy to.
    async fn ask(&self) -> Vec<QueueState> {
        eventually("a broker that tells what its queues hold", || async {
            let (broker, vhost) = (self.broker.clone(), self.vhost.clone());
            let listed = spawn_blocking(move || broker.list_queues(&vhost)).await;
            listed.expect("rabbitmqctl does not panic")
        })
        .await
    }
}
