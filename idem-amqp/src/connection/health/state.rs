//! The state of a worker at one moment.

use idem_core::store::PurgeRuns;
use tokio::time::Instant;

use super::{
    Problem, ProblemKind, condition::Condition, gaps::Gaps, outbox::OutboxState, pause::Pause,
    registrations::Registrations,
};

/// What is waited for.
#[derive(Debug)]
pub(super) enum WhatFor {
    /// The store's answer.
    Store,
    /// The broker's alarm to end.
    Alarm,
    /// The confirmation of a retry, a dead letter or a reply of this queue.
    Confirm(String),
}

/// The state of a worker at one moment.
#[derive(Debug, Default)]
pub(super) struct State {
    pub(super) phase: Phase,
    /// The broker that the worker is connected to.
    pub(super) broker: Option<String>,
    pub(super) connection: Condition,
    pub(super) queues: Vec<QueueState>,
    pub(super) store: Condition,
    /// Whether the store answers clients of sessions.
    pub(super) registrations: Registrations,
    /// Whether handlers run with the store.
    pub(super) protection: Condition,
    pub(super) publishing: Condition,
    pub(super) outbox: OutboxState,
    /// If the worker purges its store.
    pub(super) purging: Option<PurgeRuns>,
}

#[derive(Debug, Default)]
pub(super) struct QueueState {
    pub(super) name: String,
    pub(super) consuming: Condition,
    /// Whether its retries and dead letters are confirmed.
    pub(super) letters: Condition,
    /// The gaps in its sequences.
    pub(super) gaps: Gaps,
    /// If it is a stream: whether it was truncated above the mark.
    pub(super) truncation: Condition,
    /// If it is a stream: whether it reaches the mark.
    pub(super) reach: Condition,
    /// If it is a stream: whether the mark moves while messages are there.
    pub(super) progress: Condition,
    /// If it is a stream: whether it goes on, or stops at a message that cannot be handled.
    pub(super) handling: Condition,
    /// When the log was told of numbers that were done long ago.
    pub(super) stale: Pause,
}

/// Where a worker is in its life.
#[derive(Debug, Clone, Copy, Default)]
pub(super) enum Phase {
    #[default]
    Built,
    Running,
    Draining,
    /// It was told to stop, and has.
    Drained,
    /// It failed, or was dropped.
    Ended(Instant),
}

impl State {
    pub(super) fn new<'a>(queues: impl Iterator<Item = &'a str>) -> Self {
        Self {
            queues: queues
                .map(|name| QueueState {
                    name: name.to_owned(),
                    ..QueueState::default()
                })
                .collect(),
            ..Self::default()
        }
    }

    /// Nothing is connected yet, and nothing is known to be wrong.
    pub(super) fn start(&mut self, now: Instant) {
        self.phase = Phase::Running;
        self.connection = Condition::ill(now);
        for queue in &mut self.queues {
            queue.consuming = Condition::ill(now);
            queue.letters = Condition::well(now);
            queue.truncation = Condition::well(now);
            queue.reach = Condition::well(now);
            queue.progress = Condition::well(now);
            queue.handling = Condition::well(now);
        }
        self.store = Condition::well(now);
        self.registrations = Registrations::default();
        self.protection = Condition::well(now);
        self.publishing = Condition::well(now);
        self.outbox = OutboxState::well(now);
    }

    pub(super) fn end(&mut self, now: Instant) {
        self.phase = match self.phase {
            Phase::Draining => Phase::Drained,
            _ => Phase::Ended(now),
        };
    }

    pub(super) fn queue(&mut self, name: &str) -> Option<&mut QueueState> {
        self.queues.iter_mut().find(|queue| queue.name == name)
    }

    /// The condition of what is waited for.
    pub(super) fn condition(&mut self, what_for: &WhatFor) -> Option<&mut Condition> {
        match what_for {
            WhatFor::Store => Some(&mut self.store),
            WhatFor::Alarm => Some(&mut self.publishing),
            WhatFor::Confirm(queue) => Some(&mut self.queue(queue)?.letters),
        }
    }

    /// Whether the store answers: whoever has waited for it the longest tells.
    fn longest_outage(&self, now: Instant) -> &Condition {
        match self.registrations.told(now) {
            Some(told) if told.ill_for(now) > self.store.ill_for(now) => told,
            _ => &self.store,
        }
    }

    /// Everything that is wrong, while it should not be. A queue that is not consumed because there
    /// is no connection is a problem, too.
    pub(super) fn problems(&self, now: Instant) -> Vec<Problem> {
        match self.phase {
            Phase::Running => {}
            Phase::Ended(since) => {
                return vec![Problem {
                    kind: ProblemKind::Ended,
                    lasting: now - since,
                    error: None,
                }];
            }
            Phase::Built | Phase::Draining | Phase::Drained => return Vec::new(),
        }
        let mut problems = Vec::new();
        let mut look = |kind, condition: &Condition| {
            if let Some(lasting) = condition.ill_for(now) {
                let error = condition.error().map(str::to_owned);
                problems.push(Problem {
                    kind,
                    lasting,
                    error,
                });
            }
        };
        look(ProblemKind::Disconnected, &self.connection);
        for QueueState {
            name, consuming, ..
        } in &self.queues
        {
            let queue = name.clone();
            look(ProblemKind::NotConsuming { queue }, consuming);
        }
        for QueueState {
            name,
            truncation,
            reach,
            progress,
            handling,
            ..
        } in &self.queues
        {
            let queue = name.clone();
            look(ProblemKind::StreamTruncated { queue }, truncation);
            let queue = name.clone();
            look(ProblemKind::MarkBeyondEnd { queue }, reach);
            let queue = name.clone();
            look(ProblemKind::StreamStalled { queue }, progress);
            let queue = name.clone();
            look(ProblemKind::StreamStopped { queue }, handling);
        }
        look(ProblemKind::StoreUnavailable, self.longest_outage(now));
        for QueueState { name, letters, .. } in &self.queues {
            let queue = name.clone();
            look(ProblemKind::Unpublished { queue }, letters);
        }
        look(ProblemKind::Unprotected, &self.protection);
        look(ProblemKind::Blocked, &self.publishing);
        for (kind, condition) in self.outbox.conditions() {
            look(kind, condition);
        }
        let gaps = self.queues.iter().filter_map(|queue| {
            let (lasting, error) = queue.gaps.longest(now)?;
            Some(Problem {
                kind: ProblemKind::Gap {
                    queue: queue.name.clone(),
                },
                lasting,
                error: Some(error),
            })
        });
        problems.extend(gaps);
        problems
    }
}
