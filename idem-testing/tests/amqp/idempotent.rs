//! `assert_idempotent`, over deliveries.

use std::collections::BTreeMap;

use super::*;

#[tokio::test(start_paused = true)]
async fn a_handler_that_does_it_again_after_a_crash_is_noticed_at_the_very_point() {
    let journal = async |run: &Harness<charge, Journal>| run.state().read();
    let harness = charging("orders");
    let panic = panic_of(assert_idempotent(&harness, &order(1250), journal)).await;
    let expected = "`idem-testing.charge` is not idempotent: in 1 of 8 situations\n\
        \n\
        crash after the handler, before the completion: the effect is doubled\n  \
        after one delivery: [\"o-17\"]\n  \
        here:               [\"o-17\", \"o-17\"]";
    assert!(panic.starts_with(expected), "{panic}");
}

#[derive(Clone, Default)]
struct Bank(Arc<Mutex<BTreeMap<String, i64>>>);

impl Bank {
    fn charges(&self) -> BTreeMap<String, i64> {
        self.0.lock().unwrap().clone()
    }
}

#[idempotent(key = "order_id")]
async fn charge_by_id(order: OrderPlaced, State(bank): State<Bank>) -> Result<(), Failed> {
    sleep(WORK).await;
    bank.0
        .lock()
        .unwrap()
        .insert(order.order_id, order.amount_cents);
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn a_handler_whose_other_side_knows_the_work_passes_on_every_kind_of_queue() {
    let queues = [
        Queue::quorum("orders"),
        Queue::quorum("orders").max_waiting(0),
        Queue::existing("orders"),
    ];
    for queue in queues {
        let harness = Setup::new(Bank::default).consume::<charge_by_id>(queue);
        assert_idempotent(&harness, &order(1250), async |run| run.state().charges()).await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_key_that_lacks_a_part_is_noticed() {
    let harness = Setup::new(Bank::default).consume::<charge_by_id>("orders");
    let panic = Box::pin(panic_of(assert_distinct_keys(
        &harness,
        [&order(1), &order(2)],
    )))
    .await;
    assert!(
        panic.contains(
            "both have the key `idem-testing.charge_by_id:o-17`, and it ended as `key-reused`"
        ),
        "{panic}"
    );
}
