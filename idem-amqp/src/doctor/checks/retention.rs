//! How long a key is remembered, against how late a copy of its message can come.

use std::time::Duration;

use idem_core::{
    Policy,
    handler::{Backoff, Enforcement, Late},
    settlement::LONGEST_HOLD,
    store::Finding,
};

use crate::{
    doctor::{CheckedQueue, Diagnosis, QueueFacts, span::Span},
    topology::Queue,
    wire::retries::Retries,
};

pub(super) const RETENTION: &str = "retention";

pub(super) fn look(known: &QueueFacts, replay_window: Duration) -> Option<Diagnosis> {
    let CheckedQueue { queue, policy, .. } = &known.checked;
    if policy.enforcement() == Enforcement::Plain {
        // Nothing is remembered.
        return None;
    }
    if known.checked.recorded {
        return look_at_failures(known);
    }
    let in_queue = in_queue(known);
    let latest = latest_copy(queue, policy)
        .saturating_add(in_queue)
        .saturating_add(replay_window);
    if policy.retention() >= latest {
        return None;
    }
    let name = queue.name();
    let queued = part(in_queue, "the queue's `x-message-ttl`");
    let replayed = part(replay_window, "the replay window");
    Some(Diagnosis::reported(Finding::warning(
        RETENTION,
        format!(
            "keys of `{name}` are remembered for {}, and a copy of a message can come {} after it{queued}{replayed}: \
             {}, and attempts would start over; raise `retention`, or shorten the \
             backoff or the ladder",
            Span(policy.retention()),
            Span(latest),
            match policy.late() {
                Late::Quarantine =>
                    "it would be dead-lettered as `late`, if it tells when it was made",
                _ => "it would run again",
            }
        ),
    )))
}

/// What was handled is in the handler's own table; the store remembers failures, each from its own
/// attempt on.
fn look_at_failures(known: &QueueFacts) -> Option<Diagnosis> {
    let CheckedQueue { queue, policy, .. } = &known.checked;
    let longest = away(queue, policy.backoff().longest());
    let latest = longest
        .saturating_add(conflict(queue))
        .saturating_add(in_queue(known));
    if policy.retention() >= latest {
        return None;
    }
    let name = queue.name();
    Some(Diagnosis::reported(Finding::warning(
        RETENTION,
        format!(
            "a failed attempt of `{name}` is remembered for {}, and the next can come {} after it: \
             attempts would start over, without end; raise `retention`, or shorten the backoff or \
             the ladder",
            Span(policy.retention()),
            Span(latest)
        ),
    )))
}

/// A message whose every attempt fails, and which meets a conflict last.
fn latest_copy(queue: &Queue, policy: &Policy) -> Duration {
    let attempts = between_attempts(policy, |wait| away(queue, wait));
    attempts.saturating_add(conflict(queue))
}

/// How long a message may lie in the queue before the broker expires it; nothing if it may lie there for ever, or if
/// nobody tells.
fn in_queue(known: &QueueFacts) -> Duration {
    let ttl = known
        .arguments()
        .and_then(|it| it.milliseconds("x-message-ttl"));
    ttl.unwrap_or_default()
}

fn part(span: Duration, what: &str) -> String {
    match span {
        Duration::ZERO => String::new(),
        span => format!(", {} of it being {what}", Span(span)),
    }
}

/// How long a message is away because its key is held.
fn conflict(queue: &Queue) -> Duration {
    match queue.retries() {
        Retries::Ladder(ladder) => ladder.longest(),
        Retries::Local | Retries::Native(_) => LONGEST_HOLD,
    }
}

/// How long a message really is away for this backoff.
fn away(queue: &Queue, wait: Duration) -> Duration {
    match queue.retries() {
        Retries::Local => wait,
        Retries::Native(delay) => wait.max(delay.max),
        Retries::Ladder(ladder) if wait < ladder.first() => wait,
        // Beyond the longest rung it takes several, each as long as the longest at most.
        Retries::Ladder(ladder) if wait > ladder.longest() => wait.saturating_add(ladder.longest()),
        Retries::Ladder(ladder) => ladder.rung_for(wait),
    }
}

fn between_attempts(policy: &Policy, away: impl Fn(Duration) -> Duration) -> Duration {
    let mut left = policy.max_attempts().saturating_sub(1);
    let mut sum = Duration::ZERO;
    let mut wait = policy.backoff().first();
    while left > 0 && wait < policy.backoff().longest() {
        sum = sum.saturating_add(away(wait));
        wait = wait.saturating_mul(2);
        left -= 1;
    }
    let longest = away(Backoff::longest(&policy.backoff()));
    sum.saturating_add(longest.saturating_mul(left))
}
