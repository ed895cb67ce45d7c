//! The queue of orders that every measured consumer gets, and the check of what it did with them.
//!
//! It knows no consumer and no store, so that a program whose dependencies do not get on with ours can
//! be measured like the others: on the same messages, by the same clock, with the same check.

mod course;
mod fill;
mod order;
mod place;
mod sequence;
mod stopwatch;
mod tally;

pub use self::{
    course::{Options, measure, nothing_is_left},
    fill::fill,
    order::{BYTES, Order, body, id},
    place::Place,
    stopwatch::Stopwatch,
    tally::Tally,
};

/// What stops a measurement; there is nobody to tell kinds apart.
pub type Error = Box<dyn std::error::Error + Send + Sync>;

/// The result of a part of a measurement.
pub type Result<T, E = Error> = std::result::Result<T, E>;
