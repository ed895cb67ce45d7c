//! The table of settlements, row by row.

use ExecutionKind as Kind;

use super::*;
use crate::handler::Policy;

const SECOND: Duration = Duration::from_secs(1);

fn certain(retries: Retries<'_>) -> Circumstances<'_> {
    Circumstances {
        tries: 1,
        random: 1.0,
        remaining: 30 * SECOND,
        retry_after: 7 * SECOND,
        ..Circumstances::new(retries)
    }
}

fn hold(recheck: Duration) -> Settlement {
    Settlement::Hold { recheck }
}

fn requeue(after: Duration) -> Settlement {
    Settlement::Requeue { after }
}

fn retry(after: Duration) -> Settlement {
    Settlement::Retry { after }
}

#[test]
fn every_kind_has_its_settlement() {
    let table = [
        (Kind::Executed, Settlement::Ack),
        (Kind::Unprotected, Settlement::Ack),
        (Kind::Observed, Settlement::Ack),
        (Kind::Unclaimed, Settlement::Ack),
        (Kind::Duplicate, Settlement::Ack),
        (Kind::Conflict, hold(SECOND / 100)),
        (Kind::Failed, requeue(7 * SECOND)),
        (Kind::Refused, Settlement::Ack),
        (Kind::Rejected, Settlement::DeadLetter(Reason::Rejected)),
        (Kind::Exhausted, Settlement::DeadLetter(Reason::Exhausted)),
        (
            Kind::Undecodable,
            Settlement::DeadLetter(Reason::Undecodable),
        ),
        (Kind::Invalid, Settlement::DeadLetter(Reason::Invalid)),
        (Kind::Keyless, Settlement::DeadLetter(Reason::Keyless)),
        (Kind::KeyReused, Settlement::DeadLetter(Reason::KeyReused)),
        (Kind::InDoubt, Settlement::DeadLetter(Reason::InDoubt)),
        (Kind::Stale, Settlement::Ack),
        (
            Kind::SessionExpired,
            Settlement::DeadLetter(Reason::SessionExpired),
        ),
        (
            Kind::BeyondWindow,
            Settlement::DeadLetter(Reason::BeyondWindow),
        ),
        (Kind::Late, Settlement::DeadLetter(Reason::Late)),
        (Kind::Ahead, hold(SECOND / 10)),
        (Kind::StoreUnavailable, hold(SECOND / 5)),
        (Kind::RecordCorrupt, hold(5 * SECOND)),
        (Kind::LeaseLost, requeue(SECOND)),
        (Kind::Abandoned, Settlement::Leave),
        (Kind::Interrupted, Settlement::Leave),
    ];
    assert_eq!(table.map(|(kind, _)| kind), Kind::ALL);
    for (kind, settlement) in table {
        assert_eq!(settle(kind, &certain(Retries::Local)), settlement, "{kind}");
    }
}

/// A copy that is dead-lettered elsewhere, and what the policy drops, included.
#[test]
fn what_would_be_dead_lettered_stops_what_comes_after_it_where_it_is_to_and_nothing_else_does() {
    let policy = Policy::builder()
        .on_duplicate(OnDuplicate::DeadLetter)
        .on_rejected(GivenUp::Ack);
    let policy = policy.build().unwrap();
    let contents = [Content::Published, Content::Unreadable, Content::Withdrawn];
    let policies = [&Policy::DEFAULT, &policy];
    let mut stopped = Vec::new();
    for (content, policy) in contents
        .iter()
        .flat_map(|it| policies.map(|policy| (*it, policy)))
    {
        let passes = Circumstances {
            policy,
            content,
            ..certain(Retries::Here)
        };
        let stops = Circumstances {
            on_failure: OnFailure::Stop,
            ..passes
        };
        for kind in Kind::ALL.iter().copied() {
            let expected = match settle(kind, &passes) {
                Settlement::DeadLetter(reason) => {
                    stopped.push(reason);
                    Settlement::Stop {
                        reason,
                        recheck: 60 * SECOND,
                    }
                }
                other => other,
            };
            assert_eq!(settle(kind, &stops), expected, "{kind} {content:?}");
        }
    }
    for reason in [
        Reason::Rejected,
        Reason::Exhausted,
        Reason::Undecodable,
        Reason::Unreadable,
        Reason::Invalid,
        Reason::Keyless,
        Reason::KeyReused,
        Reason::InDoubt,
        Reason::Duplicate,
        Reason::Late,
    ] {
        assert!(stopped.contains(&reason), "{reason:?}");
    }
}

/// Nobody is left who could try it again, and it cannot be returned.
#[test]
fn a_panic_round_the_handler_stops_a_stream_that_is_to_stop() {
    let now = Circumstances {
        source: Source::Stream,
        on_failure: OnFailure::Stop,
        runner: Runner::Panicked,
        ..certain(Retries::Here)
    };
    let reason = Reason::Exhausted;
    let recheck = 60 * SECOND;
    assert_eq!(
        settle(Kind::Failed, &now),
        Settlement::Stop { reason, recheck }
    );
}

#[test]
fn what_is_given_up_is_dead_lettered_or_dropped_as_the_policy_says() {
    fn now(policy: &Policy, asker: Asker) -> Circumstances<'_> {
        Circumstances {
            policy,
            asker,
            ..certain(Retries::Local)
        }
    }
    let dropping = Policy::builder().on_rejected(GivenUp::Ack).build().unwrap();
    for asker in [Asker::Nobody, Asker::Requester, Asker::Operator] {
        let now = now(&dropping, asker);
        let dropped = Settlement::Drop(Reason::Rejected);
        assert_eq!(settle(Kind::Rejected, &now), dropped);
        let dead = Settlement::DeadLetter(Reason::Exhausted);
        assert_eq!(settle(Kind::Exhausted, &now), dead);
    }
    let not_told = now(&dropping, Asker::NotTold);
    let dropped = Settlement::Drop(Reason::Rejected);
    assert_eq!(settle(Kind::Refused, &not_told), dropped);
    let dropping = Policy::builder().on_exhausted(GivenUp::Ack);
    let dropping = dropping.build().unwrap();
    let now = now(&dropping, Asker::Nobody);
    let dropped = Settlement::Drop(Reason::Exhausted);
    assert_eq!(settle(Kind::Exhausted, &now), dropped);
    let dead = Settlement::DeadLetter(Reason::Rejected);
    assert_eq!(settle(Kind::Rejected, &now), dead);
}

#[test]
fn a_copy_is_settled_as_the_policy_says_unless_it_may_be_the_message_itself_or_somebody_waits() {
    use {OnConflict as Conflict, OnDuplicate as Duplicate};
    let on = |duplicate, conflict| {
        let policy = Policy::builder().on_duplicate(duplicate);
        policy.on_conflict(conflict).build().unwrap()
    };
    let (held, dead) = (hold(SECOND / 100), Settlement::DeadLetter);
    let table = [
        (on(Duplicate::Ack, Conflict::Wait), Settlement::Ack, held),
        (
            on(Duplicate::DeadLetter, Conflict::DeadLetter),
            dead(Reason::Duplicate),
            dead(Reason::Conflict),
        ),
        (
            on(Duplicate::Ack, Conflict::Ack),
            Settlement::Ack,
            Settlement::Drop(Reason::Conflict),
        ),
    ];
    for (policy, duplicate, conflict) in table {
        let now = |asker, delivered| Circumstances {
            policy: &policy,
            asker,
            delivered,
            ..certain(Retries::Local)
        };
        let copy = now(Asker::Nobody, Delivered::First);
        assert_eq!(settle(Kind::Duplicate, &copy), duplicate, "{policy:?}");
        assert_eq!(settle(Kind::Conflict, &copy), conflict, "{policy:?}");
        let others = [
            now(Asker::Nobody, Delivered::Again),
            now(Asker::Requester, Delivered::First),
            now(Asker::Operator, Delivered::First),
        ];
        for other in others {
            assert_eq!(settle(Kind::Duplicate, &other), Settlement::Ack);
            assert_eq!(settle(Kind::Conflict, &other), held, "{other:?}");
        }
        // Neither speaks of numbers that wait for others.
        assert_eq!(settle(Kind::Ahead, &copy), hold(SECOND / 10));
    }
}

#[test]
fn what_is_not_to_wait_in_the_worker_leaves_it_after_a_pause() {
    let policy = Policy::builder().on_conflict(OnConflict::Requeue);
    let policy = policy.build().unwrap();
    let settled = |retries: Retries<'_>| {
        let now = Circumstances {
            policy: &policy,
            ..certain(retries)
        };
        settle(Kind::Conflict, &now)
    };
    assert_eq!(settled(Retries::Local), requeue(SECOND));
    let laddered = settled(Retries::Ladder(&Ladder::default()));
    assert!(matches!(laddered, Settlement::Retry { .. }), "{laddered:?}");
}

#[test]
fn whoever_waits_is_told_that_a_request_is_outside_of_its_session() {
    let now = Circumstances {
        asker: Asker::Requester,
        ..certain(Retries::Local)
    };
    for kind in [Kind::SessionExpired, Kind::BeyondWindow] {
        assert_eq!(settle(kind, &now), Settlement::Ack, "{kind}");
    }
}

#[test]
fn a_refusal_that_reached_nobody_makes_a_dead_letter_of_its_request() {
    let now = Circumstances {
        asker: Asker::NotTold,
        ..certain(Retries::Local)
    };
    for (kind, reason) in [
        (Kind::Refused, Reason::Rejected),
        (Kind::Duplicate, Reason::Rejected),
        (Kind::SessionExpired, Reason::SessionExpired),
        (Kind::BeyondWindow, Reason::BeyondWindow),
    ] {
        let settlement = Settlement::DeadLetter(reason);
        assert_eq!(settle(kind, &now), settlement, "{kind}");
    }
}

#[test]
fn a_message_whose_properties_cannot_be_read_is_told_apart_from_one_whose_body_cannot() {
    let now = Circumstances {
        content: Content::Unreadable,
        ..certain(Retries::Local)
    };
    let unreadable = Settlement::DeadLetter(Reason::Unreadable);
    assert_eq!(settle(Kind::Undecodable, &now), unreadable);
}

#[test]
fn a_message_that_no_route_takes_is_told_apart_from_one_that_its_handler_cannot_decode() {
    let now = Circumstances {
        content: Content::NoRoute,
        ..certain(Retries::Local)
    };
    let no_route = Settlement::DeadLetter(Reason::NoRoute);
    assert_eq!(settle(Kind::Undecodable, &now), no_route);
}

/// It never runs, so that it has to be there still.
#[test]
fn a_replay_outside_of_its_session_is_dead_lettered_again() {
    let now = Circumstances {
        asker: Asker::Operator,
        ..certain(Retries::Local)
    };
    for (kind, reason) in [
        (Kind::Stale, Reason::Stale),
        (Kind::SessionExpired, Reason::SessionExpired),
        (Kind::BeyondWindow, Reason::BeyondWindow),
    ] {
        assert_eq!(settle(kind, &now), Settlement::DeadLetter(reason));
    }
}

/// What comes back later is all that a ladder, or the queue's own delay, makes a difference for.
#[test]
fn how_a_message_comes_back_depends_on_the_queue() {
    let ladder = Ladder::default();
    let table = [
        (Kind::Failed, retry(15 * SECOND), requeue(Duration::ZERO)),
        (Kind::LeaseLost, retry(SECOND), requeue(Duration::ZERO)),
    ];
    for kind in Kind::ALL.iter().copied() {
        let local = settle(kind, &certain(Retries::Local));
        let row = table.iter().copied().find(|(row, ..)| *row == kind);
        let (_, on_ladder, native) = row.unwrap_or((kind, local, local));
        assert_eq!(
            settle(kind, &certain(Retries::Ladder(&ladder))),
            on_ladder,
            "{kind}"
        );
        assert_eq!(settle(kind, &certain(Retries::Native)), native, "{kind}");
        let here = match local {
            Settlement::Requeue { after } => Settlement::Hold { recheck: after },
            other => other,
        };
        assert_eq!(settle(kind, &certain(Retries::Here)), here, "{kind}");
    }
}

#[test]
fn what_others_wait_for_never_leaves_to_come_back() {
    for kind in [Kind::Conflict, Kind::Failed, Kind::LeaseLost] {
        let now = Circumstances {
            held: LONGEST_HOLD,
            full: true,
            last_returns: true,
            retry_after: Duration::MAX,
            ..certain(Retries::Here)
        };
        let settlement = settle(kind, &now);
        let Settlement::Hold { recheck } = settlement else {
            panic!("{kind}: {settlement:?}");
        };
        assert!(recheck <= LONGEST_DELAY, "{kind}: {recheck:?}");
    }
    let panicked = Circumstances {
        runner: Runner::Panicked,
        ..certain(Retries::Here)
    };
    assert_eq!(settle(Kind::Failed, &panicked), requeue(7 * SECOND));
}

#[test]
fn a_conflict_is_waited_for_here_where_others_are_behind_it() {
    let ladder = Ladder::default();
    for (retries, expected) in [
        (Retries::Ladder(&ladder), hold(15 * SECOND)),
        (Retries::Local, hold(SECOND)),
        (Retries::Native, hold(SECOND)),
    ] {
        let now = Circumstances {
            behind: Behind::Lane,
            full: true,
            ..certain(retries)
        };
        assert_eq!(settle(Kind::Conflict, &now), expected, "{retries:?}");
    }
    let long = Circumstances {
        behind: Behind::Mark,
        held: LONGEST_HOLD,
        remaining: Duration::MAX,
        ..certain(Retries::Ladder(&ladder))
    };
    assert_eq!(settle(Kind::Conflict, &long), hold(LONGEST_HOLD));
}

#[test]
fn only_what_leaves_because_of_a_conflict_waits_for_others_behind_it() {
    let ladder = Ladder::default();
    let now = Circumstances {
        behind: Behind::Lane,
        full: true,
        ..certain(Retries::Ladder(&ladder))
    };
    assert_eq!(settle(Kind::Failed, &now), retry(15 * SECOND));
}

#[test]
fn what_a_mark_alone_records_is_left_when_the_lease_of_the_mark_is_lost() {
    let ladder = Ladder::default();
    for retries in [Retries::Here, Retries::Ladder(&ladder), Retries::Local] {
        let now = Circumstances {
            behind: Behind::Mark,
            ..certain(retries)
        };
        assert_eq!(
            settle(Kind::LeaseLost, &now),
            Settlement::Leave,
            "{retries:?}"
        );
        assert_ne!(settle(Kind::Failed, &now), Settlement::Leave, "{retries:?}");
    }
}

#[test]
fn after_a_panic_of_the_code_round_its_handler_a_failed_message_is_returned_or_dead_lettered_and_not_held()
 {
    let panicked = Circumstances {
        runner: Runner::Panicked,
        ..certain(Retries::Local)
    };
    assert_eq!(settle(Kind::Failed, &panicked), requeue(7 * SECOND));
    let close_to_the_limit = Circumstances {
        last_returns: true,
        ..panicked
    };
    let exhausted = Settlement::DeadLetter(Reason::Exhausted);
    assert_eq!(settle(Kind::Failed, &close_to_the_limit), exhausted);
}

#[test]
fn a_failed_delivery_is_never_kept_beyond_the_consumer_timeout() {
    let now = Circumstances {
        retry_after: Duration::MAX,
        ..certain(Retries::Local)
    };
    assert_eq!(settle(Kind::Failed, &now), requeue(LONGEST_DELAY));
}

#[test]
fn a_failed_delivery_takes_the_rung_that_is_long_enough() {
    let ladder = Ladder::default();
    let retries = Retries::Ladder(&ladder);
    let table = [(1001, 5), (5_000, 5), (61_000, 300), (999_999_999, 3600)];
    for (milliseconds, rung) in table {
        let now = Circumstances {
            retry_after: Duration::from_millis(milliseconds),
            ..certain(retries)
        };
        assert_eq!(settle(Kind::Failed, &now), retry(rung * SECOND));
    }
}

#[test]
fn a_delay_below_the_first_rung_is_waited_out_here_if_there_is_room() {
    let ladder = Ladder::default();
    let retries = Retries::Ladder(&ladder);
    let near = Circumstances {
        retry_after: SECOND / 3,
        ..certain(retries)
    };
    assert_eq!(settle(Kind::Failed, &near), requeue(SECOND / 3));
    let full = Circumstances { full: true, ..near };
    assert_eq!(settle(Kind::Failed, &full), retry(SECOND));
    let last_returns = true;
    let close_to_the_limit = Circumstances {
        last_returns,
        ..near
    };
    assert_eq!(settle(Kind::Failed, &close_to_the_limit), retry(SECOND));
    let uncounted = Circumstances {
        counted: Counted::OnTheLadder,
        ..near
    };
    assert_eq!(settle(Kind::Failed, &uncounted), retry(SECOND));
}

#[test]
fn a_delay_below_a_very_long_first_rung_is_not_waited_out_here() {
    let ladder = Ladder::new([12, 24].map(Duration::from_hours)).unwrap();
    let retries = Retries::Ladder(&ladder);
    let now = Circumstances {
        retry_after: LONGEST_DELAY,
        ..certain(retries)
    };
    let rung = Duration::from_hours(12);
    assert_eq!(settle(Kind::Failed, &now), retry(rung));
}

/// Or one that this process remembers until it is, where the policy is to fail open; or a request that
/// its own client has said to await no longer.
#[test]
fn only_these_kinds_are_acknowledged() {
    let ladder = Ladder::default();
    for retries in [Retries::Local, Retries::Ladder(&ladder), Retries::Native] {
        let acked: Vec<_> = (Kind::ALL.iter().copied())
            .filter(|kind| settle(*kind, &certain(retries)) == Settlement::Ack)
            .collect();
        let committed = [
            Kind::Executed,
            Kind::Unprotected,
            Kind::Observed,
            Kind::Unclaimed,
            Kind::Duplicate,
            Kind::Refused,
            Kind::Stale,
        ];
        assert_eq!(acked, committed);
    }
}

#[test]
fn a_record_that_cannot_be_read_is_rechecked_once_a_minute_at_most() {
    let rechecks = [1, 2, 5, 100].map(|tries| {
        let now = Circumstances {
            tries,
            ..certain(Retries::Local)
        };
        settle(Kind::RecordCorrupt, &now)
    });
    assert_eq!(
        rechecks,
        [5, 10, 60, 60].map(|seconds| hold(seconds * SECOND))
    );
}

#[test]
fn a_conflict_is_rechecked_ever_more_rarely() {
    let rechecks = [1, 2, 3, 9, 10, 100].map(|tries| {
        let now = Circumstances {
            tries,
            ..certain(Retries::Local)
        };
        settle(Kind::Conflict, &now)
    });
    let expected = [10, 20, 40, 2560, 5000, 5000].map(|ms| hold(Duration::from_millis(ms)));
    assert_eq!(rechecks, expected);
}

#[test]
fn a_conflict_is_rechecked_just_after_the_lease_ends() {
    let now = Circumstances {
        tries: 10,
        remaining: SECOND,
        ..certain(Retries::Local)
    };
    let recheck = Duration::from_millis(1050);
    assert_eq!(settle(Kind::Conflict, &now), hold(recheck));
}

#[test]
fn a_conflict_with_an_expired_lease_is_no_hot_loop() {
    let now = Circumstances {
        tries: 10,
        remaining: Duration::ZERO,
        random: 0.0,
        ..certain(Retries::Local)
    };
    let Settlement::Hold { recheck } = settle(Kind::Conflict, &now) else {
        panic!("held");
    };
    assert!(recheck >= Duration::from_millis(50));
}

#[test]
fn a_conflict_that_cannot_be_held_any_more_goes_back_after_a_delay() {
    for retries in [Retries::Local, Retries::Native] {
        let over_the_cap = Circumstances {
            full: true,
            ..certain(retries)
        };
        let held_for_long = Circumstances {
            held: LONGEST_HOLD,
            ..certain(retries)
        };
        for now in [over_the_cap, held_for_long] {
            assert_eq!(settle(Kind::Conflict, &now), requeue(SECOND));
        }
    }
}

#[test]
fn the_more_often_it_goes_back_the_longer_is_the_delay() {
    let delays = [0, 1, 2, 3, 4, u32::MAX].map(|returns| {
        let over_the_cap = Circumstances {
            full: true,
            returns,
            ..certain(Retries::Local)
        };
        settle(Kind::Conflict, &over_the_cap)
    });
    assert_eq!(
        delays,
        [1, 2, 4, 8, 8, 8].map(|seconds| requeue(seconds * SECOND))
    );
}

#[test]
fn on_a_ladder_it_takes_a_longer_rung_each_time() {
    let ladder = Ladder::default();
    let retries = Retries::Ladder(&ladder);
    let remaining = Duration::ZERO;
    let rungs = [0, 1, 2, 3].map(|conflicts| {
        let over_the_cap = Circumstances {
            full: true,
            conflicts,
            remaining,
            ..certain(retries)
        };
        let held_for_long = Circumstances {
            full: false,
            held: LONGEST_HOLD,
            ..over_the_cap
        };
        let settlement = settle(Kind::Conflict, &over_the_cap);
        assert_eq!(settle(Kind::Conflict, &held_for_long), settlement);
        settlement
    });
    assert_eq!(rungs, [1, 5, 15, 60].map(|seconds| retry(seconds * SECOND)));
}

#[test]
fn a_number_that_is_ahead_is_rechecked_ever_more_rarely_and_no_hot_loop() {
    let rechecks = [1, 2, 3, 10].map(|tries| {
        let now = Circumstances {
            tries,
            remaining: Duration::ZERO,
            ..certain(Retries::Local)
        };
        settle(Kind::Ahead, &now)
    });
    let expected = [SECOND / 10, SECOND / 5, SECOND * 2 / 5, 5 * SECOND].map(hold);
    assert_eq!(rechecks, expected);
}

#[test]
fn a_number_whose_turn_is_near_waits_for_it_here_though_no_more_may_be_held_but_not_for_long() {
    let ladder = Ladder::default();
    for (full, held, expected) in [
        (false, SECOND, hold(SECOND)),
        (true, SECOND, hold(SECOND / 5)),
        (true, 59 * SECOND, hold(SECOND / 5)),
        (true, LONGEST_HOLD, retry(SECOND)),
        (false, LONGEST_HOLD, retry(SECOND)),
    ] {
        let now = Circumstances {
            near: true,
            full,
            held,
            ..certain(Retries::Ladder(&ladder))
        };
        assert_eq!(settle(Kind::Ahead, &now), expected, "{full} {held:?}");
    }
}

#[test]
fn nothing_is_kept_of_a_number_that_its_publisher_has_withdrawn() {
    let now = Circumstances {
        content: Content::Withdrawn,
        ..certain(Retries::Local)
    };
    assert_eq!(settle(Kind::Rejected, &now), Settlement::Ack);
    assert_eq!(settle(Kind::Ahead, &now), hold(SECOND / 10));
}

#[test]
fn a_number_that_is_ahead_goes_to_the_ladder_for_a_minute_at_most() {
    let ladder = Ladder::default();
    let rungs = [0, 1, 2, 3, 4, u32::MAX].map(|conflicts| {
        let now = Circumstances {
            conflicts,
            full: true,
            ..certain(Retries::Ladder(&ladder))
        };
        settle(Kind::Ahead, &now)
    });
    let expected = [1, 5, 15, 60, 60, 60].map(|seconds| retry(seconds * SECOND));
    assert_eq!(rungs, expected);
    let long = Ladder::new([600 * SECOND, 700 * SECOND]).unwrap();
    let now = Circumstances {
        full: true,
        ..certain(Retries::Ladder(&long))
    };
    assert_eq!(settle(Kind::Ahead, &now), retry(600 * SECOND));
}

#[test]
fn on_a_ladder_it_does_not_come_back_long_before_the_holders_lease_ends() {
    let ladder = Ladder::default();
    let retries = Retries::Ladder(&ladder);
    let now = Circumstances {
        full: true,
        ..certain(retries)
    };
    assert_eq!(settle(Kind::Conflict, &now), retry(15 * SECOND));
}

#[test]
fn a_message_close_to_its_delivery_limit_is_not_returned() {
    let ladder = Ladder::default();
    for retries in [Retries::Local, Retries::Ladder(&ladder)] {
        for kind in Kind::ALL.iter().copied() {
            let close = Circumstances {
                last_returns: true,
                full: true,
                ..certain(retries)
            };
            let settlement = settle(kind, &close);
            let returned = matches!(settlement, Settlement::Requeue { .. });
            assert!(!returned, "{kind} is returned: {retries:?}");
        }
    }
}

#[test]
fn a_queue_that_delays_by_itself_does_not_count_returns() {
    let now = Circumstances {
        last_returns: true,
        ..certain(Retries::Native)
    };
    assert_eq!(settle(Kind::Failed, &now), requeue(Duration::ZERO));
}

/// It may be the message itself, read again after somebody has set the mark back.
#[test]
fn what_a_stream_delivers_is_never_only_a_copy() {
    let (ladder, policy) = (Ladder::default(), Policy::builder());
    let policy = policy
        .on_duplicate(OnDuplicate::DeadLetter)
        .on_conflict(OnConflict::Ack);
    let policy = policy.build().unwrap();
    let from = |source| Circumstances {
        source,
        policy: &policy,
        ..certain(Retries::Ladder(&ladder))
    };
    let ends = |kind| [Source::Queue, Source::Stream].map(|source| settle(kind, &from(source)));
    let [queue, stream] = ends(Kind::Conflict);
    assert_eq!(queue, Settlement::Drop(Reason::Conflict));
    assert!(matches!(stream, Settlement::Hold { .. }), "{stream:?}");
    let dead = Settlement::DeadLetter(Reason::Duplicate);
    assert_eq!(ends(Kind::Duplicate), [dead, Settlement::Ack]);
}

#[test]
fn a_stream_takes_nothing_back() {
    let ladder = Ladder::default();
    let policy = Policy::builder().on_conflict(OnConflict::Requeue);
    let policy = policy.build().unwrap();
    let of_stream = |runner, full| Circumstances {
        source: Source::Stream,
        policy: &policy,
        retry_after: SECOND / 2,
        held: LONGEST_HOLD,
        runner,
        full,
        ..certain(Retries::Ladder(&ladder))
    };
    for kind in Kind::ALL {
        for (runner, full) in [
            (Runner::Runs, false),
            (Runner::Runs, true),
            (Runner::Panicked, false),
        ] {
            let settlement = settle(*kind, &of_stream(runner, full));
            assert!(
                !matches!(settlement, Settlement::Requeue { .. }),
                "{kind}: {settlement:?}"
            );
        }
    }
    // A delay below the first rung is waited out here, if somebody is left to do it.
    let failed = |runner, full| settle(Kind::Failed, &of_stream(runner, full));
    assert_eq!(failed(Runner::Runs, false), hold(SECOND / 2));
    assert_eq!(failed(Runner::Runs, true), retry(SECOND));
    assert_eq!(failed(Runner::Panicked, false), retry(SECOND));
}
