//! The tasks behind `cargo xtask …`.
//!
//! | module | holds |
//! |---|---|
//! | [`demo`] | orders, duplicates and a worker killed in the middle: nothing lost, nothing doubled |
//! | [`checks`] | all tests, and all that continuous integration looks at |
//! | [`handed_on`] | tasks that are programs of their own |

mod cargo;
pub mod checks;
pub mod demo;
pub mod handed_on;
