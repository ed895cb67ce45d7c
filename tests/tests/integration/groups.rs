//! Handlers whose messages share a transaction, on PostgreSQL.

use std::sync::{
    Arc, OnceLock,
    atomic::{AtomicUsize, Ordering},
};

use idem_amqp::{
    PostgresStore, Worker,
    executor::ExecutionKind as Kind,
    prelude::*,
    sqlx::{self, AssertSqlSafe, Connection as _, PgConnection},
};
use idem_tests::{
    bed::{Bed, dead},
    journal::{eventually, within},
    ledger::{Charge, Ledger, in_postgres},
    postgres_pair::PostgresPair,
    process::{Crash, Mode, Process, Settings},
    running::{Running, assert_balance},
    script::{Order, Script},
    store_at::Product,
};
use tokio::sync::Notify;

const LEDGER_WORKER: &str = env!("CARGO_BIN_EXE_ledger-worker");

#[idempotent(key = "id", scope = "orders.charge", group = 16)]
pub(crate) async fn charge(
    order: Order,
    State(script): State<Script>,
    attempt: Attempt,
    delivery: Delivery,
    db: &mut PgConnection,
) -> Result<(), Failed> {
    in_postgres::write(db, &Charge::new(&order.id, attempt.number(), "here")).await?;
    script.play(order, attempt, delivery).await
}

async fn charging(bed: &Bed, ledger: &Ledger, script: &Script) -> Running {
    let store = ledger.store().open_postgres().await;
    let worker = Worker::builder(store).state(script.clone());
    bed.start(worker.consume::<charge>(bed.queue().prefetch(100)))
}

async fn ledger() -> Ledger {
    Ledger::on(Product::Postgres).await
}

async fn commits(ledger: &Ledger) -> i64 {
    in_postgres::moments(&ledger.store().url).await
}

fn names(count: usize) -> Vec<String> {
    (0..count).map(|number| format!("o-{number}")).collect()
}

/// Copies of many messages come to several workers that group them.
///
/// - does: commits many messages at once
/// - effect: once each
#[tokio::test]
async fn copies_at_two_grouped_workers_are_charged_once_each_in_fewer_commits() {
    let (bed, ledger) = (Bed::new().await, ledger().await);
    let orders = names(300);
    for order in orders.iter().chain(&orders) {
        bed.order(order).await;
    }
    let script = Script::succeeding();
    let workers = [
        charging(&bed, &ledger, &script).await,
        charging(&bed, &ledger, &script).await,
    ];
    bed.until_settled().await;
    let mut executed = 0;
    for worker in workers {
        executed += worker.stop().await.of(Kind::Executed);
    }
    assert_eq!(executed, 300);
    let charges = ledger.charges_per_order().await;
    assert_eq!(charges.len(), 300);
    assert!(charges.values().all(|count| *count == 1), "{charges:?}");
    let commits = commits(&ledger).await;
    assert!(commits < 200, "{commits} commits");
    bed.assert_nothing_stuck().await;
}

/// One of a group fails, panics or rejects its message.
///
/// - does: undoes what it has written, runs it by itself; the others commit
/// - effect: once each, none of what failed
#[tokio::test]
async fn orders_that_fail_or_are_rejected_in_a_group_cost_the_others_nothing() {
    let (bed, ledger) = (Bed::new().await, ledger().await);
    let script = Script::new(async |call| {
        let number: usize = call.id[2..].parse().unwrap();
        match (number % 10, call.attempt) {
            (3, 1) => Err(Failed::retry("not yet")),
            (5, 1) => panic!("a bug in the handler"),
            (7, _) => Err(Failed::rejected("no such customer")),
            _ => Ok(()),
        }
    });
    for order in names(100) {
        bed.order(&order).await;
    }
    let worker = charging(&bed, &ledger, &script).await;
    worker.ended(Kind::Executed, 90).await;
    worker.ended(Kind::Rejected, 10).await;

    let balance = worker.stop().await;
    let ends = [
        (Kind::Executed, 90),
        (Kind::Failed, 20),
        (Kind::Rejected, 10),
    ];
    assert_balance(&balance, ends);
    let charges = ledger.charges_per_order().await;
    assert_eq!(charges.len(), 90);
    assert!(charges.values().all(|count| *count == 1), "{charges:?}");
    assert!(commits(&ledger).await < 90);
}

/// The handler finds in its own rows that one of a group was done before.
///
/// - does: undoes what it has written, acknowledges it as a duplicate; its copies do not run; the others commit
/// - effect: once each, none of what was found
#[tokio::test]
async fn orders_that_their_handler_finds_done_cost_their_group_nothing() {
    let (bed, ledger) = (Bed::new().await, ledger().await);
    let found = |id: &str| id.ends_with('7');
    let script = Script::new(move |call| async move {
        if found(&call.id) {
            return Err(Failed::done_before());
        }
        Ok(())
    });
    for order in names(100) {
        bed.order(&order).await;
    }
    let worker = charging(&bed, &ledger, &script).await;
    worker.ended(Kind::Executed, 90).await;
    worker.ended(Kind::Duplicate, 10).await;
    let ran = script.calls.entries().len();
    for order in names(100).iter().filter(|order| found(order)) {
        bed.order(order).await;
    }
    worker.ended(Kind::Duplicate, 20).await;
    let ends = [(Kind::Executed, 90), (Kind::Duplicate, 20)];
    assert_balance(&worker.stop().await, ends);
    assert_eq!(script.calls.entries().len(), ran, "its copies ran");
    let charges = ledger.charges_per_order().await;
    assert_eq!(charges.len(), 90);
    assert!(charges.values().all(|count| *count == 1), "{charges:?}");
    assert!(bed.drain(&dead(bed.name())).await.is_empty());
    bed.assert_nothing_stuck().await;
}

/// A worker dies at this point of one message while its groups are under way; another one comes.
async fn charges_after(crash: Crash) {
    let (bed, ledger) = (Bed::new().await, ledger().await);
    let settings = Settings::new(bed.url(), bed.name(), &ledger).with(|settings| {
        settings.mode = Mode::Grouped;
        settings.prefetch = 64;
        settings.lease_ms = 1000;
    });
    for order in names(100) {
        bed.order(&order).await;
    }
    let dying = settings.with(|settings| settings.crash = Some(crash));
    Process::start(LEDGER_WORKER, &dying).died().await;

    let second = Process::start(LEDGER_WORKER, &settings);
    bed.until_settled().await;
    second.stop().await;
    let charges = ledger.charges_per_order().await;
    assert_eq!(charges.len(), 100);
    assert!(charges.values().all(|count| *count == 1), "{charges:?}");
    bed.assert_nothing_stuck().await;
}

/// The worker dies in the middle of a group.
///
/// - does: keeps nothing of the group; lets another worker run each message
/// - effect: once each
#[tokio::test]
async fn a_worker_killed_in_the_middle_of_a_group_has_done_nothing_of_it() {
    charges_after(Crash::BeforeCompletion(20)).await;
}

/// The worker dies after a group's commit, before its acks.
///
/// - does: acknowledges the redeliveries
/// - effect: once each
#[tokio::test]
async fn a_worker_killed_between_the_commit_of_a_group_and_its_acks_is_not_repeated() {
    charges_after(Crash::AfterCompletion(20)).await;
}

#[idempotent(key = sequence(producer = "customer", number = "number"), scope = "orders.charge", group = 16)]
async fn charge_numbered(
    order: Numbered,
    State(script): State<Script>,
    attempt: Attempt,
    delivery: Delivery,
    db: &mut PgConnection,
) -> Result<(), Failed> {
    let id = format!("n-{}", order.number);
    in_postgres::write(db, &Charge::new(&id, attempt.number(), "here")).await?;
    let order = Order::new(&id);
    script.play(order, attempt, delivery).await
}

#[derive(serde::Deserialize, serde::Serialize)]
struct Numbered {
    customer: String,
    number: u64,
}

/// Numbered messages share a transaction, and one of them fails.
///
/// - does: handles them as it does others
/// - effect: once each
#[tokio::test]
async fn numbered_messages_share_transactions_and_are_charged_once_each() {
    let (bed, ledger) = (Bed::new().await, ledger().await);
    let script = Script::new(async |call| {
        if call.id == "n-7" && call.attempt == 1 {
            return Err(Failed::retry("not yet"));
        }
        Ok(())
    });
    for number in (0..100).chain(0..20) {
        let customer = "c".to_owned();
        bed.json(&Numbered { customer, number }).await;
    }
    let store = ledger.store().open_postgres().await;
    let worker = Worker::builder(store).state(script.clone());
    let worker = bed.start(worker.consume::<charge_numbered>(bed.queue().prefetch(100)));
    worker.ended(Kind::Executed, 100).await;
    worker.ended(Kind::Duplicate, 20).await;
    worker.stop().await;
    let charges = ledger.charges_per_order().await;
    assert_eq!(charges.len(), 100);
    assert!(charges.values().all(|count| *count == 1), "{charges:?}");
    bed.assert_nothing_stuck().await;
}

#[idempotent(key = "id", scope = "orders.charge", group = 16, lease = "2s")]
async fn charge_briefly(
    order: Order,
    State(script): State<Script>,
    attempt: Attempt,
    delivery: Delivery,
    db: &mut PgConnection,
) -> Result<(), Failed> {
    in_postgres::write(db, &Charge::new(&order.id, attempt.number(), "here")).await?;
    script.play(order, attempt, delivery).await
}

/// A standby that confirms commits takes over from the server in the middle of a group.
///
/// - does: runs again what has not committed
/// - effect: once each
#[tokio::test]
async fn a_group_that_is_under_way_at_a_fail_over_is_charged_once_on_the_new_primary() {
    let (bed, pair) = (Bed::new().await, Arc::new(PostgresPair::start().await));
    let ledger = Ledger::of(&pair.store().await).await;
    pair.commit_on_both().await;
    let (servers, calls) = (Arc::clone(&pair), Arc::new(AtomicUsize::new(0)));
    let script = Script::new(move |_| {
        let (servers, call) = (Arc::clone(&servers), calls.fetch_add(1, Ordering::SeqCst));
        async move {
            if call == 20 {
                servers.fail_over().await;
            }
            Ok(())
        }
    });
    let orders = names(100);
    for order in &orders {
        bed.order(order).await;
    }
    let store = ledger.store().open_postgres().await;
    let worker = Worker::builder(store).state(script.clone());
    let worker = bed.start(worker.consume::<charge_briefly>(bed.queue().prefetch(100)));
    bed.until_settled().await;
    worker.stop().await;
    let charges = ledger.charges_per_order().await;
    assert_eq!(charges.len(), 100);
    assert!(charges.values().all(|count| *count == 1), "{charges:?}");
    bed.assert_nothing_stuck().await;
}

/// The one message that finds others in its group does something there.
#[derive(Clone)]
struct Culprit {
    url: String,
    id: Arc<OnceLock<String>>,
    sits: Arc<Notify>,
    goes_on: Arc<Notify>,
}

impl Culprit {
    fn of(ledger: &Ledger) -> Self {
        Self {
            url: ledger.store().url.clone(),
            id: Arc::default(),
            sits: Arc::default(),
            goes_on: Arc::default(),
        }
    }

    /// Whether it is this one, which has charged already.
    async fn is(&self, order: &Order, db: &mut PgConnection) -> Result<bool, sqlx::Error> {
        if self.id.get().is_some() {
            return Ok(false);
        }
        let charges = "SELECT count(*) FROM charges";
        let here: i64 = sqlx::query_scalar(charges).fetch_one(db).await?;
        // More than its own.
        Ok(here > self.count(charges).await + 1 && self.id.set(order.id.clone()).is_ok())
    }

    /// What a bystander counts.
    async fn count(&self, sql: &str) -> i64 {
        let mut bystander = PgConnection::connect(&self.url).await.unwrap();
        let count = sqlx::query_scalar(AssertSqlSafe(sql.to_owned()));
        let count = count.fetch_one(&mut bystander).await.unwrap();
        bystander.close().await.unwrap();
        count
    }
}

#[idempotent(key = "id", scope = "orders.charge", group = 16, lease = "2s")]
async fn charge_and_wait(
    order: Order,
    State(culprit): State<Culprit>,
    attempt: Attempt,
    db: &mut PgConnection,
) -> Result<(), Failed> {
    in_postgres::write(db, &Charge::new(&order.id, attempt.number(), "here")).await?;
    if culprit.is(&order, db).await? {
        culprit.sits.notify_one();
        culprit.goes_on.notified().await;
    }
    Ok(())
}

/// A standby that lags takes over from the server in the middle of a group.
///
/// - does: runs again what the standby lacks of the group, its claims included
/// - effect: once each; what was acknowledged before and the standby lacks is lost
///
/// What the standby lacks: the claims of further messages, and all that the group does from then on.
#[tokio::test]
async fn a_group_that_is_under_way_when_a_standby_that_lags_takes_over_is_charged_once() {
    let (bed, pair) = (Bed::new().await, PostgresPair::start().await);
    let ledger = Ledger::of(&pair.store().await).await;
    let culprit = Culprit::of(&ledger);
    let store = PostgresStore::builder(&ledger.store().url).groups(1);
    let worker = Worker::builder(store.build().await.unwrap()).state(culprit.clone());
    let orders = names(150);
    let (early, late) = orders.split_at(100);
    for order in early {
        bed.order(order).await;
    }
    // They are all there when it begins, so that some share a group, however slowly they were published.
    let worker = bed.start(worker.consume::<charge_and_wait>(bed.queue().prefetch(200)));
    within("a group is under way", culprit.sits.notified()).await;
    // What was committed is acknowledged, or about to be: the standby has it.
    let writing = "SELECT count(*) FROM pg_stat_activity
        WHERE datname = current_database() AND backend_xid IS NOT NULL";
    eventually("nobody else writes", async || {
        match culprit.count(writing).await {
            1 => Ok(()),
            writing => Err(writing),
        }
    })
    .await;
    pair.catch_up().await;
    pair.fall_behind().await;
    for order in late {
        bed.order(order).await;
    }
    eventually("all are claimed", async || {
        match in_postgres::records(&ledger.store().url).await {
            150 => Ok(()),
            claimed => Err(claimed),
        }
    })
    .await;
    pair.fail_over().await;
    culprit.goes_on.notify_one();

    bed.until_settled().await;
    worker.stop().await;
    let charges = ledger.charges_per_order().await;
    assert_eq!(charges.len(), 150);
    assert!(charges.values().all(|count| *count == 1), "{charges:?}");
    bed.assert_nothing_stuck().await;
}

#[idempotent(key = "id", scope = "orders.charge", group = 16)]
async fn charge_commit_and_idle(
    order: Order,
    State(culprit): State<Culprit>,
    attempt: Attempt,
    db: &mut PgConnection,
) -> Result<(), Failed> {
    in_postgres::write(db, &Charge::new(&order.id, attempt.number(), "here")).await?;
    if culprit.is(&order, db).await? {
        let pid: i32 = sqlx::query_scalar("SELECT pg_backend_pid()")
            .fetch_one(&mut *db)
            .await?;
        let soon = "COMMIT; BEGIN; SET LOCAL idle_in_transaction_session_timeout = 50";
        sqlx::raw_sql(soon).execute(&mut *db).await?;
        let there = format!("SELECT count(*) FROM pg_stat_activity WHERE pid = {pid}");
        eventually("the server ends the session", async || {
            match culprit.count(&there).await {
                0 => Ok(()),
                there => Err(there),
            }
        })
        .await;
    }
    Ok(())
}

/// A message commits by itself, begins again, and idles until the server ends its session.
///
/// - does: finds out that the group is committed, and completes the others; that message's attempt has failed
/// - effect: once each; that message's own writes as often as it has committed
#[tokio::test]
async fn nobody_runs_again_because_a_member_commits_and_then_idles_until_its_session_ends() {
    let (bed, ledger) = (Bed::new().await, ledger().await);
    let culprit = Culprit::of(&ledger);
    let store = ledger.store().open_postgres().await;
    let orders = names(100);
    for order in &orders {
        bed.order(order).await;
    }
    // They are all there when it begins, so that some share a group, however slowly they were published.
    let worker = Worker::builder(store).state(culprit.clone());
    let worker = bed.start(worker.consume::<charge_commit_and_idle>(bed.queue().prefetch(100)));
    bed.until_settled().await;
    let balance = worker.stop().await;
    assert_balance(&balance, [(Kind::Executed, 100)]);
    let mut charges = ledger.charges_per_order().await;
    let culprit = culprit.id.get().expect("one has found others in its group");
    assert_eq!(
        charges.remove(culprit),
        Some(2),
        "it has committed once more"
    );
    assert_eq!(charges.len(), 99);
    assert!(charges.values().all(|count| *count == 1), "{charges:?}");
    bed.assert_nothing_stuck().await;
}
