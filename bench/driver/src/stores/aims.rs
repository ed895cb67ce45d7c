//! What the stores should reach, compared with what they did.

use super::{
    super::StoreKind,
    figures::{Crowd, Speed},
};

/// A lone call waits for nobody, so it should not be slower than by hand.
const LONE: f64 = 1.0;
/// How much longer a claim may take in a table with many records.
const SLOWDOWN: f64 = 1.3;

/// A sentence for each aim: whether it was met, and by how much.
pub(crate) fn verdicts(speeds: &[Speed], crowds: &[Crowd]) -> Vec<String> {
    let of_speed = speeds.iter().filter_map(|speed| {
        let aim = least_ratio(speed)?;
        let (store, callers, ratio) = (speed.store.name(), speed.callers, speed.ratio());
        let verdict = verdict(ratio >= aim);
        Some(format!(
            "{verdict}: {store}, {callers} callers: {ratio:.2} times by hand, aim {aim}"
        ))
    });
    let of_crowd = crowds.iter().map(|crowd| {
        let (slowdown, callers) = (crowd.slowdown(), crowd.callers);
        let (verdict, kind) = (verdict(slowdown <= SLOWDOWN), crowd.kind.name());
        format!(
            "{verdict}: postgres, {kind} keys, {callers} callers: {slowdown:.2} times as long among many records, aim {SLOWDOWN}"
        )
    });
    of_speed.chain(of_crowd).collect()
}

fn least_ratio(speed: &Speed) -> Option<f64> {
    match (speed.store, speed.callers) {
        // There is no server to ask and no disk to wait for: what the contract costs is to be seen.
        (StoreKind::Memory, _) => None,
        (_, 1) => Some(LONE),
        (StoreKind::Postgres, 256) => Some(5.0),
        (StoreKind::Redis, 256) => Some(1.5),
        _ => None,
    }
}

fn verdict(is_met: bool) -> &'static str {
    if is_met { "met" } else { "MISSED" }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::stores::Kind;

    fn speed(store: StoreKind, callers: usize, ops_per_s: f64) -> Speed {
        Speed {
            store,
            callers,
            ops_per_s,
            naive_ops_per_s: 100.0,
            ratios: (0.0, 0.0),
        }
    }

    #[test]
    fn an_aim_is_met_or_missed() {
        let speeds = [
            speed(StoreKind::Memory, 1, 10.0),
            speed(StoreKind::Sqlite, 1, 100.0),
            speed(StoreKind::Postgres, 256, 499.0),
            speed(StoreKind::Redis, 64, 10.0),
        ];
        let crowd = Crowd {
            kind: Kind::New,
            callers: 1,
            few: (10, 140.0),
            many: (1_000, 100.0),
        };
        assert_eq!(
            verdicts(&speeds, &[crowd]),
            [
                "met: sqlite, 1 callers: 1.00 times by hand, aim 1",
                "MISSED: postgres, 256 callers: 4.99 times by hand, aim 5",
                "MISSED: postgres, new keys, 1 callers: 1.40 times as long among many records, aim 1.3",
            ]
        );
    }
}
