//! How messages of the outbox are found that are due.

use super::*;
use crate::{
    handler::Outbox,
    store::outbox::{OutboxChange, SharedOutbox, Unpublished},
    stores::tests::Told,
};

/// A transaction commits ten seconds after it has written a message. That is found by the look after this.
async fn is_found_after(then: impl AsyncFnOnce(&SharedOutbox) -> Result<(), StoreError>) {
    let database = Database::new();
    let store = database.store().await;
    let outbox = store.outbox();
    let take = async || outbox.take(10, MINUTE).await.unwrap().len();
    let mut route = database.bystander().await;
    run(&mut route, "BEGIN").await;
    let outgoing = Outbox::outside();
    outgoing.publish(Told("handled")).unwrap();
    store.publish(&mut route, outgoing).await.unwrap();
    let long_ago = "UPDATE idem_records_outbox SET due = due - interval '10 seconds'";
    run(&mut route, long_ago).await;
    assert_eq!(take().await, 0, "it is not committed");
    run(&mut route, "COMMIT").await;
    assert_eq!(take().await, 0, "it is due before what is read");
    then(&outbox).await.unwrap();
    assert_eq!(take().await, 1, "all of the table is read");
}

#[tokio::test]
async fn all_of_the_table_is_read_after_somebody_has_changed_a_message() {
    is_found_after(async |outbox| outbox.change(&OutboxChange::Retry(None)).await.map(drop)).await;
}

#[tokio::test]
async fn all_of_the_table_is_read_after_a_message_could_not_be_published() {
    is_found_after(async |outbox| {
        let nobody = "0".repeat(32).parse().unwrap();
        let untried = Unpublished::untried(nobody, 1, "no broker", MINUTE);
        outbox.note(&[untried]).await
    })
    .await;
}
