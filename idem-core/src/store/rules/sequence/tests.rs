use std::collections::BTreeMap;

use super::*;
use crate::{handler::Policy, message::Key, store::ClaimRequest};

const RETENTION: i64 = 8_000_000;
const RETENTION_LASTS: Duration = Duration::from_secs(8);
/// Between two looks at a sequence in which little happens.
const NEXT_LOOK: i64 = RETENTION / 8;

/// A sequence and how its numbers stand, without a store.
#[derive(Default)]
struct Scene {
    known: Option<Sequence>,
    standings: BTreeMap<u64, Standing>,
    exceptions: Vec<u64>,
    removed: Vec<u64>,
    kept: Option<Range<u64>>,
    now: i64,
}

fn place(number: u64) -> SequencePlace {
    SequencePlace::new(Key::new("readings", "d-1").unwrap(), number).window(8)
}

fn asking(place: &SequencePlace) -> ClaimRequest {
    let mut request = ClaimRequest::in_sequence(place.clone(), &Policy::DEFAULT);
    request.retention = RETENTION_LASTS;
    request
}

impl Scene {
    /// A sequence that has begun with this number.
    fn begun_with(number: u64) -> Self {
        let mut scene = Self::default();
        scene.claims(&place(number));
        scene
    }

    /// What becomes of the sequence, and where the number then stands.
    fn claims(&mut self, place: &SequencePlace) -> Placed {
        let request = asking(place);
        let sequence = match enter(self.known.as_ref(), &request, place, self.now) {
            Entered::Ahead(why) => return Placed::Ahead(why),
            Entered::Unknown => return Placed::Ordinary,
            Entered::Begun(sequence) | Entered::Known(sequence, None) => sequence,
            Entered::Known(sequence, Some(numbers)) => {
                let standing = |number| self.standings.get(&number).copied();
                let standings: Vec<_> = numbers
                    .map(|number| standing(number).unwrap_or(Standing::Missing))
                    .collect();
                let looked = look(&sequence, &standings, &request, place, self.now);
                self.exceptions.extend(looked.exceptions);
                self.removed.extend(looked.removed);
                self.kept = looked.kept;
                looked.sequence
            }
        };
        self.known = Some(sequence);
        sequence.place(place)
    }

    fn stand(&mut self, numbers: Range<u64>, standing: Standing) {
        self.standings
            .extend(numbers.map(|number| (number, standing)));
    }

    fn complete(&mut self, numbers: Range<u64>) {
        self.stand(numbers, Standing::Completed);
    }

    fn mark(&self) -> u64 {
        self.known.unwrap().mark
    }
}

#[test]
fn a_sequence_begins_where_it_is_first_seen() {
    for number in [0, 7, 1_000_000, SequencePlace::MAX_NUMBER] {
        let mut scene = Scene::default();
        assert_eq!(scene.claims(&place(number)), Placed::Ordinary);
        let known = scene.known.unwrap();
        assert_eq!((known.joined, known.mark), (number, number));
    }
}

#[test]
fn a_replay_begins_no_sequence() {
    let request = asking(&place(17)).replay(true);
    let entered = enter(None, &request, &place(17), 0);
    assert_eq!(entered, Entered::Unknown);
}

#[test]
fn what_was_delivered_before_begins_no_sequence() {
    let mut scene = Scene::default();
    assert_eq!(scene.claims(&place(17).begins(false)), Placed::Ordinary);
    assert_eq!(scene.known, None);
}

#[test]
fn what_was_refused_becomes_an_exception() {
    let mut scene = Scene::begun_with(0);
    scene.complete(0..4);
    scene.stand(1..2, Standing::Refused);
    scene.claims(&place(4));
    assert_eq!((scene.removed, scene.exceptions), (vec![0, 2, 3], vec![1]));
}

#[test]
fn a_window_that_was_narrowed_ends_where_it_did() {
    let mut scene = Scene::begun_with(0);
    scene.complete(0..8);
    for (number, window, mark) in [(2, 6, 2), (4, 4, 4), (8, 2, 6), (8, 2, 8)] {
        scene.claims(&place(number).window(2));
        let known = scene.known.unwrap();
        assert_eq!((known.mark, known.window), (mark, window), "{number}");
    }
}

#[test]
fn the_last_numbers_are_kept_and_none_beyond() {
    let mut scene = Scene::begun_with(SequencePlace::MAX_NUMBER);
    scene.now = NEXT_LOOK;
    scene.claims(&place(SequencePlace::MAX_NUMBER));
    let last = SequencePlace::MAX_NUMBER..SequencePlace::MAX_NUMBER + 1;
    assert_eq!(scene.kept, Some(last));
}

#[test]
fn a_number_is_below_the_mark_or_inside_the_window_or_ahead() {
    let known = Sequence {
        mark: 10,
        ..Scene::begun_with(3).known.unwrap()
    };
    let ahead = Placed::Ahead(OutOfPlace::Ahead {
        mark: 10,
        window: 8,
    });
    let table = [
        (0, Placed::Ordinary),
        (2, Placed::Ordinary),
        (3, Placed::Below),
        (9, Placed::Below),
        (10, Placed::Ordinary),
        (17, Placed::Ordinary),
        (18, ahead.clone()),
        (SequencePlace::MAX_NUMBER, ahead),
    ];
    for (number, expected) in table {
        assert_eq!(known.place(&place(number)), expected, "{number}");
    }
}

#[test]
fn a_number_that_is_too_great_is_ahead_and_begins_nothing() {
    let mut scene = Scene::default();
    let placed = scene.claims(&place(SequencePlace::MAX_NUMBER + 1));
    assert_eq!(
        placed,
        Placed::Ahead(OutOfPlace::Ahead { mark: 0, window: 8 })
    );
    assert_eq!(scene.known, None);
}

#[test]
fn the_mark_passes_what_is_done_when_half_a_window_has_come() {
    let mut scene = Scene::begun_with(0);
    scene.complete(0..3);
    assert_eq!(scene.claims(&place(3)), Placed::Ordinary);
    assert_eq!(scene.mark(), 0, "there is no hurry");
    scene.claims(&place(4));
    assert_eq!(scene.mark(), 3);
    assert_eq!(scene.removed, [0, 1, 2]);
}

#[test]
fn the_mark_passes_what_is_done_before_it_is_forgotten() {
    let mut scene = Scene::begun_with(0);
    scene.complete(0..1);
    scene.now = NEXT_LOOK - 1;
    scene.claims(&place(1));
    assert_eq!(scene.mark(), 0);
    scene.now = NEXT_LOOK;
    scene.claims(&place(1));
    assert_eq!(scene.mark(), 1);
}

#[test]
fn the_mark_stops_at_what_is_not_done() {
    for standing in [Standing::Waiting, Standing::Missing] {
        let mut scene = Scene::begun_with(0);
        scene.complete(0..7);
        scene.stand(2..3, standing);
        scene.claims(&place(7));
        assert_eq!(scene.mark(), 2, "{standing:?}");
    }
}

#[test]
fn the_mark_never_passes_the_number_that_is_claimed() {
    let mut scene = Scene::begun_with(0);
    scene.complete(0..8);
    scene.claims(&place(5));
    assert_eq!(scene.mark(), 5);
    assert_eq!(scene.removed, [0, 1, 2, 3, 4]);
}

#[test]
fn what_was_given_up_becomes_an_exception() {
    let mut scene = Scene::begun_with(0);
    scene.complete(0..4);
    scene.stand(1..3, Standing::GivenUp);
    scene.claims(&place(4));
    assert_eq!(scene.mark(), 4);
    assert_eq!((scene.removed, scene.exceptions), (vec![0, 3], vec![1, 2]));
}

#[test]
fn a_copy_below_the_mark_moves_and_keeps_nothing() {
    let mut scene = Scene::begun_with(0);
    scene.complete(0..4);
    scene.claims(&place(4));
    let known = scene.known;
    scene.now = 2 * NEXT_LOOK;
    assert_eq!(scene.claims(&place(3)), Placed::Below);
    assert_eq!((scene.known, scene.kept), (known, None));
}

/// Nine is ahead, and all but 1, 2 and 5 are done.
fn with_gaps() -> (Scene, SequencePlace) {
    let mut scene = Scene::begun_with(0);
    scene.now = 1;
    scene.complete(0..7);
    scene.stand(1..3, Standing::Missing);
    scene.stand(5..6, Standing::Missing);
    scene.claims(&place(7).skip_after(Duration::ZERO));
    assert_eq!(scene.mark(), 1, "7 is not ahead");
    (scene, place(9).skip_after(RETENTION_LASTS / 2))
}

#[test]
fn gaps_are_skipped_once_others_have_been_ahead_for_so_long() {
    let (mut scene, waits) = with_gaps();
    let began_at = scene.now;
    for (eighths, mark) in [(0, 1), (2, 1), (4, 1), (6, 1), (8, 7)] {
        scene.now = began_at + RETENTION / 2 * eighths / 8;
        scene.claims(&waits);
        assert_eq!(scene.mark(), mark, "after {eighths} eighths");
    }
    assert_eq!(scene.exceptions, [1, 2, 5], "7 may yet come");
    assert_eq!(scene.removed, [0, 3, 4, 6]);
}

#[test]
fn after_a_pause_gaps_are_waited_for_anew() {
    let (mut scene, waits) = with_gaps();
    for _ in 0..5 {
        scene.claims(&waits);
        scene.now += RETENTION / 4;
    }
    for _ in 0..4 {
        scene.claims(&waits);
        assert_eq!(scene.mark(), 1);
        scene.now += RETENTION / 8;
    }
    scene.claims(&waits);
    assert_eq!(scene.mark(), 7);
}

#[test]
fn the_longest_pause_is_two_minutes() {
    let waits = place(9).skip_after(Duration::from_mins(20));
    for (pause, mark) in [(LONGEST_PAUSE - 1, 8), (LONGEST_PAUSE, 0)] {
        let mut sequence = Scene::begun_with(0).known.unwrap();
        for step in 1..13 {
            let standings = [Standing::Missing; 8];
            let now = step * pause;
            sequence = look(&sequence, &standings, &asking(&waits), &waits, now).sequence;
        }
        assert_eq!(sequence.mark, mark, "{pause}");
    }
}

#[test]
fn a_clock_that_steps_back_has_gaps_waited_for_anew() {
    let (mut scene, waits) = with_gaps();
    scene.now += RETENTION / 8;
    scene.claims(&waits);
    scene.now -= 1;
    scene.claims(&waits);
    assert_eq!(scene.known.unwrap().ahead_since, scene.now);
}

#[test]
fn what_is_waited_for_is_never_skipped() {
    let mut scene = Scene::begun_with(0);
    scene.now = 1;
    scene.complete(0..8);
    scene.stand(1..2, Standing::Waiting);
    for _ in 0..3 {
        scene.claims(&place(9).skip_after(Duration::ZERO));
    }
    assert_eq!(scene.mark(), 1);
}

#[test]
fn a_gap_wider_than_the_window_is_skipped_window_by_window() {
    let mut scene = Scene::begun_with(0);
    scene.now = 1;
    scene.complete(0..1);
    let far = place(20).skip_after(Duration::ZERO);
    for mark in [1, 9, 17] {
        scene.claims(&far);
        assert_eq!(scene.mark(), mark);
    }
    assert_eq!(scene.claims(&far), Placed::Ordinary);
    assert_eq!(scene.exceptions, (1..17).collect::<Vec<_>>());
}

#[test]
fn a_sequence_and_its_window_are_kept_from_eighth_to_eighth_of_the_retention() {
    let mut scene = Scene::begun_with(0);
    scene.now = NEXT_LOOK - 1;
    scene.claims(&place(4));
    assert_eq!(scene.kept, None);
    assert_eq!(scene.known.unwrap().expires_at, RETENTION);
    scene.now = NEXT_LOOK;
    scene.claims(&place(1));
    assert_eq!(scene.kept, Some(0..8));
    assert_eq!(scene.known.unwrap().expires_at, NEXT_LOOK + RETENTION);
    scene.claims(&place(2));
    assert_eq!(scene.kept, Some(0..8), "nothing was looked at");
    assert_eq!(scene.known.unwrap().look_by, 2 * NEXT_LOOK);
    scene.now = NEXT_LOOK + RETENTION;
    scene.claims(&place(100));
    assert_eq!(scene.known.unwrap().joined, 100);
}

#[test]
fn a_shorter_retention_and_a_clock_that_steps_back_are_heeded_at_once() {
    let mut scene = Scene::begun_with(0);
    scene.now = NEXT_LOOK;
    scene.claims(&place(1));
    let mut request = asking(&place(1));
    request.retention /= 2;
    let known = scene.known.unwrap();
    assert!(known.is_due(&request, scene.now));
    assert!(!known.is_due(&asking(&place(1)), scene.now));
    assert!(known.is_due(&asking(&place(1)), scene.now - 1));
}

#[test]
fn a_look_that_ends_before_its_time_is_followed_by_another() {
    let wide = |number| place(number).window(10_000);
    let mut scene = Scene::default();
    scene.claims(&wide(0));
    scene.complete(0..2000);
    scene.now = NEXT_LOOK;
    scene.claims(&wide(2000));
    assert_eq!(
        (scene.mark(), scene.kept.clone()),
        (STEP, Some(STEP..STEP + 10_000))
    );
    scene.claims(&wide(2000));
    assert_eq!(
        (scene.mark(), scene.kept.clone()),
        (2000, Some(2000..12_000))
    );
    scene.claims(&wide(2000));
    assert_eq!(scene.known.unwrap().look_by, 2 * NEXT_LOOK);
}

#[test]
fn the_mark_of_a_window_of_one_moves_from_number_to_number() {
    let mut scene = Scene::default();
    for number in 0..3 {
        let narrow = place(number).window(1);
        assert_eq!(scene.claims(&narrow), Placed::Ordinary, "{number}");
        let next = place(number + 1).window(1);
        let expected = OutOfPlace::Ahead {
            mark: number,
            window: 1,
        };
        assert_eq!(scene.claims(&next), Placed::Ahead(expected));
        scene.complete(number..number + 1);
    }
}

#[test]
fn one_number_that_stands_still_is_enough_to_see_that_the_mark_does() {
    let sequence = Scene::begun_with(0).known.unwrap();
    let place = place(8);
    for (standing, still) in [
        (Standing::Waiting, true),
        (Standing::Missing, true),
        (Standing::GivenUp, false),
        (Standing::Completed, false),
    ] {
        let stands = super::look::stands_still(&sequence, standing, &asking(&place), &place, 0);
        assert_eq!(stands, still, "{standing:?}");
    }
}
