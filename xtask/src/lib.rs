//! The tasks behind `cargo xtask …`.
//!
//! | module | holds |
//! |---|---|
//! | [`demo`] | orders, duplicates and a worker killed in the middle: nothing lost, nothing doubled |
//! | [`chaos`] | faults by a seeded schedule under load: nothing lost, nothing doubled, nothing stuck |
//! | [`mod@bench`] | how fast the stores are, beside code written by hand |
//! | [`checks`] | all tests, and all that continuous integration looks at |
//! | [`mutants`] | statements and scripts, changed in one place after the other: a test notices each |

pub mod bench;
mod cargo;
pub mod chaos;
pub mod checks;
pub mod demo;
pub mod mutants;
