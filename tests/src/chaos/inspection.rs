//! Looks at ledger, queues and workers when all is over.

use std::collections::BTreeSet;

use super::{
    Mode, Plan,
    excuse::Completion,
    life::Life,
    scene::Scene,
    settling,
    tally::{DeadOrder, Evidence},
};
use crate::{
    bed::{self, DeadLetter},
    process::Event,
};

/// Empties the queues and reads the ledger.
pub(super) async fn inspect(plan: &Plan, scene: &Scene, lives: &[Life]) -> Evidence {
    let site = &scene.site;
    let mut on_the_way = BTreeSet::new();
    for queue in settling::queues(site).await {
        if settling::is_on_the_way(site, &queue.name) {
            let messages = site.bed.drain(&queue.name).await;
            on_the_way.extend(messages.iter().map(order_id));
        }
    }
    let letters = site.bed.drain(&bed::dead(site.bed.name())).await;
    let events = lives.iter().flat_map(|life| life.events.entries());
    Evidence {
        charges: site.ledger.charges().await,
        completions: events.filter_map(|event| completion(&event)).collect(),
        dead: letters.iter().map(dead_order).collect(),
        unpublished: scene.publishing.unconfirmed(&scene.orders),
        on_the_way,
        leased: plan.mode == Mode::Leased,
    }
}

fn dead_order(letter: &DeadLetter) -> DeadOrder {
    DeadOrder {
        id: order_id(letter),
        reason: letter.reason(),
    }
}

/// Every order is published under its own id as the message's id.
fn order_id(message: &DeadLetter) -> String {
    let id = message.properties.message_id().as_ref();
    id.map_or_else(String::new, ToString::to_string)
}

fn completion(event: &Event) -> Option<Completion> {
    let Event::Ended {
        key,
        kind,
        attempt: Some(attempt),
        ..
    } = event
    else {
        return None;
    };
    let (_, order_id) = key.as_ref()?.split_once(':')?;
    (kind == "executed").then(|| Completion::new(order_id, *attempt))
}
