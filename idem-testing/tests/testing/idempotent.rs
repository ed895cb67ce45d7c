//! Handlers that are idempotent pass; those that are not are told where.

use std::collections::{BTreeMap, BTreeSet};

use idem_core::{Attempt, FencingToken};
use idem_testing::assert_idempotent;
use tokio::task::yield_now;

use super::*;

async fn journal_of<H>(run: &Harness<H, Journal>) -> Vec<String>
where
    H: idem_core::handler::Handler<Journal, Mode = idem_core::handler::Leased>,
{
    run.state().read()
}

#[tokio::test(start_paused = true)]
async fn a_handler_that_does_it_again_after_a_crash_is_noticed_at_the_very_point() {
    let panic = panic_of(assert_idempotent(&charging(), &order(), journal_of)).await;
    let expected = "`idem-testing.charge` is not idempotent: in 1 of 7 situations\n\
        \n\
        crash after the handler, before the completion: the effect is doubled\n  \
        after one delivery: [\"o-17\"]\n  \
        here:               [\"o-17\", \"o-17\"]\n  \
        ended as:           `executed`\n\
        \n\
        After a crash a leased handler runs again.";
    assert!(panic.starts_with(expected), "{panic}");
}

/// A downstream service that knows a charge by its order.
#[derive(Clone, Default)]
struct Bank(Arc<Mutex<BTreeMap<String, u32>>>);

#[idempotent(key = "order_id")]
async fn charge_by_id(order: OrderPlaced, State(bank): State<Bank>) -> Result<(), Failed> {
    yield_now().await;
    bank.0.lock().unwrap().insert(order.order_id, order.line);
    yield_now().await;
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn a_handler_whose_other_side_knows_the_work_passes() {
    let harness = Setup::new(Bank::default).handler::<charge_by_id>();
    let charges = async |run: &Harness<charge_by_id, Bank>| run.state().0.lock().unwrap().clone();
    assert_idempotent(&harness, &order(), charges).await;
}

#[idempotent(key = "order_id", in_doubt = "quarantine")]
async fn charge_or_quarantine(
    order: OrderPlaced,
    State(journal): State<Journal>,
) -> Result<(), Failed> {
    yield_now().await;
    journal.write(order.order_id);
    yield_now().await;
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn a_handler_that_leaves_doubt_to_a_person_passes() {
    let harness = Setup::new(Journal::default).handler::<charge_or_quarantine>();
    assert_idempotent(&harness, &order(), journal_of).await;
}

#[idempotent(key = "order_id", store_outage = "fail_open")]
async fn charge_without_the_store(
    order: OrderPlaced,
    State(bank): State<Bank>,
) -> Result<(), Failed> {
    bank.0.lock().unwrap().insert(order.order_id, order.line);
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn a_handler_that_fails_open_passes() {
    let harness = Setup::new(Bank::default).handler::<charge_without_the_store>();
    let charges =
        async |run: &Harness<charge_without_the_store, Bank>| run.state().0.lock().unwrap().clone();
    assert_idempotent(&harness, &order(), charges).await;
    harness.store().fail_for(std::time::Duration::from_secs(1));
    let unprotected = harness.deliver(&order()).await;
    assert_eq!(
        unprotected.kind(),
        idem_core::executor::ExecutionKind::Unprotected
    );
}

/// A downstream store that refuses older tokens, and takes the same line again.
#[derive(Clone, Default)]
struct Ledger(Arc<Mutex<(i64, BTreeSet<String>)>>);

#[idempotent(key = "order_id")]
async fn book(
    order: OrderPlaced,
    State(ledger): State<Ledger>,
    token: FencingToken,
) -> Result<(), Failed> {
    yield_now().await;
    let mut ledger = ledger.0.lock().unwrap();
    if token.get() < ledger.0 {
        return Err(Failed::retry("an older token"));
    }
    ledger.0 = token.get();
    ledger.1.insert(order.order_id);
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn a_handler_that_passes_its_fencing_token_on_passes() {
    let harness = Setup::new(Ledger::default).handler::<book>();
    let lines = async |run: &Harness<book, Ledger>| run.state().0.lock().unwrap().1.clone();
    assert_idempotent(&harness, &order(), lines).await;
}

#[derive(Clone)]
struct Stock(Arc<Mutex<(u32, BTreeSet<String>)>>);

impl Stock {
    fn of_ten() -> Self {
        Self(Arc::new(Mutex::new((10, BTreeSet::new()))))
    }
}

async fn stock_of<H>(run: &Harness<H, Stock>) -> (u32, BTreeSet<String>)
where
    H: idem_core::handler::Handler<Stock, Mode = idem_core::handler::Leased>,
{
    run.state().0.lock().unwrap().clone()
}

/// Takes one from the stock, waits, and notes for whom: dropped there, one is lost.
#[idempotent(key = "order_id")]
async fn reserve(order: OrderPlaced, State(stock): State<Stock>) -> Result<(), Failed> {
    if stock.0.lock().unwrap().1.contains(&order.order_id) {
        return Ok(());
    }
    stock.0.lock().unwrap().0 -= 1;
    yield_now().await;
    stock.0.lock().unwrap().1.insert(order.order_id);
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn a_handler_that_is_not_cancel_safe_is_noticed_at_the_wait() {
    let harness = Setup::new(Stock::of_ten).handler::<reserve>();
    let panic = panic_of(assert_idempotent(&harness, &order(), stock_of)).await;
    let expected = "`idem-testing.reserve` is not idempotent: in 1 of 8 situations\n\
        \n\
        crash inside the handler, at wait 1: the effect is another one\n  \
        after one delivery: (9, {\"o-17\"})\n  \
        here:               (8, {\"o-17\"})";
    assert!(panic.starts_with(expected), "{panic}");
}

/// Notes for whom first: dropped after that, the work is never done.
#[idempotent(key = "order_id")]
async fn note_first(order: OrderPlaced, State(stock): State<Stock>) -> Result<(), Failed> {
    if !stock.0.lock().unwrap().1.insert(order.order_id) {
        return Ok(());
    }
    yield_now().await;
    stock.0.lock().unwrap().0 -= 1;
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn a_handler_that_notes_before_it_works_is_noticed_at_the_wait() {
    let harness = Setup::new(Stock::of_ten).handler::<note_first>();
    let left = async |run: &Harness<note_first, Stock>| run.state().0.lock().unwrap().0;
    let panic = panic_of(assert_idempotent(&harness, &order(), left)).await;
    assert!(
        panic.contains("crash inside the handler, at wait 1: the effect is missing"),
        "{panic}"
    );
}

/// Rejects what it finds done, as if it were not its own work.
#[idempotent(key = "order_id")]
async fn reject_copies(order: OrderPlaced, State(bank): State<Bank>) -> Result<(), Failed> {
    match bank.0.lock().unwrap().insert(order.order_id, order.line) {
        None => Ok(()),
        Some(_) => Err(Failed::rejected("charged already")),
    }
}

#[tokio::test(start_paused = true)]
async fn a_handler_that_takes_its_own_effect_for_an_error_is_noticed() {
    let harness = Setup::new(Bank::default).handler::<reject_copies>();
    let charges = async |run: &Harness<reject_copies, Bank>| run.state().0.lock().unwrap().clone();
    let panic = panic_of(assert_idempotent(&harness, &order(), charges)).await;
    assert!(
        panic.contains(
            "before the completion: the effect is right, but the message is not taken for done"
        ) && panic.contains("ended as:           `rejected`: charged already"),
        "{panic}"
    );
}

/// The first attempt fails after its effect.
#[idempotent(key = "order_id")]
async fn fail_after_the_effect(
    order: OrderPlaced,
    State(bank): State<Bank>,
    attempt: Attempt,
) -> Result<(), Failed> {
    bank.0.lock().unwrap().insert(order.order_id, order.line);
    if attempt.number() == 1 {
        return Err(Failed::retry("a hiccup"));
    }
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn a_handler_that_fails_first_is_seen_through() {
    let harness = Setup::new(Bank::default).handler::<fail_after_the_effect>();
    let charges =
        async |run: &Harness<fail_after_the_effect, Bank>| run.state().0.lock().unwrap().clone();
    assert_idempotent(&harness, &order(), charges).await;
}

#[tokio::test(start_paused = true)]
async fn what_asserts_nothing_is_refused() {
    let nothing = async |_: &Harness<charge, Journal>| ();
    let panic = panic_of(assert_idempotent(&charging(), &order(), nothing)).await;
    assert_eq!(
        panic,
        "`observe` does not see what `idem-testing.charge` does: before and after it, it is ()"
    );

    let panic = panic_of(assert_idempotent(
        &charging(),
        &Message::bytes("x"),
        journal_of,
    ))
    .await;
    assert!(
        panic.starts_with(
            "`idem-testing.charge` does not execute the message even if nothing disturbs it"
        ),
        "{panic}"
    );

    let shared = Journal::default();
    let harness = Setup::new(move || shared.clone()).handler::<charge>();
    let panic = panic_of(assert_idempotent(&harness, &order(), journal_of)).await;
    assert!(
        panic
            .starts_with("`observe` differs between two undisturbed runs of `idem-testing.charge`"),
        "{panic}"
    );
}
