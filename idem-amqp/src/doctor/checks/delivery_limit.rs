//! How often the broker returns a message before it gives it up, against the attempts it has.

use idem_core::store::Finding;

use crate::{
    doctor::{Diagnosis, QueueFacts, Version},
    wire::retries::Retries,
};

pub(super) const DELIVERY_LIMIT: &str = "delivery-limit";
pub(super) const NO_TARGET: &str = "no-dead-letter-target";

pub(super) fn look(known: &QueueFacts, broker: Option<Version>) -> Option<Diagnosis> {
    let limit = known.limit(broker)?;
    let attempts = known.checked.policy.max_attempts();
    let finding = match (limit < u64::from(attempts), known.has_no_target()) {
        (true, lost) => too_low(known, broker, limit, lost),
        (false, true) => no_target(known, limit),
        (false, false) => return None,
    };
    Some(Diagnosis::reported(finding))
}

/// Attempts that end with the process are returns, too: the broker gives a message that ends its
/// worker up before its attempts do.
fn too_low(known: &QueueFacts, broker: Option<Version>, limit: u64, lost: bool) -> Finding {
    let name = known.queue().name();
    let attempts = known.checked.policy.max_attempts();
    let so = format!(
        "the queue `{name}` returns a message {limit} times at most, and its handler has {attempts} \
         attempts{}",
        counted(known, broker)
    );
    let cure = format!("raise `x-delivery-limit` to {attempts} or more, or lower `max_attempts`");
    if lost {
        let text = format!(
            "{so}: a message that ends its worker each time is dropped without a trace, unless a \
             policy gives the queue a dead-letter exchange; {cure}, or accept that with \
             `.accept(\"{DELIVERY_LIMIT}\")`"
        );
        Finding::error(DELIVERY_LIMIT, text)
    } else {
        let text = format!(
            "{so}: a message that ends its worker each time is dead-lettered by the broker, without \
             its reason and its error; {cure}"
        );
        Finding::warning(DELIVERY_LIMIT, text)
    }
}

/// Where failed attempts are returns, the worker keeps a message that is close to the limit.
fn counted(known: &QueueFacts, broker: Option<Version>) -> &'static str {
    let returned = matches!(known.queue().retries(), Retries::Local);
    if returned && broker.is_some_and(Version::counts_returns) {
        " (each failed one counts; close to the limit the message is kept in the worker)"
    } else {
        ""
    }
}

fn no_target(known: &QueueFacts, limit: u64) -> Finding {
    let name = known.queue().name();
    let text = format!(
        "the queue `{name}` drops a message that was returned {limit} times, by workers that \
         crashed, say, or lost their connections, unless a policy gives it a dead-letter exchange; \
         give it one, or accept that with `.accept(\"{NO_TARGET}\")`"
    );
    Finding::error(NO_TARGET, text)
}
