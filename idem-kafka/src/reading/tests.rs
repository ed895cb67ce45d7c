//! What may start, how far the mark is, and what the store has of it.

use idem_core::{Key, handler::FencingToken};

use super::*;

/// One of a partition that nobody has read before.
pub(crate) fn reading(mark: u64) -> Reading {
    let key = Key::new("ledger.book", "kafka:postings:0").unwrap();
    reading_under(StreamLease::new(key, FencingToken::new(1)), mark)
}

pub(crate) fn reading_under(lease: StreamLease, mark: u64) -> Reading {
    Reading::new(lease, mark, mark, false)
}

/// The record at this offset, which comes next and may start.
pub(crate) fn arrived(reading: &Reading, offset: u64) -> Arrived {
    match reading.note_arrival(offset, Record::at_offset(offset), None) {
        Arrival::Starts(arrived) => arrived,
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_record_that_came_before_comes_backwards() {
    let reading = reading(5);
    let backwards = |offset| {
        let arrival = reading.note_arrival(offset, Record::at_offset(offset), None);
        assert!(
            matches!(arrival, Arrival::Backwards),
            "{offset}: {arrival:?}"
        );
    };
    // Below the mark.
    backwards(4);
    let first = arrived(&reading, 5);
    arrived(&reading, 9);
    for offset in [5, 7, 9] {
        backwards(offset);
    }
    // It is not counted, and holds nothing up.
    reading.note_done(&first);
    let last = arrived(&reading, 10);
    assert_eq!((reading.mark(), last.tag), (6, 3));
}

#[test]
fn a_save_that_ends_late_takes_nothing_back() {
    let reading = reading(0);
    let all: Vec<_> = (0..WINDOW)
        .map(|offset| arrived(&reading, offset))
        .collect();
    assert!(!reading.has_room());
    reading.note_done(&all[0]);
    let early = reading.unsaved().unwrap();
    for arrived in &all[1..] {
        reading.note_done(arrived);
    }
    let late = reading.unsaved().unwrap();
    assert_eq!((early.mark, late.mark), (1, WINDOW));
    reading.note_saved(late);
    reading.note_saved(early);
    assert_eq!(reading.saved_mark(), WINDOW);
    assert_eq!(reading.unsaved(), None);
    for offset in WINDOW..2 * WINDOW {
        assert!(reading.has_room(), "{offset}");
        arrived(&reading, offset);
    }
    assert!(!reading.has_room());
}
