//! What is to be known of a stream.

use idem_core::store::Finding;

use super::declaration;
use crate::doctor::{Declaration, Diagnosis, Patient, arguments::Kind};

pub(super) fn look<'a>(patient: &'a Patient<'a>) -> impl Iterator<Item = Diagnosis> + 'a {
    let found = match &patient.declaration {
        Declaration::Missing => Some(missing(patient)),
        Declaration::Hidden(why) => Some(declaration::hidden(patient, why)),
        Declaration::Arguments(arguments) if arguments.kind() != Kind::Stream => {
            Some(a_queue(patient))
        }
        Declaration::Ours | Declaration::Arguments(_) => None,
    };
    found.into_iter().chain([limits(patient)])
}

/// What a stream cannot do, and what is done instead.
fn limits(patient: &Patient<'_>) -> Diagnosis {
    let name = patient.queue.name();
    let failures = patient.queue.comes_back_to();
    let failures = failures.as_deref().unwrap_or_default();
    let target = patient.queue.dead_letter_target();
    Diagnosis::reported(Finding::note(
        "stream",
        format!(
            "`{name}` is a stream, which takes nothing back: what fails goes to the queue `{failures}`, and its dead letters \
             to the {target}; one worker at a time reads it, and keys are remembered for their retention only, so that \
             older messages run again if the mark is set back"
        ),
    ))
}

fn missing(patient: &Patient<'_>) -> Diagnosis {
    let name = patient.queue.name();
    let constructor = match patient.queue.partition() {
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

fn a_queue(patient: &Patient<'_>) -> Diagnosis {
    let name = patient.queue.name();
    Diagnosis::broken(Finding::error(
        "not-a-stream",
        format!("`{name}` is no stream; consume it with `consume(Queue::existing(\"{name}\"))`"),
    ))
}
