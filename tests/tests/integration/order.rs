//! The order in which messages are handled.

use idem_amqp::{MemoryStore, Worker, executor::ExecutionKind as Kind};
use idem_tests::{
    bed::Bed,
    running::assert_balance,
    script::{Script, charge},
};

/// Messages are handled one at a time (`prefetch(1)`) by one worker; none is delivered again or tried again.
///
/// - does: handles them in the order of the queue
/// - atomic: once each
/// - leased: once each
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn one_message_at_a_time_is_handled_in_the_order_of_the_queue() {
    const ORDERS: u16 = 200;
    let bed = Bed::new().await;
    let ids: Vec<_> = (0..ORDERS).map(|number| format!("o-{number}")).collect();
    for id in &ids {
        bed.order(id).await;
    }
    let script = Script::succeeding();
    let worker = Worker::builder(MemoryStore::new()).state(script.clone());
    let worker = bed.start(worker.consume::<charge>(bed.queue().prefetch(1)));
    worker.ended(Kind::Executed, ids.len()).await;

    let calls = script.calls.entries();
    let handled: Vec<_> = calls.into_iter().map(|call| call.id).collect();
    assert_eq!(handled, ids);
    let balance = worker.stop().await;
    assert_balance(&balance, [(Kind::Executed, ORDERS.into())]);
    bed.assert_nothing_stuck().await;
}
