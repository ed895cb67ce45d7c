//! How often the server is asked.

use super::{lost::linked, *};
use crate::handler::Outbox;

#[tokio::test]
async fn what_a_handler_publishes_costs_its_commit_no_round_trip() {
    let (shop, proxy) = linked().await;
    // How many messages, and in which order.
    let table = [(0, None), (1, None), (100, None), (1, Some("customer-7"))];
    for (index, (messages, order)) in table.into_iter().enumerate() {
        let (lease, mut open) = shop.begin(&format!("o-{index}")).await;
        charge(lend(&mut open)).await;
        let outbox = Outbox::for_key(&lease.key);
        let in_order = order.map_or_else(|| outbox.clone(), |name| outbox.ordered_by(name));
        (0..messages).for_each(|_| in_order.publish(Told("handled")).unwrap());
        let outgoing = outbox.messages();
        let outcome = Outcome::new("done");
        let completion = Completion::new(&lease, &outcome, MINUTE).publishing(&outgoing);
        let before = proxy.round_trips();
        let complete = Finish::Complete(completion);
        let finished = TransactionalStore::<Lent>::finish(&shop.store, open, complete).await;
        assert_eq!(finished.unwrap(), Finished::Committed);
        let taken = proxy.round_trips() - before;
        assert_eq!(taken, 1, "{messages} {order:?}");
    }
    let written = "SELECT count(*) FROM idem_records_outbox";
    let written: i64 = sqlx::query_scalar(written)
        .fetch_one(&mut shop.bystander().await)
        .await
        .unwrap();
    assert_eq!(written, 102);
}
