//! What changes while nothing happens, looked at every second: how many wait, for how long, how the worker is.

use std::{sync::Arc, time::Duration};

use tokio::time::sleep;
use tokio_util::task::AbortOnDropHandle;

use super::{consumer::Consumer, engine::Engine};
use crate::connection::health::{Health, HealthState};

const EVERY: Duration = Duration::from_secs(1);

/// A worker's gauges.
pub(super) struct Gauges {
    pub(super) consumers: Vec<Arc<Consumer>>,
    pub(super) engine: Arc<dyn Engine>,
    pub(super) health: Arc<HealthState>,
}

impl Gauges {
    /// Keeps them up to date until what this returns is dropped. Without the feature `metrics`, there is
    /// nothing to do.
    pub(super) fn keep(self: Arc<Self>) -> Option<AbortOnDropHandle<()>> {
        cfg!(feature = "metrics").then(|| {
            AbortOnDropHandle::new(tokio::spawn(async move {
                loop {
                    self.sample();
                    sleep(EVERY).await;
                }
            }))
        })
    }

    /// Brings them up to date.
    pub(super) fn sample(&self) {
        for consumer in &self.consumers {
            let taken = consumer.slots.taken();
            let processors = consumer.processors();
            processors.for_each(|processor| processor.meters.sample(taken));
        }
        self.engine.sample();
        let health = Health::of(Arc::clone(&self.health));
        self.health
            .links()
            .set_ready(health.is_ready(), health.failing_for());
    }
}
