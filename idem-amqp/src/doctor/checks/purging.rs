//! Who removes what need not be remembered.

use idem_core::store::Finding;

use crate::doctor::{Diagnosis, Facts};

pub(super) fn look(facts: &Facts) -> Option<Diagnosis> {
    facts.left_to_others.then(|| {
        Diagnosis::reported(Finding::note(
            "not-purged",
            "this worker does not purge its store (`purge_never`): keys whose retention has ended stay for ever, unless \
             another worker, a `PurgeTask` or a scheduled `idem purge` removes them",
        ))
    })
}
