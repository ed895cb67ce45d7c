//! Where it happens: servers and links of one run's own.

use std::{path::Path, sync::Arc};

use idem_amqp::Publisher;
use idem_servers::RabbitMq;

use super::{Mode, Place, Plan, Queues, Schedule, post::Post, shipping::Shipping, store::Store};
use crate::{
    bed::Bed,
    ledger::Ledger,
    process::{self, Settings},
    proxy::Proxy,
    servers::off_thread,
};

#[derive(Debug)]
pub(super) struct Site {
    pub(super) bed: Bed,
    /// `None` where nothing is done to it: tests share one then.
    pub(super) broker: Option<Arc<RabbitMq>>,
    pub(super) store: Store,
    pub(super) ledger: Ledger,
    /// Where events go, if there are any.
    pub(super) shipping: Option<Shipping>,
    /// The first one is the publisher's, the others are the workers'.
    pub(super) links: Vec<Proxy>,
    /// One for each worker, or none to a file.
    pub(super) store_links: Vec<Proxy>,
}

const LEASE_MS: u64 = 2_000;

impl Site {
    /// With servers of its own, as far as something will be done to them.
    pub(super) async fn open(plan: &Plan, schedule: &Schedule) -> Self {
        let (bed, broker) = if schedule.at(Place::Broker).is_empty() {
            (Bed::with_vhost().await, None)
        } else {
            let broker = Arc::new(off_thread(RabbitMq::start).await);
            (Bed::on(&broker), Some(broker))
        };
        let (store, ledger) = Store::open(plan.store, schedule).await;
        let shipping = if plan.outbox {
            Some(Shipping::open(&bed, ledger.store()).await)
        } else {
            None
        };
        let links = links_to(bed.broker().port(), plan.workers + 1).await;
        let store_links = match store.port() {
            Some(port) => links_to(port, plan.workers).await,
            None => Vec::new(),
        };
        Self {
            bed,
            broker,
            store,
            ledger,
            shipping,
            links,
            store_links,
        }
    }

    /// The settings of all workers.
    pub(super) fn settings(&self, plan: &Plan) -> Settings {
        Settings::new(self.bed.url(), self.bed.name(), &self.ledger).with(|settings| {
            settings.mode = match plan.mode {
                Mode::Atomic => process::Mode::Atomic,
                Mode::Grouped => process::Mode::Grouped,
                Mode::Batched => process::Mode::Batched,
                Mode::Leased => process::Mode::Leased,
                Mode::LeasedBatched => process::Mode::LeasedBatched,
            };
            settings.classic = plan.queues == Queues::Classic;
            settings.events = self.shipping.as_ref().map(|it| it.queue.clone());
            // Longer than any fault lasts but a link that stays silent.
            let store = settings.store.keeping_transactions_open_for(4 * LEASE_MS);
            settings.store = store.answering_within(LEASE_MS / 2);
            settings.lease_ms = LEASE_MS;
            settings.work_ms = 30;
            if plan.mode == Mode::Grouped {
                // So many wait that groups fill.
                settings.prefetch = 32;
                settings.work_ms = 5;
            }
            if plan.mode.is_batched() {
                // An order that comes meanwhile waits for the next batch.
                settings.prefetch = 32;
                settings.work_ms = 100;
            }
            // Some waits are in the worker, most on the ladder.
            settings.backoff_ms = (100, 500);
            settings.rungs_ms = Some(vec![200, 500, 2_000]);
            // So many faults do not meet one order.
            settings.max_attempts = 12;
            settings.grace_ms = 10_000;
        })
    }

    /// Declares the queue. Before a crash the broker is restarted cleanly once: a quorum queue that
    /// was declared moments before never elects a leader again on RabbitMQ 3.10.
    pub(super) async fn declare(&self, settings: &Settings) {
        let publisher = Publisher::connect(self.bed.url()).await;
        let publisher = publisher.expect("a broker that was just started");
        let declared = publisher.declare(settings.queue()).await;
        declared.expect("the queue is declared");
        if let Some(shipping) = &self.shipping {
            let events = shipping.settings(&self.bed, settings).queue();
            let declared = publisher.declare(events).await;
            declared.expect("the queue of events is declared");
        }
        if let Some(broker) = self.broker.clone() {
            off_thread(move || broker.restart()).await;
        }
    }

    /// The broker's URL by way of a link of its own.
    pub(super) fn url_of_link(&self, link: usize) -> String {
        self.bed.url_by(self.links[link].port(), "?heartbeat=2")
    }

    /// Starts the workers, that of the events last, and waits until all of them consume.
    pub(super) async fn man(&self, plan: &Plan, worker: &Path, settings: &Settings) -> Vec<Post> {
        let post = |number| Post::man(number, worker, &self.settings_of(number, settings));
        let mut posts: Vec<_> = (1..=plan.workers).map(post).collect();
        let consumers = u32::try_from(posts.len()).expect("a few");
        self.bed.until_consumed(self.bed.name(), consumers).await;
        if let Some(shipping) = &self.shipping {
            let settings = shipping.settings(&self.bed, settings);
            posts.push(Post::man(plan.workers + 1, worker, &settings));
            self.bed.until_consumed(&shipping.queue, 1).await;
        }
        posts
    }

    /// The settings of one worker, which has links of its own.
    fn settings_of(&self, worker: usize, all: &Settings) -> Settings {
        all.with(|settings| {
            settings.amqp_url = self.url_of_link(worker);
            if let Some(link) = self.store_links.get(worker - 1) {
                settings.store = settings.store.by(link.port());
            }
        })
    }
}

async fn links_to(port: u16, count: usize) -> Vec<Proxy> {
    let mut links = Vec::new();
    for _ in 0..count {
        links.push(Proxy::open(port).await);
    }
    links
}
