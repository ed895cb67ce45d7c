//! The broker's version.

use idem_core::store::Finding;

use crate::doctor::{Diagnosis, Facts, Product, Version};

const BROKER_VERSION: &str = "broker-version";

pub(super) fn look(facts: &Facts) -> Option<Diagnosis> {
    match facts.broker {
        Product::RabbitMq(version) if version < Version::OLDEST => Some(too_old(version)),
        Product::RabbitMq(_) | Product::NotAsked => None,
        Product::Unknown => Some(unknown()),
    }
}

fn too_old(version: Version) -> Diagnosis {
    Diagnosis::broken(Finding::error(
        BROKER_VERSION,
        format!(
            "the broker is RabbitMQ {version}, whose quorum queues neither let messages expire nor \
             dead-letter them at least once, so that retries would never come back; upgrade it to \
             {} or newer",
            Version::OLDEST
        ),
    ))
}

fn unknown() -> Diagnosis {
    Diagnosis::reported(Finding::note(
        BROKER_VERSION,
        format!(
            "the broker does not say that it is RabbitMQ, so what follows from its version, and how \
             existing queues were declared, is not known; use RabbitMQ {} or newer",
            Version::OLDEST
        ),
    ))
}
