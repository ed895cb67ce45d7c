//! What must hold in every world, what must come at last, and what must be possible.

use idem_core::{executor::ExecutionKind, handler::InDoubt};
use stateright::Property;

use crate::{Breach, Delivery, Phase, Protocol, Setting, World};

type Law = Property<Protocol>;

/// At most one worker writes under the lease that is the key's current one.
pub const ONE_HOLDER: &str = "at most one worker holds a key";
/// Nobody takes over before a lease has run out, or tries again before the delay has passed.
pub const IN_TIME: &str = "only a key that is free is acquired";
/// A write under a lease that was taken over or ended has no effect.
pub const FENCED: &str = "a write under another than the current lease changes nothing";
/// No two workers are told that they have completed the same key.
pub const COMPLETED_ONCE: &str = "a key is completed once";
/// No key is completed whose effect has not happened.
pub const NO_FALSE_COMPLETION: &str = "what is completed has been done";
/// Ack means committed, or dead-lettered, or sent again.
pub const ACK_MEANS_COMMITTED: &str = "what is acknowledged has its end";
/// Each message is done, or dead-lettered, or given up and dropped on purpose, or still there.
pub const NOTHING_LOST: &str = "no message is lost";
/// An owner whose lease was ended is not taken for a new one.
pub const ENDED_IS_ENDED: &str = "an owner whose lease was ended does not acquire again";
/// Whoever holds a key, or has completed it, is told so when the answer was lost.
pub const CONFIRMED: &str = "what has taken effect is confirmed when it is repeated";
/// Atomic, or quarantined in doubt: not even a crash repeats an effect.
pub const EFFECT_ONCE: &str = "an effect happens once";
/// Leased: an effect is only repeated by an attempt that is told that it may have happened.
pub const REPEATED_IN_DOUBT: &str = "an effect is repeated only in doubt";
/// Every path ends, and at its end nothing is left to do.
pub const SETTLED: &str = "every message is settled";

/// A lease that ran out was taken over while its holder still works.
pub const TAKEN_OVER: &str = "a lease is taken over from a worker that goes on";
/// A worker that was taken over has done its work all the same.
pub const ZOMBIE: &str = "a worker completes what was taken over";
/// A further copy of a message that is done.
pub const DUPLICATE: &str = "a duplicate is acknowledged";
/// A completion that took effect, and whose answer was lost.
pub const ASKED_AGAIN: &str = "a completion is repeated that has taken effect";
/// A call arrives when its lease is not the current one any more.
pub const LATE_CALL: &str = "a write arrives after its lease was ended";
/// A message that nobody could handle.
pub const GIVEN_UP: &str = "a message is dead-lettered when its attempts are used up";
/// A message that nobody could handle, where the policy is to keep nothing of it.
pub const DROPPED: &str = "a message is dropped when it is given up";
/// Where what is given up is dropped.
pub const NO_DEAD_LETTER: &str = "nothing is dead-lettered but what is in doubt";
/// What the guarantees say of leased handlers.
pub const REPEATED: &str = "an effect happens twice";

/// The properties to check in a setting.
pub(crate) fn properties(setting: &Setting) -> Vec<Law> {
    let mut properties = safety();
    if setting.repeats_effects() {
        properties.push(Law::always(REPEATED_IN_DOUBT, |_, world| {
            !world.breaches.contains(&Breach::RepeatedUntold)
        }));
        properties.push(Law::sometimes(REPEATED, |_, world| repeated(world)));
    } else {
        properties.push(Law::always(EFFECT_ONCE, |_, world| !repeated(world)));
    }
    properties.push(Law::eventually(SETTLED, |_, world| world.is_settled()));
    properties.extend(reached());
    properties.extend(given_up(setting));
    properties
}

fn safety() -> Vec<Law> {
    vec![
        Law::always(ONE_HOLDER, |_, world| {
            (0..world.messages.len()).all(|message| holders(world, message) <= 1)
        }),
        Law::always(IN_TIME, |_, world| {
            !world.breaches.contains(&Breach::AcquiredTooEarly)
        }),
        Law::always(FENCED, |_, world| {
            !world.breaches.contains(&Breach::StaleWrite)
        }),
        Law::always(COMPLETED_ONCE, |_, world| {
            !world.breaches.contains(&Breach::CompletedTwice)
        }),
        Law::always(NO_FALSE_COMPLETION, |_, world| {
            let mut messages = world.messages.iter();
            messages.all(|message| message.effects > 0 || !message.kept.is_completed())
        }),
        Law::always(ACK_MEANS_COMMITTED, |_, world| {
            !world.breaches.contains(&Breach::AckedTooEarly)
        }),
        Law::always(NOTHING_LOST, |_, world| {
            (0..world.messages.len()).all(|message| !is_lost(world, message))
        }),
        Law::always(CONFIRMED, |_, world| {
            !world.breaches.contains(&Breach::Denied)
        }),
        Law::always(ENDED_IS_ENDED, |_, world| {
            !world.breaches.contains(&Breach::AcquiredAgain)
        }),
    ]
}

/// That these are found shows that the checks above have looked at them.
fn reached() -> Vec<Law> {
    vec![
        Law::sometimes(TAKEN_OVER, |_, world| {
            let mut workers = world.workers.iter().flatten();
            workers
                .any(|worker| matches!(worker.phase, Phase::Running(_)) && is_stale(world, worker))
        }),
        Law::sometimes(ZOMBIE, |_, world| {
            let mut workers = world.workers.iter().flatten();
            workers.any(|worker| {
                matches!(worker.phase, Phase::Completing(_) | Phase::Committing(_))
                    && is_stale(world, worker)
            })
        }),
        Law::sometimes(DUPLICATE, |_, world| acks(world, ExecutionKind::Duplicate)),
        Law::sometimes(ASKED_AGAIN, |_, world| {
            let mut workers = world.workers.iter().flatten();
            workers.any(|worker| {
                matches!(worker.phase, Phase::Completing(_) | Phase::Attributing(_))
                    && world.messages[worker.message].kept.is_completed()
                    && !is_stale(world, worker)
            })
        }),
        Law::sometimes(LATE_CALL, |_, world| {
            let mut calls = world.under_way.iter();
            calls.any(|call| {
                let holder = world.messages[call.message].kept.holder();
                call.ask.token().is_some_and(|token| Some(token) != holder)
            })
        }),
    ]
}

/// What becomes of a message that nobody could handle.
fn given_up(setting: &Setting) -> Vec<Law> {
    if !setting.drops_what_is_given_up() {
        return vec![Law::sometimes(GIVEN_UP, |_, world| {
            acks(world, ExecutionKind::Exhausted)
        })];
    }
    vec![
        Law::sometimes(DROPPED, |_, world| {
            world.messages.iter().any(|message| message.dropped)
        }),
        Law::always(NO_DEAD_LETTER, |protocol, world| {
            let quarantines = protocol.setting.policy.in_doubt() == InDoubt::Quarantine;
            quarantines || world.messages.iter().all(|message| !message.dead_lettered)
        }),
    ]
}

fn repeated(world: &World) -> bool {
    world.messages.iter().any(|message| message.effects > 1)
}

fn acks(world: &World, kind: ExecutionKind) -> bool {
    let mut workers = world.workers.iter().flatten();
    workers.any(|worker| worker.phase == Phase::Acking(kind))
}

/// Whether the key has been claimed anew since.
fn is_stale(world: &World, worker: &Delivery) -> bool {
    let last = world.messages[worker.message].kept.last_claim();
    worker.token() < last.map(|(token, _)| token)
}

fn holders(world: &World, message: usize) -> usize {
    let Some(current) = world.messages[message].kept.holder() else {
        return 0;
    };
    let deliveries = world.deliveries(message);
    deliveries
        .filter(|delivery| delivery.token() == Some(current))
        .count()
}

fn is_lost(world: &World, message: usize) -> bool {
    let its = &world.messages[message];
    let mut deliveries = world.deliveries(message);
    its.ready == 0 && !its.has_an_end() && !deliveries.any(|delivery| delivery.attached)
}
