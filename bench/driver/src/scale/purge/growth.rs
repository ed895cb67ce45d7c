//! Whether what waits to be purged grows.

use super::Backlog;

/// For less than so many seconds it cannot be said.
pub(super) const WINDOW: f64 = 3.0;
/// What does not grow has at most so many times the peak that it had before; what grows evenly
/// has twice.
const GROWTH: f64 = 1.5;

/// Whether what waits to be purged has grown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Growth {
    Grows,
    KeepsUp,
    /// It was over too soon.
    Unknown,
}

/// Compares the peaks of both halves of the time in which records had ended.
pub(super) fn growth(backlog: &[Backlog]) -> Growth {
    let first = backlog.iter().find(|backlog| backlog.expired > 0);
    let (Some(first), Some(last)) = (first, backlog.last()) else {
        return Growth::Unknown;
    };
    if last.seconds - first.seconds < WINDOW {
        return Growth::Unknown;
    }
    let middle = f64::midpoint(first.seconds, last.seconds);
    let (before, after): (Vec<_>, Vec<_>) =
        (backlog.iter()).partition(|backlog| backlog.seconds < middle);
    if peak(&after) > peak(&before) * GROWTH {
        Growth::Grows
    } else {
        Growth::KeepsUp
    }
}

#[expect(
    clippy::cast_precision_loss,
    reason = "no backlog is so long that it matters"
)]
fn peak(half: &[&Backlog]) -> f64 {
    let peak = half.iter().map(|backlog| backlog.expired).max();
    peak.unwrap_or_default() as f64
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;

    /// Counted each second.
    pub(crate) fn backlog(counts: &[u64]) -> Vec<Backlog> {
        let backlog = |(seconds, &expired): (u32, _)| Backlog {
            seconds: f64::from(seconds),
            expired,
        };
        (0..).zip(counts).map(backlog).collect()
    }

    #[test]
    fn what_goes_up_and_down_does_not_grow() {
        let cases: [(&[u64], _); 6] = [
            (&[0, 0, 100, 900, 100, 1000, 200, 1100], Growth::KeepsUp),
            (&[0, 0, 100, 200, 300, 400, 500, 600], Growth::Grows),
            (&[0, 100, 900, 100, 1000, 800, 1700, 1600], Growth::Grows),
            (&[0, 0, 0, 100, 200, 300], Growth::Unknown),
            (&[0, 0, 0, 0, 0, 0], Growth::Unknown),
            (&[], Growth::Unknown),
        ];
        for (counts, expected) in cases {
            assert_eq!(growth(&backlog(counts)), expected, "{counts:?}");
        }
    }
}
