//! Keys that lack a part.

use idem_testing::assert_distinct_keys;

use super::*;

/// Its messages are lines of orders; its key says which order.
#[idempotent(key = "order_id")]
async fn by_order(_order: OrderPlaced) -> Result<(), Failed> {
    Ok(())
}

/// As before; and nobody looks whether the content is another.
#[idempotent(key = "order_id", fingerprint = off)]
async fn by_order_alone(_order: OrderPlaced) -> Result<(), Failed> {
    Ok(())
}

#[idempotent(key = ["order_id", "line"])]
async fn by_line(_order: OrderPlaced) -> Result<(), Failed> {
    Ok(())
}

fn lines() -> [Message; 2] {
    [1, 2].map(|line| {
        let order_id = "o-17".into();
        Message::json(&OrderPlaced { order_id, line })
    })
}

#[tokio::test(start_paused = true)]
async fn a_key_that_lacks_a_part_is_noticed() {
    let [first, second] = &lines();
    let harness = Setup::new(|| ()).handler::<by_order>();
    let panic = panic_of(assert_distinct_keys(&harness, [first, second])).await;
    assert!(
        panic.contains(
            "both have the key `idem-testing.by_order:o-17`, and it ended as `key-reused`"
        ),
        "{panic}"
    );
    let harness = Setup::new(|| ()).handler::<by_order_alone>();
    let panic = panic_of(assert_distinct_keys(&harness, [first, second])).await;
    assert!(
        panic.contains("`idem-testing.by_order_alone` does not tell message 2"),
        "{panic}"
    );
    assert!(panic.contains("it ended as `duplicate`"), "{panic}");
}

#[tokio::test(start_paused = true)]
async fn a_key_with_all_its_parts_passes() {
    let [first, second] = &lines();
    let harness = Setup::new(|| ()).handler::<by_line>();
    assert_distinct_keys(&harness, [first, second]).await;
}

#[tokio::test(start_paused = true)]
async fn a_message_that_is_not_executed_at_all_says_nothing_about_keys() {
    let harness = Setup::new(|| ()).handler::<by_line>();
    let nothing = Message::bytes("{}");
    let panic = panic_of(assert_distinct_keys(&harness, [&lines()[0], &nothing])).await;
    assert!(
        panic.contains("does not execute message 2: it ended as `undecodable`"),
        "{panic}"
    );
}
