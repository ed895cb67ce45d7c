//! What is to be known of a stream.

use idem_core::store::Finding;

use super::{declaration, timeout::timeout};
use crate::doctor::{Declaration, Diagnosis, QueueFacts, Version, arguments::Kind, span::Span};

pub(super) fn look(known: &QueueFacts, broker: Option<Version>) -> impl Iterator<Item = Diagnosis> {
    let found = match &known.answers.declaration {
        Declaration::Missing => Some(missing(known)),
        Declaration::Hidden(why) => Some(declaration::hidden(known, why)),
        Declaration::Arguments(arguments) if arguments.kind() != Kind::Stream => {
            Some(a_queue(known))
        }
        Declaration::Ours | Declaration::Arguments(_) => None,
    };
    found.into_iter().chain([limits(known, broker)])
}

/// What a stream cannot do, and what is done instead.
fn limits(known: &QueueFacts, broker: Option<Version>) -> Diagnosis {
    let name = known.queue().name();
    let fails = if known.queue().stops() {
        let stops = "what fails is tried again here, and it stops at what cannot be handled";
        match timeout(known, broker).filter(|_| known.queue().broker_prefetch() > 1) {
            // The broker closes the channel of a worker that stands still.
            Some(timeout) => format!(
                "{stops} (the broker's `consumer_timeout` has it read again each {}, and some messages behind may start \
                 then, unless its prefetch is 1 or its mark is the only record)",
                Span(timeout)
            ),
            None => stops.to_owned(),
        }
    } else {
        let failures = known.queue().comes_back_to();
        let failures = failures.as_deref().unwrap_or_default();
        let target = known.queue().dead_letter_target();
        format!("what fails goes to the queue `{failures}`, and its dead letters to the {target}")
    };
    Diagnosis::reported(Finding::note(
        "stream",
        format!(
            "`{name}` is a stream, which takes nothing back: {fails}; one worker at a time reads it, and keys are \
             remembered for their retention only, so that older messages run again if the mark is set back"
        ),
    ))
}

fn missing(known: &QueueFacts) -> Diagnosis {
    let name = known.queue().name();
    let constructor = match known.queue().partition() {
        Some(_) => "Queue::super_stream",
        None => "Queue::stream",
    };
    Diagnosis::reported(Finding::error(
        "missing",
        format!(
            "the stream `{name}` does not exist, so nothing is read; declare it, or let the worker do so with \
             `{constructor}`"
        ),
    ))
}

fn a_queue(known: &QueueFacts) -> Diagnosis {
    let name = known.queue().name();
    Diagnosis::broken(Finding::error(
        "not-a-stream",
        format!("`{name}` is no stream; consume it with `consume(Queue::existing(\"{name}\"))`"),
    ))
}
