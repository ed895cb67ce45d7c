//! Private servers on free ports, in folders of their own, that end with whoever started them.
//!
//! Each server is a process group watched by a small shell, which kills the group and removes the
//! folder as soon as its standard input closes: also when the owner was killed with `kill -9`.

mod ports;
pub(crate) mod process_group;
pub mod rabbitmq;
mod watchdog;

pub use rabbitmq::{Broker, QueueState, RabbitMq};
