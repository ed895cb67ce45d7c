//! Clients that number their requests.

use idem_amqp::{Policy, handler::StoreOutage, session::Sessions};
use idem_testing::amqp::{Call, Delivered, Reply, Session};

use super::*;

fn charging_in(sessions: Sessions) -> Harness<charge, Journal> {
    Setup::new(Journal::default).consume_in_sessions::<charge>("orders", sessions)
}

/// With a session of its own, whose window is 2.
async fn serving() -> (Harness<charge, Journal>, Session) {
    let harness = charging_in(Sessions::default().window(2));
    let session = harness.open_session().await;
    (harness, session)
}

fn refusal(delivered: &Delivered) -> String {
    let refusal = delivered.reply().unwrap().refusal().unwrap();
    refusal.code().to_owned()
}

#[tokio::test(start_paused = true)]
async fn a_request_that_comes_twice_is_handled_once_and_answered_twice() {
    let (harness, mut session) = serving().await;
    let request = session.request(&order(1250));
    let first = harness.deliver(&request).await;
    let copy = harness.deliver(&request).await;
    assert_eq!(
        (first.kind(), copy.kind()),
        (Kind::Executed, Kind::Duplicate)
    );
    assert_eq!(
        [&first, &copy].map(Delivered::settlement),
        [Settlement::Ack; 2]
    );
    let replies = [&first, &copy].map(|one| one.reply().unwrap());
    assert_eq!(replies.map(Reply::output::<i64>), [1250, 1250]);
    assert_eq!(replies.map(Reply::is_replayed), [false, true]);
    assert_eq!(harness.state().read(), ["o-17"]);
}

#[tokio::test(start_paused = true)]
async fn two_requests_with_the_same_content_are_two() {
    let (harness, mut session) = serving().await;
    for _ in 0..2 {
        let request = session.request(&order(1250));
        assert_eq!(harness.deliver(&request).await.kind(), Kind::Executed);
    }
    assert_eq!(harness.state().read(), ["o-17", "o-17"]);
}

#[tokio::test(start_paused = true)]
async fn a_late_copy_of_what_was_answered_runs_nothing() {
    let (harness, mut session) = serving().await;
    let request = session.request(&order(1250));
    harness.deliver(&request).await;
    session.answered(&request);
    // The worker does not know yet.
    let copy = harness.deliver(&request).await;
    assert_eq!(copy.kind(), Kind::Duplicate);

    harness.deliver(&session.request(&order(1250))).await;
    let late = harness.deliver(&request.redelivered()).await;
    assert_eq!(
        (late.kind(), late.settlement()),
        (Kind::Stale, Settlement::Ack)
    );
    assert_eq!(refusal(&late), "stale");
    assert_eq!(harness.state().read().len(), 2);
}

#[tokio::test(start_paused = true)]
async fn a_number_beyond_the_window_is_refused() {
    let (harness, session) = serving().await;
    for (number, kind) in [("1", Kind::Executed), ("2", Kind::BeyondWindow)] {
        let request = order(1250)
            .reply_to("replies")
            .header("idem-session", session.id())
            .header("idem-number", number)
            .header("idem-awaited", "0");
        let delivered = harness.deliver(&request).await;
        assert_eq!(
            (delivered.kind(), delivered.settlement()),
            (kind, Settlement::Ack)
        );
        if kind == Kind::BeyondWindow {
            assert_eq!(refusal(&delivered), "beyond-window");
        }
    }
    assert_eq!(harness.state().read().len(), 1);
}

#[tokio::test(start_paused = true)]
async fn a_client_waits_while_its_window_is_full() {
    let (_harness, mut session) = serving().await;
    let first = session.request(&order(1250));
    let second = session.request(&order(1250));
    let panic = panic_of(async { session.request(&order(1250)) }).await;
    let expected = "the session's window is full: it has room for 2 numbers";
    assert!(panic.starts_with(expected), "{panic}");
    // It begins with the lowest one.
    session.answered(&second);
    panic_of(async { session.request(&order(1250)) }).await;
    session.answered(&first);
    let _ = session.request(&order(1250));
}

#[tokio::test(start_paused = true)]
async fn a_session_ends_when_its_client_gives_no_sign_of_life() {
    let (harness, mut session) = serving().await;
    let [first, second] = [(); 2].map(|()| session.request(&order(1250)));
    let nearly = session.life().saturating_sub(Duration::from_millis(1));
    sleep(nearly).await;
    assert!(session.heartbeat().await);
    sleep(nearly).await;
    assert_eq!(harness.deliver(&first).await.kind(), Kind::Executed);

    sleep(session.life()).await;
    // Also a copy of what was handled.
    for request in [&first, &second] {
        let late = harness.deliver(request).await;
        assert_eq!(
            (late.kind(), late.settlement()),
            (Kind::SessionExpired, Settlement::Ack)
        );
        assert_eq!(refusal(&late), "session-expired");
    }
    assert!(!session.heartbeat().await);
    assert_eq!(harness.state().read(), ["o-17"]);
}

#[tokio::test(start_paused = true)]
async fn a_session_that_is_closed_takes_no_more_requests() {
    let (harness, mut session) = serving().await;
    let request = session.request(&order(1250));
    session.close().await;
    assert_eq!(harness.deliver(&request).await.kind(), Kind::SessionExpired);
    assert!(harness.state().read().is_empty());
}

#[tokio::test(start_paused = true)]
async fn a_request_whose_worker_vanished_is_executed_once() {
    use CrashPoint::{AfterClaim, AfterCompletion, InHandler};
    let table = [
        (AfterClaim, Kind::Executed),
        (InHandler(1), Kind::Executed),
        (AfterCompletion, Kind::Duplicate),
    ];
    for (point, kind) in table {
        let (harness, mut session) = serving().await;
        let request = session.request(&order(1250));
        harness.crash(point, &request).await;
        let again = harness.deliver(&request.redelivered()).await;
        assert_eq!(again.kind(), kind, "{point}");
        assert_eq!(again.reply().unwrap().output::<i64>(), 1250, "{point}");
        assert_eq!(harness.state().read(), ["o-17"], "{point}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_session_lives_on_while_its_request_waits_for_its_next_attempt() {
    let (harness, mut session) = serving().await;
    let began = Instant::now();
    // It is rejected for good at the last attempt, not for its session.
    let last = harness
        .deliver_until_done(&session.request(&order(0)))
        .await;
    assert_eq!((last.kind(), last.attempt()), (Kind::Exhausted, Some(3)));
    assert!(began.elapsed() >= session.life());
    assert!(session.heartbeat().await);
}

#[tokio::test(start_paused = true)]
async fn a_message_without_a_session_is_handled_by_its_key() {
    let (harness, mut session) = serving().await;
    let kinds = [
        harness.deliver(&order(1250)).await.kind(),
        harness.deliver(&order(1250)).await.kind(),
        harness.deliver(&session.request(&order(1250))).await.kind(),
    ];
    assert_eq!(kinds, [Kind::Executed, Kind::Duplicate, Kind::Executed]);
}

#[tokio::test(start_paused = true)]
async fn what_is_asked_beside_requests_fails_with_the_store() {
    let (harness, session) = serving().await;
    harness.store().fail_next(Call::Session);
    let panic = panic_of(session.heartbeat()).await;
    let expected =
        "the worker does not answer, because its store does not: the store is unavailable";
    assert!(panic.starts_with(expected), "{panic}");
    assert!(session.heartbeat().await);
    harness.store().fail_for(session.life());
    panic_of(harness.open_session()).await;
    sleep(session.life()).await;
    assert!(!session.heartbeat().await);
}

#[tokio::test(start_paused = true)]
async fn a_message_of_no_request_is_not_answered() {
    let (harness, mut session) = serving().await;
    let of_another = harness.open_session().await.request(&order(1250));
    for message in [order(1250), order(1250).message_id("m-1"), of_another] {
        let panic = panic_of(async { session.answered(&message) }).await;
        assert!(
            panic.starts_with("the message is no request of the session `"),
            "{panic}"
        );
    }
}

/// Tells where its message came from.
#[idempotent(key = message_id())]
async fn tell(_: OrderPlaced, headers: Headers) -> Result<Option<String>, Failed> {
    Ok(headers.get("x-tenant").map(Into::into))
}

#[tokio::test(start_paused = true)]
async fn a_request_keeps_what_its_message_says() {
    let queue = Queue::quorum("orders").reply_to_prefixes(["amq.gen-"]);
    let setup = Setup::new(|| ());
    let harness = setup.consume_in_sessions::<tell>(queue, Sessions::default());
    let mut session = harness.open_session().await;
    let message = order(1250).header("x-tenant", "acme");
    let unheard = harness.deliver(&session.request(&message)).await;
    assert!(unheard.reply().is_none());
    let request = session.request(&message.reply_to("amq.gen-7"));
    let told = harness.deliver(&request).await;
    let tenant = told.reply().unwrap().output::<Option<String>>();
    assert_eq!(tenant.as_deref(), Some("acme"));
}

#[cfg(feature = "sqlite")]
mod on_sqlite {
    use idem_amqp::sqlx::{self, SqliteConnection};

    use super::*;

    #[idempotent(key = "order_id", lease = "10s")]
    async fn charge_atomically(
        order: OrderPlaced,
        db: &mut SqliteConnection,
    ) -> Result<i64, Failed> {
        let insert = sqlx::query("INSERT INTO charges VALUES (?)");
        insert.bind(order.amount_cents).execute(db).await?;
        Ok(order.amount_cents)
    }

    #[tokio::test(start_paused = true)]
    async fn atomic_handlers_serve_sessions_too() {
        let setup = Setup::new(|| ()).sqlite("CREATE TABLE charges (cents INTEGER)");
        let sessions = Sessions::default();
        let harness = (setup.await).consume_in_sessions::<charge_atomically>("orders", sessions);
        let mut session = harness.open_session().await;
        let request = session.request(&order(1250));
        let charges = async |run: &Harness<_, (), idem_testing::OnSqlite>| {
            let cents = sqlx::query_scalar::<_, i64>("SELECT cents FROM charges");
            cents.fetch_all(&mut *run.database().await).await.unwrap()
        };
        assert_idempotent(&harness, &request, charges).await;

        harness.crash(CrashPoint::BeforeCompletion, &request).await;
        let again = harness.deliver(&request.redelivered()).await;
        assert_eq!(again.kind(), Kind::Executed);
        session.answered(&request);
        harness.deliver(&session.request(&order(7))).await;
        assert_eq!(harness.deliver(&request).await.kind(), Kind::Stale);
        sleep(session.life()).await;
        assert_eq!(harness.deliver(&request).await.kind(), Kind::SessionExpired);
        assert_eq!(charges(&harness).await, [1250, 7]);
    }
}

#[cfg(feature = "postgres")]
mod on_postgres {
    use idem_amqp::sqlx::{self, PgConnection, PgPool};
    use idem_servers::postgres;
    use idem_testing::OnPostgres;

    use super::*;

    const SCHEMA: &str = "CREATE TABLE charges (id serial, cents bigint)";

    async fn insert(order: &OrderPlaced, db: &mut PgConnection) -> Result<i64, sqlx::Error> {
        let insert = sqlx::query("INSERT INTO charges (cents) VALUES ($1)");
        insert.bind(order.amount_cents).execute(db).await?;
        Ok(order.amount_cents)
    }

    #[idempotent(key = "order_id", lease = "10s")]
    async fn charge_atomically(order: OrderPlaced, db: &mut PgConnection) -> Result<i64, Failed> {
        Ok(insert(&order, db).await?)
    }

    /// What goes by the pool is not rolled back with the transaction.
    #[idempotent(key = "order_id", lease = "10s")]
    async fn charge_beside(
        order: OrderPlaced,
        State(pool): State<PgPool>,
        db: &mut PgConnection,
    ) -> Result<i64, Failed> {
        sqlx::query("SELECT 1").execute(db).await?;
        Ok(insert(&order, &mut *pool.acquire().await?).await?)
    }

    async fn setup() -> Setup<PgPool, OnPostgres> {
        let url = postgres::shared().unwrap().url();
        let setup = Setup::new(|| ()).postgres(&url, SCHEMA).await;
        setup.state(OnPostgres::pool)
    }

    async fn charges<H, St>(run: &Harness<H, St, OnPostgres>) -> Vec<i64> {
        let cents = sqlx::query_scalar("SELECT cents FROM charges ORDER BY id");
        cents.fetch_all(&mut *run.database().await).await.unwrap()
    }

    #[tokio::test(start_paused = true)]
    async fn atomic_handlers_serve_sessions_too() {
        let sessions = Sessions::default();
        let harness = (setup().await).consume_in_sessions::<charge_atomically>("orders", sessions);
        let mut session = harness.open_session().await;
        let request = session.request(&order(1250));
        assert_idempotent(&harness, &request, charges).await;

        harness.crash(CrashPoint::BeforeCompletion, &request).await;
        assert!(charges(&harness).await.is_empty());
        let again = harness.deliver(&request.redelivered()).await;
        assert_eq!(again.kind(), Kind::Executed);
        let copy = harness.deliver(&request).await;
        let reply = copy.reply().unwrap();
        assert_eq!((reply.output::<i64>(), reply.is_replayed()), (1250, true));

        session.answered(&request);
        harness.deliver(&session.request(&order(7))).await;
        assert_eq!(harness.deliver(&request).await.kind(), Kind::Stale);
        sleep(session.life()).await;
        assert!(!session.heartbeat().await);
        assert_eq!(harness.deliver(&request).await.kind(), Kind::SessionExpired);
        assert_eq!(charges(&harness).await, [1250, 7]);
    }

    #[tokio::test(start_paused = true)]
    async fn of_two_copies_of_a_request_at_once_one_writes() {
        let sessions = Sessions::default();
        let harness = (setup().await).consume_in_sessions::<charge_atomically>("orders", sessions);
        let request = harness.open_session().await.request(&order(1250));
        let both = harness.deliver_at_once(&request).await;
        assert!(both.iter().any(|one| one.kind() == Kind::Executed));
        let outputs = [&both[0], &both[1]].map(|one| one.reply().unwrap().output::<i64>());
        assert_eq!(outputs, [1250; 2]);
        assert_eq!(charges(&harness).await, [1250]);
    }

    #[tokio::test(start_paused = true)]
    async fn a_handler_that_writes_beside_its_transaction_is_found_out() {
        let sessions = Sessions::default();
        let harness = (setup().await).consume_in_sessions::<charge_beside>("orders", sessions);
        let request = harness.open_session().await.request(&order(1250));
        let panic = panic_of(assert_idempotent(&harness, &request, charges)).await;
        let told = "crash after the handler, before the completion: the effect is doubled";
        assert!(panic.contains(told), "{panic}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_queue_that_is_consumed_as_any_other_opens_no_sessions() {
    let panic = panic_of(charging("orders").open_session()).await;
    assert_eq!(
        panic,
        "the queue `orders` serves no sessions: consume it with `consume_in_sessions`"
    );
}

#[derive(Deserialize)]
struct Reading {
    meter: String,
    number: u64,
}

#[idempotent(key = sequence(producer = "meter", number = "number"))]
async fn in_sequence(_: Reading) -> Result<(), Failed> {
    Ok(())
}

/// What a worker's builder says of it.
fn told_by_a_worker<H: idem_amqp::handler::Handler<Journal>>(
    queue: &Queue,
    sessions: Sessions,
) -> String
where
    H::Mode: idem_amqp::executor::RunsOn<idem_amqp::MemoryStore>,
{
    let worker = idem_amqp::Worker::builder(idem_amqp::MemoryStore::new())
        .state(Journal::default())
        .consume_in_sessions::<H>(queue.clone(), sessions);
    worker.build("amqp://localhost").unwrap_err().to_string()
}

#[tokio::test(start_paused = true)]
async fn what_a_worker_refuses_is_refused_with_its_words() {
    let open = Policy::builder().store_outage(StoreOutage::FailOpen);
    let policy = open.build().unwrap();
    let (queue, sessions) = (Queue::quorum("orders"), Sessions::default());
    for (queue, sessions) in [
        (queue.clone(), sessions.window(0)),
        (queue.clone(), sessions.life(Duration::ZERO)),
        (queue.clone().no_replies(), sessions),
        (queue.clone().policy(policy), sessions),
    ] {
        let setup = Setup::new(Journal::default);
        let panic =
            panic_of(async { setup.consume_in_sessions::<charge>(queue.clone(), sessions) });
        assert_eq!(panic.await, told_by_a_worker::<charge>(&queue, sessions));
    }
    let setup = Setup::new(Journal::default).policy(policy);
    let panic = panic_of(async { setup.consume_in_sessions::<charge>("orders", sessions) }).await;
    assert!(panic.contains("leave `store_outage` out"), "{panic}");
    let setup = Setup::new(Journal::default);
    let panic = panic_of(async { setup.consume_in_sessions::<in_sequence>("orders", sessions) });
    assert_eq!(
        panic.await,
        told_by_a_worker::<in_sequence>(&queue, sessions)
    );
}

/// It does again what it did before a crash, and so is noticed.
#[tokio::test(start_paused = true)]
async fn a_request_is_rehearsed_in_sessions_of_each_run() {
    let (harness, mut session) = serving().await;
    let first = session.request(&order(1));
    session.answered(&first);
    let later = session.request(&order(1250));
    let journal = async |run: &Harness<charge, Journal>| run.state().read();
    for request in [first, later] {
        let panic = panic_of(assert_idempotent(&harness, &request, journal)).await;
        let expected = "`idem-testing.charge` is not idempotent: in 1 of 8 situations\n\
            \n\
            crash after the handler, before the completion: the effect is doubled\n";
        assert!(panic.starts_with(expected), "{panic}");
    }
    assert!(harness.state().read().is_empty());
}

#[tokio::test(start_paused = true)]
async fn a_request_of_a_session_that_the_harness_has_not_opened_is_not_rehearsed() {
    let (harness, _) = serving().await;
    let (_other, mut elsewhere) = serving().await;
    let request = elsewhere.request(&order(1250));
    let journal = async |run: &Harness<charge, Journal>| run.state().read();
    let panic = panic_of(assert_idempotent(&harness, &request, journal)).await;
    assert!(panic.contains("ended as `session-expired`"), "{panic}");
}

#[tokio::test(start_paused = true)]
async fn two_requests_of_a_session_are_told_apart() {
    let (harness, mut session) = serving().await;
    let [one, other] = [(); 2].map(|()| session.request(&order(1250)));
    assert_distinct_keys(&harness, [&one, &other]).await;
}
