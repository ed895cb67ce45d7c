use super::*;
use crate::store::{
    OutOfPlace, Purge,
    sequence::scene::{asks, with_an_exception, works},
};

#[tokio::test]
async fn what_was_given_up_is_not_done_if_the_purge_was_ahead_of_its_time() {
    let file = File::new();
    let (store, later) = (file.store().await, file.store().await);
    later.advance(Policy::DEFAULT.retention() * 2);
    alike::what_was_given_up_is_not_done_after_a_purge_ahead_of_its_time(&store, &later).await;
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

#[tokio::test]
async fn the_mark_waits_for_what_cannot_be_read() {
    for spoilt in alike::SPOILT {
        let file = File::new();
        let store = file.store().await;
        for number in 0..6 {
            works(&store, number).await;
        }
        let spoil = format!("UPDATE idem_records SET {spoilt} WHERE key = 'readings:d-1~5'");
        sqlx::query(sqlx::AssertSqlSafe(spoil))
            .execute(&mut file.bystander().await)
            .await
            .unwrap();
        works(&store, 6).await;
        alike::the_mark_waits_for_number_5(&store).await;
    }
}
