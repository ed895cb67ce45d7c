//! Which rung a message takes, and which ladders there can be.

use super::*;

const fn ms(milliseconds: u64) -> Duration {
    Duration::from_millis(milliseconds)
}

const fn secs(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}

#[test]
fn a_delay_is_rounded_up_to_the_next_rung() {
    let ladder = Ladder::default();
    let table = [
        (Duration::ZERO, secs(1)),
        (secs(1), secs(1)),
        (ms(1001), secs(5)),
        (secs(5), secs(5)),
        (secs(59), secs(60)),
        (secs(61), secs(300)),
        (secs(901), secs(3600)),
    ];
    for (delay, rung) in table {
        assert_eq!(ladder.rung_for(delay), rung, "{delay:?}");
    }
}

#[test]
fn a_delay_beyond_the_longest_rung_takes_the_longest() {
    let ladder = Ladder::default();
    assert_eq!(ladder.rung_for(secs(3601)), secs(3600));
    assert_eq!(ladder.rung_for(Duration::MAX), secs(3600));
}

#[test]
fn a_conflict_takes_a_longer_rung_each_time() {
    let ladder = Ladder::default();
    let rungs = [0, 1, 2, 3, 4, 5, 6, 7, u32::MAX]
        .map(|conflicts| ladder.rung_after(conflicts, Duration::ZERO).as_secs());
    assert_eq!(rungs, [1, 5, 15, 60, 300, 900, 3600, 3600, 3600]);
}

#[test]
fn a_conflict_takes_at_least_the_largest_rung_that_fits_into_what_remains() {
    let ladder = Ladder::default();
    let table = [
        (0, ms(999), secs(1)),
        (0, secs(5), secs(5)),
        (0, secs(30), secs(15)),
        (1, secs(30), secs(15)),
        (3, secs(30), secs(60)),
        (0, Duration::MAX, secs(3600)),
    ];
    for (conflicts, remaining, rung) in table {
        let taken = ladder.rung_after(conflicts, remaining);
        assert_eq!(taken, rung, "{conflicts} conflicts, {remaining:?} remain");
    }
}

#[test]
fn the_default_rungs_are_a_ladder() {
    let default = Ladder::default();
    let built = Ladder::new(default.rungs().iter().copied());
    assert_eq!(built, Ok(default));
}

#[test]
fn delays_that_are_no_ladder_are_refused() {
    let out_of_range = |rung| LadderError::OutOfRange { rung };
    let table: [(&[Duration], LadderError); 7] = [
        (&[], LadderError::NoRung),
        (&[secs(1); 17], LadderError::TooManyRungs),
        (&[ms(99)], out_of_range(ms(99))),
        (&[secs(86_401)], out_of_range(secs(86_401))),
        (
            &[Duration::from_micros(100_500)],
            LadderError::Fraction {
                rung: Duration::from_micros(100_500),
            },
        ),
        (
            &[secs(5), secs(1)],
            LadderError::NotRising {
                rung: secs(1),
                before: secs(5),
            },
        ),
        (
            &[secs(1), secs(1)],
            LadderError::NotRising {
                rung: secs(1),
                before: secs(1),
            },
        ),
    ];
    for (rungs, error) in table {
        assert_eq!(Ladder::new(rungs.iter().copied()), Err(error), "{rungs:?}");
    }
}

#[test]
fn a_refusal_says_what_is_possible() {
    let error = Ladder::new([ms(20)]).unwrap_err();
    let words = "a rung of 20ms is not possible: use 100ms to 86400s";
    assert_eq!(error.to_string(), words);
}
