//! The table of settlements, row by row.

use ExecutionKind as Kind;

use super::*;

const SECOND: Duration = Duration::from_secs(1);

fn certain() -> Circumstances {
    Circumstances {
        claims: 1,
        random: 1.0,
        remaining: 30 * SECOND,
        retry_after: 7 * SECOND,
        ..Circumstances::default()
    }
}

#[test]
fn every_kind_has_its_settlement() {
    let table = [
        (Kind::Executed, Settlement::Ack),
        (Kind::Unprotected, Settlement::Ack),
        (Kind::Duplicate, Settlement::Ack),
        (
            Kind::Conflict,
            Settlement::Hold {
                recheck: SECOND / 10,
            },
        ),
        (Kind::Failed, Settlement::Requeue { after: 7 * SECOND }),
        (Kind::Rejected, Settlement::DeadLetter(Reason::Rejected)),
        (Kind::Exhausted, Settlement::DeadLetter(Reason::Exhausted)),
        (
            Kind::Undecodable,
            Settlement::DeadLetter(Reason::Undecodable),
        ),
        (Kind::Keyless, Settlement::DeadLetter(Reason::Keyless)),
        (Kind::KeyReused, Settlement::DeadLetter(Reason::KeyReused)),
        (Kind::InDoubt, Settlement::DeadLetter(Reason::InDoubt)),
        (
            Kind::StoreUnavailable,
            Settlement::Hold {
                recheck: SECOND / 5,
            },
        ),
        (
            Kind::RecordCorrupt,
            Settlement::Hold {
                recheck: 5 * SECOND,
            },
        ),
        (Kind::LeaseLost, Settlement::Requeue { after: SECOND }),
        (Kind::Abandoned, Settlement::Leave),
        (Kind::Interrupted, Settlement::Leave),
    ];
    assert_eq!(table.map(|(kind, _)| kind), Kind::ALL);
    for (kind, settlement) in table {
        assert_eq!(settle(kind, &certain()), settlement, "{kind}");
    }
}

#[test]
fn a_failed_delivery_is_never_kept_beyond_the_consumer_timeout() {
    let now = Circumstances {
        retry_after: Duration::MAX,
        ..certain()
    };
    let after = LONGEST_DELAY;
    assert_eq!(settle(Kind::Failed, &now), Settlement::Requeue { after });
}

/// Or one that this process remembers until it is, where the policy is to fail open.
#[test]
fn only_a_committed_completion_is_acknowledged() {
    let acked: Vec<_> = (Kind::ALL.iter().copied())
        .filter(|kind| settle(*kind, &certain()) == Settlement::Ack)
        .collect();
    assert_eq!(acked, [Kind::Executed, Kind::Unprotected, Kind::Duplicate]);
}

#[test]
fn a_record_that_cannot_be_read_is_rechecked_once_a_minute_at_most() {
    let rechecks = [1, 2, 5, 100].map(|claims| {
        settle(
            Kind::RecordCorrupt,
            &Circumstances {
                claims,
                ..certain()
            },
        )
    });
    let expected = [5, 10, 60, 60].map(|seconds| Settlement::Hold {
        recheck: seconds * SECOND,
    });
    assert_eq!(rechecks, expected);
}

#[test]
fn a_conflict_is_rechecked_ever_more_rarely() {
    let rechecks = [1, 2, 3, 6, 7, 100].map(|claims| {
        settle(
            Kind::Conflict,
            &Circumstances {
                claims,
                ..certain()
            },
        )
    });
    let expected = [100, 200, 400, 3200, 5000, 5000].map(|ms| Settlement::Hold {
        recheck: Duration::from_millis(ms),
    });
    assert_eq!(rechecks, expected);
}

#[test]
fn a_conflict_is_rechecked_just_after_the_lease_ends() {
    let now = Circumstances {
        claims: 7,
        remaining: SECOND,
        ..certain()
    };
    let recheck = Duration::from_millis(1050);
    assert_eq!(settle(Kind::Conflict, &now), Settlement::Hold { recheck });
}

#[test]
fn a_conflict_with_an_expired_lease_is_no_hot_loop() {
    let now = Circumstances {
        remaining: Duration::ZERO,
        random: 0.0,
        ..certain()
    };
    let Settlement::Hold { recheck } = settle(Kind::Conflict, &now) else {
        panic!("held");
    };
    assert!(recheck >= Duration::from_millis(50));
}

#[test]
fn a_conflict_over_the_cap_goes_back_to_the_queue_after_a_delay() {
    let now = Circumstances {
        full: true,
        ..certain()
    };
    assert_eq!(
        settle(Kind::Conflict, &now),
        Settlement::Requeue { after: SECOND }
    );
}

#[test]
fn a_message_close_to_its_delivery_limit_is_kept_and_not_returned() {
    for kind in Kind::ALL {
        let far = settle(*kind, &certain());
        let close = Circumstances {
            last_returns: true,
            full: true,
            ..certain()
        };
        match (settle(*kind, &close), far) {
            (Settlement::Requeue { .. }, _) => panic!("{kind} is returned"),
            (Settlement::Hold { .. }, _) => {}
            (close, far) => assert_eq!(close, far, "{kind}"),
        }
    }
}

#[test]
fn a_conflict_held_for_long_goes_back_to_the_queue_after_a_delay() {
    let now = Circumstances {
        held: LONGEST_HOLD,
        ..certain()
    };
    assert_eq!(
        settle(Kind::Conflict, &now),
        Settlement::Requeue { after: SECOND }
    );
}
