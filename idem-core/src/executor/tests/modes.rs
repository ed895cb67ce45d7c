//! What comes of a message in each mode: one table. On PostgreSQL, which has all modes.

use std::{fmt::Write as _, future::pending, marker::PhantomData, sync::Mutex};

use idem_servers::postgres;
use sqlx::{AssertSqlSafe, Connection as _, PgConnection, raw_sql};
use tokio::sync::Semaphore;

use super::*;
use crate::{
    handler::{
        Atomic, AtomicBatch, Backoff, BatchOptions, Context, DecodeError, Enforcement, Grouped,
        Late, Leased, LeasedBatch, Operation, RecordedBy, RecordingConstraint, Rejection,
        StoreOutage,
    },
    message::{Envelope, KeyError},
    store::Owner,
    stores::PostgresStore,
};

/// In each line: how a delivery ended, with the number of its attempt; how the next one did; how many charges there
/// are in the end; and in which modes it is so.
const TABLE: &str = "
it succeeds; a copy
    executed 1, duplicate: 1                  leased, atomic, grouped, recorded by, failing open, leased batch, atomic batch
    observed 1, observed 1 (duplicate): 2     observing
it succeeds; other content
    executed 1, key-reused: 1                 leased, atomic, grouped, failing open, leased batch, atomic batch
    executed 1, duplicate: 1                  recorded by
    observed 1, observed 1 (key-reused): 2    observing
it fails; the next attempt
    failed 1, executed 2: 2                   leased, failing open, leased batch
    failed 1, executed 2: 1                   atomic, grouped, atomic batch
    failed 1, executed 1: 1                   recorded by
    failed 1, observed 2: 2                   observing
it fails as often as it may; a copy
    failed 1, exhausted 2, executed 1: 3      leased, failing open, leased batch
    failed 1, exhausted 2, executed 1: 1      atomic, grouped, recorded by, atomic batch
    failed 1, exhausted 2, observed 1: 3      observing
it panics; the next attempt
    failed 1, executed 2: 2                   leased, failing open, leased batch
    failed 1, executed 2: 1                   atomic, grouped, atomic batch
    failed 1, executed 1: 1                   recorded by
    failed 1, observed 2: 2                   observing
it takes too long; the next attempt
    failed 1, executed 2: 2                   leased, failing open, leased batch
    failed 1, executed 2: 1                   atomic, grouped, atomic batch
    failed 1, executed 1: 1                   recorded by
    failed 1, observed 2: 2                   observing
it rejects; a copy
    rejected 1, executed 1: 2                 leased, failing open, leased batch
    rejected 1, executed 1: 1                 atomic, grouped, recorded by, atomic batch
    rejected 1, observed 1: 2                 observing
it rejects; a replay
    rejected 1, executed 1: 2                 leased, failing open, leased batch
    rejected 1, executed 1: 1                 atomic, grouped, recorded by, atomic batch
    rejected 1, observed 1: 2                 observing
it is too old; a copy; a replay
    late, late, executed 1: 1                 leased, atomic, grouped, failing open, leased batch, atomic batch
    executed 1, duplicate, duplicate: 1       recorded by
    observed 1 (late), observed 1 (duplicate), observed 1 (duplicate): 3observing
it cannot be called; the next attempt
    undecodable, executed 1: 1                leased, atomic, grouped, recorded by, failing open, leased batch, atomic batch
    undecodable, observed 1: 1                observing
it runs; a copy elsewhere
    executed 1, conflict: 1                   leased, atomic, grouped, failing open, leased batch, atomic batch
    executed 1, duplicate: 1                  recorded by
    observed 1, observed 1 (conflict): 2      observing
it runs beyond its lease; a copy elsewhere
    lease-lost 1, executed 2: 2               leased, failing open, leased batch
    lease-lost 1, executed 2: 1               atomic, atomic batch
    duplicate, executed 2: 1                  grouped
    executed 1, duplicate: 1                  recorded by
    observed 1 (lease-lost), observed 2: 2    observing
its call is dropped; the next delivery
    -, executed 2: 2                          leased, failing open, leased batch
    -, executed 2: 1                          atomic, grouped, atomic batch
    -, executed 1: 1                          recorded by
    -, observed 2: 2                          observing
the executor is closed; another's delivery
    abandoned, executed 1: 1                  leased, atomic, grouped, recorded by, failing open, leased batch, atomic batch
    abandoned, observed 1: 1                  observing
the store is away; and is back
    store-unavailable, executed 1: 1          leased, atomic, grouped, recorded by, leased batch, atomic batch
    observed 1 (store-unavailable), observed 1: 2observing
    unprotected 1, duplicate: 1               failing open
";

/// What the handler does once it has charged.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Act {
    Succeed,
    Fail,
    Reject,
    Panic,
    /// Takes longer than its policy allows.
    Hang,
    /// Succeeds once the gate is opened.
    Wait,
    /// It cannot be called.
    Unfit,
}

/// What a handler has in its hands.
struct Counter {
    url: String,
    act: Mutex<Act>,
    started: Notify,
    gate: Semaphore,
}

impl Counter {
    fn at(url: String) -> Self {
        Self {
            url,
            act: Mutex::new(Act::Succeed),
            started: Notify::new(),
            gate: Semaphore::new(0),
        }
    }

    fn does(&self, act: Act) {
        *self.act.lock().unwrap() = act;
    }

    fn act(&self) -> Act {
        *self.act.lock().unwrap()
    }

    async fn connection(&self) -> PgConnection {
        PgConnection::connect(&self.url).await.unwrap()
    }

    async fn finish(&self, attempt: Attempt) -> Result<u32, Failed> {
        match self.act() {
            Act::Succeed | Act::Unfit => {}
            Act::Fail => return Err(Failed::retry("the gateway is down")),
            Act::Reject => return Err(Failed::rejected("no such customer")),
            Act::Panic => panic!("told to panic"),
            Act::Hang => pending().await,
            Act::Wait => {
                self.started.notify_one();
                self.gate.acquire().await.unwrap().forget();
            }
        }
        Ok(attempt.number())
    }
}

async fn charge(db: &mut PgConnection, order: &str) -> Result<(), Failed> {
    let charge = "INSERT INTO charges (order_id) VALUES ($1)";
    let charged = sqlx::query(charge).bind(order).execute(db).await;
    charged.map(drop).map_err(Failed::from)
}

/// Charges orders, in a mode. A body is the order's name, and anything.
struct Charge<M>(PhantomData<M>);

macro_rules! charges {
    ($mode:ty, $recorded:expr, $lent:pat, $context:ident, $connection:expr) => {
        impl Operation for Charge<$mode> {
            type Message = String;
            type Output = u32;
            type Error = Failed;
            type Mode = $mode;
            const SCOPE: &'static str = "orders";
            const RECORDED_BY: Option<RecordingConstraint<Self>> = $recorded;
            // Heeded by the modes that have batches: each message is alone in its batch.
            const BATCH: Option<BatchOptions> = Some(BatchOptions::new(8));

            fn decode(envelope: &Envelope) -> Result<String, DecodeError> {
                let body = std::str::from_utf8(envelope.body()).map_err(DecodeError::new)?;
                Ok(body.split(' ').next().unwrap_or_default().to_owned())
            }

            fn key(order: &String, _: &Envelope) -> Result<Key, KeyError> {
                Key::new(Self::SCOPE, order.as_str())
            }
        }

        impl Handler<Counter> for Charge<$mode> {
            fn call<'a>(
                order: String,
                $context: &'a Context<'a, Counter>,
                $lent: <$mode as crate::handler::Mode>::Lent<'a>,
            ) -> Result<impl Future<Output = Result<u32, Failed>> + Send + 'a, Rejection> {
                if $context.state.act() == Act::Unfit {
                    return Err(Rejection::new("no tenant"));
                }
                Ok(async move {
                    charge($connection, &order).await?;
                    $context.state.finish($context.attempt).await
                })
            }
        }
    };
}

charges!(
    Leased,
    None,
    (),
    context,
    &mut context.state.connection().await
);
charges!(Atomic<PgConnection>, None, db, context, db);
charges!(Grouped<PgConnection, 8>, None, db, context, db);
charges!(
    LeasedBatch,
    None,
    (),
    context,
    &mut context.state.connection().await
);
charges!(AtomicBatch<PgConnection>, None, db, context, db);
charges!(
    RecordedBy<PgConnection>,
    Some(RecordingConstraint::new(
        "charges_order_id_key",
        1,
        |order: &String, _| Ok(vec![order.clone()]),
        |error: &Failed| Some(error.error()),
    )),
    db,
    context,
    db
);

/// Attempts are one second apart.
const BACKOFF: Duration = Duration::from_secs(1);

const POLICY: crate::handler::PolicyBuilder = Policy::builder()
    .backoff(Backoff::new(BACKOFF, BACKOFF))
    .max_attempts(2);

#[derive(Debug, Clone, Copy)]
enum Scenario {
    /// One delivery after the other.
    Deliveries(&'static [Act]),
    /// The first attempt takes longer than its policy allows.
    TooLong,
    OtherContent,
    Replay,
    /// It was made before the retention, and is to be quarantined for that.
    TooOld,
    /// A copy comes to another process while the handler runs; so long after the first.
    CopyAfter(Duration),
    /// The call is dropped while the handler runs; the next delivery comes when its lease is over.
    Dropped,
    Closed,
    Away,
}

const SCENARIOS: [(&str, Scenario); 15] = [
    (
        "it succeeds; a copy",
        Scenario::Deliveries(&[Act::Succeed, Act::Succeed]),
    ),
    ("it succeeds; other content", Scenario::OtherContent),
    (
        "it fails; the next attempt",
        Scenario::Deliveries(&[Act::Fail, Act::Succeed]),
    ),
    (
        "it fails as often as it may; a copy",
        Scenario::Deliveries(&[Act::Fail, Act::Fail, Act::Succeed]),
    ),
    (
        "it panics; the next attempt",
        Scenario::Deliveries(&[Act::Panic, Act::Succeed]),
    ),
    ("it takes too long; the next attempt", Scenario::TooLong),
    (
        "it rejects; a copy",
        Scenario::Deliveries(&[Act::Reject, Act::Succeed]),
    ),
    ("it rejects; a replay", Scenario::Replay),
    ("it is too old; a copy; a replay", Scenario::TooOld),
    (
        "it cannot be called; the next attempt",
        Scenario::Deliveries(&[Act::Unfit, Act::Succeed]),
    ),
    (
        "it runs; a copy elsewhere",
        Scenario::CopyAfter(Duration::ZERO),
    ),
    (
        "it runs beyond its lease; a copy elsewhere",
        Scenario::CopyAfter(LEASE),
    ),
    ("its call is dropped; the next delivery", Scenario::Dropped),
    (
        "the executor is closed; another's delivery",
        Scenario::Closed,
    ),
    ("the store is away; and is back", Scenario::Away),
];

/// One order, and a process of its own.
struct Scene<H> {
    schema: String,
    order: String,
    policy: Policy,
    executor: Executor<PostgresStore>,
    counter: Counter,
    handler: PhantomData<fn() -> H>,
}

impl<H> Scene<H>
where
    H: Handler<Counter, Output = u32, Error = Failed, Mode: RunsOn<PostgresStore>>,
{
    async fn open(schema: &str, order: String, policy: Policy) -> Self {
        let server = postgres::shared().expect("PostgreSQL can be started");
        let url = format!("{}?options[search_path]={schema}", server.url());
        Self {
            executor: executor_on(&url, schema).await,
            counter: Counter::at(url),
            schema: schema.to_owned(),
            order,
            policy,
            handler: PhantomData,
        }
    }

    async fn run(&self, sql: String) {
        let mut db = self.counter.connection().await;
        let ran = raw_sql(AssertSqlSafe(sql)).execute(&mut db).await;
        ran.unwrap();
    }

    async fn create_charges(&self) {
        let constraint = match H::RECORDED_BY {
            Some(_) => "CONSTRAINT charges_order_id_key UNIQUE",
            None => "",
        };
        self.run(format!(
            "CREATE TABLE IF NOT EXISTS charges (order_id text {constraint})"
        ))
        .await;
    }

    async fn charges(&self) -> i64 {
        sqlx::query_scalar("SELECT count(*) FROM charges WHERE order_id = $1")
            .bind(&self.order)
            .fetch_one(&mut self.counter.connection().await)
            .await
            .unwrap()
    }

    /// Waits until somebody waits for a lock in the table of charges: for ever, unless it has a constraint.
    async fn somebody_waits(&self) {
        let waiting = "SELECT count(*) > 0 FROM pg_locks AS waiting
            JOIN pg_locks AS charges USING (pid)
            WHERE NOT waiting.granted AND charges.relation = 'charges'::regclass";
        let mut db = self.counter.connection().await;
        let mut is_waiting = async || {
            sqlx::query_scalar::<_, bool>(waiting)
                .fetch_one(&mut db)
                .await
        };
        while !(H::RECORDED_BY.is_some() && is_waiting().await.unwrap()) {
            sleep(Duration::from_millis(5)).await;
        }
    }

    /// The order, and this.
    fn message(&self, more: &str) -> Prepared<H> {
        self.prepared(more, &self.policy)
    }

    fn prepared(&self, more: &str, policy: &Policy) -> Prepared<H> {
        let body = format!("{} {more}", self.order);
        match Prepared::new(Envelope::new(body), policy) {
            Ok(message) => message,
            Err(ended) => panic!("{ended:?}"),
        }
    }

    /// One delivery, of which the handler makes this.
    async fn handle(
        &self,
        executor: &Executor<PostgresStore>,
        mut message: Prepared<H>,
        act: Act,
    ) -> String {
        self.counter.does(act);
        // Another one of the handler's is there, so that a group is worth it.
        let (_other, _) = executor.concurrency.enter(H::SCOPE);
        let ended = executor.handle(&mut message, &self.counter).await;
        let mut told = ended.kind().label().to_owned();
        if let Some(attempt) = ended.attempt() {
            write!(told, " {attempt}").unwrap();
        }
        if let Some(kind) = message.would_have_been() {
            write!(told, " ({})", kind.label()).unwrap();
        }
        told
    }

    async fn deliver(&self, act: Act) -> String {
        self.handle(&self.executor, self.message(""), act).await
    }

    /// To another process, so much later.
    async fn deliver_elsewhere(&self, later: Duration) -> String {
        let other = executor_on(&self.counter.url, &self.schema).await;
        other.store().advance(later);
        self.handle(&other, self.message(""), Act::Succeed).await
    }

    async fn play(&self, scenario: Scenario) -> String {
        let mut told = Vec::new();
        match scenario {
            Scenario::Deliveries(acts) => {
                for act in acts {
                    told.push(self.deliver(*act).await);
                    self.executor.store().advance(BACKOFF);
                }
            }
            Scenario::TooLong => {
                let timeout = Duration::from_millis(200);
                let limited = self.policy.to_builder().timeout(timeout);
                let hanging = self.prepared("", &limited.build().unwrap());
                told.push(self.handle(&self.executor, hanging, Act::Hang).await);
                self.executor.store().advance(BACKOFF);
                told.push(self.deliver(Act::Succeed).await);
            }
            Scenario::OtherContent => {
                told.push(self.deliver(Act::Succeed).await);
                let other = self.message("dearer");
                told.push(self.handle(&self.executor, other, Act::Succeed).await);
            }
            Scenario::Replay => {
                told.push(self.deliver(Act::Reject).await);
                let replay = self.message("").replay(true);
                told.push(self.handle(&self.executor, replay, Act::Succeed).await);
            }
            Scenario::TooOld => {
                let policy = self.policy.to_builder().late(Late::Quarantine);
                let policy = policy.build().unwrap();
                let message = || {
                    let envelope = Envelope::builder(format!("{} ", self.order)).timestamp(1);
                    Prepared::new(envelope.build(), &policy).unwrap_or_else(|it| panic!("{it:?}"))
                };
                for is_replay in [false, false, true] {
                    let message = message().replay(is_replay);
                    told.push(self.handle(&self.executor, message, Act::Succeed).await);
                }
            }
            Scenario::CopyAfter(later) => {
                let copy = async {
                    self.counter.started.notified().await;
                    let mut copy = pin!(self.deliver_elsewhere(later));
                    let ended = tokio::select! {
                        ended = &mut copy => Some(ended),
                        () = self.somebody_waits() => None,
                    };
                    self.counter.gate.add_permits(1);
                    match ended {
                        Some(ended) => ended,
                        None => copy.await,
                    }
                };
                let (first, copy) = tokio::join!(self.deliver(Act::Wait), copy);
                told.extend([first, copy]);
            }
            Scenario::Dropped => {
                tokio::select! {
                    ended = self.deliver(Act::Wait) => panic!("{ended}"),
                    () = self.counter.started.notified() => {}
                }
                told.push("-".to_owned());
                told.push(self.deliver_elsewhere(LEASE).await);
            }
            Scenario::Closed => {
                self.executor.close();
                told.push(self.deliver(Act::Succeed).await);
                told.push(self.deliver_elsewhere(Duration::ZERO).await);
            }
            Scenario::Away => {
                self.run(format!(
                    "ALTER TABLE {0}.idem_records RENAME TO gone",
                    self.schema
                ))
                .await;
                told.push(self.deliver(Act::Succeed).await);
                self.run(format!(
                    "ALTER TABLE {0}.gone RENAME TO idem_records",
                    self.schema
                ))
                .await;
                told.push(self.deliver(Act::Succeed).await);
            }
        }
        format!("{}: {}", told.join(", "), self.charges().await)
    }
}

async fn executor_on(url: &str, schema: &str) -> Executor<PostgresStore> {
    let store = PostgresStore::builder(url).schema(schema).groups(1);
    Executor::new(store.build().await.unwrap())
}

async fn column<H>(policy: Policy) -> Vec<String>
where
    H: Handler<Counter, Output = u32, Error = Failed, Mode: RunsOn<PostgresStore>>,
{
    let schema = format!("modes_{:x}", u128::from_be_bytes(*Owner::new().as_bytes()));
    let mut cells = Vec::new();
    for (row, (_, scenario)) in SCENARIOS.iter().enumerate() {
        let order = format!("o-{row}");
        let scene = Box::pin(Scene::<H>::open(&schema, order, policy)).await;
        Box::pin(scene.create_charges()).await;
        cells.push(Box::pin(scene.play(*scenario)).await);
    }
    cells
}

#[tokio::test]
async fn every_mode_ends_each_message_as_the_table_says() {
    let policy = POLICY.build().unwrap();
    let observing = POLICY.enforcement(Enforcement::Observe).build().unwrap();
    let failing_open = POLICY.store_outage(StoreOutage::FailOpen).build().unwrap();
    let columns = [
        ("leased", column::<Charge<Leased>>(policy).await),
        (
            "atomic",
            column::<Charge<Atomic<PgConnection>>>(policy).await,
        ),
        (
            "grouped",
            column::<Charge<Grouped<PgConnection, 8>>>(policy).await,
        ),
        (
            "recorded by",
            column::<Charge<RecordedBy<PgConnection>>>(policy).await,
        ),
        ("observing", column::<Charge<Leased>>(observing).await),
        ("failing open", column::<Charge<Leased>>(failing_open).await),
        ("leased batch", column::<Charge<LeasedBatch>>(policy).await),
        (
            "atomic batch",
            column::<Charge<AtomicBatch<PgConnection>>>(policy).await,
        ),
    ];
    let mut table = String::from("\n");
    for (row, (scenario, _)) in SCENARIOS.iter().enumerate() {
        writeln!(table, "{scenario}").unwrap();
        let mut lines: Vec<(&str, Vec<&str>)> = Vec::new();
        for (mode, cells) in &columns {
            match lines.iter_mut().find(|(cell, _)| *cell == cells[row]) {
                Some((_, modes)) => modes.push(mode),
                None => lines.push((&cells[row], vec![mode])),
            }
        }
        for (cell, modes) in lines {
            writeln!(table, "    {cell:42}{}", modes.join(", ")).unwrap();
        }
    }
    assert!(table == TABLE, "{table}");
}
