//! The tasks behind `cargo xtask …`.
//!
//! | module | holds |
//! |---|---|
//! | [`checks`] | all tests, and all that continuous integration looks at |
//! | [`handed_on`] | tasks that are programs of their own |

mod cargo;
pub mod checks;
pub mod handed_on;
