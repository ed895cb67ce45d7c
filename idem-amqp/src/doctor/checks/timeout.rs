//! How long the broker waits for a settlement, against how long a message may be with a worker.

use std::time::Duration;

use idem_core::{
    settlement::{LONGEST_DELAY, LONGEST_HOLD},
    store::Finding,
};

use crate::{
    doctor::{Diagnosis, QueueFacts, Version, arguments::Kind, span::Span},
    wire::retries::Retries,
};

pub(super) const CONSUMER_TIMEOUT: &str = "consumer-timeout";

/// The broker's, unless its configuration says otherwise. AMQP does not tell.
const DEFAULT: Duration = Duration::from_mins(30);

pub(super) fn look(known: &QueueFacts, broker: Option<Version>) -> Option<Diagnosis> {
    let timeout = timeout(known, broker)?;
    let (needed, why) = longest(known);
    if needed < timeout {
        return None;
    }
    let name = known.queue().name();
    Some(Diagnosis::reported(Finding::warning(
        CONSUMER_TIMEOUT,
        format!(
            "the broker takes back what a worker has not settled for {}, and a message of `{name}` \
             can be with one for {} because of {why}: the others with it come back, too; raise the \
             broker's `consumer_timeout` and state it with `.assume_consumer_timeout(…)`, or shorten {why}",
            Span(timeout),
            Span(needed)
        ),
    )))
}

/// How long the broker waits for a settlement; `None` if it waits for ever.
pub(super) fn timeout(known: &QueueFacts, broker: Option<Version>) -> Option<Duration> {
    let is_other = matches!(known.kind(), Some(Kind::Classic | Kind::Stream));
    if is_other && broker.is_some_and(|version| !version.times_all_queues()) {
        return None;
    }
    let arguments = known.arguments();
    let argument = arguments.and_then(|arguments| arguments.milliseconds("x-consumer-timeout"));
    let stated = known.queue().stated_timeout();
    let known = [argument, stated].into_iter().flatten().min();
    Some(known.unwrap_or(DEFAULT))
}

/// A handler may run for longer than its lease, which is extended meanwhile; that is for its user
/// to know, unless its policy tells. One that is dropped has run for that long.
fn longest(known: &QueueFacts) -> (Duration, &'static str) {
    let backoff = known.checked.policy.backoff().longest();
    let kept = match known.queue().retries() {
        _ if known.queue().stops() => backoff.min(LONGEST_DELAY),
        Retries::Ladder(ladder) => backoff.min(ladder.first()),
        Retries::Local => backoff.min(LONGEST_DELAY),
        Retries::Native(delay) => backoff.saturating_sub(delay.min).min(LONGEST_DELAY),
    };
    let each = [
        (LONGEST_HOLD, "conflicts"),
        (kept, "its backoff"),
        (known.checked.policy.lease(), "its lease"),
        (
            known.checked.policy.timeout().unwrap_or_default(),
            "its handler's timeout",
        ),
    ];
    each.into_iter()
        .max_by_key(|(span, _)| *span)
        .expect("four of them")
}
