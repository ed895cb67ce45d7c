use super::*;
use crate::{
    handler::{OnConflict, Policy},
    settlement::{Ladder, Reason, Retries},
};

fn tried(kind: Kind) -> Tried {
    Tried {
        kind,
        remaining: None,
        retry_after: None,
        is_counted_by_delivery: false,
        is_replay: false,
        at: Instant::now(),
        random: 0.5,
    }
}

fn tries() -> Tries<'static> {
    Tries::new(Circumstances::new(Retries::Local), false)
}

const ROOM: Room = Room {
    is_full: false,
    turn: Turn::Far,
    is_outdated: false,
};

#[test]
fn a_late_replay_starts_over_once() {
    let mut tries = tries();
    let late = Tried {
        is_replay: true,
        ..tried(Kind::Late)
    };
    assert!(tries.note(&late));
    assert!(!tries.note(&late));
    assert_eq!(tries.count(), 2);
    let next = tries.next(Kind::Late, ROOM);
    assert!(
        matches!(next, Next::Settle(Settlement::DeadLetter(_))),
        "{next:?}"
    );
}

#[test]
fn what_is_no_replay_or_starts_over_anyway_is_late_for_good() {
    assert!(!tries().note(&tried(Kind::Late)));
    let mut over = Tries::new(Circumstances::new(Retries::Local), true);
    let late = Tried {
        is_replay: true,
        ..tried(Kind::Late)
    };
    assert!(!over.note(&late));
}

/// Its own attempt has failed, and the next one is not due yet; or its claim was not answered, and may still arrive.
#[test]
fn a_conflict_of_what_may_have_claimed_is_not_dropped() {
    let policy = Policy::builder().on_conflict(OnConflict::Ack);
    let policy = policy.build().unwrap();
    for earlier in [Kind::Failed, Kind::LeaseLost, Kind::StoreUnavailable] {
        let mut tries = Tries::new(
            Circumstances {
                policy: &policy,
                ..Circumstances::new(Retries::Local)
            },
            false,
        );
        let dropped = Next::Settle(Settlement::Drop(Reason::Conflict));
        assert_eq!(tries.next(Kind::Conflict, ROOM), dropped);
        tries.note(&tried(earlier));
        tries.note(&tried(Kind::Conflict));
        let next = tries.next(Kind::Conflict, ROOM);
        assert!(matches!(next, Next::Wait(_)), "{earlier}: {next:?}");
    }
}

#[test]
fn a_conflict_waits_a_minute_from_its_first_answer_whatever_comes_between() {
    let mut tries = tries();
    let began = Instant::now();
    let after = |seconds| Tried {
        at: began + Duration::from_secs(seconds),
        ..tried(Kind::Conflict)
    };
    for (seconds, waits) in [(0, true), (30, true), (59, true), (60, false)] {
        tries.note(&after(seconds));
        let next = tries.next(Kind::Conflict, ROOM);
        assert_eq!(
            matches!(next, Next::Wait(_)),
            waits,
            "{seconds} s: {next:?}"
        );
        tries.note(&tried(Kind::StoreUnavailable));
    }
}

#[test]
fn a_conflict_that_finds_no_room_goes_back() {
    let mut tries = tries();
    tries.note(&tried(Kind::Conflict));
    let full = Room {
        is_full: true,
        ..ROOM
    };
    let next = tries.next(Kind::Conflict, full);
    assert!(
        matches!(next, Next::Settle(Settlement::Requeue { .. })),
        "{next:?}"
    );
    let next = tries.next(Kind::Conflict, ROOM);
    assert!(
        matches!(next, Next::Wait(_)),
        "there is room again: {next:?}"
    );
}

/// The holder has ended, or those before it, between the store's answer and now.
#[test]
fn what_finds_no_room_and_may_wait_for_nobody_asks_once_more() {
    for kind in [Kind::Conflict, Kind::Ahead] {
        let mut tries = tries();
        tries.note(&tried(kind));
        let full = Room {
            is_full: true,
            ..ROOM
        };
        let outdated = Room {
            is_outdated: true,
            ..full
        };
        assert_eq!(tries.next(kind, outdated), Next::TryAgain, "{kind}");
        let next = tries.next(kind, full);
        assert!(matches!(next, Next::Settle(_)), "{kind}: {next:?}");
    }
    let near = Room {
        is_full: true,
        turn: Turn::Near,
        ..ROOM
    };
    let next = tries().next(Kind::Ahead, near);
    assert!(matches!(next, Next::Wait(_)), "{next:?}");
}

/// Those before it may be behind what it keeps out.
#[test]
fn a_number_makes_room_for_what_it_waits_for_if_a_ladder_takes_it() {
    let ladder = Ladder::default();
    let held = Room {
        turn: Turn::Elsewhere,
        ..ROOM
    };
    let full = Room {
        is_full: true,
        ..held
    };
    let waits = |retries, room| {
        let mut tries = Tries::new(Circumstances::new(retries), false);
        matches!(tries.next(Kind::Ahead, room), Next::Wait(_))
    };
    assert!(!waits(Retries::Ladder(&ladder), full));
    assert!(waits(Retries::Local, full), "returned, it comes at once");
    assert!(waits(Retries::Ladder(&ladder), held), "it keeps none out");
}

#[test]
fn what_is_settled_is_settled_with_the_latest_delay_and_remaining_lease() {
    let mut tries = tries();
    for seconds in [7, 3] {
        tries.note(&Tried {
            retry_after: Some(Duration::from_secs(seconds)),
            ..tried(Kind::Failed)
        });
        let after = Duration::from_secs(seconds);
        let settlement = Settlement::Requeue { after };
        assert_eq!(tries.next(Kind::Failed, ROOM), Next::Settle(settlement));
    }
}

#[test]
fn what_only_the_delivery_counts_goes_to_the_ladder_from_then_on() {
    let ladder = Ladder::default();
    let retries = Retries::Ladder(&ladder);
    let mut tries = Tries::new(Circumstances::new(retries), false);
    let failed = |is_counted_by_delivery| Tried {
        is_counted_by_delivery,
        retry_after: Some(Duration::from_millis(10)),
        ..tried(Kind::Failed)
    };
    tries.note(&failed(false));
    let next = tries.next(Kind::Failed, ROOM);
    assert!(
        matches!(next, Next::Settle(Settlement::Requeue { .. })),
        "{next:?}"
    );
    for is_counted_by_delivery in [true, false] {
        tries.note(&failed(is_counted_by_delivery));
        let next = tries.next(Kind::Failed, ROOM);
        assert!(
            matches!(next, Next::Settle(Settlement::Retry { .. })),
            "{next:?}"
        );
    }
}
