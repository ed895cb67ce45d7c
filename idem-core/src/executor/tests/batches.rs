//! Messages that share a call of their handler.

use std::{future::pending, mem, sync::Mutex};

use tokio::time::{Instant, timeout};

use super::*;
use crate::{
    executor::ExecutionKind,
    futures::{BoxFuture, FutureExt as _, join_all},
    handler::{
        Batch, BatchOptions, BatchResults, Context, DecodeError, LeasedBatch, Operation, Outcome,
        Rejection,
        batch::{batch_of_one, result_of_one, results},
    },
    message::{Envelope, KeyError},
    stores::MemoryStore,
};

mod atomic;
mod failing;
#[cfg(feature = "postgres")]
mod postgres;

/// Its messages are the orders' numbers. What becomes of them, the [`Shop`] says.
struct Charge<const SIZE: usize, const BYTES: usize = 1000, const WAIT: u64 = 0>;

type Act = dyn Fn(Batch<u32>) -> BoxFuture<'static, Result<Vec<u32>, Failed>> + Send + Sync;

/// The orders of each call, and what is done in it.
struct Shop {
    calls: Mutex<Vec<Vec<u32>>>,
    act: Box<Act>,
}

impl<const SIZE: usize, const BYTES: usize, const WAIT: u64> Operation
    for Charge<SIZE, BYTES, WAIT>
{
    type Message = u32;
    type Output = u32;
    type Error = Failed;
    type Mode = LeasedBatch;
    const SCOPE: &'static str = "orders";
    const BATCH: Option<BatchOptions> = Some(
        BatchOptions::new(SIZE)
            .bytes(BYTES)
            .wait(Duration::from_millis(WAIT)),
    );

    fn decode(envelope: &Envelope) -> Result<u32, DecodeError> {
        envelope.json()
    }

    fn key(number: &u32, _: &Envelope) -> Result<Key, KeyError> {
        Key::new(Self::SCOPE, *number)
    }
}

impl<const SIZE: usize, const BYTES: usize, const WAIT: u64> Handler<Shop>
    for Charge<SIZE, BYTES, WAIT>
{
    fn call<'a>(
        number: u32,
        context: &'a Context<'a, Shop>,
        (): (),
    ) -> Result<impl Future<Output = Result<u32, Failed>> + Send + 'a, Rejection> {
        let batch = batch_of_one(number, context);
        Ok(result_of_one(Self::call_batch(batch, context.state, ())?))
    }

    fn call_batch(
        batch: Batch<u32>,
        shop: &Shop,
        (): (),
    ) -> Result<impl Future<Output = BatchResults<u32, Failed>> + Send + '_, Rejection> {
        Ok(async move {
            let orders = batch.iter().map(|order| **order).collect();
            shop.calls.lock().unwrap().push(orders);
            let failures = batch.failures();
            results((shop.act)(batch).await, &failures)
        })
    }
}

impl Shop {
    fn new<Fut>(act: impl Fn(Batch<u32>) -> Fut + Send + Sync + 'static) -> Self
    where
        Fut: Future<Output = Result<Vec<u32>, Failed>> + Send + 'static,
    {
        Self {
            calls: Mutex::default(),
            act: Box::new(move |batch| act(batch).boxed()),
        }
    }

    /// Each order's output is its number. With this order among them, `act` is done instead.
    fn with_bad<Fut>(bad: u32, act: impl Fn() -> Fut + Clone + Send + Sync + 'static) -> Self
    where
        Fut: Future<Output = Result<(), Failed>> + Send + 'static,
    {
        Self::new(move |batch| {
            let act = act.clone();
            async move {
                if batch.iter().any(|order| **order == bad) {
                    act().await?;
                }
                numbers(batch).await
            }
        })
    }

    /// Each order's output is its number, after so many seconds.
    fn slow(seconds: u64) -> Self {
        Self::new(move |batch| async move {
            sleep(Duration::from_secs(seconds)).await;
            numbers(batch).await
        })
    }

    /// The orders of the calls since this was asked last.
    fn calls(&self) -> Vec<Vec<u32>> {
        mem::take(&mut *self.calls.lock().unwrap())
    }
}

/// The accepted orders' numbers.
async fn numbers(batch: Batch<u32>) -> Result<Vec<u32>, Failed> {
    Ok(batch.accepted().map(|order| **order).collect())
}

fn memory() -> Executor<MemoryStore> {
    Executor::new(MemoryStore::new())
}

fn prepared<H: Operation>(number: u32, policy: &Policy) -> Prepared<H> {
    let message = Prepared::new(Envelope::new(number.to_string()), policy);
    message.unwrap_or_else(|_| panic!("a number is an order"))
}

/// A handler of orders' numbers.
trait Orders: Handler<Shop, Output = u32, Error = Failed, Mode = LeasedBatch> {}

impl<H: Handler<Shop, Output = u32, Error = Failed, Mode = LeasedBatch>> Orders for H {}

type Ended = Execution<u32, Failed>;

async fn handle_by<H: Orders>(
    executor: &Executor<impl Store>,
    shop: &Shop,
    number: u32,
    policy: &Policy,
) -> Ended {
    executor
        .handle(&mut prepared::<H>(number, policy), shop)
        .await
}

async fn handle<H: Orders>(executor: &Executor<impl Store>, shop: &Shop, number: u32) -> Ended {
    handle_by::<H>(executor, shop, number, &Policy::DEFAULT).await
}

async fn handle_all<H: Orders>(
    executor: &Executor<impl Store>,
    shop: &Shop,
    orders: impl IntoIterator<Item = u32>,
) -> Vec<Ended> {
    join_all(orders.into_iter().map(|it| handle::<H>(executor, shop, it))).await
}

/// Handles it when as many milliseconds have passed as its number says.
async fn late<H: Orders>(executor: &Executor<impl Store>, shop: &Shop, number: u32) -> Ended {
    sleep(Duration::from_millis(u64::from(number))).await;
    handle::<H>(executor, shop, number).await
}

async fn all_late<H: Orders>(
    executor: &Executor<impl Store>,
    shop: &Shop,
    orders: impl IntoIterator<Item = u32>,
) -> Vec<Ended> {
    join_all(orders.into_iter().map(|it| late::<H>(executor, shop, it))).await
}

/// As [`late`], for a second at most.
async fn late_and_dropped<H: Orders>(executor: &Executor<impl Store>, shop: &Shop, number: u32) {
    let late = late::<H>(executor, shop, number);
    let dropped = timeout(Duration::from_secs(1), late).await;
    assert!(dropped.is_err());
}

fn assert_executed(ended: &[Ended], orders: impl IntoIterator<Item = u32>) {
    for (ended, order) in ended.iter().zip(orders) {
        assert_output(ended, 1, &order);
    }
}

#[tokio::test(start_paused = true)]
async fn messages_that_wait_share_a_call_and_each_has_its_own_output() {
    let (executor, shop) = (memory(), Shop::new(numbers));
    let ended = handle_all::<Charge<8>>(&executor, &shop, 1..=5).await;
    assert_executed(&ended, 1..=5);
    assert_eq!(shop.calls(), [[1, 2, 3, 4, 5]]);
    let copy = handle::<Charge<8>>(&executor, &shop, 3).await;
    assert!(
        matches!(&copy, Execution::Duplicate { outcome, .. } if *outcome == Outcome::new("3")),
        "{copy:?}"
    );
    assert!(shop.calls().is_empty());
}

#[tokio::test(start_paused = true)]
async fn a_batch_has_no_more_messages_than_it_may() {
    let (executor, shop) = (memory(), Shop::new(numbers));
    let ended = handle_all::<Charge<4>>(&executor, &shop, 1..=10).await;
    assert_executed(&ended, 1..=10);
    let sizes: Vec<_> = shop.calls().iter().map(Vec::len).collect();
    assert_eq!(sizes, [4, 4, 2]);
}

#[tokio::test(start_paused = true)]
async fn a_batch_has_no_more_bytes_than_it_may() {
    let (executor, shop) = (memory(), Shop::new(numbers));
    let orders = [11, 12, 1_000_000, 13];
    let ended = handle_all::<Charge<8, 5>>(&executor, &shop, orders).await;
    assert_executed(&ended, orders);
    let calls = shop.calls();
    assert!(calls.contains(&vec![11, 12]), "{calls:?}");
    assert!(calls.contains(&vec![1_000_000]), "{calls:?}");
}

/// Of those that lead, one is left over each time.
#[tokio::test(start_paused = true)]
async fn messages_that_do_not_fit_into_a_batch_are_all_called() {
    let (executor, shop) = (memory(), Shop::new(numbers));
    let orders = [1_000_001, 1_000_002, 1_000_003, 1_000_004];
    let ended = handle_all::<Charge<8, 5>>(&executor, &shop, orders).await;
    assert_executed(&ended, orders);
    assert_eq!(shop.calls().len(), 4);
}

#[tokio::test(start_paused = true)]
async fn what_comes_while_batches_run_waits_for_the_next_one() {
    let executor = memory();
    let shop = Shop::slow(1);
    let ended = all_late::<Charge<8>>(&executor, &shop, 1..=6).await;
    assert_executed(&ended, 1..=6);
    assert_eq!(shop.calls(), [vec![1], vec![2], vec![3, 4, 5, 6]]);
}

#[tokio::test(start_paused = true)]
async fn a_batch_waits_for_others_if_it_is_told_to() {
    let (executor, shop) = (memory(), Shop::new(numbers));
    let ended = all_late::<Charge<3, 1000, 10>>(&executor, &shop, 1..=4).await;
    assert_executed(&ended, 1..=4);
    assert_eq!(shop.calls(), [vec![1, 2, 3], vec![4]]);
}

/// It is as full as it gets.
#[tokio::test(start_paused = true)]
async fn a_batch_does_not_wait_for_others_when_no_more_bytes_fit() {
    let (executor, shop) = (memory(), Shop::new(numbers));
    let began = Instant::now();
    let ended = handle_all::<Charge<8, 5, 10_000>>(&executor, &shop, [11, 12, 13]).await;
    assert_executed(&ended, 11..=13);
    assert_eq!(shop.calls(), [vec![11, 12], vec![13]]);
    // The last one waited for others.
    assert_eq!(began.elapsed(), Duration::from_secs(10));
}

/// It leads only what it is in: its own end waits for nobody else's call.
#[tokio::test(start_paused = true)]
async fn a_message_ends_when_the_batch_that_it_is_in_has_ended() {
    let executor = memory();
    let shop = Shop::new(|batch| async move {
        if batch.iter().any(|order| **order > 2) {
            sleep(Duration::from_secs(10)).await;
        }
        numbers(batch).await
    });
    let began = Instant::now();
    let handle = async |order| {
        let ended = handle::<Charge<2>>(&executor, &shop, order).await;
        assert_executed(&[ended], [order]);
        began.elapsed().as_secs()
    };
    let ended = join_all((1..=6).map(handle)).await;
    assert_eq!(ended, [0, 0, 10, 10, 10, 10]);
    assert_eq!(shop.calls(), [[1, 2], [3, 4], [5, 6]]);
}

/// With another state the handler would do for one what was asked of another.
#[tokio::test(start_paused = true)]
async fn messages_of_different_states_share_no_call() {
    let (executor, shops) = (memory(), [Shop::new(numbers), Shop::new(numbers)]);
    let handle = |order: u32| handle::<Charge<8>>(&executor, &shops[order as usize % 2], order);
    let ended = join_all((1..=4).map(handle)).await;
    assert_executed(&ended, 1..=4);
    assert_eq!(shops[0].calls(), [[2, 4]]);
    assert_eq!(shops[1].calls(), [[1, 3]]);
}

#[tokio::test(start_paused = true)]
async fn messages_with_different_timeouts_share_no_call() {
    let (executor, shop) = (memory(), Shop::slow(10));
    let hasty = Policy::builder().timeout(Duration::from_secs(5));
    let hasty = hasty.build().unwrap();
    let policies = [&Policy::DEFAULT, &hasty];
    let handle = |it: u32| handle_by::<Charge<8>>(&executor, &shop, it, policies[it as usize % 2]);
    let ended = join_all((1..=4).map(handle)).await;
    for (order, ended) in (1..).zip(&ended) {
        let kind = [ExecutionKind::Executed, ExecutionKind::Failed][order % 2];
        assert_eq!(ended.kind(), kind, "{order}: {ended:?}");
    }
    let calls = shop.calls();
    assert!(
        calls.contains(&vec![1, 3]) && calls.contains(&vec![2, 4]),
        "{calls:?}"
    );
}

/// While the store is away, longer leases would look as if it confirmed those and not the others.
#[tokio::test(start_paused = true)]
async fn messages_with_leases_of_different_lengths_share_no_call() {
    let (executor, shop) = (memory(), Shop::new(numbers));
    let long = Policy::builder().lease(Policy::DEFAULT.lease() * 20);
    let policies = [&Policy::DEFAULT, &long.build().unwrap()];
    let handle = |it: u32| handle_by::<Charge<8>>(&executor, &shop, it, policies[it as usize % 2]);
    assert_executed(&join_all((1..=4).map(handle)).await, 1..=4);
    assert_eq!(shop.calls(), [[1, 3], [2, 4]]);
}

#[tokio::test(start_paused = true)]
async fn of_two_copies_one_is_in_the_batch() {
    let executor = memory();
    let shop = Shop::new(numbers);
    let ended = handle_all::<Charge<8>>(&executor, &shop, [1, 2, 1]).await;
    assert_executed(&ended[..2], 1..=2);
    assert_eq!(ended[2].kind(), ExecutionKind::Conflict);
    assert_eq!(shop.calls(), [[1, 2]]);
}

#[tokio::test(start_paused = true)]
async fn a_member_that_is_failed_fares_like_a_message_that_was_alone() {
    let executor = memory();
    let shop = Shop::new(|batch| {
        for (i, order) in batch.iter().enumerate() {
            match **order {
                2 => batch.reject(i, "no such customer"),
                3 => batch.retry(i, "the gateway is down"),
                _ => {}
            }
        }
        numbers(batch)
    });
    let ended = handle_all::<Charge<8>>(&executor, &shop, 1..=4).await;
    assert_executed(&ended[..1], [1]);
    assert_executed(&ended[3..], [4]);
    assert_ended(&ended[1], "rejected 1");
    assert_eq!(ended[1].error().as_deref(), Some("no such customer"));
    assert_ended(&ended[2], "failed 1");
    assert_eq!(shop.calls(), [[1, 2, 3, 4]]);
    // Its next attempt is by itself.
    wait_for_retry(&ended[2]).await;
    let again = handle_all::<Charge<8>>(&executor, &shop, [3, 5, 6]).await;
    assert_eq!(again[0].attempt(), Some(2));
    let calls = shop.calls();
    assert!(
        calls.contains(&vec![3]) && calls.contains(&vec![5, 6]),
        "{calls:?}"
    );
}

/// Who may have ended its process, or may not be called again, does not do so to others.
#[tokio::test(start_paused = true)]
async fn some_messages_are_always_by_themselves() {
    let (executor, shop) = (memory(), Shop::new(numbers));
    let policies = [
        Policy::builder().in_doubt(InDoubt::Quarantine),
        Policy::builder().store_outage(crate::handler::StoreOutage::FailOpen),
        Policy::builder().enforcement(crate::handler::Enforcement::Observe),
        Policy::builder().max_attempts(1),
    ];
    let mut messages: Vec<_> = (1..)
        .zip(policies)
        .map(|(order, policy)| prepared::<Charge<8>>(order, &policy.build().unwrap()))
        .collect();
    messages.push(prepared::<Charge<8>>(5, &Policy::DEFAULT).redelivered(true));
    // It may be a dead letter of what has ended its process each time.
    messages.push(
        prepared::<Charge<8>>(8, &Policy::DEFAULT)
            .replay(true)
            .redelivered(false),
    );
    messages.extend([6, 7].map(|order| prepared::<Charge<8>>(order, &Policy::DEFAULT)));
    let handled = messages
        .iter_mut()
        .map(|message| executor.handle(message, &shop));
    for ended in join_all(handled).await {
        assert!(ended.attempt() == Some(1), "{ended:?}");
    }
    let mut calls = shop.calls();
    calls.sort();
    assert_eq!(
        calls,
        [
            vec![1],
            vec![2],
            vec![3],
            vec![4],
            vec![5],
            vec![6, 7],
            vec![8]
        ]
    );
}

#[tokio::test(start_paused = true)]
async fn a_batch_keeps_the_leases_of_all_its_members() {
    let executor = memory();
    let shop = Shop::new(|batch| async {
        sleep(LEASE * 3).await;
        numbers(batch).await
    });
    let copy = async {
        sleep(LEASE * 2).await;
        let other = Executor::new(executor.store().clone());
        handle::<Charge<8>>(&other, &shop, 2).await
    };
    let (ended, copy) = tokio::join!(handle_all::<Charge<8>>(&executor, &shop, 1..=3), copy);
    assert_executed(&ended, 1..=3);
    assert_eq!(copy.kind(), ExecutionKind::Conflict);
}

#[tokio::test(start_paused = true)]
async fn a_closed_executor_lets_its_batch_end_and_gives_the_others_back() {
    let executor = memory();
    let shop = Shop::slow(1);
    let close = async {
        sleep(Duration::from_millis(100)).await;
        executor.close();
    };
    let (ended, ()) = tokio::join!(all_late::<Charge<8>>(&executor, &shop, 1..=4), close);
    assert_executed(&ended[..2], 1..=2);
    assert_eq!(shop.calls(), [[1], [2]]);
    let other = Executor::new(executor.store().clone());
    for (order, ended) in (3..).zip(&ended[2..]) {
        assert_eq!(ended.kind(), ExecutionKind::Abandoned);
        let free = handle::<Charge<8>>(&other, &shop, order).await;
        assert_executed(&[free], [order]);
    }
}

/// Dropped before a batch has taken it, it is in none, and keeps nobody from theirs.
#[tokio::test(start_paused = true)]
async fn who_is_dropped_while_it_waits_is_in_no_batch() {
    let executor = memory();
    let shop = Shop::slow(10);
    let dropped = late_and_dropped::<Charge<8>>(&executor, &shop, 3);
    let (ended, ()) = tokio::join!(
        all_late::<Charge<8>>(&executor, &shop, [1, 2, 4, 5]),
        dropped
    );
    assert_executed(&ended, [1, 2, 4, 5]);
    assert_eq!(shop.calls(), [vec![1], vec![2], vec![4, 5]]);
}

/// Nobody keeps what nobody waits for.
#[tokio::test(start_paused = true)]
async fn the_key_of_who_is_dropped_while_it_waits_is_free_when_its_lease_has_run_out() {
    let (executor, shop) = (memory(), Shop::new(numbers));
    let waiting = handle::<Charge<8, 1000, 10_000>>(&executor, &shop, 1);
    assert!(timeout(Duration::from_secs(1), waiting).await.is_err());
    sleep(3 * Policy::DEFAULT.lease()).await;
    let again = handle::<Charge<8, 1000, 10_000>>(&executor, &shop, 1).await;
    assert_ended(&again, "executed 2");
}

/// Whoever led is not there any more; the next one leads.
#[tokio::test(start_paused = true)]
async fn the_turn_of_a_leader_that_is_dropped_goes_to_the_next() {
    let executor = memory();
    let shop = Shop::slow(10);
    let dropped = |order| late_and_dropped::<Charge<8>>(&executor, &shop, order);
    let began = Instant::now();
    let (ended, (), ()) = tokio::join!(
        all_late::<Charge<8>>(&executor, &shop, [3, 4]),
        dropped(1),
        dropped(2)
    );
    assert_executed(&ended, 3..=4);
    assert!(began.elapsed() < Duration::from_secs(12));
    assert_eq!(shop.calls(), [vec![1], vec![2], vec![3, 4]]);
}
