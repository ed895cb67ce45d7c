//! Where numbered messages wait for an earlier one, and for how long.

use std::time::Duration;

use idem_core::store::Finding;

use crate::doctor::{Diagnosis, Gaps, QueueFacts};

pub(super) const SEQUENCE_WITHOUT_LADDER: &str = "sequence-without-ladder";
pub(super) const SEQUENCE_SKIPS_SOON: &str = "sequence-skips-soon";

/// What waits asks about once a minute, and a gap is skipped only if it never pauses for half of the
/// time.
const LONG_ENOUGH: Duration = Duration::from_mins(3);

pub(super) fn gaps(known: &QueueFacts) -> Option<Diagnosis> {
    let Some(Gaps::SkippedAfter(patience)) = known.checked.numbered else {
        return None;
    };
    if patience >= LONG_ENOUGH {
        return None;
    }
    let name = known.queue().name();
    Some(Diagnosis::reported(Finding::warning(
        SEQUENCE_SKIPS_SOON,
        format!(
            "the handler of `{name}` skips numbers that are missing after {} s, but a message that \
             waits for one may ask no more than once a minute: then none is skipped, and the sequence \
             stands still; set `skip_gaps_after` to 3 min or more, or accept \
             this with `.accept(\"{SEQUENCE_SKIPS_SOON}\")`",
            patience.as_secs_f64()
        ),
    )))
}

pub(super) fn ladder(known: &QueueFacts) -> Option<Diagnosis> {
    let queue = known.queue();
    if known.checked.numbered.is_none() || queue.has_ladder() {
        return None;
    }
    let name = queue.name();
    let waiting = queue.waiting();
    Some(Diagnosis::reported(Finding::warning(
        SEQUENCE_WITHOUT_LADDER,
        format!(
            "the messages of `{name}` are numbered, and it has no retry ladder: if more of them than \
             {waiting} wait for an earlier number, and that is behind them, the queue \
             may stand still; give it one with `.ladder(Ladder::default())`, raise `.max_waiting(…)`, or accept this with `.accept(\"{SEQUENCE_WITHOUT_LADDER}\")`"
        ),
    )))
}
