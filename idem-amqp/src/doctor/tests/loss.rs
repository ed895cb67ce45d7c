//! What may lose messages.

use super::*;

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
    let stated = Queue::existing("orders").assume_delivery_limit(20);
    let facts = facts(V3_10, &stated, Policy::DEFAULT, declared([quorum]));
    assert_eq!(found(&facts), lost);
}

#[test]
fn more_attempts_than_returns_are_noticed_on_declared_queues_too() {
    let queue = Queue::quorum("orders");
    let many = policy(|policy| policy.max_attempts(1001));
    let warned = [(Severity::Warning, "delivery-limit", Bars::No)];
    let found_of = |policy| found(&facts(V3_10, &queue, policy, Declaration::Ours));
    assert_eq!(
        found_of(policy(|policy| policy
            .max_attempts(1000)
            .retention(1000 * HOUR))),
        []
    );
    assert!(found_of(many).contains(&warned[0]));
}

#[test]
fn queues_that_lose_messages_for_certain_bar_the_start() {
    let queue = Queue::existing("orders");
    let found = |arguments: Arguments| {
        found(&facts(
            V4_3,
            &queue,
            Policy::DEFAULT,
            Declaration::Arguments(arguments),
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
    let stream = declared([("x-queue-type", "stream")]);
    let found = found(&facts(V4_3, &queue, Policy::DEFAULT, stream));
    assert!(
        found.contains(&(Severity::Error, "stream", Bars::Always)),
        "{found:?}"
    );
}

#[test]
fn of_a_stream_that_is_read_as_one_it_is_said_what_it_cannot_do() {
    let read = |queue: Queue| queue.read_by("orders.charge");
    let found_of =
        |queue: &Queue, declaration| found(&facts(V4_3, queue, Policy::DEFAULT, declaration));
    let limits = (Severity::Note, "stream", Bars::No);
    let (ours, theirs) = (read(Queue::stream("s")), read(Queue::existing_stream("s")));
    assert_eq!(found_of(&ours, Declaration::Ours), [limits]);
    let stream = declared([("x-queue-type", "stream")]);
    assert_eq!(found_of(&theirs, stream), [limits]);
    let no_stream = (Severity::Error, "not-a-stream", Bars::Always);
    let quorum = declared([("x-queue-type", "quorum")]);
    assert_eq!(found_of(&theirs, quorum), [no_stream, limits]);
    let missing = (Severity::Error, "missing", Bars::No);
    assert_eq!(found_of(&theirs, Declaration::Missing), [missing, limits]);
}

/// What is found of an existing queue with this dead-letter queue.
fn of_dead_letters(
    broker: Product,
    queue: &Queue,
    dead_letters: Declaration,
) -> Vec<(Severity, &'static str, Bars)> {
    let mut facts = facts(broker, queue, Policy::DEFAULT, Declaration::Ours);
    facts.queues[0].answers.dead_letters = dead_letters;
    for one in examine(&facts) {
        let text = one.finding.to_string();
        assert!(text.contains("`orders.dead`"), "{text}");
    }
    found(&facts)
}

#[test]
fn a_dead_letter_queue_that_drops_letters_bars_the_start() {
    let quorum = ("x-queue-type", "quorum");
    let bounded = ("x-max-length", "1");
    let properties = |durable, auto_delete| {
        Declaration::Arguments(Arguments {
            durable,
            auto_delete,
            ..Arguments::default()
        })
    };
    let table = [
        (properties(false, false), vec!["dead-letters-transient"]),
        (properties(true, true), vec!["dead-letters-auto-delete"]),
        (
            declared([("x-expires", "1000")]),
            vec!["dead-letters-expires"],
        ),
        (
            declared([("x-message-ttl", "1000")]),
            vec!["dead-letters-message-ttl"],
        ),
        (declared([bounded]), vec!["dead-letters-max-length"]),
        (
            declared([("x-max-length-bytes", "1")]),
            vec!["dead-letters-max-length"],
        ),
        (
            declared([bounded, ("x-overflow", "reject-publish")]),
            vec![],
        ),
        (
            declared([quorum, ("x-delivery-limit", "20")]),
            vec!["dead-letters-delivery-limit"],
        ),
        (
            declared([quorum, ("x-delivery-limit", "1000000000")]),
            vec![],
        ),
        (declared([quorum, ("x-delivery-limit", "-1")]), vec![]),
        (declared([("x-delivery-limit", "20")]), vec![]),
        (
            declared([("x-queue-type", "stream")]),
            vec!["dead-letters-stream"],
        ),
        (declared([]), vec![]),
        (Declaration::Ours, vec![]),
    ];
    let queue = Queue::existing("orders");
    for (dead_letters, codes) in table {
        let accepted = codes
            .iter()
            .fold(queue.clone(), |queue, code| queue.accept(*code));
        let barred: Vec<_> = codes
            .iter()
            .map(|code| (Severity::Error, *code, Bars::UnlessAccepted))
            .collect();
        assert_eq!(of_dead_letters(V3_10, &queue, dead_letters.clone()), barred);
        let noted: Vec<_> = codes
            .iter()
            .map(|code| (Severity::Note, *code, Bars::No))
            .collect();
        assert_eq!(of_dead_letters(V3_10, &accepted, dead_letters), noted);
    }
}

#[test]
fn what_the_worker_is_refused_to_declare_as_its_dead_letter_queue_cannot_be_accepted() {
    let queue = Queue::quorum("orders").accept("dead-letters-message-ttl");
    let aged = declared([("x-message-ttl", "1000")]);
    let barred = [(Severity::Error, "dead-letters-message-ttl", Bars::Always)];
    assert_eq!(of_dead_letters(V3_10, &queue, aged), barred);
}

#[test]
fn a_limit_of_the_brokers_own_on_dead_letters_is_an_error_that_a_policy_may_lift() {
    let queue = Queue::existing("orders");
    let quorum = || declared([("x-queue-type", "quorum")]);
    assert_eq!(of_dead_letters(V3_10, &queue, quorum()), []);
    let error = [(Severity::Error, "dead-letters-delivery-limit", Bars::No)];
    for broker in [V4_0, V4_3] {
        assert_eq!(of_dead_letters(broker, &queue, quorum()), error);
    }
}

#[test]
fn letters_that_go_on_to_another_queue_are_not_lost_and_those_that_go_in_a_circle_are() {
    let queue = Queue::existing("orders");
    let aged = ("x-message-ttl", "1000");
    let exchange = |name| ("x-dead-letter-exchange", name);
    let key = |name| ("x-dead-letter-routing-key", name);
    let lost = [(
        Severity::Error,
        "dead-letters-message-ttl",
        Bars::UnlessAccepted,
    )];
    for (to, expected) in [
        (declared([aged, exchange("archive")]), &[][..]),
        (declared([aged, exchange(""), key("archive")]), &[]),
        (declared([aged, exchange(""), key("orders.dead")]), &lost),
        (declared([aged, exchange("")]), &lost),
    ] {
        assert_eq!(
            of_dead_letters(V4_3, &queue, to.clone()),
            expected,
            "{to:?}"
        );
    }
}

#[test]
fn a_dead_letter_queue_that_is_missing_or_hidden_is_told() {
    let queue = Queue::existing("orders");
    let missing = [(Severity::Error, "missing", Bars::No)];
    assert_eq!(of_dead_letters(V4_3, &queue, Declaration::Missing), missing);
    let hidden = Declaration::Hidden("access refused".into());
    let noted = [(Severity::Note, "hidden", Bars::No)];
    assert_eq!(of_dead_letters(V4_3, &queue, hidden), noted);
}
