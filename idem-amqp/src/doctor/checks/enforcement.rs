//! Handlers that are only observed.

use idem_core::{handler::Enforcement, store::Finding};

use crate::doctor::{Diagnosis, QueueFacts};

pub(super) const OBSERVED: &str = "observed";

pub(super) fn look(known: &QueueFacts) -> Option<Diagnosis> {
    let observes = known.checked.policy.enforcement() == Enforcement::Observe;
    observes.then(|| {
        let name = known.queue().name();
        Diagnosis::reported(Finding::warning(
            OBSERVED,
            format!(
                "the handler of `{name}` is only observed: copies of its messages run; when what would \
                 have been suppressed is what you expect, leave `enforcement = \"observe\"` out, or accept that \
                 with `.accept(\"{OBSERVED}\")`"
            ),
        ))
    })
}
