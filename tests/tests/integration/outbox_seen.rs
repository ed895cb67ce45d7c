//! What an operator sees of an outbox: metrics, health, what the doctor says; and what a relay does that is too slow.

use idem_amqp::{
    PostgresStore, Publication, Queue, RunError, Worker,
    executor::ExecutionKind as Kind,
    outbox::{self, Outbox, OutboxRelay, SharedOutbox},
    prelude::*,
    sqlx::{self, AssertSqlSafe, Connection as _, PgConnection, SqliteConnection},
    stores::Migrate,
    worker::{Health, ProblemKind},
};
use idem_tests::{
    bed::Bed,
    journal::eventually,
    ledger::{Ledger, in_postgres, in_sqlite},
    log::Log,
    metered::Metered,
    proxy::Proxy,
    running::Running,
    store_at::Product,
};
use serde::{Deserialize, Serialize};
use tokio::sync::oneshot;

use crate::outbox::shop::on_postgres_and_sqlite;

/// A message whose handler publishes one to each of these queues.
#[derive(Debug, Clone, Serialize, Deserialize)]
struct Note {
    id: String,
    to: Vec<String>,
    /// In this order.
    lane: Option<String>,
}

impl Note {
    fn publish(&self, outbox: &Outbox) -> Result<(), Failed> {
        let outbox = match &self.lane {
            Some(lane) => outbox.ordered_by(lane),
            None => outbox.clone(),
        };
        for to in &self.to {
            outbox.publish(Publication::json(to, &self.id))?;
        }
        Ok(())
    }
}

#[idempotent(key = "id", scope = "notes.tell")]
async fn tell_in_postgres(note: Note, outbox: Outbox, db: &mut PgConnection) -> Result<(), Failed> {
    in_postgres::write(db, &idem_tests::ledger::Charge::new(&note.id, 1, "here")).await?;
    note.publish(&outbox)
}

#[idempotent(key = "id", scope = "notes.tell")]
async fn tell_in_sqlite(
    note: Note,
    outbox: Outbox,
    db: &mut SqliteConnection,
) -> Result<(), Failed> {
    in_sqlite::write(db, &idem_tests::ledger::Charge::new(&note.id, 1, "here")).await?;
    note.publish(&outbox)
}

/// A store with an outbox, and a queue for what is published.
struct Post {
    bed: Bed,
    ledger: Ledger,
    product: Product,
    events: String,
}

impl Post {
    async fn open(product: Product) -> Self {
        let bed = Bed::new().await;
        let events = bed.another("events");
        bed.declare(&Queue::classic(&events)).await;
        Self {
            ledger: Ledger::on(product).await,
            bed,
            product,
            events,
        }
    }

    /// A worker whose metrics are counted here.
    async fn start(&self, metered: &Metered) -> Running {
        let store = self.ledger.store();
        if self.product == Product::Postgres {
            let store = store.open_postgres().await;
            let _recorded = metered.record();
            self.bed
                .start(Worker::builder(store).consume::<tell_in_postgres>(self.bed.queue()))
        } else {
            let store = store.open_sqlite().await;
            let _recorded = metered.record();
            self.bed
                .start(Worker::builder(store).consume::<tell_in_sqlite>(self.bed.queue()))
        }
    }

    /// Publishes so many messages by a transaction of its own.
    async fn publish(&self, messages: usize) {
        let store = self.ledger.store();
        let mut db = SqliteConnection::connect(&store.url).await.unwrap();
        let outbox = Outbox::outside();
        for message in 0..messages {
            let event = Publication::json(&self.events, &message);
            outbox.publish(event).unwrap();
        }
        let store = store.open_sqlite().await;
        store.publish(&mut db, outbox).await.unwrap();
    }

    async fn outbox(&self) -> SharedOutbox {
        let store = self.ledger.store();
        match self.product {
            Product::Postgres => store.open_postgres().await.outbox(),
            _ => store.open_sqlite().await.outbox(),
        }
    }

    async fn tell(&self, id: &str, to: &[&str]) {
        let to = to.iter().map(|&queue| queue.into()).collect();
        let note = Note {
            id: id.into(),
            to,
            lane: None,
        };
        self.bed.json(&note).await;
    }

    /// Changes the table by hand; `{now}` is the time and `{minute}` a minute, as the store has them.
    async fn by_hand(&self, statement: &str) {
        let url = &self.ledger.store().url;
        let fill = |now: &str, minute: &str| {
            let filled = statement.replace("{now}", now).replace("{minute}", minute);
            AssertSqlSafe(filled)
        };
        if self.product == Product::Postgres {
            let statement = fill("clock_timestamp()", "interval '1 min'");
            let mut db = PgConnection::connect(url).await.unwrap();
            sqlx::raw_sql(statement).execute(&mut db).await.unwrap();
        } else {
            let statement = fill("(unixepoch('subsec') * 1000000)", "60000000");
            let mut db = SqliteConnection::connect(url).await.unwrap();
            sqlx::raw_sql(statement).execute(&mut db).await.unwrap();
        }
    }

    /// Waits until so many were given up, and so many wait.
    async fn until_dead(&self, messages: u64, waiting: u64) {
        let outbox = self.outbox().await;
        eventually("messages are dead", async || {
            let counts = outbox.counts().await.unwrap();
            if (counts.dead, counts.waiting) == (messages, waiting) {
                Ok(())
            } else {
                Err(counts)
            }
        })
        .await;
    }
}

fn has(health: &Health, kind: &ProblemKind) -> bool {
    let problems = health.problems();
    problems.iter().any(|problem| problem.kind == *kind)
}

/// Handlers publish, and metrics are read.
///
/// - does: counts what was committed, confirmed and given up, how long it took, and what is left in the table
async fn what_leaves_and_what_is_left_is_counted(product: Product) {
    let (post, earlier, metered) = (
        Post::open(product).await,
        Metered::default(),
        Metered::default(),
    );
    let worker = post.start(&earlier).await;
    let missing = post.bed.another("missing");
    post.tell("a", &[&post.events, &post.events]).await;
    post.tell("b", &[&missing]).await;
    worker.ended(Kind::Executed, 2).await;
    post.until_dead(1, 0).await;
    let stats = worker.stop().await;
    let of = |name: &str| earlier.sum(&format!("idem_outbox_{name}"), &[]);
    assert_eq!(of("committed_total"), 3, "{stats}");
    assert_eq!(of("confirmed_total"), 2, "{stats}");
    assert_eq!(of("given_up_total"), 1, "{stats}");
    assert_eq!(of("seconds_count"), 2, "{stats}");
    // The law of docs/operations.md: over all processes, and what is left by the last one that has looked.
    let assert_law = || {
        let of_all = |name: &str| earlier.sum(name, &[]) + metered.sum(name, &[]);
        let left = metered.sum("idem_outbox_messages", &[]);
        let confirmed = of_all("idem_outbox_confirmed_total");
        let committed = of_all("idem_outbox_committed_total");
        assert_eq!((committed, left), (confirmed + left, 1), "{metered:?}");
    };

    // What another process has left is told by each.
    let of_state = |state| [("state", state)];
    let worker = post.start(&metered).await;
    metered
        .until("idem_outbox_messages", &of_state("dead"), |dead| dead == 1)
        .await;
    assert_law();
    worker.stop().await;
    let outbox = post.outbox().await;
    post.by_hand(
        "UPDATE idem_records_outbox SET dead_since = NULL, due = {now} + 60 * {minute}, created_at = {now} - 2 * {minute}",
    )
    .await;
    let relay = {
        let _recorded = metered.record();
        OutboxRelay::new(outbox, post.bed.url()).unwrap()
    };
    let relay = tokio::spawn(relay.run_until(std::future::pending()));
    metered
        .until("idem_outbox_messages", &of_state("waiting"), |some| {
            some == 1
        })
        .await;
    assert_eq!(metered.sum("idem_outbox_messages", &of_state("dead")), 0);
    assert_law();
    let oldest = metered.sum("idem_outbox_oldest_seconds", &[]);
    assert!((120..180).contains(&oldest), "{oldest}");
    relay.abort();
}

/// What handlers publish does not leave.
///
/// - does: names it until it is over; ready, and not failing
async fn an_outbox_from_which_nothing_leaves_is_named(product: Product) {
    let post = Post::open(product).await;
    let worker = post.start(&Metered::default()).await;
    let missing = post.bed.another("missing");
    post.tell("a", &[&missing]).await;
    post.until_dead(1, 0).await;
    worker.stop().await;

    let worker = post.start(&Metered::default()).await;
    let told = "messages were given up";
    worker
        .until(told, |health| has(health, &ProblemKind::OutboxDead))
        .await;
    worker.until("it is ready", Health::is_ready).await;
    assert_eq!(worker.health().failing_for(), None);
    worker.stop().await;

    // It is tried again and again.
    post.by_hand(
        "UPDATE idem_records_outbox SET dead_since = NULL, attempts = 3, due = {now} + 3 * {minute},
            created_at = {now} - 20 * {minute}",
    )
    .await;
    let worker = post.start(&Metered::default()).await;
    worker
        .until("it is late, and ready", |health| {
            has(health, &ProblemKind::OutboxLate) && health.is_ready()
        })
        .await;
    assert!(!has(worker.health(), &ProblemKind::OutboxDead));
    post.by_hand("ALTER TABLE idem_records_outbox RENAME TO elsewhere")
        .await;
    let gone = |health: &Health| has(health, &ProblemKind::OutboxUnreadable);
    worker.until("it cannot be read", gone).await;
    assert!(worker.health().is_ready());
    post.by_hand(
        "ALTER TABLE elsewhere RENAME TO idem_records_outbox; DELETE FROM idem_records_outbox",
    )
    .await;
    let over = |health: &Health| health.problems().is_empty();
    worker.until("nothing is wrong", over).await;
    worker.stop().await;
}

/// Messages of an outbox go where nothing is, were given up, stand in an order, or nobody takes them.
///
/// - does: says each, and what to do, when it is asked; at the start, too, but that nobody takes them
async fn what_is_wrong_with_an_outbox_the_doctor_says(product: Product) {
    let post = Post::open(product).await;
    let missing = post.bed.another("missing");
    let worker = post.start(&Metered::default()).await;
    post.tell("a", &[&missing]).await;
    let lane = Some("c-1".to_owned());
    let to = vec![missing.clone(), post.events.clone()];
    let note = Note {
        id: "b".into(),
        to,
        lane,
    };
    post.bed.json(&note).await;
    worker.ended(Kind::Executed, 2).await;
    let outbox = post.outbox().await;
    post.until_dead(2, 1).await;
    worker.stop().await;
    let asked = async || {
        let found = outbox::findings(&outbox, post.bed.url()).await.unwrap();
        let mut codes: Vec<_> = found.iter().map(|one| one.code).collect();
        codes.sort_unstable();
        (codes, found)
    };
    let (codes, found) = asked().await;
    assert_eq!(codes, ["outbox-dead", "outbox-order"]);
    let order = found.iter().find(|one| one.code == "outbox-order");
    assert!(order.unwrap().text.contains("ordered by `c-1` stands"));

    post.by_hand(
        "UPDATE idem_records_outbox SET dead_since = NULL, error = NULL, attempts = 0, due = {now} - 3 * {minute}",
    )
    .await;
    let (codes, found) = asked().await;
    assert_eq!(codes, ["outbox-target", "outbox-untaken"]);
    let target = found.iter().find(|one| one.code == "outbox-target");
    let target = &target.unwrap().text;
    assert!(
        target.contains(&format!("the queue `{missing}` does not exist")),
        "{target}"
    );
    let away = outbox::findings(&outbox, "amqp://127.0.0.1:1/%2f").await;
    assert_eq!(away.unwrap()[0].code, "outbox-untaken");

    // A worker that starts takes what is due, so it does not say that nobody does.
    post.by_hand(
        "UPDATE idem_records_outbox SET lane = NULL, due = {now} + CASE
            WHEN target LIKE '%missing' THEN 60 * {minute} ELSE -3 * {minute} END",
    )
    .await;
    let (codes, _) = asked().await;
    assert_eq!(codes, ["outbox-target", "outbox-untaken"]);
    let log = Log::default();
    let logged = log.capture();
    let worker = post.start(&Metered::default()).await;
    worker.until("it is ready", Health::is_ready).await;
    drop(logged);
    worker.stop().await;
    let told = log.text();
    assert!(told.contains("outbox-target"), "{told}");
    assert!(!told.contains("outbox-untaken"), "{told}");
    post.by_hand("DELETE FROM idem_records_outbox").await;
    assert!(asked().await.1.is_empty());
}

/// The broker confirms nothing for half a minute, and more waits for it than is on its way; others have published that
/// by then.
///
/// - does: drops what it has not sent when its lease is about to run out
/// - effect: once, of what was not on its way
#[tokio::test]
async fn what_has_waited_in_memory_for_its_lease_is_left_to_others() {
    const MESSAGES: usize = 600;
    /// At most so many are sent before the first is confirmed.
    const ON_ITS_WAY: u64 = 256;
    let (post, metered) = (Post::open(Product::Sqlite).await, Metered::default());
    let proxy = Proxy::open(post.bed.broker().port()).await;
    let outbox = post.outbox().await;
    let slow = {
        let _recorded = metered.record();
        let url = post.bed.url_by(proxy.port(), "?heartbeat=60");
        OutboxRelay::new(outbox.clone(), &*url).unwrap()
    };
    let (stop, stopped) = oneshot::channel::<()>();
    let slow = tokio::spawn(slow.run_until(async {
        let _ = stopped.await;
    }));
    post.publish(1).await;
    let confirmed = |count| count == 1;
    metered
        .until("idem_outbox_confirmed_total", &[], confirmed)
        .await;
    proxy.freeze();
    post.publish(MESSAGES).await;
    let taken = |count| count == 1 + MESSAGES as u64;
    metered.until("idem_outbox_taken_total", &[], taken).await;

    // As others do that have published it. Nothing is left for the slow one to take anew.
    post.by_hand("DELETE FROM idem_records_outbox").await;
    assert_eq!(post.bed.drain(&post.events).await.len(), 1);
    let put_back = |count| count > 0;
    metered
        .until("idem_outbox_put_back_total", &[], put_back)
        .await;
    stop.send(()).unwrap();
    let stats = slow.await.unwrap();
    assert_eq!(stats.confirmed, 1, "{stats}");
    assert!(stats.put_back <= ON_ITS_WAY, "{stats}");
    assert!(post.bed.drain(&post.events).await.is_empty());
}

/// What a worker that cannot start says, and that it leaves its message where it is.
async fn refused(post: &Post, url: &str) -> String {
    post.bed.until_waiting(1).await;
    let store = PostgresStore::builder(url).migrate(Migrate::Never);
    let worker = Worker::builder(store.build().await.unwrap());
    let worker = worker.consume::<tell_in_postgres>(post.bed.queue());
    let RunError::Unfit { findings } = post.bed.start(worker).failed().await else {
        panic!("the worker can do its job but for the outbox");
    };
    assert_eq!(findings[0].code, "outbox");
    post.bed.until_waiting(1).await;
    findings[0].text.clone()
}

/// The store's role lacks a right that publishing by an outbox needs.
///
/// - does: does not start, names the right, and consumes nothing
#[tokio::test]
async fn a_right_that_an_outbox_needs_is_missed_at_the_start() {
    let post = Post::open(Product::Postgres).await;
    post.bed.declare(&post.bed.queue()).await;
    post.tell("a", &[&post.events]).await;
    let url = &post.ledger.store().url;
    drop(post.outbox().await);
    let rights = [
        ("SELECT", "TABLE idem_records_outbox"),
        ("INSERT", "TABLE idem_records_outbox"),
        ("UPDATE", "TABLE idem_records_outbox"),
        ("DELETE", "TABLE idem_records_outbox"),
        ("USAGE", "SEQUENCE idem_records_outbox_number"),
        ("EXECUTE", "FUNCTION idem_records_send"),
    ];
    post.by_hand("REVOKE EXECUTE ON FUNCTION idem_records_send FROM public")
        .await;
    let role = format!("publisher_{:016x}", fastrand::u64(..));
    post.by_hand(&format!(
        "CREATE ROLE {role} LOGIN;
        GRANT SELECT, INSERT, UPDATE, DELETE ON ALL TABLES IN SCHEMA public TO {role};
        GRANT USAGE ON ALL SEQUENCES IN SCHEMA public TO {role};
        GRANT EXECUTE ON ALL FUNCTIONS IN SCHEMA public TO {role}"
    ))
    .await;
    let url = url.replacen("idem@", &format!("{role}@"), 1);
    for (right, of) in rights {
        post.by_hand(&format!("REVOKE {right} ON {of} FROM {role}"))
            .await;
        let told = refused(&post, &url).await;
        let of = of.replace(' ', " \"public\".\"") + "\"";
        assert!(told.ends_with(&format!("GRANT {right} ON {of}")), "{told}");
        let of = of.replace('"', "");
        post.by_hand(&format!("GRANT {right} ON {of} TO {role}"))
            .await;
    }
    // Of PostgreSQL's own.
    let lock = "EXECUTE ON FUNCTION pg_advisory_xact_lock(bigint)";
    post.by_hand(&format!("REVOKE {lock} FROM public")).await;
    let told = refused(&post, &url).await;
    assert!(told.ends_with(&format!("GRANT {lock}")), "{told}");
    post.by_hand(&format!("GRANT {lock} TO {role}")).await;
    let store = PostgresStore::connect(&url).await.unwrap();
    let worker = Worker::builder(store).consume::<tell_in_postgres>(post.bed.queue());
    let worker = post.bed.start(worker);
    worker.ended(Kind::Executed, 1).await;
    assert_eq!(worker.stop().await.outbox().confirmed, 1);
}

/// The store's tables are those of a version without an outbox.
///
/// - does: does not start, says what to do, and consumes nothing
#[tokio::test]
async fn tables_without_an_outbox_are_missed_at_the_start() {
    let post = Post::open(Product::Postgres).await;
    post.bed.declare(&post.bed.queue()).await;
    post.tell("a", &[&post.events]).await;
    drop(post.outbox().await);
    post.by_hand(
        "DROP TABLE idem_records_outbox; DROP SEQUENCE idem_records_outbox_number; DROP FUNCTION idem_records_send",
    )
    .await;
    let told = refused(&post, &post.ledger.store().url).await;
    assert!(told.contains("`idem migrate`"), "{told}");
}

on_postgres_and_sqlite! {
    what_leaves_and_what_is_left_is_counted,
    an_outbox_from_which_nothing_leaves_is_named,
    what_is_wrong_with_an_outbox_the_doctor_says,
}
