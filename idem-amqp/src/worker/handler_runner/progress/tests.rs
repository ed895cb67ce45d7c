use idem_core::{Policy, handler::OnConflict};

use super::*;
use crate::wire::{Ladder, retries::Retries, settlement::Reason};

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

fn progress() -> Progress<'static> {
    Progress::new(Circumstances::new(&Retries::Local), false)
}

const ROOM: Room = Room {
    is_full: false,
    begins_to_wait: false,
    is_near: false,
};

#[test]
fn a_late_replay_starts_over_once() {
    let mut progress = progress();
    let late = Tried {
        is_replay: true,
        ..tried(Kind::Late)
    };
    assert!(progress.note(&late));
    assert!(!progress.note(&late));
    assert_eq!(progress.tries(), 2);
    let next = progress.next(Kind::Late, ROOM);
    assert!(
        matches!(next, Next::Settle(Settlement::DeadLetter(_))),
        "{next:?}"
    );
}

#[test]
fn what_is_no_replay_or_starts_over_anyway_is_late_for_good() {
    assert!(!progress().note(&tried(Kind::Late)));
    let mut over = Progress::new(Circumstances::new(&Retries::Local), true);
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
        let mut progress = Progress::new(
            Circumstances {
                policy: &policy,
                ..Circumstances::new(&Retries::Local)
            },
            false,
        );
        let dropped = Next::Settle(Settlement::Drop(Reason::Conflict));
        assert_eq!(progress.next(Kind::Conflict, ROOM), dropped);
        progress.note(&tried(earlier));
        progress.note(&tried(Kind::Conflict));
        let next = progress.next(Kind::Conflict, ROOM);
        assert!(matches!(next, Next::Wait(_)), "{earlier}: {next:?}");
    }
}

#[test]
fn a_conflict_waits_a_minute_from_its_first_answer_whatever_comes_between() {
    let mut progress = progress();
    let began = Instant::now();
    let after = |seconds| Tried {
        at: began + Duration::from_secs(seconds),
        ..tried(Kind::Conflict)
    };
    for (seconds, waits) in [(0, true), (30, true), (59, true), (60, false)] {
        progress.note(&after(seconds));
        let next = progress.next(Kind::Conflict, ROOM);
        assert_eq!(
            matches!(next, Next::Wait(_)),
            waits,
            "{seconds} s: {next:?}"
        );
        progress.note(&tried(Kind::StoreUnavailable));
    }
}

#[test]
fn a_conflict_that_finds_no_room_goes_back() {
    let mut progress = progress();
    progress.note(&tried(Kind::Conflict));
    let full = Room {
        is_full: true,
        ..ROOM
    };
    let next = progress.next(Kind::Conflict, full);
    assert!(
        matches!(next, Next::Settle(Settlement::Requeue { .. })),
        "{next:?}"
    );
    let next = progress.next(Kind::Conflict, ROOM);
    assert!(
        matches!(next, Next::Wait(_)),
        "there is room again: {next:?}"
    );
}

#[test]
fn a_number_that_has_just_begun_to_wait_where_no_room_is_asks_once_more() {
    let mut progress = progress();
    progress.note(&tried(Kind::Ahead));
    let begins = Room {
        is_full: true,
        begins_to_wait: true,
        is_near: false,
    };
    assert_eq!(progress.next(Kind::Ahead, begins), Next::TryAgain);
    let near = Room {
        is_near: true,
        ..begins
    };
    let next = progress.next(Kind::Ahead, near);
    assert!(matches!(next, Next::Wait(_)), "{next:?}");
    let waited = Room {
        begins_to_wait: false,
        ..begins
    };
    let next = progress.next(Kind::Ahead, waited);
    assert!(matches!(next, Next::Settle(_)), "{next:?}");
}

#[test]
fn what_is_settled_is_settled_with_the_latest_delay_and_remaining_lease() {
    let mut progress = progress();
    for seconds in [7, 3] {
        progress.note(&Tried {
            retry_after: Some(Duration::from_secs(seconds)),
            ..tried(Kind::Failed)
        });
        let after = Duration::from_secs(seconds);
        let settlement = Settlement::Requeue { after };
        assert_eq!(progress.next(Kind::Failed, ROOM), Next::Settle(settlement));
    }
}

#[test]
fn what_only_the_delivery_counts_goes_to_the_ladder_from_then_on() {
    let retries = Retries::Ladder(Ladder::default());
    let mut progress = Progress::new(Circumstances::new(&retries), false);
    let failed = |is_counted_by_delivery| Tried {
        is_counted_by_delivery,
        retry_after: Some(Duration::from_millis(10)),
        ..tried(Kind::Failed)
    };
    progress.note(&failed(false));
    let next = progress.next(Kind::Failed, ROOM);
    assert!(
        matches!(next, Next::Settle(Settlement::Requeue { .. })),
        "{next:?}"
    );
    for is_counted_by_delivery in [true, false] {
        progress.note(&failed(is_counted_by_delivery));
        let next = progress.next(Kind::Failed, ROOM);
        assert!(
            matches!(next, Next::Settle(Settlement::Retry { .. })),
            "{next:?}"
        );
    }
}
