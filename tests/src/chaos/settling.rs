//! Waits until no order is on its way any more.

use std::time::Duration;

use idem_servers::QueueState;
use tokio::time::{Instant, sleep};

use super::{orders::Orders, site::Site};
use crate::{bed, manner::Manner, servers::off_thread};

/// Queues that look empty for so long are empty. The broker's counts are a little old, each by its
/// own age: a message that comes back from the ladder may be in none of them for a moment.
const QUIET: Duration = Duration::from_secs(2);

/// If orders are missing after so long a quiet, nothing more will come.
const SILENCE: Duration = Duration::from_secs(8);

/// So many patiences are the end, also if something has come of orders all the while.
const LONGEST: u32 = 3;

/// Waits until the queues and the retry queues are empty, nothing is with a worker or in the outbox, and every order
/// has its effect or its dead letter. Says what was in the way if nothing has come of any order for so long.
pub(super) async fn until_settled(
    site: &Site,
    orders: &Orders,
    patience: Duration,
) -> Result<(), String> {
    let end = Instant::now() + LONGEST * patience;
    let mut deadline = Instant::now() + patience;
    let (mut quiet_since, mut done) = (None, Done::default());
    loop {
        let queues = on_the_way(site).await;
        let unsent = unsent(site).await;
        let now = Done::of(site).await;
        // A machine that is slow is not stuck.
        if done != now {
            (done, deadline) = (now, end.min(Instant::now() + patience));
        }
        if queues.is_empty() && unsent == Some(0) {
            let quiet = quiet_since.get_or_insert_with(Instant::now).elapsed();
            if quiet > SILENCE || (quiet > QUIET && done.is_all_of(orders)) {
                return Ok(());
            }
        } else {
            quiet_since = None;
            if Instant::now() > deadline {
                return Err(format!(
                    "not settled within {patience:?}: {queues:?}, {unsent:?} events to leave"
                ));
            }
        }
        sleep(Duration::from_millis(250)).await;
    }
}

/// How many events are to leave, if the store tells.
async fn unsent(site: &Site) -> Option<usize> {
    match &site.shipping {
        Some(shipping) => Some(shipping.waiting().await?.len()),
        None => Some(0),
    }
}

/// The queues that hold what is yet to be handled.
pub(super) async fn on_the_way(site: &Site) -> Vec<QueueState> {
    let mut queues = queues(site).await;
    queues.retain(|queue| is_on_the_way(site, &queue.name) && queue.ready + queue.unacked > 0);
    queues
}

pub(super) async fn queues(site: &Site) -> Vec<QueueState> {
    let (broker, vhost) = (site.bed.broker().clone(), site.bed.vhost().to_owned());
    off_thread(move || broker.list_queues(&vhost)).await
}

/// Whether a message in this queue is yet to be handled: it is there, or on its way back.
pub(super) fn is_on_the_way(site: &Site, queue: &str) -> bool {
    let shipping = site.shipping.as_ref();
    queue == site.bed.name()
        || queue.starts_with("idem.retry.")
        || shipping.is_some_and(|shipping| queue == shipping.queue)
}

/// What has come of orders so far.
#[derive(Debug, Default, PartialEq, Eq)]
struct Done {
    charged: usize,
    dead: usize,
    /// Events that have arrived, if there are any.
    told: Option<usize>,
}

impl Done {
    async fn of(site: &Site) -> Self {
        let dead = site.bed.waiting(&bed::dead(site.bed.name())).await;
        let told = match &site.shipping {
            Some(shipping) => Some(shipping.shipments().await.len()),
            None => None,
        };
        Self {
            charged: site.ledger.charges_per_order().await.len(),
            dead: dead.map_or(0, |(letters, _)| letters as usize),
            told,
        }
    }

    /// Of copies there may be letters, too: this is a reason to stop waiting, not the verdict.
    fn is_all_of(&self, orders: &Orders) -> bool {
        self.told.is_none_or(|told| told >= self.charged)
            && self.charged >= orders.count(Manner::is_charged)
            && self.dead >= orders.count(|manner| !manner.is_charged())
    }
}
