//! Which modules of a crate name which others, and whether that keeps to the layers of `ARCHITECTURE.md`.
//!
//! A module may name its own row and the rows below. Modules with the same parent may not name each other in a
//! circle, at any depth. A module and what is inside of it are one: they may name each other. Tests are not looked
//! at: a store's tests may run the executor.
//!
//! And which crates a build of `idem-core` takes: see [`Weight`]; and what is public: `surface`.
// docs/decisions/0033

mod graph;
mod names;
mod rows;
mod source;
#[cfg(test)]
mod surface;
mod weight;
mod words;

pub use graph::{circles, upward};
pub use rows::Rows;
pub use source::Crate;
pub use weight::{BUILDS, MOST_ALONE, Weight};
pub use words::found;

/// A module's path in its crate: `["store", "claim"]`. The root is empty.
pub type ModulePath = Vec<String>;

#[cfg(test)]
mod tests;
