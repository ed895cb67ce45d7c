//! What the tests of several stores do with one sequence.

use std::time::Duration;

use crate::{
    handler::{Outcome, Policy},
    message::{Key, SequencePlace},
    store::{Claim, ClaimRequest, OutOfPlace, Release, Store, Write},
};

/// Asks for this number of `readings:d-1`, in a window of 8.
pub(crate) fn asks(number: u64) -> ClaimRequest {
    let sequence = Key::new("readings", "d-1").unwrap();
    let place = SequencePlace::new(sequence, number).window(8);
    ClaimRequest::in_sequence(place, &Policy::DEFAULT)
}

/// Claims the number, and completes it.
pub(crate) async fn works(store: &impl Store, number: u64) {
    let lease = match store.claim(&asks(number)).await.unwrap() {
        Claim::Acquired(lease) => lease,
        other => panic!("{other:?}"),
    };
    let (outcome, retention) = (Outcome::new("done"), Duration::from_mins(10));
    let written = store.complete(&lease, &outcome, retention).await;
    assert_eq!(written.unwrap(), Write::Applied);
}

/// Number 0 is done, 1 was given up, and the mark has passed both.
pub(crate) async fn with_an_exception(store: &impl Store) {
    works(store, 0).await;
    let Claim::Acquired(lease) = store.claim(&asks(1)).await.unwrap() else {
        panic!("nobody has the number")
    };
    let written = store.release(&lease, &Release::gave_up("no")).await;
    assert_eq!(written.unwrap(), Write::Applied);
    for number in 2..8 {
        works(store, number).await;
    }
    assert_eq!(
        store.claim(&asks(1)).await.unwrap(),
        Claim::OutOfPlace(OutOfPlace::Late)
    );
    let done = store.claim(&asks(0)).await.unwrap();
    assert!(matches!(done, Claim::Completed { .. }), "{done:?}");
}
