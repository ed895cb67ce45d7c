//! What a server's settings mean for the keys that it is to remember.

use std::num::NonZeroUsize;

use redis::RedisError;

use super::{facts::Facts, fault};
use crate::store::Finding;

mod eviction;
mod persistence;
mod replication;
#[cfg(test)]
mod tests;
mod topology;
mod version;

/// What this program asks of the servers.
#[derive(Debug, Clone, Copy)]
pub(super) struct Demands {
    pub(super) in_a_cluster: bool,
    pub(super) replicas: Option<NonZeroUsize>,
}

/// Everything there is to say, as a function of what the servers say themselves. What is so on
/// several of them is said once.
pub(super) fn of_all(servers: &[Facts], demands: Demands) -> Vec<Finding> {
    let mut findings = Vec::new();
    for finding in servers.iter().flat_map(|facts| of_one(facts, demands)) {
        if !findings.contains(&finding) {
            findings.push(finding);
        }
    }
    findings
}

fn of_one(facts: &Facts, demands: Demands) -> impl Iterator<Item = Finding> {
    [
        version::finding(facts),
        topology::finding(facts, demands),
        eviction::finding(facts),
        persistence::finding(facts),
        replication::finding(facts, demands),
    ]
    .into_iter()
    .flatten()
}

/// Why none of the scripts would run.
pub(super) fn too_old(servers: &[Facts]) -> Option<Finding> {
    servers.iter().find_map(version::finding)
}

/// Servers that do not tell.
pub(super) fn silent(error: RedisError) -> Finding {
    let error = fault::explained(error);
    Finding::note(
        "redis-silent",
        format!(
            "redis does not tell its settings ({error}), so it is not known what it forgets; ask who \
         runs it about `maxmemory-policy`, `appendonly` and replicas"
        ),
    )
}
