//! The tasks behind `cargo xtask …`, and the private servers that tests run on.
//!
//! | module | holds |
//! |---|---|
//! | [`services`] | servers of one's own on free ports, gone when their owner is |
//! | [`install`] | making sure that a server is there to be started |

mod error;
pub mod install;
pub mod services;

pub use error::{Error, Result};
