//! How an existing queue was declared.

use idem_core::store::Finding;

use crate::doctor::{
    Declaration, Diagnosis, QueueFacts,
    arguments::{Arguments, Kind},
    facts::HIDDEN,
    span::Span,
};

pub(super) const TRANSIENT: &str = "transient";
pub(super) const AUTO_DELETE: &str = "auto-delete";
pub(super) const EXPIRES: &str = "expires";
pub(super) const MESSAGE_TTL: &str = "message-ttl";
pub(super) const MAX_LENGTH: &str = "max-length";

pub(super) fn look(known: &QueueFacts) -> impl Iterator<Item = Diagnosis> {
    let found = match &known.answers.declaration {
        Declaration::Ours => Vec::new(),
        Declaration::Missing => vec![missing(known)],
        Declaration::Hidden(why) => vec![hidden(known, why)],
        Declaration::Arguments(arguments) => [
            stream(known, arguments),
            transient(known, arguments),
            auto_delete(known, arguments),
            deleted_unused(known, arguments),
            expiring(known, arguments),
            bounded(known, arguments),
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
        .chain(known.answers.refusals.iter().map(refused))
}

fn missing(known: &QueueFacts) -> Diagnosis {
    let name = known.queue().name();
    Diagnosis::reported(Finding::error(
        "missing",
        format!(
            "the queue `{name}` does not exist, so nothing is consumed; declare it, or let the \
             worker do so with `Queue::quorum`"
        ),
    ))
}

pub(super) fn hidden(known: &QueueFacts, why: &str) -> Diagnosis {
    let name = known.queue().name();
    Diagnosis::reported(Finding::note(
        HIDDEN,
        format!(
            "how the queue `{name}` was declared cannot be looked up ({why}), so it is not known \
             whether it can lose messages; grant the user the configure permission on it, or see to \
             a dead-letter exchange and state its limit with `.assume_delivery_limit(…)`"
        ),
    ))
}

fn stream(known: &QueueFacts, arguments: &Arguments) -> Option<Diagnosis> {
    let name = known.queue().name();
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

fn transient(known: &QueueFacts, arguments: &Arguments) -> Option<Diagnosis> {
    let name = known.queue().name();
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

fn auto_delete(known: &QueueFacts, arguments: &Arguments) -> Option<Diagnosis> {
    let name = known.queue().name();
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

fn deleted_unused(known: &QueueFacts, arguments: &Arguments) -> Option<Diagnosis> {
    let name = known.queue().name();
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

fn expiring(known: &QueueFacts, arguments: &Arguments) -> Option<Diagnosis> {
    let name = known.queue().name();
    let age = arguments.milliseconds("x-message-ttl")?;
    known.has_no_target().then(|| {
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

fn bounded(known: &QueueFacts, arguments: &Arguments) -> Option<Diagnosis> {
    let name = known.queue().name();
    (arguments.drops_when_full() && known.has_no_target()).then(|| {
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
