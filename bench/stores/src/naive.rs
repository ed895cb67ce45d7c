//! What people write by hand: look whether the key is there, note that one works on it, note that
//! it is done.
//!
//! It is faster than it would be if it were right: it knows no lease that ends and can be taken over,
//! no fencing, no attempts, and no content to compare.

mod memory;
mod postgres;
mod redis;
mod sqlite;

pub(crate) use self::{
    memory::NaiveMemory, postgres::NaivePostgres, redis::NaiveRedis, sqlite::NaiveSqlite,
};
use crate::Error;

fn not_new(name: &str) -> Error {
    format!("by hand: `{name}` is not new").into()
}

fn not_done(name: &str) -> Error {
    format!("by hand: `{name}` is not done").into()
}
