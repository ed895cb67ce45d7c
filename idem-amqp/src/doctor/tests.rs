//! What is said about which facts.

use std::time::Duration;

use idem_core::{
    Policy,
    handler::{Backoff, Enforcement},
    settlement::{Ladder, OnFailure},
    store::Severity,
};

use super::*;
use crate::topology::Queue;

mod lateness;
mod loss;
mod many;
mod places;

const SECOND: Duration = Duration::from_secs(1);
const HOUR: Duration = Duration::from_hours(1);

const V3_10: Product = Product::RabbitMq(Version::new(3, 10));
const V4_0: Product = Product::RabbitMq(Version::new(4, 0));
const V4_3: Product = Product::RabbitMq(Version::new(4, 3));

fn facts(broker: Product, queue: &Queue, policy: Policy, declaration: Declaration) -> Facts {
    Facts {
        broker,
        forgets: false,
        left_to_others: false,
        replay_window: Duration::ZERO,
        queues: vec![QueueFacts {
            checked: CheckedQueue {
                queue: queue.clone(),
                handler: "orders.charge",
                policy,
                at_once: None,
                sharing: None,
                batch: None,
                life: None,
                numbered: None,
                recorded: false,
            },
            answers: Answers {
                declaration,
                dead_letters: Declaration::Ours,
                registrations: None,
                refusals: Vec::new(),
            },
        }],
    }
}

fn declared<const N: usize>(values: [(&str, &str); N]) -> Declaration {
    let values = values.map(|(name, value)| (name.to_owned(), value.to_owned()));
    Declaration::Arguments(Arguments {
        values: values.into(),
        ..Arguments::default()
    })
}

/// What is found: severity, code, and whether it bars.
fn found(facts: &Facts) -> Vec<(Severity, &'static str, Bars)> {
    let said = examine(facts).into_iter();
    said.map(|one| (one.finding.severity, one.finding.code, one.bars))
        .collect()
}

fn of_existing<const N: usize>(
    broker: Product,
    values: [(&str, &str); N],
) -> Vec<(Severity, &'static str, Bars)> {
    let queue = Queue::existing("orders");
    found(&facts(broker, &queue, Policy::DEFAULT, declared(values)))
}

fn policy(
    change: impl FnOnce(idem_core::handler::PolicyBuilder) -> idem_core::handler::PolicyBuilder,
) -> Policy {
    change(Policy::builder()).build().unwrap()
}

#[test]
fn a_queue_that_the_worker_declares_has_no_findings() {
    for broker in [V3_10, V4_0, V4_3, Product::NotAsked] {
        for queue in [
            Queue::quorum("orders"),
            Queue::classic("orders"),
            Queue::quorum("orders").local_retries(),
        ] {
            let facts = facts(broker, &queue, Policy::DEFAULT, Declaration::Ours);
            assert_eq!(found(&facts), [], "{broker:?} {queue:?}");
        }
    }
}

#[test]
fn an_existing_queue_with_a_target_and_room_for_all_attempts_has_no_findings() {
    let dead_lettering = ("x-dead-letter-exchange", "");
    let quorum = ("x-queue-type", "quorum");
    for broker in [V3_10, V4_0, V4_3] {
        assert_eq!(of_existing(broker, [quorum, dead_lettering]), []);
        assert_eq!(of_existing(broker, []), [], "a classic queue has no limit");
    }
    assert_eq!(of_existing(V3_10, [quorum]), [], "no limit by itself");
}

#[test]
fn what_is_accepted_is_a_note_and_bars_nothing() {
    let queue = Queue::existing("orders")
        .accept("transient")
        .accept("no-dead-letter-target");
    let arguments = Arguments {
        durable: false,
        values: [("x-queue-type".into(), "quorum".into())].into(),
        ..Arguments::default()
    };
    let facts = facts(
        V4_0,
        &queue,
        Policy::DEFAULT,
        Declaration::Arguments(arguments),
    );
    let expected = [
        (Severity::Note, "transient", Bars::No),
        (Severity::Note, "no-dead-letter-target", Bars::No),
    ];
    assert_eq!(found(&facts), expected);
}

#[test]
fn accepting_what_nothing_is_named_like_is_noticed() {
    let queue = Queue::quorum("orders").accept("no-such-thing");
    let facts = facts(V4_3, &queue, Policy::DEFAULT, Declaration::Ours);
    assert_eq!(
        found(&facts),
        [(Severity::Warning, "unknown-acceptance", Bars::No)]
    );
}

#[test]
fn what_cannot_be_looked_up_is_a_note_and_bars_nothing() {
    let queue = Queue::existing("orders");
    let hidden = Declaration::Hidden("access refused".into());
    let said = found(&facts(V4_0, &queue, Policy::DEFAULT, hidden));
    assert_eq!(said, [(Severity::Note, "hidden", Bars::No)]);
    let said = found(&facts(V4_0, &queue, Policy::DEFAULT, Declaration::Missing));
    assert_eq!(said, [(Severity::Error, "missing", Bars::No)]);
}

#[test]
fn a_broker_that_is_too_old_bars_the_start_and_an_unknown_one_is_noted() {
    let queue = Queue::quorum("orders");
    let found = |broker| found(&facts(broker, &queue, Policy::DEFAULT, Declaration::Ours));
    let old = Product::RabbitMq(Version::new(3, 9));
    assert_eq!(
        found(old),
        [(Severity::Error, "broker-version", Bars::Always)]
    );
    assert_eq!(
        found(Product::Unknown),
        [(Severity::Note, "broker-version", Bars::No)]
    );
}

#[test]
fn native_retries_need_a_broker_and_a_queue_that_have_them() {
    let ours = Queue::quorum("orders").native_retries(SECOND, 60 * SECOND);
    let existing = Queue::existing("orders").native_retries(SECOND, 60 * SECOND);
    let quorum = ("x-queue-type", "quorum");
    let target = ("x-dead-letter-exchange", "");
    let delaying = ("x-delayed-retry-type", "all");
    let barred = vec![(Severity::Error, "native-retries", Bars::Always)];
    let warned = vec![(Severity::Warning, "native-retries", Bars::No)];
    let table = [
        (V4_0, &ours, Declaration::Ours, barred.clone()),
        (V4_3, &ours, Declaration::Ours, vec![]),
        (
            V4_0,
            &existing,
            declared([quorum, target, delaying]),
            barred.clone(),
        ),
        (
            V4_3,
            &existing,
            declared([quorum, target, delaying]),
            vec![],
        ),
        (V4_3, &existing, declared([quorum, target]), warned),
        (V4_3, &existing, declared([]), barred),
    ];
    for (broker, queue, declaration, expected) in table {
        let facts = facts(broker, queue, Policy::DEFAULT, declaration);
        assert_eq!(found(&facts), expected, "{facts:?}");
    }
}

#[test]
fn a_handler_that_is_only_observed_is_a_warning() {
    let observing = policy(|policy| policy.enforcement(Enforcement::Observe));
    let queue = Queue::quorum("orders");
    let said = found(&facts(V4_3, &queue, observing, Declaration::Ours));
    assert_eq!(said, [(Severity::Warning, "observed", Bars::No)]);
    let accepted = queue.accept("observed");
    let said = found(&facts(V4_3, &accepted, observing, Declaration::Ours));
    assert_eq!(said, [(Severity::Note, "observed", Bars::No)]);
}

#[test]
fn a_store_that_forgets_is_a_warning_about_the_worker() {
    let queue = Queue::quorum("orders");
    let mut facts = facts(V4_0, &queue, Policy::DEFAULT, Declaration::Ours);
    facts.forgets = true;
    let said = examine(&facts);
    assert_eq!(said.len(), 1);
    assert_eq!(said[0].finding.code, "memory-store");
    assert_eq!(said[0].finding.subject, None);
}

#[test]
fn a_worker_that_does_not_purge_is_told_that_somebody_has_to() {
    let queue = Queue::quorum("orders");
    let mut facts = facts(V4_0, &queue, Policy::DEFAULT, Declaration::Ours);
    facts.left_to_others = true;
    let said = found(&facts);
    assert_eq!(said, [(Severity::Note, "not-purged", Bars::No)]);
}

#[test]
fn the_most_severe_comes_first_and_names_its_queue() {
    let queue = Queue::existing("orders").prefetch(1001);
    let declaration = declared([("x-queue-type", "quorum")]);
    let said = examine(&facts(V4_0, &queue, Policy::DEFAULT, declaration));
    let severities: Vec<_> = said.iter().map(|one| one.finding.severity).collect();
    assert_eq!(severities, [Severity::Error, Severity::Warning]);
    assert!(
        said.iter()
            .all(|one| one.finding.subject.as_deref() == Some("orders"))
    );
}
