//! A queue with its handler, and which ones a worker can have.

use std::{
    any::{TypeId, type_name},
    collections::{HashMap, HashSet},
    sync::Arc,
};

use futures_util::future::BoxFuture;
use idem_core::{
    ErrorChain, Policy, Store, StoreError,
    executor::Sharing,
    handler::{Enforcement, Keyless, Operation, StoreOutage},
    message::PositionKind,
    store::RecordedByError,
};

use super::{handler_runner::RunHandler, registrar::Register, route::Route, stream::StreamSource};
use crate::{
    doctor::{Batches, CheckedQueue, Gaps},
    error::BuildError,
    telemetry::Meters,
    topology::{Binding, Queue},
    wire::Sessions,
};

/// Asks whether the store can do what one handler needs, whose type is forgotten.
pub(super) type Fit = Arc<dyn Fn() -> BoxFuture<'static, Result<(), Hindrance>> + Send + Sync>;

/// What a store says of what a handler needs.
pub(super) enum Hindrance {
    /// It does not have it: what the finding is called, and what it says.
    Unfit(&'static str, String),
    /// It does not answer: it is away.
    Silent(String),
}

impl From<RecordedByError> for Hindrance {
    fn from(error: RecordedByError) -> Self {
        match error {
            RecordedByError::Store { .. } => Self::Silent(ErrorChain::of(&error).to_string()),
            error => Self::Unfit("constraint", error.to_string()),
        }
    }
}

/// Asked about its outbox.
impl From<StoreError> for Hindrance {
    fn from(error: StoreError) -> Self {
        let text = ErrorChain::of(&error).to_string();
        match error {
            StoreError::Refused(_) => Self::Unfit("outbox", text),
            _ => Self::Silent(text),
        }
    }
}

/// A queue and what handles its messages; or those that one of its routes takes.
pub(crate) struct Subscription {
    pub(crate) queue: Queue,
    /// Which messages it takes, if others of the queue have other handlers. The routes of a queue stand one after the
    /// other.
    pub(super) route: Option<Route>,
    /// The policy by which its messages are handled: the queue's own, or else its handler's.
    pub(crate) policy: Policy,
    /// How many of its handlers the store lets run at once.
    pub(crate) limit: Option<usize>,
    /// How its handler's messages share transactions, if they do.
    pub(crate) sharing: Option<Sharing>,
    /// The batches of its handler, if it has any.
    pub(crate) batch: Option<Batches>,
    pub(super) handler: HandlerType,
    pub(super) runner: Arc<dyn RunHandler>,
    pub(super) meters: Arc<Meters>,
    /// Asks whether the store can do what its handler needs.
    pub(super) fit: Fit,
    /// What its handler is to do, and cannot.
    pub(super) in_vain: Option<InVain>,
    /// If its handler's key is a place in a sequence.
    pub(super) numbered: Option<SequenceKept>,
    /// Whether a table of its handler's own says what was handled.
    pub(super) recorded: bool,
    /// Where its handler is, if it is a stream.
    pub(super) source: Option<StreamSource>,
    /// If its clients may open sessions.
    pub(super) served: Option<Served>,
}

/// What a handler is to do, and cannot on this store or in its mode.
#[derive(Debug, Clone, Copy)]
pub(super) enum InVain {
    FailsOpen,
    Observes,
    RunsUnclaimed,
    Publishes,
    /// What is to be a stream is a queue.
    Reads,
    /// Scope and stream are no key, so that the mark has no name.
    Marks,
}

/// Which handler it is, and the scope of its keys.
#[derive(Debug, Clone, Copy)]
pub(crate) struct HandlerType {
    scope: &'static str,
    /// By which its own table records what it has done, if that does.
    constraint: Option<&'static str>,
    id: TypeId,
    name: &'static str,
}

impl HandlerType {
    pub(super) fn of<H: Operation>() -> Self {
        Self {
            scope: H::SCOPE,
            constraint: H::RECORDED_BY.map(|recorded| recorded.constraint()),
            id: TypeId::of::<H>(),
            name: type_name::<H>(),
        }
    }

    pub(super) fn is<H: Operation>(self) -> bool {
        self.id == TypeId::of::<H>()
    }
}

/// What serves the sessions of a queue.
pub(crate) struct Served {
    pub(super) sessions: Sessions,
    pub(super) register: Arc<dyn Register>,
    /// What its handler cannot do in sessions, and what to change.
    pub(super) hindrance: Option<&'static str>,
}

/// Whether a sequence can be kept for a handler: or why not, and what to change.
pub(crate) type SequenceKept = Result<Gaps, &'static str>;

/// What hinders a store from keeping the sequences of a handler's messages, if they have any.
pub(super) fn sequence_of<H: Operation>(
    store: &impl Store,
    policy: &Policy,
) -> Option<SequenceKept> {
    let numbered = H::SEQUENCE?;
    Some(if H::RECORDED_BY.is_some() {
        Err(
            "its handler is recorded by its own table, which knows no mark: leave `RECORDED_BY` out",
        )
    } else if !store.keeps(PositionKind::Sequence) {
        Err(
            "the store keeps no sequences: use one that does, `PostgresStore` say, or a key of parts",
        )
    } else if policy.store_outage() == StoreOutage::FailOpen {
        Err(
            "its handler is to fail open, and the store alone knows which numbers are done: leave `store_outage` out of its policy",
        )
    } else if policy.enforcement() == Enforcement::Plain || policy.keyless() == Keyless::Run {
        Err(
            "its handler is to run without a claim, and a number that runs beside its sequence would leave the others waiting: leave `keyless` and `enforcement` out of its policy, and consume it with `consume`",
        )
    } else if policy.enforcement() == Enforcement::Observe {
        Err(
            "its handler is only to be observed, and a number that runs beside its sequence would leave the others waiting: leave `enforcement` out of its policy",
        )
    } else {
        Ok(numbered
            .patience()
            .map_or(Gaps::WaitedFor, Gaps::SkippedAfter))
    })
}

impl Subscription {
    /// What the doctor is to know of it.
    pub(super) fn checked_queue(&self) -> CheckedQueue {
        CheckedQueue {
            queue: self.queue.clone(),
            handler: self.handler.scope,
            policy: self.policy,
            at_once: self.limit,
            sharing: self.sharing,
            batch: self.batch,
            life: self.served.as_ref().map(|served| served.sessions.lives()),
            numbered: self.numbered.and_then(Result::ok),
            recorded: self.recorded,
        }
    }

    fn is_further_route(&self) -> bool {
        self.route.as_ref().is_some_and(Route::is_further)
    }
}

/// The subscriptions of each queue: one, or one for each route.
pub(super) fn by_queue(subscriptions: &[Subscription]) -> impl Iterator<Item = &[Subscription]> {
    subscriptions.chunk_by(|_, next| next.is_further_route())
}

/// What the doctor is to know of all: a handler with several routes of a queue has its messages by one prefetch.
pub(super) fn checked_queues(subscriptions: &[Subscription]) -> Vec<CheckedQueue> {
    let handlers = by_queue(subscriptions).flat_map(|routes| {
        let mut known = HashSet::new();
        routes
            .iter()
            .filter(move |one| known.insert(one.handler.id))
    });
    handlers.map(Subscription::checked_queue).collect()
}

/// Whether one worker can have these.
pub(super) fn check(subscriptions: &[Subscription]) -> Result<(), BuildError> {
    if subscriptions.is_empty() {
        return Err(BuildError::NothingToConsume);
    }
    let mut names = HashSet::new();
    for subscription in subscriptions {
        let Subscription {
            queue,
            in_vain,
            numbered,
            source,
            ..
        } = subscription;
        let name = queue.name();
        if name.is_empty() || name.len() > 250 || queue.dead_letter_target().is_impossible() {
            return Err(BuildError::QueueName { queue: name.into() });
        }
        if queue.bindings().iter().any(Binding::is_impossible) {
            return Err(BuildError::Binding { queue: name.into() });
        }
        if queue.dead_letter_queue() == Some(name) {
            return Err(BuildError::DeadLettersToItself { queue: name.into() });
        }
        if !subscription.is_further_route() && !names.insert(name) {
            let queue_name = name.into();
            return Err(if queue.is_stream() {
                BuildError::Stream {
                    queue: queue_name,
                    reason:
                        "another handler of this worker reads it: give each a worker of its own"
                            .into(),
                }
            } else {
                BuildError::QueueTwice { queue: queue_name }
            });
        }
        if let Some(reason) = queue.impossible_retries() {
            return Err(BuildError::NativeRetries {
                queue: name.into(),
                reason: reason.into(),
            });
        }
        if queue.is_stream() && source.is_none() && !matches!(in_vain, Some(InVain::Marks)) {
            return Err(BuildError::Stream {
                queue: name.into(),
                reason: "consume it with `consume_stream`, on a store that keeps its mark".into(),
            });
        }
        if let Some(Err(reason)) = numbered {
            return Err(BuildError::SequenceOptions {
                queue: name.into(),
                reason: (*reason).into(),
            });
        }
        let queue = name.into();
        match in_vain {
            None => {}
            Some(InVain::FailsOpen) => return Err(BuildError::AtomicFailsOpen { queue }),
            Some(InVain::RunsUnclaimed) => return Err(BuildError::AtomicUnclaimed { queue }),
            Some(InVain::Observes) => return Err(BuildError::AtomicObserved { queue }),
            Some(InVain::Publishes) => return Err(BuildError::NoOutbox { queue }),
            Some(InVain::Marks) => {
                return Err(BuildError::Stream {
                    queue,
                    reason: "its handler's scope and its own name are no key, so that its mark has no name: correct them".into(),
                });
            }
            Some(InVain::Reads) => {
                return Err(BuildError::Stream {
                    queue,
                    reason: "it is a queue: consume it with `consume`, or name a stream with `Queue::stream`".into(),
                });
            }
        }
    }
    let served = subscriptions.iter();
    served
        .filter_map(|one| objection(one, &names))
        .try_for_each(Err)?;
    apart(subscriptions.iter().map(|one| one.handler))
}

/// Whether no two of these handlers take the other's messages for copies of their own. The same handler on two queues
/// is meant to; two types are two handlers, also if both are made from one generic type.
fn apart(handlers: impl Iterator<Item = HandlerType>) -> Result<(), BuildError> {
    let (mut scopes, mut constraints) = (HashMap::new(), HashMap::new());
    for handler in handlers {
        let first = *scopes.entry(handler.scope).or_insert(handler);
        if first.id != handler.id {
            // docs/decisions/0026
            return Err(BuildError::ScopeTwice {
                scope: handler.scope.into(),
                one: first.name.into(),
                other: handler.name.into(),
            });
        }
        let Some(constraint) = handler.constraint else {
            continue;
        };
        let first = *constraints.entry(constraint).or_insert(handler);
        if first.id != handler.id {
            return Err(BuildError::ConstraintTwice {
                constraint: constraint.into(),
                one: first.name.into(),
                other: handler.name.into(),
            });
        }
    }
    Ok(())
}

/// Why a queue cannot serve sessions, if it is to and cannot.
fn objection(subscription: &Subscription, names: &HashSet<&str>) -> Option<BuildError> {
    let Subscription { queue, served, .. } = subscription;
    let (served, control) = (served.as_ref()?, queue.control_queue()?);
    let taken = names.contains(&*control) || queue.dead_letter_queue() == Some(&control);
    let reason = if taken {
        Some(
            "its queue of registrations is the queue of that name with `.sessions` at its end, which is in use",
        )
    } else if control.len() > 255 {
        Some("its name is too long: use at most 246 bytes")
    } else if queue.replies_to_nobody() {
        Some(
            "its clients wait for replies: leave `.no_replies()` out, or consume it with `.consume`",
        )
    } else {
        served.sessions.objection().or(served.hindrance)
    };
    reason.map(|reason| BuildError::Sessions {
        queue: queue.name().into(),
        reason: reason.into(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A handler is known by its type; any type will do here.
    fn handler<H: 'static>(scope: &'static str) -> HandlerType {
        HandlerType {
            scope,
            constraint: None,
            id: TypeId::of::<H>(),
            name: type_name::<H>(),
        }
    }

    fn refused(handlers: &[HandlerType]) -> Option<String> {
        let error = apart(handlers.iter().copied()).err()?;
        Some(error.to_string())
    }

    #[test]
    fn a_handler_may_have_several_queues_and_its_scope_for_itself() {
        let charge = handler::<u8>("orders.charge");
        let notify = handler::<u16>("orders.notify");
        assert_eq!(refused(&[charge, notify, charge]), None);
    }

    #[test]
    fn two_handlers_of_one_scope_are_both_named() {
        let orders = [handler::<u8>("orders"), handler::<u16>("orders")];
        let text = refused(&orders).expect("they are refused");
        for part in ["`u8`", "`u16`", "`orders`", "scope = "] {
            assert!(text.contains(part), "{text}");
        }
    }

    #[test]
    fn two_handlers_that_one_constraint_records_are_both_named() {
        let recorded = |handler: HandlerType| HandlerType {
            constraint: Some("processed_message_id_key"),
            ..handler
        };
        let ship = recorded(handler::<u8>("orders.ship"));
        assert_eq!(refused(&[ship, ship]), None);
        let mail = recorded(handler::<u16>("orders.mail"));
        let text = refused(&[ship, mail]).expect("they are refused");
        for part in ["`u8`", "`u16`", "`processed_message_id_key`"] {
            assert!(text.contains(part), "{text}");
        }
    }

    #[test]
    fn two_types_made_from_a_generic_one_are_two_handlers() {
        let orders = [
            handler::<Option<u8>>("orders"),
            handler::<Option<u16>>("orders"),
        ];
        assert!(refused(&orders).is_some());
    }
}
