//! The tasks behind `cargo xtask …`, and the private servers that tests run on.
//!
//! | module | holds |
//! |---|---|
//! | [`demo`] | orders, duplicates and a worker killed in the middle: nothing lost, nothing doubled |
//! | [`chaos`] | faults by a seeded schedule under load: nothing lost, nothing doubled, nothing stuck |
//! | [`mod@bench`] | how fast the stores are, beside code written by hand |
//! | [`checks`] | all tests, and all that continuous integration looks at |
//! | [`development`] | servers that stay until they are taken down |
//! | [`services`] | servers of one's own on free ports, gone when their owner is |
//! | [`mutants`] | statements and scripts, changed in one place after the other: a test notices each |
//! | [`install`] | making sure that a server is there to be started |

pub mod bench;
mod cargo;
pub mod chaos;
pub mod checks;
pub mod demo;
pub mod development;
mod error;
pub mod install;
pub mod mutants;
pub mod services;

pub use error::{Error, Result};
