//! Looks at ledger, queues and workers when all is over.

use std::collections::BTreeSet;

use super::{
    Plan,
    excuse::{Completion, Start},
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
    let shipments = match &site.shipping {
        Some(shipping) => {
            let unsent = shipping.waiting().await.expect("a store that answers");
            on_the_way.extend(unsent.iter().map(|id| order_of(id)));
            Some(shipping.shipments().await)
        }
        None => None,
    };
    let letters = site.bed.drain(&bed::dead(site.bed.name())).await;
    let events: Vec<_> = (lives.iter())
        .flat_map(|life| life.events.entries())
        .collect();
    Evidence {
        charges: site.ledger.charges().await,
        starts: events.iter().filter_map(start).collect(),
        completions: events.iter().filter_map(completion).collect(),
        dead: letters.iter().map(dead_order).collect(),
        unpublished: scene.publishing.unconfirmed(&scene.orders),
        on_the_way,
        leased: plan.mode.is_leased(),
        shipments,
    }
}

fn dead_order(letter: &DeadLetter) -> DeadOrder {
    DeadOrder {
        id: order_id(letter),
        reason: letter.reason(),
    }
}

fn order_id(message: &DeadLetter) -> String {
    let id = message.properties.message_id().as_ref();
    id.map_or_else(String::new, |id| order_of(id.as_str()))
}

/// Every order is published under its own id as the message's id, and its event under `SCOPE:ID#0`.
fn order_of(message_id: &str) -> String {
    let id = message_id.rsplit(':').next().unwrap_or_default();
    id.split('#').next().unwrap_or_default().to_owned()
}

fn start(event: &Event) -> Option<Start> {
    let Event::Started {
        order_id,
        attempt,
        in_doubt,
        at,
    } = event
    else {
        return None;
    };
    Some(Start {
        order_id: order_id.clone(),
        attempt: *attempt,
        in_doubt: *in_doubt,
        at: *at,
    })
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
