//! Handlers of batches, on the memory store.

use std::{collections::BTreeMap, time::Duration};

use idem_core::{Batch, executor::ExecutionKind as Kind};
use idem_testing::{Call, CrashPoint, assert_idempotent, assert_idempotent_together};
use tokio::{task::yield_now, time::sleep};

use super::*;

const LEASE: Duration = Duration::from_secs(30);

/// Writes down its orders; line 0 is no line.
#[idempotent(key = "order_id", batch = 8)]
async fn note(
    orders: Batch<OrderPlaced>,
    State(journal): State<Journal>,
) -> Result<Vec<u32>, Failed> {
    for (i, order) in orders.iter().enumerate() {
        if order.line == 0 {
            orders.reject(i, "no line");
        }
    }
    let ids: Vec<_> = orders.accepted().map(|order| &*order.order_id).collect();
    journal.write(ids.join(" "));
    yield_now().await;
    Ok(orders.accepted().map(|order| order.line).collect())
}

fn noting() -> Harness<note, Journal> {
    Setup::new(Journal::default).handler::<note>()
}

fn orders<const N: usize>(lines: [u32; N]) -> Vec<Message> {
    let order = |(number, line)| {
        Message::json(&OrderPlaced {
            order_id: format!("o-{number}"),
            line,
        })
    };
    lines.into_iter().enumerate().map(order).collect()
}

#[tokio::test(start_paused = true)]
async fn messages_that_are_delivered_together_share_a_call() {
    let harness = noting();
    let ended = harness.deliver_together(&orders([1, 0, 3])).await;
    let kinds: Vec<_> = ended.iter().map(idem_core::Execution::kind).collect();
    assert_eq!(kinds, [Kind::Executed, Kind::Rejected, Kind::Executed]);
    assert_eq!(harness.state().read(), ["o-0 o-2"]);
}

#[tokio::test(start_paused = true)]
async fn a_batch_of_one_is_idempotent() {
    let reads = async |run: &Harness<note, Journal>| {
        let mut notes = run.state().read();
        notes.dedup();
        notes
    };
    assert_idempotent(&noting(), &orders([1])[0], reads).await;
}

/// A downstream service that knows a charge by its order.
#[derive(Clone, Default)]
struct Bank(Arc<Mutex<BTreeMap<String, u32>>>);

async fn charges_of<H>(run: &Harness<H, Bank>) -> BTreeMap<String, u32>
where
    H: idem_core::handler::Handler<Bank, Mode = idem_core::handler::LeasedBatch>,
{
    run.state().0.lock().unwrap().clone()
}

#[idempotent(key = "order_id", batch = 8)]
async fn charge_by_id(orders: Batch<OrderPlaced>, State(bank): State<Bank>) -> Result<(), Failed> {
    yield_now().await;
    let charges = orders.iter().map(|it| (it.order_id.clone(), it.line));
    bank.0.lock().unwrap().extend(charges);
    yield_now().await;
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn a_batch_whose_other_side_knows_the_work_passes() {
    let harness = Setup::new(Bank::default).handler::<charge_by_id>();
    assert_idempotent_together(&harness, &orders([1; 5]), charges_of).await;
}

/// Charges the first for all.
#[idempotent(key = "order_id", batch = 8)]
async fn charge_the_sum(
    orders: Batch<OrderPlaced>,
    State(bank): State<Bank>,
) -> Result<(), Failed> {
    let sum = orders.iter().map(|it| it.line).sum();
    let first = orders.iter().map(|it| it.order_id.clone()).next();
    bank.0.lock().unwrap().extend(first.map(|id| (id, sum)));
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn a_handler_that_does_something_else_for_a_batch_is_noticed_in_the_first_with_two() {
    let harness = Setup::new(Bank::default).handler::<charge_the_sum>();
    let orders = orders([1; 5]);
    let panic = panic_of(assert_idempotent_together(&harness, &orders, charges_of)).await;
    let expected = "`idem-testing.charge_the_sum, 2 messages together` is not idempotent: in 4 of 7 situations\n\
        \n\
        crash before the claim: the effect is another one\n  \
        after one delivery: {\"o-0\": 2}\n  \
        here:               {\"o-0\": 1, \"o-1\": 1}";
    assert!(panic.starts_with(expected), "{panic}");
}

#[tokio::test(start_paused = true)]
async fn what_is_no_batch_is_refused() {
    let (harness, orders) = (noting(), orders([1]));
    let alone = async |run: &Harness<note, Journal>| run.state().read();
    let panic = panic_of(assert_idempotent_together(&harness, &orders, alone)).await;
    assert_eq!(panic, "it takes two messages to be delivered together");
    let panic = panic_of(harness.crash_together(CrashPoint::AfterClaim, &[])).await;
    assert_eq!(panic, "no message: there is nothing to crash at");
}

/// Whoever crashes with a batch has claimed each of its keys, and done as much of it as of a message alone.
#[tokio::test(start_paused = true)]
async fn after_a_crash_each_message_of_the_batch_is_done() {
    use CrashPoint::{AfterClaim, AfterCompletion, BeforeClaim, BeforeCompletion, InHandler};
    // The point, and how often the handler was called before the crash.
    let points = [
        (BeforeClaim, 0),
        (AfterClaim, 0),
        (InHandler(1), 1),
        (BeforeCompletion, 1),
        (AfterCompletion, 1),
    ];
    for (point, calls) in points {
        for orders in [orders([1]), orders([1; 2]), orders([1; 5])] {
            let (harness, size) = (noting(), orders.len());
            harness.crash_together(point, &orders).await;
            let noted = harness.state().read().len();
            // Those that the crash has not reached may be a batch without the first.
            assert!(noted <= calls.max(1), "{point}, {size}");
            sleep(LEASE).await;
            for order in &orders {
                let again = harness.deliver_until_done(&order.redelivered()).await;
                let kind = again.kind();
                assert!(
                    matches!(kind, Kind::Executed | Kind::Duplicate),
                    "{point}, {size}: {kind}"
                );
                let copy = harness.deliver(order).await;
                assert_eq!(copy.kind(), Kind::Duplicate, "{point}, {size}");
            }
        }
    }
}

#[tokio::test(start_paused = true)]
async fn an_answer_that_is_lost_to_a_batch_is_asked_for_again() {
    for call in [Call::Claim, Call::Complete] {
        let harness = noting();
        harness.store().lose_next_answer(call);
        let orders = orders([1; 3]);
        for order in &orders {
            harness.deliver_together(std::slice::from_ref(order)).await;
        }
        for order in &orders {
            let ended = harness.deliver_until_done(&order.redelivered()).await;
            assert!(
                matches!(ended.kind(), Kind::Executed | Kind::Duplicate),
                "{call:?}: {ended:?}"
            );
        }
        let mut notes = harness.state().read();
        notes.sort();
        assert_eq!(notes, ["o-0", "o-1", "o-2"], "{call:?}");
    }
}
