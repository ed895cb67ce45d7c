//! Messages that stand in a sequence or a session.

use super::*;

#[test]
fn numbered_messages_want_a_ladder() {
    let queues = [
        (Queue::quorum("readings"), false),
        (Queue::quorum("readings").local_retries(), true),
        (Queue::existing("readings").ladder(Ladder::default()), false),
    ];
    for (queue, warned) in queues {
        let mut facts = facts(V4_3, &queue, Policy::DEFAULT, Declaration::Ours);
        let code = "sequence-without-ladder";
        let about_ladders = |facts: &Facts| found(facts).iter().any(|one| one.1 == code);
        assert!(!about_ladders(&facts), "{queue:?}");
        facts.queues[0].checked.numbered = Some(Gaps::WaitedFor);
        assert_eq!(about_ladders(&facts), warned, "{queue:?}");
    }
}

#[test]
fn gaps_are_skipped_after_longer_than_what_waits_is_silent() {
    let queue = Queue::quorum("readings");
    let mut facts = facts(V4_3, &queue, Policy::DEFAULT, Declaration::Ours);
    for (seconds, warned) in [(1, true), (179, true), (180, false)] {
        facts.queues[0].checked.numbered = Some(Gaps::SkippedAfter(Duration::from_secs(seconds)));
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
    let queue = Queue::quorum("leases");
    let mut facts = facts(V4_3, &queue, Policy::DEFAULT, Declaration::Ours);
    for (life, warned) in [(None, false), (Some(59), true), (Some(60), false)] {
        facts.queues[0].checked.life = life.map(Duration::from_secs);
        let warning = (Severity::Warning, "session-life", Bars::No);
        let expected = Vec::from_iter(warned.then_some(warning));
        assert_eq!(found(&facts), expected, "{life:?}");
    }
    facts.queues[0].checked.life = Some(Duration::from_secs(10));
    let said = examine(&facts)[0].finding.to_string();
    assert!(
        said.contains("sessions of `leases` end after 10 s"),
        "{said}"
    );
}

#[test]
fn a_queue_of_registrations_that_comes_to_lack_or_lose_signs_of_life_is_told() {
    let queue = Queue::existing("leases").in_sessions();
    let of = |registrations: Declaration| {
        let mut facts = facts(V4_3, &queue, Policy::DEFAULT, Declaration::Ours);
        facts.queues[0].answers.registrations = Some(registrations);
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
        Declaration::Arguments(arguments)
    };
    let table = [
        (Declaration::Ours, vec![]),
        (
            Declaration::Missing,
            vec![(Severity::Error, "missing", Bars::No)],
        ),
        (
            Declaration::Hidden("access refused".into()),
            vec![(Severity::Note, "hidden", Bars::No)],
        ),
        (with(|_| {}), vec![]),
        (
            declared([("x-queue-type", "stream")]),
            vec![(Severity::Error, "stream", Bars::Always)],
        ),
        (with(|queue| queue.durable = false), warning("transient")),
        (
            with(|queue| queue.auto_delete = true),
            warning("auto-delete"),
        ),
        (declared([("x-expires", "1800000")]), warning("expires")),
        (declared([("x-message-ttl", "60000")]), vec![]),
        (declared([("x-max-length", "10")]), warning("max-length")),
        (
            declared([("x-max-length", "10"), ("x-overflow", "reject-publish")]),
            vec![],
        ),
    ];
    for (declaration, expected) in table {
        assert_eq!(of(declaration.clone()), expected, "{declaration:?}");
    }
}
