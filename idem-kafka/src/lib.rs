//! Kafka consumers that handle each record once.
//!
//! A [`KafkaWorker`] reads topics with the handlers, stores and policies of `idem-core`. Where a handler is in a
//! partition is kept in the store, not in Kafka: each start, and each rebalance, goes on from there.
//!
//! ```no_run
//! use idem_core::{Failed, MemoryStore, idempotent};
//! use idem_kafka::{KafkaWorker, Topic};
//!
//! #[derive(serde::Deserialize)]
//! struct OrderPlaced { order_id: String, amount_cents: i64 }
//!
//! #[idempotent(key = "order_id", scope = "orders.charge")]
//! async fn charge(order: OrderPlaced) -> Result<(), Failed> {
//!     println!("charging {} for {}", order.amount_cents, order.order_id);
//!     Ok(())
//! }
//!
//! # async fn run() -> Result<(), Box<dyn std::error::Error>> {
//! let stopped = async { let _ = tokio::signal::ctrl_c().await; };
//! KafkaWorker::builder(MemoryStore::new())
//!     .consume::<charge>(Topic::new("orders"))
//!     .run_until("localhost:9092", stopped)
//!     .await?;
//! # Ok(()) }
//! ```
//!
//! `docs/kafka.md` tells what is promised, and how it is set up.
//!
//! | feature | adds |
//! |---|---|
//! | `sqlite` | `SqliteStore`, and handlers that take `&mut SqliteConnection` |
//! | `postgres` | `PostgresStore`, and handlers that take `&mut PgConnection` |
//! | `redis` | `RedisStore` |
//! | `rustls` | TLS to the servers of these stores; that to Kafka is a feature of `rdkafka` |
//! | `metrics` | counters, gauges and histograms for the facade `metrics`; `docs/kafka.md` and `docs/operations.md` list them |
//! | `testing` | what `idem-testing` stands on: records without a broker |

mod cluster;
mod consumed_topic;
mod error;
mod group;
mod health;
mod lane;
mod partition;
mod publisher;
mod reading;
mod record;
mod runner;
mod tally;
mod telemetry;
#[cfg(test)]
mod test_doubles;
mod topic;
mod worker;

pub use cluster::Cluster;
pub use error::{BuildError, KafkaError, RunError};
pub use health::{Health, PartitionHealth, PartitionState};
pub use idem_core::settlement::{Ladder, OnFailure, Reason, Settlement};
pub use record::Record;
#[cfg(feature = "testing")]
#[doc(hidden)]
pub use record::Undelivered;
pub use tally::{Settled, WorkerStats};
pub use topic::{Order, StartAt, Topic};
pub use worker::{KafkaWorker, KafkaWorkerBuilder};
