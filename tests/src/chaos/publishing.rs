//! Publishes the orders, each again and again until the broker has confirmed it.

use std::{
    collections::BTreeSet,
    sync::{Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use futures_util::future::join_all;
use idem_amqp::{Publication, Publisher};
use tokio::time::{sleep, timeout};

use super::{chronicle::Chronicle, orders::Orders, site::Site};
use crate::{
    foreign_publisher::{ForeignPublisher, Hostile, Readable},
    manner::Manner,
    script::Order,
};

/// So many wait for their confirms at a time.
const AT_ONCE: usize = 4;

const BEFORE_THE_NEXT_TRY: Duration = Duration::from_millis(100);

/// A link that says nothing for so long says nothing any more.
const SILENCE: Duration = Duration::from_secs(5);

/// Which orders the broker has confirmed.
#[derive(Debug, Default)]
pub(super) struct Publishing(Mutex<BTreeSet<String>>);

impl Publishing {
    /// Publishes all orders in their sequence, spread over this time.
    pub(super) async fn publish(
        &self,
        orders: &Orders,
        site: &Site,
        length: Duration,
        chronicle: &Chronicle,
    ) {
        let publisher = Publisher::connect(&site.url_of_link(0)).await;
        let publisher = publisher.expect("a broker that was just started");
        let length = u64::try_from(length.as_millis()).expect("some minutes");
        let sequence = orders.sequence();
        let each = async |first: usize| {
            let mine = sequence.iter().enumerate().skip(first).step_by(AT_ONCE);
            for (place, id) in mine {
                let due = length * place as u64 / sequence.len() as u64;
                chronicle.until(due).await;
                let manner = orders.manners()[id];
                if manner == Manner::Unreadable {
                    publish_unreadable(site, id, Hostile::ALL[place % Hostile::ALL.len()]).await;
                } else {
                    let publication = publication(site.bed.name(), id, manner);
                    // Whatever the error: it may have arrived, and the id tells the copy.
                    while publisher.publish(&publication).await.is_err() {
                        sleep(BEFORE_THE_NEXT_TRY).await;
                    }
                }
                self.confirmed().insert(id.clone());
            }
        };
        join_all((0..AT_ONCE).map(each)).await;
        chronicle.tell("all orders are published");
    }

    /// Those that may or may not have been published.
    pub(super) fn unconfirmed(&self, orders: &Orders) -> BTreeSet<String> {
        let confirmed = self.confirmed();
        let ids = orders.manners().keys();
        ids.filter(|id| !confirmed.contains(*id)).cloned().collect()
    }

    fn confirmed(&self) -> MutexGuard<'_, BTreeSet<String>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Each time by a connection of its own, which may be cut, or go silent.
async fn publish_unreadable(site: &Site, id: &str, hostile: Hostile) {
    let url = site.url_of_link(0);
    let named = Readable {
        message_id: Some(id),
        ..Readable::default()
    };
    let order = Order::new(id).behaving(Manner::Unreadable);
    let order = serde_json::to_vec(&order).expect("JSON expresses orders");
    let properties = hostile.properties(named);
    let publish = || async {
        let mut publisher = ForeignPublisher::connect(&url).await?;
        let queue = site.bed.name().as_bytes();
        publisher.publish("", queue, &properties, &order).await
    };
    while !matches!(timeout(SILENCE, publish()).await, Ok(Ok(()))) {
        sleep(BEFORE_THE_NEXT_TRY).await;
    }
}

fn publication(queue: &str, id: &str, manner: Manner) -> Publication {
    let publication = if manner == Manner::Garbled {
        Publication::bytes(queue, format!("not an order: {id}"))
    } else {
        Publication::json(queue, &Order::new(id).behaving(manner))
    };
    publication.message_id(id)
}
