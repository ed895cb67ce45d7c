//! What the user accepts must be something that the doctor says.

use idem_core::store::Finding;

use crate::doctor::{Diagnosis, QueueFacts};

/// All that can be accepted of a queue.
const ACCEPTABLE: [&str; 26] = [
    crate::doctor::facts::HIDDEN,
    super::batches::BATCH,
    super::declaration::TRANSIENT,
    super::declaration::AUTO_DELETE,
    super::declaration::EXPIRES,
    super::declaration::MESSAGE_TTL,
    super::declaration::MAX_LENGTH,
    super::dead_letters::STREAM,
    super::dead_letters::TRANSIENT,
    super::dead_letters::AUTO_DELETE,
    super::dead_letters::EXPIRES,
    super::dead_letters::MESSAGE_TTL,
    super::dead_letters::MAX_LENGTH,
    super::dead_letters::RETURNS,
    super::delivery_limit::DELIVERY_LIMIT,
    super::delivery_limit::NO_TARGET,
    super::enforcement::OBSERVED,
    super::groups::GROUP,
    super::prefetch::PREFETCH,
    super::prefetch::CONNECTIONS,
    super::retention::RETENTION,
    super::retries::NATIVE_RETRIES,
    super::sequences::SEQUENCE_WITHOUT_LADDER,
    super::sequences::SEQUENCE_SKIPS_SOON,
    super::sessions::SESSION_LIFE,
    super::timeout::CONSUMER_TIMEOUT,
];

pub(super) fn look(known: &QueueFacts) -> impl Iterator<Item = Diagnosis> {
    let accepted = known.queue().accepted().iter();
    let unknown = accepted.filter(|code| !ACCEPTABLE.contains(&code.as_str()));
    unknown.map(|code| {
        Diagnosis::reported(Finding::warning(
            "unknown-acceptance",
            format!(
                "`accept(\"{code}\")` accepts nothing, because no finding about a queue has that \
                 name; use one of {}",
                ACCEPTABLE.join(", ")
            ),
        ))
    })
}
