use std::time::Duration;

use super::*;
use crate::message::Key;

const LIFE: i64 = 1_000;

fn session(mark: u64) -> Session {
    Session {
        mark,
        window: 5,
        life: LIFE,
        ends_at: LIFE,
    }
}

fn placed(session: &Session, number: u64, awaited: u64) -> Placed {
    let key = Key::new("leases", "c-1").unwrap();
    place(Some(session), &SessionPlace::new(key, number, awaited), 0)
}

fn is_inside(before: &Session, placed: &Placed) -> Option<(u64, Range<u64>)> {
    match placed {
        Placed::Inside(session) => Some((session.mark, before.passed_by(session))),
        Placed::Outside(..) => None,
    }
}

#[test]
fn a_place_is_stale_inside_or_beyond() {
    let beyond = OutOfPlace::BeyondWindow { window: 5 };
    let table = [
        // mark, number, awaited, answer or the mark and what it passed
        (10, 9, 9, Err(OutOfPlace::Stale)),
        (10, 9, 10, Err(OutOfPlace::Stale)),
        (10, 12, 13, Err(OutOfPlace::Stale)),
        (10, 10, 10, Ok((10, 10..10))),
        (10, 14, 3, Ok((10, 10..10))),
        (10, 15, 10, Err(beyond)),
        (10, 15, 11, Ok((11, 10..11))),
        (10, 14, 14, Ok((14, 10..14))),
        (10, 15, 15, Ok((15, 10..15))),
        (10, 1000, 1000, Ok((1000, 10..15))),
        (0, u64::MAX, u64::MAX, Err(beyond)),
        (
            0,
            SessionPlace::MAX_NUMBER + 1,
            SessionPlace::MAX_NUMBER,
            Err(beyond),
        ),
        (
            0,
            SessionPlace::MAX_NUMBER,
            SessionPlace::MAX_NUMBER,
            Ok((SessionPlace::MAX_NUMBER, 0..5)),
        ),
    ];
    for (mark, number, awaited, expected) in table {
        let placed = placed(&session(mark), number, awaited);
        let why = format!("mark {mark}, number {number}, awaited {awaited}: {placed:?}");
        match expected {
            Ok(expected) => assert_eq!(is_inside(&session(mark), &placed), Some(expected), "{why}"),
            Err(claim) => {
                let written = Some(session(mark));
                assert_eq!(placed, Placed::Outside(claim, written), "{why}");
            }
        }
    }
}

#[test]
fn every_place_but_that_in_an_ended_session_is_a_sign_of_life() {
    let session = session(10);
    let key = Key::new("leases", "c-1").unwrap();
    for number in [1, 10, 99] {
        let at = SessionPlace::new(key.clone(), number, 1);
        let renewed = match place(Some(&session), &at, LIFE - 1) {
            Placed::Outside(_, written) => written.unwrap(),
            Placed::Inside(session) => session,
        };
        assert_eq!(renewed.ends_at, LIFE - 1 + LIFE, "{number}");
        let late = place(Some(&session), &at, LIFE);
        assert_eq!(late, Placed::Outside(OutOfPlace::SessionExpired, None));
        let unknown = place(None, &at, 0);
        assert_eq!(unknown, Placed::Outside(OutOfPlace::SessionExpired, None));
    }
}

#[test]
fn a_clock_that_steps_back_does_not_shorten_a_session() {
    let touched = touch(Some(&session(0)), -500).unwrap();
    assert_eq!(touched.ends_at, LIFE);
}

#[test]
fn a_session_is_opened_once() {
    let request = OpenSession::new(Key::new("leases", "c-1").unwrap());
    let opened = open(None, &request, 7).unwrap();
    assert_eq!((opened.mark, opened.window), (0, 5));
    assert_eq!(opened.ends_at, 7 + micros(Duration::from_mins(5)));
    assert_eq!(open(Some(&opened), &request, 8), None);
    assert_eq!(open(Some(&opened), &request, i64::MAX), None);
}

#[test]
fn a_session_ends_once() {
    let closed = close(Some(&session(0)), 10).unwrap();
    assert_eq!(closed.ends_at, 10);
    assert_eq!(close(Some(&closed), 11), None);
    assert_eq!(touch(Some(&closed), 10), None);
    assert_eq!(close(None, 10), None);
}

#[test]
fn a_session_that_was_closed_has_ended_whatever_the_clock_says() {
    let closed = close(Some(&session(10)), 500).unwrap();
    assert!(closed.answers().start > SessionPlace::MAX_NUMBER);
    for now in [-500, 0, 499, 500, LIFE] {
        assert_eq!(touch(Some(&closed), now), None, "{now}");
        assert_eq!(close(Some(&closed), now), None, "{now}");
        for (number, awaited) in [(9, 0), (10, 10), (14, 10), (1000, 1000)] {
            let key = Key::new("leases", "c-1").unwrap();
            let at = SessionPlace::new(key, number, awaited);
            let answer = place(Some(&closed), &at, now);
            assert_eq!(answer, Placed::Outside(OutOfPlace::SessionExpired, None));
        }
    }
}

#[test]
fn a_short_session_is_kept_for_a_minute_after_its_end() {
    const MINUTE: i64 = 60_000_000;
    for (life, kept) in [(0, MINUTE), (LIFE, MINUTE), (MINUTE + 1, MINUTE + 1)] {
        let session = Session { life, ..session(0) };
        assert_eq!(session.remove_at(), session.ends_at + kept);
    }
}

#[test]
fn a_window_is_neither_empty_nor_without_bound() {
    let key = Key::new("leases", "c-1").unwrap();
    let mut request = OpenSession::new(key);
    for (asked, given) in [(0, 1), (7, 7), (u32::MAX, OpenSession::MAX_WINDOW)] {
        assert_eq!(request.clone().window(asked).window, given);
        request.window = asked;
        assert_eq!(open(None, &request, 0).unwrap().window, given);
    }
}
