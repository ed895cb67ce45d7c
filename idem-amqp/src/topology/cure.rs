//! What to do about a queue or an exchange that cannot be used.

use super::{answer::Answer, permissions};
use crate::{
    error::{TopologyObject as Object, TopologyProblem as Problem},
    topology::{DeadLetterTarget, Queue},
};

/// What the object is to the queue that is to be consumed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Role {
    Itself,
    DeadLetters,
    Ladder,
    /// An exchange that it is bound to.
    Source,
    /// The exchange of the super stream that it is a partition of.
    SuperStream,
    Other,
}

/// One clause for a person to act on, or nothing.
pub(super) fn of(answer: &Answer, queue: &Queue) -> String {
    let role = role(answer, queue);
    match &answer.problem {
        Problem::Different {
            argument, existing, ..
        } => different(role, argument, existing.as_deref(), queue).into(),
        Problem::Missing => missing(role, queue).into(),
        Problem::Forbidden { user, .. } => {
            let command = permissions::command(user, &answer.vhost, queue);
            let without = match role {
                Role::Ladder => "do without the retry ladder with `.local_retries()`, or ",
                _ => "",
            };
            format!(
                "{without}grant what this queue needs, beside what else the user needs: {command}"
            )
        }
        Problem::Other => String::new(),
    }
}

fn role(answer: &Answer, queue: &Queue) -> Role {
    let name = answer.name.as_str();
    let mut bindings = queue.bindings().iter();
    if answer.object == Object::Exchange && bindings.any(|binding| binding.exchange == name) {
        Role::Source
    } else if answer.object == Object::Exchange
        && queue
            .partition()
            .is_some_and(|one| &*one.super_stream == name)
    {
        Role::SuperStream
    } else if answer.object == Object::Queue && name == queue.name() {
        Role::Itself
    } else if is_dead_letter_target(answer, queue) {
        Role::DeadLetters
    } else if name.starts_with("idem.") {
        Role::Ladder
    } else {
        Role::Other
    }
}

fn is_dead_letter_target(answer: &Answer, queue: &Queue) -> bool {
    match queue.dead_letter_target() {
        DeadLetterTarget::Queue(name) => answer.name == *name,
        DeadLetterTarget::Exchange { name, .. } => {
            answer.object == Object::Exchange && answer.name == *name
        }
    }
}

fn different(role: Role, argument: &str, existing: Option<&str>, queue: &Queue) -> &'static str {
    match (role, argument, existing) {
        (Role::SuperStream, ..) => {
            "the exchange of a super stream is direct and durable: choose another name, or, if somebody else declares it and its \
             streams, name it with `Queue::existing_super_stream`"
        }
        (Role::Itself, argument, _)
            if argument != "x-queue-type" && queue.partition().is_some() =>
        {
            "read it as it is with `Queue::existing_super_stream`, unless another version of the program declares it so"
        }
        (Role::Itself, argument, _) if argument != "x-queue-type" && queue.is_stream() => {
            "read it as it is with `Queue::existing_stream`, unless another version of the program declares it so"
        }
        (_, "x-queue-type", Some("stream")) => {
            "it is a stream: consume it with `consume_stream(Queue::existing_stream(…))`, or choose another name"
        }
        (Role::Itself, "x-queue-type", Some("quorum")) => {
            "declare it with `Queue::quorum`, or consume it as it is with `Queue::existing`"
        }
        (Role::Itself, "x-queue-type", _) => {
            "consume it as it is with `Queue::existing`, or, if idem has declared it, declare it with `Queue::classic`"
        }
        (Role::DeadLetters, "x-queue-type", Some("quorum")) => {
            "declare it with `Queue::quorum`, or name another one with `.dead_letters(…)`"
        }
        (Role::DeadLetters, "x-queue-type", _) => {
            "name another one with `.dead_letters(…)`, or, if idem has declared it, declare it with `Queue::classic`"
        }
        (Role::Itself, "x-overflow", None) => {
            "it was declared otherwise, as a classic queue perhaps: consume it as it is with `Queue::existing`, declare it \
             with `Queue::classic`, or delete it when it is empty, to have it declared anew, unless another version of the \
             program declares it so"
        }
        (Role::Itself, ..) => {
            "consume it as it is with `Queue::existing`, or delete it when it is empty, to have it \
             declared anew, unless another version of the program declares it so"
        }
        (Role::DeadLetters, ..) => {
            "name another one with `.dead_letters(…)`, and delete the queue itself when it is empty, which was declared with \
             this one; or delete this one when it is empty, to have it declared anew, unless another version of the \
             program declares it so"
        }
        (Role::Ladder, ..) => {
            "all workers of a vhost share it: delete it when it is empty, to have it declared anew, \
             or do without the retry ladder with `.local_retries()`"
        }
        (Role::Source | Role::Other, ..) => "delete it, to have it declared anew",
    }
}

fn missing(role: Role, queue: &Queue) -> &'static str {
    match role {
        Role::Itself if queue.partition().is_some() => {
            "declare it first, or let the worker do so with `Queue::super_stream`"
        }
        Role::Itself if queue.is_stream() => {
            "declare it first, or let the worker do so with `Queue::stream`"
        }
        Role::Itself => "declare it first, or let the worker do so with `Queue::quorum`",
        Role::DeadLetters => {
            "declare it first, or name another one with `.dead_letters(…)` or `.dead_letter_exchange(…)`"
        }
        Role::Source => "declare it first: `.bind(…)` binds the queue to an exchange that is there",
        Role::SuperStream | Role::Ladder | Role::Other => "declare it first",
    }
}
