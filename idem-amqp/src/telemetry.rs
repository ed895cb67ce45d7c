//! What operators see of a worker: the one place of its metrics and spans. Those of the engine are
//! `idem-core`'s.
//!
//! `docs/operations.md` says what each metric means. Handles are registered once, when a handler is consumed
//! and when a worker is built: an application installs its recorder before that.

mod links;
mod meters;

pub(crate) use links::Links;
pub(crate) use meters::{Meters, Seats};
