//! Handling a message once without RabbitMQ: what a worker does for each delivery, as one call.
//!
//! You need it where messages come from elsewhere (an HTTP request, a timer, a file), and for the
//! types in which a worker reports how a message ended ([`ExecutionKind`], [`Cause`]).
//!
//! ```
//! use idem_amqp::{Failed, Key, MemoryStore, Policy, executor::{Execution, Executor}};
//!
//! # tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(async {
//! let executor = Executor::new(MemoryStore::new());
//! let key = Key::new("reports.send", "2026-11")?;
//! let sent = executor.execute(key, &Policy::DEFAULT, async |_attempt| Ok::<_, Failed>("sent"));
//! assert!(matches!(sent.await, Execution::Executed { .. }));
//! # Ok::<_, idem_amqp::message::KeyError>(()) }).unwrap();
//! ```

#[doc(inline)]
pub use idem_core::executor::{
    Cause, Execution, ExecutionKind, Executor, Lateness, Prepared, RunsOn, SequenceWait,
    UnprotectedStats,
};
