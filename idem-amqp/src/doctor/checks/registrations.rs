//! How the existing queue of a queue's registrations and signs of life was declared.
//!
//! What it drops is asked again by its clients. What it drops for long ends their sessions.

use idem_core::store::Finding;

use super::declaration::{AUTO_DELETE, EXPIRES, MAX_LENGTH, TRANSIENT};
use crate::doctor::{
    Declaration, Diagnosis, QueueFacts,
    arguments::{Arguments, Kind},
    facts::HIDDEN,
    span::Span,
};

pub(super) fn look(known: &QueueFacts) -> impl Iterator<Item = Diagnosis> {
    let name = known.queue().control_queue().unwrap_or_default();
    let found = match &known.answers.registrations {
        None | Some(Declaration::Ours) => Vec::new(),
        Some(Declaration::Missing) => vec![missing(&name)],
        Some(Declaration::Hidden(why)) => vec![hidden(&name, why)],
        Some(Declaration::Arguments(arguments)) => [
            stream(&name, arguments),
            transient(&name, arguments),
            auto_delete(&name, arguments),
            deleted_unused(&name, arguments),
            bounded(&name, arguments),
        ]
        .into_iter()
        .flatten()
        .collect(),
    };
    found.into_iter()
}

fn missing(name: &str) -> Diagnosis {
    Diagnosis::reported(Finding::error(
        "missing",
        format!(
            "the queue `{name}` does not exist, so no session is opened and none lives on; declare it, or \
             let the worker do so with `Queue::quorum`"
        ),
    ))
}

fn hidden(name: &str, why: &str) -> Diagnosis {
    Diagnosis::reported(Finding::note(
        HIDDEN,
        format!(
            "how the queue `{name}` was declared cannot be looked up ({why}), so it is not known whether \
             it can lose signs of life; grant the user the configure permission on it"
        ),
    ))
}

fn stream(name: &str, arguments: &Arguments) -> Option<Diagnosis> {
    (arguments.kind() == Kind::Stream).then(|| {
        Diagnosis::broken(Finding::error(
            "stream",
            format!(
                "`{name}` is a stream, which keeps what was acknowledged: every worker that starts would \
                 see to old registrations again; declare a quorum queue"
            ),
        ))
    })
}

fn transient(name: &str, arguments: &Arguments) -> Option<Diagnosis> {
    (!arguments.durable).then(|| {
        Diagnosis::reported(Finding::warning(
            TRANSIENT,
            format!(
                "the queue `{name}` is not durable: after a restart of the broker it does not exist, and \
                 sessions end until somebody declares it; declare it as durable, or accept that with \
                 `.accept(\"{TRANSIENT}\")`"
            ),
        ))
    })
}

fn auto_delete(name: &str, arguments: &Arguments) -> Option<Diagnosis> {
    arguments.auto_delete.then(|| {
        Diagnosis::reported(Finding::warning(
            AUTO_DELETE,
            format!(
                "the queue `{name}` is deleted when its last worker stops or loses its connection, and \
                 sessions end until somebody declares it; declare it without auto-delete, or accept \
                 that with `.accept(\"{AUTO_DELETE}\")`"
            ),
        ))
    })
}

fn deleted_unused(name: &str, arguments: &Arguments) -> Option<Diagnosis> {
    let unused = arguments.milliseconds("x-expires")?;
    Some(Diagnosis::reported(Finding::warning(
        EXPIRES,
        format!(
            "the queue `{name}` is deleted when no worker has consumed it for {}, and sessions end until \
             somebody declares it; declare it without `x-expires`, or accept that with \
             `.accept(\"{EXPIRES}\")`",
            Span(unused)
        ),
    )))
}

fn bounded(name: &str, arguments: &Arguments) -> Option<Diagnosis> {
    arguments.drops_when_full().then(|| {
        Diagnosis::reported(Finding::warning(
            MAX_LENGTH,
            format!(
                "the queue `{name}` drops its oldest messages when it is full, signs of life among them, \
                 for want of which sessions end; set `x-overflow` to `reject-publish`, or accept that with \
                 `.accept(\"{MAX_LENGTH}\")`"
            ),
        ))
    })
}
