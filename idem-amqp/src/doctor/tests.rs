//! What is said about which facts.

use std::time::Duration;

use idem_core::{Backoff, Enforcement, Policy, Severity};

use super::*;
use crate::{Ladder, Queue};

const SECOND: Duration = Duration::from_secs(1);
const HOUR: Duration = Duration::from_hours(1);

const V3_10: Product = Product::RabbitMq(Version::new(3, 10));
const V4_0: Product = Product::RabbitMq(Version::new(4, 0));
const V4_3: Product = Product::RabbitMq(Version::new(4, 3));

fn facts(broker: Product, queue: &Queue, policy: Policy, told: Told) -> Facts<'_> {
    Facts {
        broker,
        forgets: false,
        replay_window: Duration::ZERO,
        queues: vec![Patient {
            queue,
            policy,
            at_once: None,
            life: None,
            numbered: None,
            recorded: false,
            told,
            registrations: None,
        }],
    }
}

fn told<const N: usize>(values: [(&str, &str); N]) -> Told {
    let values = values.map(|(name, value)| (name.to_owned(), value.to_owned()));
    Told::Arguments(Arguments {
        values: values.into(),
        ..Arguments::default()
    })
}

/// What is found: severity, code, and whether it bars.
fn found(facts: &Facts<'_>) -> Vec<(Severity, &'static str, Bars)> {
    let said = examine(facts).into_iter();
    said.map(|one| (one.finding.severity, one.finding.code, one.bars))
        .collect()
}

fn of_existing<const N: usize>(
    broker: Product,
    values: [(&str, &str); N],
) -> Vec<(Severity, &'static str, Bars)> {
    let queue = Queue::existing("orders");
    found(&facts(broker, &queue, Policy::DEFAULT, told(values)))
}

fn policy(change: impl FnOnce(idem_core::PolicyBuilder) -> idem_core::PolicyBuilder) -> Policy {
    change(Policy::builder()).build().unwrap()
}

#[test]
fn a_queue_that_the_worker_declares_has_no_findings() {
    for broker in [V3_10, V4_0, V4_3, Product::NotAsked] {
        for queue in [
            Queue::declare("orders"),
            Queue::declare("orders").classic(),
            Queue::declare("orders").local_retries(),
        ] {
            let facts = facts(broker, &queue, Policy::DEFAULT, Told::Ours);
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
fn a_delivery_limit_below_the_attempts_loses_messages_that_have_no_target() {
    let quorum = ("x-queue-type", "quorum");
    let target = ("x-dead-letter-exchange", "");
    let limit = |returns| ("x-delivery-limit", returns);
    let lost = [(Severity::Error, "delivery-limit", Bars::No)];
    let without_reason = [(Severity::Warning, "delivery-limit", Bars::No)];
    for broker in [V3_10, V4_0, V4_3] {
        assert_eq!(of_existing(broker, [quorum, limit("9")]), lost);
        assert_eq!(
            of_existing(broker, [quorum, limit("9"), target]),
            without_reason
        );
        assert_eq!(of_existing(broker, [quorum, limit("10"), target]), []);
        assert_eq!(of_existing(broker, [quorum, limit("-1")]), []);
        assert_eq!(
            of_existing(broker, [limit("9")]),
            [],
            "classic queues ignore it"
        );
    }
}

#[test]
fn a_limit_without_a_target_loses_messages_whoever_sets_it() {
    let quorum = ("x-queue-type", "quorum");
    let lost = [(Severity::Error, "no-dead-letter-target", Bars::No)];
    assert_eq!(of_existing(V4_0, [quorum]), lost, "4.0 sets one by itself");
    assert_eq!(
        of_existing(V3_10, [quorum, ("x-delivery-limit", "20")]),
        lost
    );
    let stated = Queue::existing("orders").delivery_limit(20);
    let facts = facts(V3_10, &stated, Policy::DEFAULT, told([quorum]));
    assert_eq!(found(&facts), lost);
}

#[test]
fn more_attempts_than_returns_are_noticed_on_declared_queues_too() {
    let queue = Queue::declare("orders");
    let many = policy(|policy| policy.max_attempts(1001));
    let warned = [(Severity::Warning, "delivery-limit", Bars::No)];
    let found_of = |policy| found(&facts(V3_10, &queue, policy, Told::Ours));
    assert_eq!(
        found_of(policy(|policy| policy
            .max_attempts(1000)
            .retention(1000 * HOUR))),
        []
    );
    assert!(found_of(many).contains(&warned[0]));
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
    let facts = facts(V4_0, &queue, Policy::DEFAULT, Told::Arguments(arguments));
    let expected = [
        (Severity::Note, "transient", Bars::No),
        (Severity::Note, "no-dead-letter-target", Bars::No),
    ];
    assert_eq!(found(&facts), expected);
}

#[test]
fn accepting_what_nothing_is_named_like_is_noticed() {
    let queue = Queue::declare("orders").accept("no-such-thing");
    let facts = facts(V4_3, &queue, Policy::DEFAULT, Told::Ours);
    assert_eq!(
        found(&facts),
        [(Severity::Warning, "unknown-acceptance", Bars::No)]
    );
}

#[test]
fn queues_that_lose_messages_for_certain_bar_the_start() {
    let queue = Queue::existing("orders");
    let found = |arguments: Arguments| {
        found(&facts(
            V4_3,
            &queue,
            Policy::DEFAULT,
            Told::Arguments(arguments),
        ))
    };
    let transient = Arguments {
        durable: false,
        ..Arguments::default()
    };
    assert_eq!(
        found(transient),
        [(Severity::Error, "transient", Bars::UnlessAccepted)]
    );
    let auto_delete = Arguments {
        auto_delete: true,
        ..Arguments::default()
    };
    assert_eq!(
        found(auto_delete),
        [(Severity::Error, "auto-delete", Bars::UnlessAccepted)]
    );
    assert_eq!(
        of_existing(V4_3, [("x-expires", "1800000")]),
        [(Severity::Error, "expires", Bars::UnlessAccepted)]
    );
}

#[test]
fn queues_that_drop_messages_by_age_or_number_are_errors_without_a_target() {
    let target = ("x-dead-letter-exchange", "dlx");
    let aged = ("x-message-ttl", "60000");
    let bounded = ("x-max-length", "100");
    let rejecting = ("x-overflow", "reject-publish");
    let error = |code| [(Severity::Error, code, Bars::No)];
    assert_eq!(of_existing(V4_3, [aged]), error("message-ttl"));
    assert_eq!(of_existing(V4_3, [aged, target]), []);
    assert_eq!(of_existing(V4_3, [bounded]), error("max-length"));
    assert_eq!(of_existing(V4_3, [bounded, target]), []);
    assert_eq!(of_existing(V4_3, [bounded, rejecting]), []);
}

#[test]
fn a_stream_bars_the_start_and_cannot_be_accepted() {
    let queue = Queue::existing("orders").accept("stream");
    let stream = told([("x-queue-type", "stream")]);
    let found = found(&facts(V4_3, &queue, Policy::DEFAULT, stream));
    assert!(
        found.contains(&(Severity::Error, "stream", Bars::Always)),
        "{found:?}"
    );
}

#[test]
fn what_cannot_be_looked_up_is_a_note_and_bars_nothing() {
    let queue = Queue::existing("orders");
    let hidden = Told::Hidden("access refused".into());
    let said = found(&facts(V4_0, &queue, Policy::DEFAULT, hidden));
    assert_eq!(said, [(Severity::Note, "hidden", Bars::No)]);
    let said = found(&facts(V4_0, &queue, Policy::DEFAULT, Told::Missing));
    assert_eq!(said, [(Severity::Error, "missing", Bars::No)]);
}

#[test]
fn a_broker_that_is_too_old_bars_the_start_and_an_unknown_one_is_noted() {
    let queue = Queue::declare("orders");
    let found = |broker| found(&facts(broker, &queue, Policy::DEFAULT, Told::Ours));
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
    let declared = Queue::declare("orders").native_retries(SECOND, 60 * SECOND);
    let existing = Queue::existing("orders").native_retries(SECOND, 60 * SECOND);
    let quorum = ("x-queue-type", "quorum");
    let target = ("x-dead-letter-exchange", "");
    let delaying = ("x-delayed-retry-type", "all");
    let barred = vec![(Severity::Error, "native-retries", Bars::Always)];
    let warned = vec![(Severity::Warning, "native-retries", Bars::No)];
    let table = [
        (V4_0, &declared, Told::Ours, barred.clone()),
        (V4_3, &declared, Told::Ours, vec![]),
        (
            V4_0,
            &existing,
            told([quorum, target, delaying]),
            barred.clone(),
        ),
        (V4_3, &existing, told([quorum, target, delaying]), vec![]),
        (V4_3, &existing, told([quorum, target]), warned),
        (V4_3, &existing, told([]), barred),
    ];
    for (broker, queue, told, expected) in table {
        let facts = facts(broker, queue, Policy::DEFAULT, told);
        assert_eq!(found(&facts), expected, "{facts:?}");
    }
}

#[test]
fn a_message_that_may_be_kept_for_longer_than_the_broker_waits_is_a_warning() {
    let warned = [(Severity::Warning, "consumer-timeout", Bars::No)];
    let leased = policy(|policy| policy.lease(HOUR / 2));
    let patient = policy(|policy| policy.backoff(Backoff::new(SECOND, HOUR)));
    let local = Queue::declare("orders").local_retries();
    let laddered = Queue::declare("orders");
    let classic = Queue::declare("orders").classic();
    let brief = laddered.clone().consumer_timeout(60 * SECOND);
    let table = [
        (&laddered, V4_0, leased, true),
        (&laddered, V4_0, patient, false),
        (&local, V4_0, patient, false),
        (
            &local.clone().consumer_timeout(900 * SECOND),
            V4_0,
            patient,
            true,
        ),
        (
            &laddered.clone().consumer_timeout(HOUR),
            V4_0,
            leased,
            false,
        ),
        (&brief, V4_0, Policy::DEFAULT, true),
        (&classic, V4_0, leased, true),
        (&classic, V4_3, leased, false),
    ];
    for (queue, broker, policy, expected) in table {
        let found = found(&facts(broker, queue, policy, Told::Ours));
        assert_eq!(found.contains(&warned[0]), expected, "{queue:?} {broker:?}");
    }
}

#[test]
fn a_timeout_that_the_queue_was_declared_with_counts() {
    let queue = Queue::existing("orders");
    let timed = told([
        ("x-queue-type", "quorum"),
        ("x-dead-letter-exchange", ""),
        ("x-consumer-timeout", "60000"),
    ]);
    let found = found(&facts(V4_3, &queue, Policy::DEFAULT, timed));
    assert_eq!(found, [(Severity::Warning, "consumer-timeout", Bars::No)]);
}

#[test]
fn a_retention_that_is_shorter_than_a_copy_can_be_late_is_a_warning() {
    let laddered = Queue::declare("orders");
    let short_ladder = Queue::declare("orders").ladder(Ladder::new([SECOND]).unwrap());
    let local = Queue::declare("orders").local_retries();
    let twice = |retention| {
        policy(|policy| {
            let backoff = Backoff::new(2 * SECOND, 4 * SECOND);
            policy.retention(retention).max_attempts(3).backoff(backoff)
        })
    };
    // Waits of 2 s and 4 s; both take the rung of 5 s; a conflict takes the one of an hour.
    let table = [
        (&laddered, HOUR + 9 * SECOND, true),
        (&laddered, HOUR + 10 * SECOND, false),
        // Each takes a rung that is too short, and once more; the conflict takes it, too.
        (&short_ladder, 8 * SECOND + 999 * SECOND / 1000, true),
        (&short_ladder, 30 * SECOND, false),
        // Waits of 2 s and 4 s in the worker, and a minute for the conflict.
        (&local, 65 * SECOND, true),
        (&local, 66 * SECOND, false),
    ];
    for (queue, retention, expected) in table {
        let policy = policy_of(&twice, retention);
        let found = found(&facts(V4_0, queue, policy, Told::Ours));
        let warned = found.contains(&(Severity::Warning, "retention", Bars::No));
        assert_eq!(warned, expected, "{queue:?} {retention:?}");
    }
}

/// Its table remembers what was done: what is forgotten are failures, which each attempt records anew.
#[test]
fn a_handler_that_its_own_table_records_needs_its_retention_for_failures_alone() {
    let queue = Queue::declare("orders");
    let found = |retention, replay_window| {
        let backoff = Backoff::new(2 * SECOND, 4 * SECOND);
        let policy = policy(|policy| {
            let policy = policy.retention(retention).max_attempts(100);
            policy.backoff(backoff)
        });
        let mut facts = facts(V4_0, &queue, policy, Told::Ours);
        facts.queues[0].recorded = true;
        facts.replay_window = replay_window;
        examine(&facts)
    };
    // A wait of 4 s takes the rung of 5 s, and a conflict the one of an hour.
    for replay_window in [Duration::ZERO, 71 * HOUR] {
        assert!(found(HOUR + 5 * SECOND, replay_window).is_empty());
    }
    let said = found(HOUR + 4 * SECOND, Duration::ZERO);
    assert_eq!(said.len(), 1, "{said:?}");
    let finding = &said[0].finding;
    assert_eq!(
        (finding.severity, finding.code),
        (Severity::Warning, "retention")
    );
    assert!(
        finding.text.contains("attempts would start over"),
        "{}",
        finding.text
    );
    assert!(!finding.text.contains("run again"), "{}", finding.text);
}

fn policy_of(make: &impl Fn(Duration) -> Policy, retention: Duration) -> Policy {
    if retention >= Policy::DEFAULT.lease() {
        return make(retention);
    }
    let short = make(HOUR).to_builder().lease(SECOND).retention(retention);
    short.build().unwrap()
}

#[test]
fn the_replay_window_adds_to_how_late_a_copy_can_be() {
    let queue = Queue::declare("orders");
    let mut facts = facts(V4_0, &queue, Policy::DEFAULT, Told::Ours);
    facts.replay_window = 71 * HOUR;
    let said = examine(&facts);
    assert_eq!(said.len(), 1, "{said:?}");
    assert_eq!(said[0].finding.code, "retention");
    assert!(
        said[0]
            .finding
            .text
            .contains("71 h of it being the replay window")
    );
    facts.replay_window = 70 * HOUR;
    assert_eq!(found(&facts), []);
}

#[test]
fn unusual_prefetches_are_said_and_so_is_a_small_pool() {
    let one = Queue::declare("orders").prefetch(1).held(0);
    let many = Queue::declare("orders").prefetch(600);
    let found_of = |queue: &Queue| found(&facts(V4_0, queue, Policy::DEFAULT, Told::Ours));
    assert_eq!(found_of(&one), [(Severity::Note, "prefetch", Bars::No)]);
    assert_eq!(found_of(&many), [(Severity::Warning, "prefetch", Bars::No)]);
    assert_eq!(found_of(&Queue::declare("orders").prefetch(500)), []);
    let queue = Queue::declare("orders").prefetch(16);
    for (limit, expected) in [(None, 0), (Some(17), 0), (Some(16), 0), (Some(15), 1)] {
        let mut facts = facts(V4_0, &queue, Policy::DEFAULT, Told::Ours);
        facts.queues[0].at_once = limit;
        let said = found(&facts);
        assert_eq!(said.len(), expected, "{limit:?}: {said:?}");
    }
}

#[test]
fn a_handler_that_is_only_observed_is_a_warning() {
    let observing = policy(|policy| policy.enforcement(Enforcement::Observe));
    let queue = Queue::declare("orders");
    let said = found(&facts(V4_3, &queue, observing, Told::Ours));
    assert_eq!(said, [(Severity::Warning, "observed", Bars::No)]);
    let accepted = queue.accept("observed");
    let said = found(&facts(V4_3, &accepted, observing, Told::Ours));
    assert_eq!(said, [(Severity::Note, "observed", Bars::No)]);
}

#[test]
fn a_store_that_forgets_is_a_warning_about_the_worker() {
    let queue = Queue::declare("orders");
    let mut facts = facts(V4_0, &queue, Policy::DEFAULT, Told::Ours);
    facts.forgets = true;
    let said = examine(&facts);
    assert_eq!(said.len(), 1);
    assert_eq!(said[0].finding.code, "memory-store");
    assert_eq!(said[0].finding.subject, None);
}

#[test]
fn the_most_severe_comes_first_and_names_its_queue() {
    let queue = Queue::existing("orders").prefetch(600);
    let told = told([("x-queue-type", "quorum")]);
    let said = examine(&facts(V4_0, &queue, Policy::DEFAULT, told));
    let severities: Vec<_> = said.iter().map(|one| one.finding.severity).collect();
    assert_eq!(severities, [Severity::Error, Severity::Warning]);
    assert!(
        said.iter()
            .all(|one| one.finding.subject.as_deref() == Some("orders"))
    );
}

#[test]
fn numbered_messages_want_a_ladder() {
    let queues = [
        (Queue::declare("readings"), false),
        (Queue::declare("readings").local_retries(), true),
        (Queue::existing("readings").ladder(Ladder::default()), false),
    ];
    for (queue, warned) in queues {
        let mut facts = facts(V4_3, &queue, Policy::DEFAULT, Told::Ours);
        let code = "sequence-without-ladder";
        let about_ladders = |facts: &Facts<'_>| found(facts).iter().any(|one| one.1 == code);
        assert!(!about_ladders(&facts), "{queue:?}");
        facts.queues[0].numbered = Some(Gaps::WaitedFor);
        assert_eq!(about_ladders(&facts), warned, "{queue:?}");
    }
}

#[test]
fn gaps_are_skipped_after_longer_than_what_waits_is_silent() {
    let queue = Queue::declare("readings");
    let mut facts = facts(V4_3, &queue, Policy::DEFAULT, Told::Ours);
    for (seconds, warned) in [(1, true), (179, true), (180, false)] {
        facts.queues[0].numbered = Some(Gaps::SkippedAfter(Duration::from_secs(seconds)));
        let warning = (Severity::Warning, "sequence-skips-soon", Bars::No);
        assert_eq!(
            found(&facts),
            Vec::from_iter(warned.then_some(warning)),
            "{seconds} s"
        );
    }
}

#[test]
fn sessions_want_to_outlive_a_lost_connection() {
    let queue = Queue::declare("leases");
    let mut facts = facts(V4_3, &queue, Policy::DEFAULT, Told::Ours);
    for (life, warned) in [(None, false), (Some(59), true), (Some(60), false)] {
        facts.queues[0].life = life.map(Duration::from_secs);
        let warning = (Severity::Warning, "session-life", Bars::No);
        let expected = Vec::from_iter(warned.then_some(warning));
        assert_eq!(found(&facts), expected, "{life:?}");
    }
    facts.queues[0].life = Some(Duration::from_secs(10));
    let said = examine(&facts)[0].finding.to_string();
    assert!(
        said.contains("sessions of `leases` end after 10 s"),
        "{said}"
    );
}

#[test]
fn a_queue_of_registrations_that_comes_to_lack_or_lose_signs_of_life_is_told() {
    let queue = Queue::existing("leases").in_sessions();
    let of = |registrations: Told| {
        let mut facts = facts(V4_3, &queue, Policy::DEFAULT, Told::Ours);
        facts.queues[0].registrations = Some(registrations);
        let said = examine(&facts);
        for one in &said {
            let text = one.finding.to_string();
            assert!(text.contains("`leases.sessions`"), "{text}");
        }
        found(&facts)
    };
    let warning = |code| vec![(Severity::Warning, code, Bars::No)];
    let with = |change: fn(&mut Arguments)| {
        let mut arguments = Arguments::default();
        change(&mut arguments);
        Told::Arguments(arguments)
    };
    let table = [
        (Told::Ours, vec![]),
        (Told::Missing, vec![(Severity::Error, "missing", Bars::No)]),
        (
            Told::Hidden("access refused".into()),
            vec![(Severity::Note, "hidden", Bars::No)],
        ),
        (with(|_| {}), vec![]),
        (
            told([("x-queue-type", "stream")]),
            vec![(Severity::Error, "stream", Bars::Always)],
        ),
        (with(|queue| queue.durable = false), warning("transient")),
        (
            with(|queue| queue.auto_delete = true),
            warning("auto-delete"),
        ),
        (told([("x-expires", "1800000")]), warning("expires")),
        (told([("x-message-ttl", "60000")]), vec![]),
        (told([("x-max-length", "10")]), warning("max-length")),
        (
            told([("x-max-length", "10"), ("x-overflow", "reject-publish")]),
            vec![],
        ),
    ];
    for (told, expected) in table {
        assert_eq!(of(told.clone()), expected, "{told:?}");
    }
}
