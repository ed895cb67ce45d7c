//! How an existing queue was declared.

use idem_core::store::Finding;

use crate::doctor::{
    Declaration, Diagnosis, Patient,
    arguments::{Arguments, Kind},
    facts::HIDDEN,
    span::Span,
};

pub(super) const TRANSIENT: &str = "transient";
pub(super) const AUTO_DELETE: &str = "auto-delete";
pub(super) const EXPIRES: &str = "expires";
pub(super) const MESSAGE_TTL: &str = "message-ttl";
pub(super) const MAX_LENGTH: &str = "max-length";

pub(super) fn look<'a>(patient: &'a Patient<'a>) -> impl Iterator<Item = Diagnosis> + 'a {
    let found = match &patient.declaration {
        Declaration::Ours => Vec::new(),
        Declaration::Missing => vec![missing(patient)],
        Declaration::Hidden(why) => vec![hidden(patient, why)],
        Declaration::Arguments(arguments) => [
            stream(patient, arguments),
            transient(patient, arguments),
            auto_delete(patient, arguments),
            deleted_unused(patient, arguments),
            expiring(patient, arguments),
            bounded(patient, arguments),
        ]
        .into_iter()
        .flatten()
        .collect(),
    };
    let refused = |text: &String| {
        let text = format!("the worker would not start: {text}");
        Diagnosis::reported(Finding::error("declared-otherwise", text))
    };
    found
        .into_iter()
        .chain(patient.refusals.iter().map(refused))
}

fn missing(patient: &Patient<'_>) -> Diagnosis {
    let name = patient.queue.name();
    Diagnosis::reported(Finding::error(
        "missing",
        format!(
            "the queue `{name}` does not exist, so nothing is consumed; declare it, or let the \
             worker do so with `Queue::quorum`"
        ),
    ))
}

pub(super) fn hidden(patient: &Patient<'_>, why: &str) -> Diagnosis {
    let name = patient.queue.name();
    Diagnosis::reported(Finding::note(
        HIDDEN,
        format!(
            "how the queue `{name}` was declared cannot be looked up ({why}), so it is not known \
             whether it can lose messages; grant the user the configure permission on it, or see to \
             a dead-letter exchange and state its limit with `.assume_delivery_limit(…)`"
        ),
    ))
}

fn stream(patient: &Patient<'_>, arguments: &Arguments) -> Option<Diagnosis> {
    let name = patient.queue.name();
    (arguments.kind() == Kind::Stream).then(|| {
        Diagnosis::broken(Finding::error(
            "stream",
            format!(
                "`{name}` is a stream, which keeps what was acknowledged and takes nothing back; \
                 consume it with `consume_stream(Queue::existing_stream(\"{name}\"))`"
            ),
        ))
    })
}

fn transient(patient: &Patient<'_>, arguments: &Arguments) -> Option<Diagnosis> {
    let name = patient.queue.name();
    (!arguments.durable).then(|| {
        Diagnosis::losing(Finding::error(
            TRANSIENT,
            format!(
                "the queue `{name}` is not durable: a restart of the broker loses its messages; \
                 declare it as durable, or accept that with `.accept(\"{TRANSIENT}\")`"
            ),
        ))
    })
}

fn auto_delete(patient: &Patient<'_>, arguments: &Arguments) -> Option<Diagnosis> {
    let name = patient.queue.name();
    arguments.auto_delete.then(|| {
        Diagnosis::losing(Finding::error(
            AUTO_DELETE,
            format!(
                "the queue `{name}` is deleted with its messages when its last worker stops or \
                 loses its connection; declare it without auto-delete, or accept that with \
                 `.accept(\"{AUTO_DELETE}\")`"
            ),
        ))
    })
}

fn deleted_unused(patient: &Patient<'_>, arguments: &Arguments) -> Option<Diagnosis> {
    let name = patient.queue.name();
    let unused = arguments.milliseconds("x-expires")?;
    Some(Diagnosis::losing(Finding::error(
        EXPIRES,
        format!(
            "the queue `{name}` is deleted with its messages when no worker has consumed it for {}; \
             declare it without `x-expires`, or accept that with `.accept(\"{EXPIRES}\")`",
            Span(unused)
        ),
    )))
}

fn expiring(patient: &Patient<'_>, arguments: &Arguments) -> Option<Diagnosis> {
    let name = patient.queue.name();
    let age = arguments.milliseconds("x-message-ttl")?;
    patient.has_no_target().then(|| {
        Diagnosis::reported(Finding::error(
            MESSAGE_TTL,
            format!(
                "the queue `{name}` drops what is older than {}, also what was returned for another \
                 attempt, unless a policy gives it a dead-letter exchange; give it one, or accept \
                 that with `.accept(\"{MESSAGE_TTL}\")`",
                Span(age)
            ),
        ))
    })
}

fn bounded(patient: &Patient<'_>, arguments: &Arguments) -> Option<Diagnosis> {
    let name = patient.queue.name();
    (arguments.drops_when_full() && patient.has_no_target()).then(|| {
        Diagnosis::reported(Finding::error(
            MAX_LENGTH,
            format!(
                "the queue `{name}` drops its oldest messages when it is full, unless a policy says \
                 otherwise; set `x-overflow` to `reject-publish` or give it a dead-letter exchange, \
                 or accept that with `.accept(\"{MAX_LENGTH}\")`"
            ),
        ))
    })
}
