use std::time::Duration;

use super::*;
use crate::{
    handler::Policy,
    message::{Key, SequencePlace},
    store::{ClaimRequest, OutOfPlace},
    stores::postgres::claims::{AnswerWhen, ClaimCall},
};

fn asks(number: u64) -> Numbered {
    asks_to_skip(number, None)
}

fn asks_to_skip(number: u64, skip_after: Option<Duration>) -> Numbered {
    let place = SequencePlace::new(Key::new("readings", "d").unwrap(), number)
        .window(8)
        .skip_after(skip_after);
    Numbered {
        call: ClaimCall {
            request: ClaimRequest::in_sequence(place.clone(), &Policy::DEFAULT),
            answered: AnswerWhen::Durable,
        },
        place,
    }
}

/// At mark 10, with nothing due for a long time.
fn batch(standings: &[Standing]) -> SequenceBatch {
    let known = Sequence {
        joined: 0,
        mark: 10,
        window: 8,
        ahead_since: 0,
        ahead_at: 0,
        look_by: 1_000_000,
        expires_at: 2_000_000,
    };
    let mut batch = SequenceBatch::new(Some(known), 0);
    batch.learn(standings.to_vec());
    batch
}

fn mark(batch: &SequenceBatch) -> u64 {
    batch.known().unwrap().mark
}

use Standing::{Completed, GivenUp, Missing, Waiting};

#[test]
fn a_look_waits_for_the_next_transaction_if_a_claim_asks_for_what_it_would_pass() {
    for done in [Completed, GivenUp] {
        let mut batch = batch(&[Completed, done, Missing, Missing]);
        assert_eq!(batch.next(&asks(11)), Next::Claim);
        assert_eq!(batch.next(&asks(14)), Next::Later);
        assert_eq!(mark(&batch), 10);
    }
}

#[test]
fn a_look_stops_at_what_an_earlier_claim_has() {
    let mut batch = batch(&[Completed, Missing, Completed, Completed]);
    assert_eq!(batch.next(&asks(11)), Next::Claim);
    assert_eq!(batch.next(&asks(14)), Next::Claim);
    assert_eq!(mark(&batch), 11);
}

#[test]
fn nobody_skips_what_an_earlier_claim_has() {
    let skipping = asks_to_skip(25, Some(Duration::ZERO));
    let mut alone = batch(&[Missing; 8]);
    let ahead = Claim::OutOfPlace(OutOfPlace::Ahead {
        mark: 10,
        window: 8,
    });
    assert_eq!(alone.next(&skipping), Next::Claim);
    assert_eq!(mark(&alone), 18);
    let mut batch = batch(&[Missing; 8]);
    assert_eq!(batch.next(&asks(10)), Next::Claim);
    assert_eq!(batch.next(&skipping), Next::Answered(ahead));
    assert_eq!(mark(&batch), 10);
}

#[test]
fn what_a_look_has_passed_waits_for_the_next_transaction() {
    let mut batch = batch(&[Completed, GivenUp, Waiting, Missing]);
    assert_eq!(batch.next(&asks(14)), Next::Claim);
    assert_eq!(mark(&batch), 12);
    for passed in [10, 11] {
        assert_eq!(batch.next(&asks(passed)), Next::Later);
    }
    assert_eq!(batch.next(&asks(12)), Next::Claim);
    let below = batch.next(&asks(9));
    assert_matches!(below, Next::Below(sequence) if sequence.mark == 12);
    let looked = batch.looked().unwrap();
    assert_eq!(
        (&*looked.removed, &*looked.exceptions),
        (&[10][..], &[11][..])
    );
}

#[test]
fn a_mark_that_is_stuck_is_stuck_for_all_claims() {
    let mut batch = batch(&[Waiting]);
    let claims: Vec<_> = (14..18).map(asks).collect();
    let asked: Vec<_> = claims.iter().collect();
    assert_eq!(batch.wanted(&asked), Some(10..17));
    assert!(batch.stands_still(&asked, Waiting));
    for claim in &claims {
        assert_eq!(batch.next(claim), Next::Claim);
    }
    assert_eq!(mark(&batch), 10);
}

#[test]
fn a_look_whose_numbers_were_not_read_waits_for_the_next_transaction() {
    let mut batch = batch(&[Completed, Completed, Completed, Completed]);
    assert_eq!(batch.next(&asks(14)), Next::Claim);
    assert_eq!(mark(&batch), 14);
    assert_eq!(batch.next(&asks(18)), Next::Later);
    assert_eq!(batch.next(&asks(17)), Next::Claim);
}

#[test]
fn the_window_is_kept_once_in_a_transaction() {
    let mut batch = batch(&[]);
    let mut due = asks(10);
    due.call.request.retention = Duration::from_millis(8);
    assert_eq!(batch.next(&due), Next::Claim);
    assert_eq!(batch.looked().unwrap().kept, Some(10..18));
    due.call.request.retention = Duration::from_millis(4);
    assert_eq!(batch.next(&due), Next::Later);
}
