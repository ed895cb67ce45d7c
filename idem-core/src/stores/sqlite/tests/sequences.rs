use super::*;
use crate::store::{
    OutOfPlace, Purge,
    sequence::scene::{asks, with_an_exception, works},
};

/// Another process, whose clock is ahead, removes the exception and is gone before it removes the
/// sequence.
#[tokio::test]
async fn what_was_given_up_is_not_done_if_the_purge_was_ahead_of_its_time() {
    let file = File::new();
    let (store, later) = (file.store().await, file.store().await);
    with_an_exception(&store).await;
    later.advance(Policy::DEFAULT.retention() * 2);
    while store.claim(&asks(1)).await.unwrap() == Claim::OutOfPlace(OutOfPlace::Late) {
        assert_eq!(later.purge(1).await.unwrap(), 1);
    }
    let attempt = store.claim(&asks(1)).await.unwrap();
    assert!(!matches!(attempt, Claim::Completed { .. }), "{attempt:?}");
}

/// The next sequence's turn comes later: its exceptions stay until it is settled.
#[tokio::test]
async fn a_purge_of_one_sequence_makes_nothing_done_in_another() {
    let file = File::new();
    let (store, later) = (file.store().await, file.store().await);
    with_an_exception(&store).await;
    let sooner = "DELETE FROM idem_records;
        INSERT INTO idem_records_sequences
        SELECT 'readings:d-2', joined, mark, \"window\", ahead_since, ahead_at, look_by, expires_at - 1000000
        FROM idem_records_sequences;
        INSERT INTO idem_records_exceptions SELECT 'readings:d-2', number FROM idem_records_exceptions";
    sqlx::raw_sql(sooner)
        .execute(&mut file.bystander().await)
        .await
        .unwrap();
    later.advance(Policy::DEFAULT.retention() * 2);
    assert_eq!(later.purge(1).await.unwrap(), 1);
    let late = Claim::OutOfPlace(OutOfPlace::Late);
    assert_eq!(store.claim(&asks(1)).await.unwrap(), late);
}

/// Another number's record is unreadable: its own claim says so, and that of no other.
#[tokio::test]
async fn the_mark_waits_for_what_cannot_be_read() {
    let file = File::new();
    let store = file.store().await;
    for number in 0..6 {
        works(&store, number).await;
    }
    let mut bystander = file.bystander().await;
    sqlx::query("UPDATE idem_records SET state = 'elsewhere' WHERE key = 'readings:d-1~5'")
        .execute(&mut bystander)
        .await
        .unwrap();
    works(&store, 6).await;
    let ahead = store.claim(&asks(20)).await.unwrap();
    assert_eq!(
        ahead,
        Claim::OutOfPlace(OutOfPlace::Ahead { mark: 5, window: 8 })
    );
    let broken = store.claim(&asks(5)).await;
    assert!(
        matches!(broken, Err(StoreError::Corrupt { .. })),
        "{broken:?}"
    );
}
