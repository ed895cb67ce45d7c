//! Workers on a Kafka that speaks the real protocol: librdkafka's mock cluster; or on the cluster of `KAFKA_URL`.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

mod bed;
mod books;
mod by_mark;
mod crashes;
mod crashing_store;
mod faults;
mod groups;
#[cfg(feature = "metrics")]
mod lag;
mod ordering;
#[allow(
    dead_code,
    unused_variables,
    clippy::unused_async,
    clippy::items_after_statements,
    reason = "it is what a page shows"
)]
mod page;
mod places;
mod reading;
mod retries;
mod settling;
#[cfg(feature = "metrics")]
mod stops;
mod stores;
