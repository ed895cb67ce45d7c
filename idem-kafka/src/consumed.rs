//! A topic with its handler, without types.

use std::sync::Arc;

use crate::{Topic, publisher::Publisher, runner::RunHandler};

/// A topic with its handler; or the topic in which its records wait for another attempt.
pub(crate) struct Consumed {
    pub(crate) topic: Topic,
    pub(crate) dead_letters: String,
    pub(crate) retries: Option<String>,
    /// Whether it is a retry topic itself.
    pub(crate) is_retries: bool,
    pub(crate) runner: Arc<dyn RunHandler>,
    pub(crate) publisher: Publisher,
}
