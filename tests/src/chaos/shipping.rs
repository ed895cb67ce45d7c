//! Where events go, and the worker that consumes them.

use idem_amqp::outbox::{OutboxListing, OutboxState, SharedOutbox};

use crate::{
    bed::Bed,
    ledger::{Charge, Ledger},
    process::Settings,
    store_at::{Product, StoreAt},
};

/// The queue of events, what their worker has made of them, and what is yet to leave.
#[derive(Debug)]
pub(super) struct Shipping {
    pub(super) queue: String,
    /// A file of its own: the worker is another service.
    ledger: Ledger,
    outbox: SharedOutbox,
}

impl Shipping {
    pub(super) async fn open(bed: &Bed, sellers: &StoreAt) -> Self {
        let outbox = match sellers.product() {
            Product::Postgres => sellers.open_postgres().await.outbox(),
            _ => sellers.open_sqlite().await.outbox(),
        };
        Self {
            queue: bed.another("events"),
            ledger: Ledger::create().await,
            outbox,
        }
    }

    /// The settings of the worker that consumes events. It suffers what the broker suffers.
    pub(super) fn settings(&self, bed: &Bed, sellers: &Settings) -> Settings {
        Settings::new(bed.url(), &self.queue, &self.ledger).with(|settings| {
            settings.classic = sellers.classic;
            settings.rungs_ms.clone_from(&sellers.rungs_ms);
            settings.max_attempts = sellers.max_attempts;
        })
    }

    /// What was made of the events that have arrived.
    pub(super) async fn shipments(&self) -> Vec<Charge> {
        self.ledger.charges().await
    }

    /// The ids of events that are to leave; `None` if the store does not tell.
    pub(super) async fn waiting(&self) -> Option<Vec<String>> {
        let waiting = OutboxListing {
            state: Some(OutboxState::Waiting),
            limit: 10_000,
            ..OutboxListing::default()
        };
        let waiting = self.outbox.list(&waiting).await.ok()?;
        Some(waiting.into_iter().map(|it| it.message_id).collect())
    }
}
