//! Whether the server is new enough.

use super::Facts;
use crate::store::Finding;

/// The first with `SET … PXAT`.
const OLDEST: (u32, u32) = (6, 2);

pub(super) fn finding(facts: &Facts) -> Option<Finding> {
    let version = facts.info.get("redis_version")?;
    let mut numbers = version.split('.').map_while(|part| part.parse().ok());
    let known = (numbers.next()?, numbers.next()?);
    (known < OLDEST).then(|| {
        let (major, minor) = OLDEST;
        Finding::error("redis-version", format!(
            "redis is version {version}, and no key can be claimed there; use {major}.{minor} or newer"
        ))
    })
}
