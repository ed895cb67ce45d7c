//! The tasks behind `cargo xtask …`.
//!
//! | module | holds |
//! |---|---|
//! | [`checks`] | all tests, and all that continuous integration looks at |
//! | [`programs`] | tasks that are programs of their own |

mod cargo;
pub mod checks;
pub mod programs;
