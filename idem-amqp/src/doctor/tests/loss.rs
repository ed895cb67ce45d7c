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
