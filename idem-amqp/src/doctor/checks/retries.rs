//! Delays that the queue itself is to keep.

use idem_core::store::Finding;

use crate::{
    doctor::{Diagnosis, QueueFacts, Version, arguments::Kind},
    wire::retries::Retries,
};

pub(super) const NATIVE_RETRIES: &str = "native-retries";

pub(super) fn look(known: &QueueFacts, broker: Option<Version>) -> Option<Diagnosis> {
    let Retries::Native(_) = known.queue().retries() else {
        return None;
    };
    let name = known.queue().name();
    let instead = "use the retry ladder (`.ladder(…)`) or `.local_retries()`";
    if let Some(version) = broker.filter(|version| !version.has_native_retries()) {
        return Some(Diagnosis::broken(Finding::error(
            NATIVE_RETRIES,
            format!(
                "the broker is RabbitMQ {version}, whose queues delay nothing: messages of `{name}` \
                 that failed would come back at once, without end; upgrade it to 4.3, or {instead}"
            ),
        )));
    }
    if known.kind().is_some_and(|kind| kind != Kind::Quorum) {
        return Some(Diagnosis::broken(Finding::error(
            NATIVE_RETRIES,
            format!(
                "`{name}` is no quorum queue, and delays nothing: messages that failed would come \
                 back at once, without end; {instead}"
            ),
        )));
    }
    let delays = |arguments: &crate::doctor::Arguments| arguments.has("x-delayed-retry-type");
    let delays_nothing = known
        .arguments()
        .is_some_and(|arguments| !delays(arguments));
    delays_nothing.then(|| {
        Diagnosis::reported(Finding::warning(
            NATIVE_RETRIES,
            format!(
                "the queue `{name}` was declared without `x-delayed-retry-type`: messages that \
                 failed come back at once unless a policy sets it; see to that, or {instead}"
            ),
        ))
    })
}
