//! How long sessions live, against how long clients may be cut off.

use std::time::Duration;

use idem_core::store::Finding;

use crate::doctor::{Diagnosis, QueueFacts, span::Span};

pub(super) const SESSION_LIFE: &str = "session-life";

/// A client notices a dead link within 20 s, and has a new one within 10 s; a broker that is started
/// again takes its time, too.
const RECONNECTED: Duration = Duration::from_mins(1);

pub(super) fn look(known: &QueueFacts) -> Option<Diagnosis> {
    let life = known.checked.life.filter(|life| *life < RECONNECTED)?;
    let name = known.queue().name();
    Some(Diagnosis::reported(Finding::warning(
        SESSION_LIFE,
        format!(
            "sessions of `{name}` end after {} without a sign of life, sooner than a client may be back \
             whose connection was lost: it would not know what became of its requests; let them live \
             for a minute or more with `Sessions::life`",
            Span(life)
        ),
    )))
}
