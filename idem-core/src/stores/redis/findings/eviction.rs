//! Whether the server forgets keys when its memory is full.

use super::Facts;
use crate::store::Finding;

pub(super) fn finding(facts: &Facts) -> Option<Finding> {
    let policy = facts.info.get("maxmemory_policy")?;
    let bounded = facts.number("maxmemory") != Some(0);
    (bounded && policy != "noeviction").then(|| {
        Finding::warning("redis-eviction", format!(
            "`maxmemory-policy` is `{policy}`: when its memory is full, redis forgets keys before \
             their retention ends, and a copy of their message runs again; set it to `noeviction`"
        ))
    })
}
