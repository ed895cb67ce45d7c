//! Delays that the queue itself is to keep.

use idem_core::store::Finding;

use crate::{
    doctor::{Diagnosis, Patient, Version, arguments::Kind},
    wire::retries::Retries,
};

pub(super) const NATIVE_RETRIES: &str = "native-retries";

pub(super) fn look(patient: &Patient<'_>, broker: Option<Version>) -> Option<Diagnosis> {
    let Retries::Native(_) = patient.queue.retries() else {
        return None;
    };
    let name = patient.queue.name();
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
    if patient.kind().is_some_and(|kind| kind != Kind::Quorum) {
        return Some(Diagnosis::broken(Finding::error(
            NATIVE_RETRIES,
            format!(
                "`{name}` is no quorum queue, and delays nothing: messages that failed would come \
                 back at once, without end; {instead}"
            ),
        )));
    }
    let delays = |arguments: &crate::doctor::Arguments| arguments.has("x-delayed-retry-type");
    let delays_nothing = patient
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
