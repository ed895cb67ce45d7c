//! What measurements of other programs need of this one.

mod completed;
mod memory;

pub use self::{
    completed::fill,
    memory::{peak_memory, resident_memory},
};

type Error = Box<dyn std::error::Error + Send + Sync>;
type Result<T, E = Error> = std::result::Result<T, E>;
