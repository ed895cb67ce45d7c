//! How long a message may take, and how late a copy may be.

use idem_core::handler::Late;

use super::*;

#[test]
fn a_message_that_may_be_kept_for_longer_than_the_broker_waits_is_a_warning() {
    let warned = [(Severity::Warning, "consumer-timeout", Bars::No)];
    let leased = policy(|policy| policy.lease(HOUR / 2));
    let slow = policy(|policy| policy.backoff(Backoff::new(SECOND, HOUR)));
    let long = policy(|policy| policy.timeout(HOUR / 2));
    let local = Queue::quorum("orders").local_retries();
    let laddered = Queue::quorum("orders");
    let classic = Queue::classic("orders");
    let brief = laddered.clone().assume_consumer_timeout(60 * SECOND);
    let table = [
        (&laddered, V4_0, leased, true),
        (&laddered, V4_0, long, true),
        (
            &laddered.clone().assume_consumer_timeout(HOUR),
            V4_0,
            long,
            false,
        ),
        (&laddered, V4_0, slow, false),
        (&local, V4_0, slow, false),
        (
            &local.clone().assume_consumer_timeout(900 * SECOND),
            V4_0,
            slow,
            true,
        ),
        (
            &laddered.clone().assume_consumer_timeout(HOUR),
            V4_0,
            leased,
            false,
        ),
        (&brief, V4_0, Policy::DEFAULT, true),
        (&classic, V4_0, leased, true),
        (&classic, V4_3, leased, false),
    ];
    for (queue, broker, policy, expected) in table {
        let found = found(&facts(broker, queue, policy, Declaration::Ours));
        assert_eq!(found.contains(&warned[0]), expected, "{queue:?} {broker:?}");
    }
}

/// From 4.3 on, only quorum queues take back what is not settled.
#[test]
fn a_stream_is_read_again_when_the_broker_has_waited_for_long() {
    let stream = Queue::stream("ledger").read_by("ledger.book");
    let stops = stream.clone().on_failure(OnFailure::Stop);
    let alone = stops.clone().prefetch(1);
    let leased = policy(|policy| policy.lease(HOUR / 2));
    let slow = policy(|policy| policy.backoff(Backoff::new(SECOND, HOUR)));
    let brief = stops.clone().assume_consumer_timeout(900 * SECOND);
    let table = [
        (&stream, V4_0, leased, true, None),
        (&stream, V4_3, leased, false, None),
        (&stream, V4_0, slow, false, None),
        // What fails waits in the worker.
        (&brief, V4_0, slow, true, Some("each 15 min")),
        (&stops, V4_0, Policy::DEFAULT, false, Some("each 30 min")),
        (&stops, V4_3, Policy::DEFAULT, false, None),
        (&alone, V4_0, Policy::DEFAULT, false, None),
    ];
    for (queue, broker, policy, warned, again) in table {
        let said = examine(&facts(broker, queue, policy, Declaration::Ours));
        let text = |code| {
            let of_code = said.iter().find(|it| it.finding.code == code);
            of_code.map(|it| it.finding.text.as_str())
        };
        assert_eq!(text("consumer-timeout").is_some(), warned, "{said:?}");
        let limits = text("stream").unwrap();
        assert_eq!(
            limits.contains("read again each"),
            again.is_some(),
            "{limits}"
        );
        assert!(again.is_none_or(|again| limits.contains(again)), "{limits}");
    }
}

#[test]
fn a_timeout_that_the_queue_was_declared_with_counts() {
    let queue = Queue::existing("orders");
    let timed = declared([
        ("x-queue-type", "quorum"),
        ("x-dead-letter-exchange", ""),
        ("x-consumer-timeout", "60000"),
    ]);
    let found = found(&facts(V4_3, &queue, Policy::DEFAULT, timed));
    assert_eq!(found, [(Severity::Warning, "consumer-timeout", Bars::No)]);
}

#[test]
fn a_retention_that_is_shorter_than_a_copy_can_be_late_is_a_warning() {
    let laddered = Queue::quorum("orders");
    let short_ladder = Queue::quorum("orders").ladder(Ladder::new([SECOND]).unwrap());
    let local = Queue::quorum("orders").local_retries();
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
        let found = found(&facts(V4_0, queue, policy, Declaration::Ours));
        let warned = found.contains(&(Severity::Warning, "retention", Bars::No));
        assert_eq!(warned, expected, "{queue:?} {retention:?}");
    }
}

#[test]
fn the_time_that_messages_may_lie_in_their_queue_adds_to_how_late_a_copy_can_be() {
    let queue = Queue::existing("orders").local_retries();
    let declared_with =
        |ttl: &str| declared([("x-message-ttl", ttl), ("x-dead-letter-exchange", "")]);
    // Ten attempts and a conflict take less than an hour of the three days.
    assert_eq!(
        found(&facts(
            V4_0,
            &queue,
            Policy::DEFAULT,
            declared_with("172800000")
        )),
        []
    );
    for (late, becomes) in [
        (Late::Run, "it would run again"),
        (Late::Quarantine, "it would be dead-lettered as `late`"),
    ] {
        let policy = policy(|policy| policy.late(late));
        let said = examine(&facts(V4_0, &queue, policy, declared_with("259200000")));
        assert_eq!(said.len(), 1, "{said:?}");
        let finding = &said[0].finding;
        assert_eq!(finding.code, "retention");
        for expected in ["72 h of it being the queue's `x-message-ttl`", becomes] {
            assert!(finding.text.contains(expected), "{}", finding.text);
        }
    }
}

/// Its table remembers what was done: what is forgotten are failures, which each attempt records anew.
#[test]
fn a_handler_that_its_own_table_records_needs_its_retention_for_failures_alone() {
    let queue = Queue::quorum("orders");
    let found = |retention, replay_window| {
        let backoff = Backoff::new(2 * SECOND, 4 * SECOND);
        let policy = policy(|policy| {
            let policy = policy.retention(retention).max_attempts(100);
            policy.backoff(backoff)
        });
        let mut facts = facts(V4_0, &queue, policy, Declaration::Ours);
        facts.queues[0].checked.recorded = true;
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
    let queue = Queue::quorum("orders");
    let mut facts = facts(V4_0, &queue, Policy::DEFAULT, Declaration::Ours);
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
