//! Tests of idempotent handlers without a server, on tokio's paused clock, in milliseconds; and the suite that every
//! store must pass.
//!
//! A dev-dependency, on the public API of `idem-core`, `idem-amqp`, `idem-http` and `idem-kafka`, and on their feature
//! `testing`.
//!
//! | to test | use |
//! |---|---|
//! | a consumer of RabbitMQ's | [`amqp`] (feature `amqp`, on by default) |
//! | a handler of Kafka records | [`kafka`] (feature `kafka`), and this module |
//! | an HTTP service behind a layer of `idem-http` | [`mod@http`] (feature `http`) |
//! | a handler without a transport, an [`Executor`](idem_core::Executor) of your own | this module |
//! | a store of your own | [`mod@conformance`] |
//!
//! A [`Harness`] is the product's own [`Executor`](idem_core::Executor) round one handler, on the product's own
//! [`MemoryStore`](idem_core::MemoryStore), behind a link that can fail. It delivers messages, as often and as
//! badly as a transport may: copies, two at once, a crash at each [`CrashPoint`], a lease that runs out under
//! a running handler, a store that is away. [`assert_idempotent`] does all of that in one call, and says at
//! which point an effect was doubled or missing.
//!
//! ```test_harness
//! use std::sync::Mutex;
//! use idem_core::{Failed, State, executor::ExecutionKind, idempotent};
//! use idem_testing::{CrashPoint, Message, Setup, assert_idempotent};
//! # use std::{collections::BTreeMap, sync::Arc};
//! # use serde::{Deserialize, Serialize};
//!
//! #[derive(Serialize, Deserialize)]
//! struct OrderPlaced { order_id: String, amount_cents: i64 }
//!
//! /// Instead of the real one: it takes a charge of the same order for the same charge.
//! #[derive(Clone, Default)]
//! struct Bank(Arc<Mutex<BTreeMap<String, i64>>>);
//!
//! // The scope is durable: it stands in every key.
//! #[idempotent(key = "order_id", scope = "orders.charge")]
//! async fn charge(order: OrderPlaced, State(bank): State<Bank>) -> Result<(), Failed> {
//!     bank.0.lock().unwrap().insert(order.order_id, order.amount_cents);
//!     Ok(())
//! }
//!
//! #[tokio::test(start_paused = true)]
//! async fn an_order_is_charged_once() {
//!     let harness = Setup::new(Bank::default).handler::<charge>();
//!     let order = Message::json(&OrderPlaced { order_id: "o-17".into(), amount_cents: 1250 });
//!
//!     harness.crash(CrashPoint::BeforeCompletion, &order).await;
//!     let again = harness.deliver_until_done(&order.redelivered()).await;
//!     assert_eq!((again.kind(), again.attempt()), (ExecutionKind::Executed, Some(2)));
//!
//!     let copy = harness.deliver(&order).await;
//!     assert_eq!(copy.kind(), ExecutionKind::Duplicate);
//!
//!     assert_idempotent(&harness, &order, async |run| run.state().0.lock().unwrap().clone()).await;
//! }
//! ```
//!
//! # Why functions, and no attribute
//! A test stays what its reader knows: `#[tokio::test(start_paused = true)]`, `let`, `assert_eq!`. What is
//! delivered, and what is looked at, are values that a test can name, share and compare; an attribute would
//! hide both behind a language of its own. A clock that is not paused is a panic that says what to write.
//!
//! # What it cannot show
//! It crashes a worker where a worker can be interrupted: at each store call, and at each `.await` of the
//! handler that has to wait. A stand-in for a service that answers at once is no such place: let it
//! `tokio::task::yield_now().await` where the real one would be waited for.
//!
//! | handler | runs on | what is left to show |
//! |---|---|---|
//! | leased | the memory store, which keeps all rules of [`Store`](idem_core::Store) | how long its store keeps what it was told |
//! | atomic, `&mut SqliteConnection` | [`Setup::sqlite`] (feature `sqlite`), a temporary file | |
//! | atomic, `&mut PgConnection`; `recorded_by` | [`Setup::postgres`] (feature `postgres`), a server of yours | |
//! | with a pool in its state | the same; [`Setup::state`] makes the pool of the harness's database | |
//! | with `group` | the same; [`Harness::deliver_together`] fills a group | what a crash does to a group |
//! | with `batch` | as without; [`Harness::deliver_together`] fills a batch, [`Harness::crash_together`] crashes in one, [`assert_idempotent_together`] tries all of it | |
// docs/decisions/0039

#[cfg(feature = "amqp")]
pub mod amqp;
mod batch;
mod catalogue;
mod clock;
pub mod conformance;
mod crash;
mod distinct_keys;
mod faults;
mod faulty_store;
mod ground;
mod group;
mod harness;
#[cfg(feature = "http")]
pub mod http;
mod idempotent;
#[cfg(feature = "kafka")]
pub mod kafka;
mod link;
mod message;
mod probe;
mod process;
mod recorded;
mod rehearsal;
mod report;
mod sessions;
mod setup;
mod together;
mod transactional;
mod watched;

pub use crash::CrashPoint;
pub use distinct_keys::assert_distinct_keys;
pub use faults::Call;
pub use faulty_store::FaultyStore;
#[cfg(any(feature = "sqlite", feature = "postgres"))]
pub use ground::Database;
#[cfg(feature = "postgres")]
pub use ground::OnPostgres;
#[cfg(feature = "sqlite")]
pub use ground::OnSqlite;
pub use ground::{Ground, InMemory};
pub use harness::Harness;
pub use idempotent::assert_idempotent;
pub use message::Message;
pub use rehearsal::{Ending, Rehearsal, RehearsalTogether};
pub use setup::Setup;
pub use together::assert_idempotent_together;

/// A name that no other test has, in any process.
fn unique_name() -> String {
    let mut bytes = [0; 16];
    getrandom::fill(&mut bytes).expect("the system gives random bytes to each process");
    format!("{:032x}", u128::from_be_bytes(bytes))
}

/// The examples of the guide to tests compile, and what they assert holds.
#[cfg(all(
    doctest,
    feature = "amqp",
    feature = "http",
    feature = "kafka",
    feature = "sqlite",
    feature = "postgres"
))]
#[doc = include_str!("../../docs/testing.md")]
struct Guide;
