//! Whether this program talks to what it takes the server for, and whether all keys have a place.

use super::{Demands, Facts};
use crate::store::Finding;

const SLOTS: u64 = 16_384;

pub(super) fn finding(facts: &Facts, demands: Demands) -> Option<Finding> {
    if !facts.is("cluster_enabled", "1") {
        return None;
    }
    if !demands.in_a_cluster {
        return Some(Finding::error(
            "redis-cluster",
            "this redis is one node of a cluster, so only the keys of its own slots can be claimed; \
             connect with `redis+cluster://`",
        ));
    }
    let served = facts.number("cluster_slots_ok")?;
    (served < SLOTS).then(|| {
        Finding::error("redis-cluster", format!(
            "{} of the cluster's {SLOTS} slots have no node that serves them, so their keys cannot \
             be claimed; bring the nodes back or assign the slots to others",
            SLOTS - served
        ))
    })
}
