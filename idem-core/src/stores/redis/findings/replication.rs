//! What a fail-over to a replica forgets.

use std::num::NonZeroUsize;

use super::{Demands, Facts};
use crate::store::Finding;

pub(super) fn finding(facts: &Facts, demands: Demands) -> Option<Finding> {
    if facts.is("role", "slave") {
        return Some(Finding::error(
            "redis-replication",
            "this redis is a replica, which takes no writes, so no key can be claimed there; \
             connect to the primary",
        ));
    }
    let connected = facts.number("connected_slaves")?;
    match demands.replicas {
        Some(asked) => too_few(asked, connected),
        None => (connected > 0).then(|| asynchronous(facts, demands)),
    }
}

fn too_few(asked: NonZeroUsize, connected: u64) -> Option<Finding> {
    (connected < asked.get() as u64).then(|| {
        Finding::error("redis-replication", format!(
            "every answer waits for {asked} replicas, and {connected} are connected, so no key can \
             be claimed; add replicas or lower `min_replicas`"
        ))
    })
}

fn asynchronous(facts: &Facts, demands: Demands) -> Finding {
    const WRITES: &str = "`min-replicas-to-write 1`";
    let lost = "replicas lag behind: a fail-over to one forgets the last writes, and their messages \
                may run again";
    let guarded = facts
        .setting("min-replicas-to-write")
        .is_some_and(|number| number != "0");
    let cure = match (demands.in_a_cluster, guarded) {
        (false, true) => "call `min_replicas(1, …)`".to_owned(),
        (false, false) => format!("call `min_replicas(1, …)` and set {WRITES}"),
        (true, false) => format!("set {WRITES} to bound how many"),
        (true, true) => "`min-replicas-to-write` bounds how many".to_owned(),
    };
    Finding::warning("redis-replication", format!("{lost}; {cure}"))
}
