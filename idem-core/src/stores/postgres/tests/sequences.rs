use futures_util::future::join_all;

use super::*;
use crate::{
    message::SequencePlace,
    store::sequence::scene::{asks, works},
};

mod faults;
mod sharing;

/// Number `number` of the producer `of`, in a window of a thousand.
fn message(of: &str, number: u64) -> ClaimRequest {
    let place = SequencePlace::new(Key::new("readings", of).unwrap(), number);
    ClaimRequest::in_sequence(place, &Policy::DEFAULT)
}

async fn claims(
    store: &PostgresStore,
    requests: impl IntoIterator<Item = ClaimRequest>,
) -> Vec<Result<Claim, StoreError>> {
    let claims = requests.into_iter().map(|request| {
        let store = store.clone();
        async move { store.claim(&request).await }
    });
    join_all(claims).await
}

fn acquired(answers: Vec<Result<Claim, StoreError>>) -> Vec<Lease> {
    let lease = |answer| match answer {
        Ok(Claim::Acquired(lease)) => lease,
        other => panic!("{other:?}"),
    };
    answers.into_iter().map(lease).collect()
}

#[tokio::test]
async fn what_was_given_up_is_not_done_if_the_purge_was_ahead_of_its_time() {
    let database = Database::new();
    let (store, later) = (database.store().await, database.store().await);
    later.advance(Policy::DEFAULT.retention() * 2);
    alike::what_was_given_up_is_not_done_after_a_purge_ahead_of_its_time(&store, &later).await;
}

#[tokio::test]
async fn the_mark_waits_for_what_cannot_be_read() {
    for spoilt in alike::SPOILT {
        let database = Database::new();
        let store = database.store().await;
        for number in 0..6 {
            works(&store, number).await;
        }
        let spoil = format!("UPDATE idem_records SET {spoilt} WHERE key = 'readings:d-1~5'");
        database.run(&spoil).await;
        works(&store, 6).await;
        alike::the_mark_waits_for_number_5(&store).await;
    }
}
