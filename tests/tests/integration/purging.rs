//! What workers remove from their store, and what they and the doctor tell of it.

use std::time::Duration;

use idem_amqp::{
    Queue, Worker,
    executor::ExecutionKind as Kind,
    handler::Outcome,
    operator::{Intervened, Intervention, OperatorStore},
    prelude::*,
    sqlx::{Connection as _, Executor as _, PgConnection, SqliteConnection},
    store::Purge,
    worker::Health,
};
use idem_tests::{
    bed::{Bed, QUICK},
    cell::Cell,
    journal::eventually,
    ledger::Ledger,
    log::Log,
    metered::Metered,
    on_each_store,
    running::assert_balance,
    script::{Script, charge},
    store_at::Product,
};

const RETENTION: Duration = Duration::from_millis(300);
const HOUR: Duration = Duration::from_hours(1);

fn remembering(queue: Queue, retention: Duration) -> Queue {
    let policy = QUICK.to_builder().lease(RETENTION).retention(retention);
    queue.policy(policy.build().unwrap())
}

/// How many keys the store has records of.
async fn recorded(store: &impl OperatorStore) -> u64 {
    let scopes = store.counts().await.unwrap();
    let keys = scopes
        .iter()
        .map(|of| of.in_progress + of.completed + of.failed);
    keys.sum()
}

/// What the doctor says of a worker on this store that does not purge it.
async fn told_of<S: Purge + Clone>(store: S, bed: &Bed) -> Vec<&'static str> {
    let worker = Worker::builder(store).state(Script::succeeding());
    let worker = worker.purge_never().consume::<charge>(bed.queue());
    let findings = worker.build(bed.url()).unwrap().doctor().await;
    findings.iter().map(|finding| finding.code).collect()
}

/// The retention of records has ended.
///
/// - does: removes them where a worker purges, counts them (`idem_purged_total`), logs how many (INFO), and tells of
///   its last run in its health. A worker that does not purge (`purge_never`) leaves them, and the doctor notes it
///   (`not-purged`). Redis removes them by itself: nothing is left to purge, to count, to log or to note
/// - atomic: removed
/// - leased: removed
async fn records_are_removed_when_their_retention_has_ended<C: Cell<Store: OperatorStore>>() {
    let (metered, log) = (Metered::default(), Log::default());
    let (_recorded, _kept) = (metered.record(), log.capture());
    let (bed, cell, script) = (Bed::new().await, C::open().await, Script::succeeding());
    let starts = |purges: Option<Duration>| {
        let worker = cell.worker(&script);
        let worker = match purges {
            Some(every) => worker.purge_every(every),
            None => worker.purge_never(),
        };
        bed.start(worker.consume::<C::Charge>(remembering(bed.queue(), RETENTION)))
    };
    let worker = starts(None);
    for order in ["a", "b", "c"] {
        bed.order(order).await;
    }
    worker.ended(Kind::Executed, 3).await;
    tokio::time::sleep(3 * RETENTION).await;
    assert_eq!(worker.health().last_purge(), None);
    let balance = worker.stop().await;
    // What has to be told of is there, and what is not there need not be.
    let is_told = told_of(cell.store(), &bed).await.contains(&"not-purged");
    if is_told {
        assert_balance(&balance, [(Kind::Executed, 3)]);
    } else {
        // A store that removes records by itself may remove a claim whose worker has stalled: its message runs once
        // more.
        assert_eq!(balance.of(Kind::Executed), 3, "{balance}");
    }
    let left = if is_told { 3 } else { 0 };
    assert_eq!(recorded(&cell.store()).await, left);

    let worker = starts(Some(Duration::from_secs(4)));
    let purged = |health: &Health| health.last_purge().is_some();
    worker.until("it has purged", purged).await;
    let last = worker.health().last_purge().unwrap();
    assert_eq!((last.removed, last.error), (left, None));
    assert_balance(&worker.stop().await, []);
    assert_eq!(recorded(&cell.store()).await, 0);
    let counted = metered.sum("idem_purged_total", &[("what", "records")]);
    assert_eq!(counted, left);
    let text = log.text();
    let lines: Vec<_> = text.lines().filter(|it| it.contains(": purged ")).collect();
    assert_eq!(lines.len(), usize::from(is_told), "{lines:?}");
    for line in lines {
        assert!(line.contains("INFO"), "{line}");
        assert!(line.contains("what=\"records\" removed=3"), "{line}");
    }
    bed.assert_nothing_stuck().await;
}

/// Notes an intervention in this key.
async fn intervened(store: &impl OperatorStore, id: &str) -> Key {
    let key = Key::new("orders.refund", id).unwrap();
    let complete = Intervention::complete(key.clone(), None, "ops", Outcome::default(), HOUR);
    let applied = store.intervene(&complete).await.unwrap();
    assert_eq!(applied, Intervened::Applied);
    key
}

/// Nobody has purged for days. `pass` makes the record of order `a`, and the note about key `old`, so old.
async fn left_for_days<S>(store: S, pass: impl AsyncFnOnce())
where
    S: OperatorStore + Purge + Clone,
{
    let bed = Bed::new().await;
    let start = |every| {
        let worker = Worker::builder(store.clone()).state(Script::succeeding());
        let queue = remembering(bed.queue(), HOUR);
        bed.start(worker.purge_every(every).consume::<charge>(queue))
    };
    let worker = start(HOUR);
    bed.order("a").await;
    worker.ended(Kind::Executed, 1).await;
    worker.stop().await;
    let (old, new) = (
        intervened(&store, "old").await,
        intervened(&store, "new").await,
    );
    assert!(!told_of(store.clone(), &bed).await.contains(&"unpurged"));
    pass().await;
    assert!(told_of(store.clone(), &bed).await.contains(&"unpurged"));

    let worker = start(Duration::ZERO);
    eventually("the note is removed", async || {
        let notes = store.audit(&old).await.unwrap();
        if notes.is_empty() { Ok(()) } else { Err(notes) }
    })
    .await;
    worker.stop().await;
    assert_eq!(store.audit(&new).await.unwrap().len(), 1);
    // Those that the operator has completed.
    assert_eq!(recorded(&store).await, 2);
    assert!(!told_of(store.clone(), &bed).await.contains(&"unpurged"));
    bed.assert_nothing_stuck().await;
}

/// Nobody has purged a PostgreSQL or a SQLite file for days: keys are there whose retention ended two days ago, and
/// notes of what operators changed more than 90 days ago.
///
/// - does: says so by the doctor (`unpurged`); the next worker that purges removes both. Newer notes stay
/// - leased: removed
#[tokio::test]
async fn what_was_left_in_postgres_for_days_is_told_and_purged() {
    let ledger = Ledger::on(Product::Postgres).await;
    let pass = async || {
        let mut database = PgConnection::connect(&ledger.store().url).await.unwrap();
        let days = "
            UPDATE idem_records SET forget_at = now() - interval '2 days', purge_after = now() - interval '2 days'
            WHERE key = 'orders.charge:a';
            UPDATE idem_records_audit SET at = now() - interval '91 days' WHERE key = 'orders.refund:old'";
        database.execute(days).await.unwrap();
    };
    left_for_days(ledger.store().open_postgres().await, pass).await;
}

/// Shares the promise of `purging::what_was_left_in_postgres_for_days_is_told_and_purged`.
#[tokio::test]
async fn what_was_left_in_sqlite_for_days_is_told_and_purged() {
    let ledger = Ledger::on(Product::Sqlite).await;
    let pass = async || {
        let mut file = SqliteConnection::connect(&ledger.store().url)
            .await
            .unwrap();
        let days = "
            UPDATE idem_records SET forget_at = (unixepoch() - 2 * 86400) * 1000000 WHERE key = 'orders.charge:a';
            UPDATE idem_records_audit SET at = (unixepoch() - 91 * 86400) * 1000000 WHERE key = 'orders.refund:old'";
        file.execute(days).await.unwrap();
    };
    left_for_days(ledger.store().open_sqlite().await, pass).await;
}

on_each_store! {
    records_are_removed_when_their_retention_has_ended,
}
