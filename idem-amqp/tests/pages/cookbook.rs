use idem_amqp::{prelude::*, sqlx::{self, PgConnection}};
use serde::Deserialize;

use super::Error;

#[derive(Deserialize)]
struct OrderPlaced { order_id: String, amount_cents: i64 }

#[idempotent(key = "order_id", scope = "orders.charge")]
async fn charge(order: OrderPlaced, db: &mut PgConnection) -> Result<(), Failed> {
    sqlx::query("INSERT INTO charges (order_id, amount_cents) VALUES ($1, $2)")
        .bind(order.order_id).bind(order.amount_cents).execute(db).await?;
    Ok(())
}

mod web {
    use super::{Error, charge};

    use std::time::Duration;

    use axum::{Router, extract::State as AxumState, http::StatusCode, routing::get};
    use idem_amqp::{PostgresStore, prelude::*, worker::Health};
    use metrics_exporter_prometheus::{Matcher, PrometheusBuilder};
    use tokio::{net::TcpListener, sync::oneshot, time};

    const SECONDS: [f64; 8] = [0.001, 0.005, 0.025, 0.1, 0.5, 2.0, 10.0, 60.0];

    async fn live(AxumState(health): AxumState<Health>) -> (StatusCode, String) {
        let status = match health.failing_for() {
            Some(time) if time > Duration::from_mins(5) => StatusCode::SERVICE_UNAVAILABLE,
            _ => StatusCode::OK,
        };
        (status, health.to_string())   // what is wrong, in one line
    }

    async fn ready(AxumState(health): AxumState<Health>) -> StatusCode {
        if health.is_ready() { StatusCode::OK } else { StatusCode::SERVICE_UNAVAILABLE }
    }

    async fn run(database_url: &str, amqp_url: &str) -> Result<(), Error> {
        let metrics = PrometheusBuilder::new()            // before store and worker
            .set_buckets_for_metric(Matcher::Suffix("_seconds".into()), &SECONDS)?
            .install_recorder()?;
        let store = PostgresStore::connect(database_url).await?;
        let worker = Worker::builder(store).consume::<charge>("orders.charge").build(amqp_url)?;

        let upkeep = metrics.clone();
        tokio::spawn(async move {
            loop {
                time::sleep(Duration::from_secs(5)).await;
                upkeep.run_upkeep();                      // or histograms grow while nobody asks for them
            }
        });
        let app = Router::new()
            .route("/live", get(live))
            .route("/ready", get(ready))
            .with_state(worker.health())
            .route("/metrics", get(async move || metrics.render()));
        let listener = TcpListener::bind("0.0.0.0:8080").await?;
        let (worker_ends, worker_ended) = oneshot::channel::<()>();
        let server = axum::serve(listener, app).with_graceful_shutdown(async { drop(worker_ended.await) });
        let server = tokio::spawn(server.into_future());

        let ended = worker.run_until(shutdown_signal()).await;
        drop(worker_ends);                                // the server ends after the worker
        server.await??;
        println!("{}", ended?);
        Ok(())
    }
}

mod again {
    use super::{Error, charge};

    use std::time::Duration;

    use idem_amqp::{PostgresStore, error::ErrorChain, prelude::*, worker::Health};
    use tokio::{sync::watch, time};

    /// Ends when it is told to stop. The probe has the receiver: it asks the health of whatever worker runs now.
    async fn work(
        store: PostgresStore,
        amqp_url: String,
        health: watch::Sender<Option<Health>>,
    ) -> Result<(), Error> {
        loop {
            let worker = Worker::builder(store.clone()).consume::<charge>("orders.charge").build(&amqp_url)?;
            health.send_replace(Some(worker.health()));
            match worker.run_until(shutdown_signal()).await {
                Ok(stats) => {
                    tracing::info!("{stats}");
                    return Ok(());
                }
                Err(error) => tracing::error!("the worker cannot start: {}", ErrorChain::of(&error)),
            }
            tokio::select! {
                () = time::sleep(Duration::from_mins(1)) => {}   // somebody may declare the queue meanwhile
                () = shutdown_signal() => return Ok(()),
            }
        }
    }
}

fn existing_topology() -> Result<(), Error> {
    // All of it is declared elsewhere:
    let all_theirs = Queue::existing("orders")
        .dead_letter_exchange("failed", "orders")   // the routing key; `None` keeps the message's own
        .concurrency(16);
    // The queue is theirs; idem adds queues for retries:
    let with_ladder = Queue::existing("orders")
        .dead_letters("orders.failed")
        .ladder(Ladder::new([Duration::from_secs(10), Duration::from_mins(5)])?);
    // The exchange is theirs, the queue is idem's:
    let bound = Queue::quorum("orders.charge").bind("shop", "order.placed");
    drop((all_theirs, with_ladder, bound));
    Ok(())
}

use std::time::Duration;

use idem_amqp::Ladder;

mod own_pool {
    use super::{Error, OrderPlaced};

    use idem_amqp::{FromRef, PostgresStore, prelude::*, sqlx::{self, PgConnection, PgPool}};

    #[derive(Clone, FromRef)]
    struct App { pool: PgPool }

    #[idempotent(key = "order_id", scope = "orders.charge")]
    async fn charge(order: OrderPlaced, State(pool): State<PgPool>, db: &mut PgConnection) -> Result<(), Failed> {
        let limit: i64 = sqlx::query_scalar("SELECT most_cents FROM limits").fetch_one(&pool).await?;
        if order.amount_cents > limit {
            return Err(Failed::rejected("more than a customer may spend"));
        }
        sqlx::query("INSERT INTO charges (order_id, amount_cents) VALUES ($1, $2)")
            .bind(order.order_id).bind(order.amount_cents).execute(db).await?;   // commits with the record
        Ok(())
    }

    async fn run(pool: PgPool, amqp_url: &str) -> Result<(), Error> {
        let store = PostgresStore::builder_with((*pool.connect_options()).clone())
            .connections(8)                       // atomic handlers at once; beside the pool's
            .build()
            .await?;
        Worker::builder(store)
            .state(App { pool })
            .consume::<charge>("orders.charge")
            .run_until(amqp_url, shutdown_signal())
            .await?;
        Ok(())
    }
}

mod own_error {
    use std::time::Duration;

    use idem_amqp::{error::ErrorChain, prelude::*, sqlx};

    #[derive(Debug, thiserror::Error)]
    enum ChargeError {
        #[error("the bank is busy")]
        Busy { again_in: Duration },
        #[error("no such customer: {0}")]
        NoSuchCustomer(String),
        #[error("cannot write the charge")]
        Database(#[from] sqlx::Error),
    }

    impl Failure for ChargeError {
        fn verdict(&self) -> Verdict {
            match self {
                Self::Busy { again_in } => Verdict::RetryAfter(*again_in),
                Self::NoSuchCustomer(_) => Verdict::Reject,   // dead-lettered at once
                Self::Database(_) => Verdict::Retry,          // after a backoff
            }
        }

        fn describe(&self) -> String {
            ErrorChain::of(self).to_string()                  // with its causes
        }
    }
}

mod real_database {
    use super::{Error, charge};

    use std::env;

    use idem_amqp::{
        PostgresStore,
        executor::{ExecutionKind, Executor, Prepared},
        handler::Operation as _,
        message::Envelope,
        sqlx::{self, AssertSqlSafe, Connection as _, PgConnection, postgres::PgConnectOptions},
    };

    async fn an_order_is_charged_once() -> Result<(), Error> {
        let url = env::var("POSTGRES_URL").expect("POSTGRES_URL: a PostgreSQL in which databases may be created");
        let name = format!("test_{}", uuid::Uuid::new_v4().simple());
        let mut server = PgConnection::connect(&url).await?;
        sqlx::raw_sql(AssertSqlSafe(format!("CREATE DATABASE {name}"))).execute(&mut server).await?;
        let options = url.parse::<PgConnectOptions>()?.database(&name);
        let mut db = PgConnection::connect_with(&options).await?;
        sqlx::raw_sql("CREATE TABLE charges (order_id text, amount_cents bigint)").execute(&mut db).await?;

        let executor = Executor::new(PostgresStore::builder_with(options).build().await?);
        let deliver = async || {
            let order = Envelope::new(r#"{"order_id": "o-17", "amount_cents": 1250}"#);
            let mut message = Prepared::<charge>::new(order, &charge::POLICY).expect("the order has a key");
            executor.handle(&mut message, &()).await.kind()
        };
        assert_eq!(deliver().await, ExecutionKind::Executed);
        assert_eq!(deliver().await, ExecutionKind::Duplicate);
        let charges: i64 = sqlx::query_scalar("SELECT count(*) FROM charges").fetch_one(&mut db).await?;
        assert_eq!(charges, 1);

        sqlx::raw_sql(AssertSqlSafe(format!("DROP DATABASE {name} WITH (FORCE)"))).execute(&mut server).await?;
        Ok(())
    }
}

mod several_types {
    use idem_amqp::prelude::*;
    use serde::Deserialize;

    #[derive(Deserialize, IdempotencyKey)]
    #[serde(tag = "type")]
    enum OrderEvent {
        Placed { #[key] order_id: String },
        Cancelled { #[key] order_id: String, reason: String },
    }

    // Its keys are `orders.handle:Placed:o-17` and `orders.handle:Cancelled:o-17`.
    #[idempotent(scope = "orders.handle")]
    async fn handle(event: OrderEvent) -> Result<(), Failed> {
        match event {
            OrderEvent::Placed { order_id } => println!("{order_id} was placed"),
            OrderEvent::Cancelled { order_id, reason } => println!("{order_id} was cancelled: {reason}"),
        }
        Ok(())
    }
}

mod handler_for_each_type {
    use idem_amqp::{
        PostgresStore, WorkerBuilder, prelude::*, sqlx::{self, PgConnection}, worker::Routes,
    };
    use serde::Deserialize;

    #[derive(Deserialize)]
    struct OrderPlaced { order_id: String }

    #[derive(Deserialize)]
    struct OrderCancelled { order_id: String }

    #[derive(Clone)]
    struct Mailer;

    impl Mailer {
        async fn send(&self, text: &str, order: &str) -> Result<(), Failed> {
            println!("{text} {order}");
            Ok(())
        }
    }

    #[idempotent(key = "order_id", scope = "mails.receipt", max_attempts = 20)]
    async fn receipt(placed: OrderPlaced, State(mailer): State<Mailer>) -> Result<(), Failed> {
        mailer.send("thank you for", &placed.order_id).await
    }

    #[idempotent(key = "order_id", scope = "refunds.pay")]
    async fn refund(cancelled: OrderCancelled, db: &mut PgConnection) -> Result<(), Failed> {
        sqlx::query("INSERT INTO refunds (order_id) VALUES ($1)").bind(cancelled.order_id).execute(db).await?;
        Ok(())
    }

    fn worker(store: PostgresStore, mailer: Mailer) -> WorkerBuilder<PostgresStore, Mailer> {
        let routes = Routes::by_type()
            .on::<receipt>("order.placed")
            .on::<refund>("order.cancelled");
        Worker::builder(store).state(mailer).consume_routed(Queue::quorum("orders"), routes)
    }
}

mod type_elsewhere {
    use idem_amqp::{Delivery, handler::DecodeError, message::Envelope, prelude::*};
    use serde::Deserialize;

    #[derive(Deserialize, IdempotencyKey)]
    struct OrderPlaced { #[key] order_id: String }

    #[derive(Deserialize, IdempotencyKey)]
    struct OrderCancelled { #[key] order_id: String, reason: String }

    #[derive(IdempotencyKey)]
    enum OrderEvent {
        Placed(OrderPlaced),
        Cancelled(OrderCancelled),
    }

    impl OrderEvent {
        fn by_routing_key(envelope: &Envelope) -> Result<Self, DecodeError> {
            let routing_key = envelope.extension::<Delivery>().map_or("", Delivery::routing_key);
            match routing_key {
                "order.placed" => envelope.json().map(Self::Placed),
                "order.cancelled" => envelope.json().map(Self::Cancelled),
                other => Err(DecodeError::new(format!("no type of message for the routing key `{other}`"))),
            }
        }
    }

    // Its keys are `orders.handle:Placed:o-17` and `orders.handle:Cancelled:o-17`.
    #[idempotent(scope = "orders.handle", decode = OrderEvent::by_routing_key)]
    async fn handle(event: OrderEvent) -> Result<(), Failed> {
        match event {
            OrderEvent::Placed(order) => println!("{} was placed", order.order_id),
            OrderEvent::Cancelled(order) => println!("{} was cancelled: {}", order.order_id, order.reason),
        }
        Ok(())
    }
}

mod checked {
    use idem_amqp::{prelude::*, sqlx::{self, PgConnection}};
    use serde::Deserialize;

    #[derive(Deserialize, garde::Validate)]
    struct Transfer {
        #[garde(length(min = 1))]
        id: String,
        #[garde(range(min = 1))]
        amount_cents: i64,
    }

    #[idempotent(key = "id", scope = "bank.transfer", validate = garde::Validate::validate)]
    async fn transfer(order: Transfer, db: &mut PgConnection) -> Result<(), Failed> {
        sqlx::query("INSERT INTO transfers (id, amount_cents) VALUES ($1, $2)")
            .bind(order.id).bind(order.amount_cents).execute(db).await?;
        Ok(())
    }
}

mod id_in_the_row {
    use idem_amqp::{prelude::*, sqlx::{self, PgPool}};
    use serde::Deserialize;

    #[derive(Deserialize)]
    struct Credited { credit_id: String, account: i64, amount_cents: i64 }

    #[idempotent(key = "credit_id", scope = "accounts.credit")]
    async fn credit(order: Credited, State(bank): State<PgPool>) -> Result<(), Failed> {
        let credited = sqlx::query(
            "UPDATE accounts SET cents = cents + $2, last_credit = $3 WHERE id = $1 AND last_credit IS DISTINCT FROM $3",
        );
        let credited = credited.bind(order.account).bind(order.amount_cents).bind(order.credit_id).execute(&bank).await?;
        if credited.rows_affected() == 0 {
            return Err(Failed::done_before());
        }
        Ok(())
    }
}

mod tenants {
    use super::{Error, OrderPlaced};

    use idem_amqp::{FromContext, PostgresStore, handler::{Context, Rejection}, prelude::*, sqlx::{self, PgConnection}};
    use tokio::task::JoinSet;

    struct Tenant(String);

    impl<S> FromContext<S> for Tenant {
        fn from_context(context: &Context<'_, S>) -> Result<Self, Rejection> {
            let tenant = context.envelope.header("x-tenant");
            tenant.map(|name| Self(name.into_owned())).ok_or_else(|| Rejection::new("no x-tenant header"))
        }
    }

    // Its keys are `orders.charge:acme:o-17`.
    #[idempotent(key = [header("x-tenant"), "order_id"], scope = "orders.charge")]
    async fn charge(order: OrderPlaced, Tenant(tenant): Tenant, db: &mut PgConnection) -> Result<(), Failed> {
        sqlx::query("INSERT INTO charges (tenant, order_id, amount_cents) VALUES ($1, $2, $3)")
            .bind(tenant).bind(order.order_id).bind(order.amount_cents).execute(db).await?;
        Ok(())
    }

    async fn a_database_each(tenants: Vec<(&str, String)>, amqp_url: &str) -> Result<(), Error> {
        let mut workers = JoinSet::new();
        for (tenant, database_url) in tenants {
            let worker = Worker::builder(PostgresStore::connect(&database_url).await?)
                .consume::<charge>(format!("orders.charge.{tenant}"))
                .build(amqp_url)?;
            workers.spawn(worker.run_until(shutdown_signal()));
        }
        while let Some(ended) = workers.join_next().await {
            println!("{}", ended??);
        }
        Ok(())
    }
}

mod handled {
    use super::Error;

    use idem_amqp::{Key, PostgresStore, store::{Condition, Look as _}};
    use serde::Deserialize;

    #[derive(Debug, Deserialize)]
    struct Receipt;

    async fn charged(store: &PostgresStore, order_id: &str) -> Result<String, Error> {
        let Some(known) = store.look(&Key::new("orders.charge", order_id)?).await? else {
            return Ok("it never came, or it is forgotten".into());
        };
        let record = &known.record;
        Ok(match &record.condition {
            Condition::Completed { .. } => match known.output::<Receipt>() {
                Ok(receipt) => format!("charged at {:?}, {receipt:?}", record.completed_at),
                Err(refusal) => format!("rejected: {refusal}"),
            },
            Condition::Failed { error, retry_in, .. } => format!("tried {} times: {error:?}, next in {retry_in:?}", record.attempts),
            _ => format!("begun at {:?}, {} tries", record.created_at, record.attempts),
        })
    }
}

mod scheduled {
    use super::{Error, OrderPlaced};

    use std::time::Duration;

    use idem_amqp::{
        Key, PostgresStore, Publication,
        outbox::{Outbox, OutboxChange, OutboxEntry, OutboxListing, OutboxState},
        prelude::*,
        sqlx::{self, PgConnection},
    };

    #[idempotent(key = "order_id", scope = "orders.place")]
    async fn place(order: OrderPlaced, outbox: Outbox, db: &mut PgConnection) -> Result<(), Failed> {
        sqlx::query("INSERT INTO orders (order_id, amount_cents) VALUES ($1, $2)")
            .bind(&order.order_id).bind(order.amount_cents).execute(db).await?;
        let reminder = Publication::json("orders.remind", &order.order_id);
        outbox.after(Duration::from_hours(24)).publish(reminder)?;   // or `outbox.at(time)`
        Ok(())
    }

    /// Says how many were called off.
    async fn cancel(store: &PostgresStore, order_id: &str) -> Result<u64, Error> {
        let key = Key::new("orders.place", order_id)?;
        Ok(store.outbox().change(&OutboxChange::Cancel(key.to_string())).await?)
    }

    /// `due` of each says when it leaves.
    async fn list(store: &PostgresStore) -> Result<Vec<OutboxEntry>, Error> {
        let listing = OutboxListing {
            state: Some(OutboxState::Later),
            prefix: "orders.place:".into(),
            limit: 100,
            ..OutboxListing::default()
        };
        Ok(store.outbox().list(&listing).await?)
    }
}

mod by_hand {
    use super::{Error, OrderPlaced};

    use futures_util::StreamExt as _;
    use idem_amqp::sqlx::{self, PgPool};
    use lapin::{Channel, options::{BasicAckOptions, BasicConsumeOptions, BasicNackOptions, BasicQosOptions}, types::FieldTable};

    async fn charge(_: &PgPool, _: &OrderPlaced) -> Result<(), sqlx::Error> { Ok(()) }

    async fn consume(channel: Channel, pool: PgPool) -> Result<(), Error> {
        channel.basic_qos(16, BasicQosOptions::default()).await?;
        let (options, arguments) = (BasicConsumeOptions::default(), FieldTable::default());
        let mut deliveries = channel.basic_consume("orders".into(), "".into(), options, arguments).await?;
        while let Some(delivery) = deliveries.next().await {
            let delivery = delivery?;                                            // a lost connection ends the loop
            let order: OrderPlaced = serde_json::from_slice(&delivery.data)?;    // so does one bad message
            match charge(&pool, &order).await {
                Ok(()) => delivery.ack(BasicAckOptions::default()).await?,       // a lost ack: charged twice
                Err(_) => delivery.nack(BasicNackOptions { requeue: true, ..Default::default() }).await?,
            };
        }
        Ok(())
    }
}

mod mass_transit {
    use super::OrderPlaced;

    use idem_amqp::{prelude::*, sqlx::{self, PgConnection}};
    use serde::Deserialize;

    #[derive(Deserialize)]
    #[serde(rename_all = "camelCase")]
    struct FromMassTransit<T> { message_id: String, message: T }

    #[idempotent(key = "message_id", scope = "orders.charge")]
    async fn charge(placed: FromMassTransit<OrderPlaced>, db: &mut PgConnection) -> Result<(), Failed> {
        let order = placed.message;
        sqlx::query("INSERT INTO charges (order_id, amount_cents) VALUES ($1, $2)")
            .bind(order.order_id).bind(order.amount_cents).execute(db).await?;
        Ok(())
    }
}

mod celery {
    use super::OrderPlaced;

    use idem_amqp::{prelude::*, sqlx::{self, PgConnection}};
    use serde::{Deserialize, de::IgnoredAny};

    /// The body of a task: arguments, keyword arguments, and what comes after it.
    #[derive(Deserialize)]
    struct Task<K>(IgnoredAny, K, IgnoredAny);

    #[idempotent(key = header("id"), scope = "orders.charge")]
    async fn charge(task: Task<OrderPlaced>, db: &mut PgConnection) -> Result<(), Failed> {
        let order = task.1;
        sqlx::query("INSERT INTO charges (order_id, amount_cents) VALUES ($1, $2)")
            .bind(order.order_id).bind(order.amount_cents).execute(db).await?;
        Ok(())
    }
}
