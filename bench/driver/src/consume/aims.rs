//! What idem's consumers should reach, compared with what they did.

use super::{Contestant, QueueKind, figures::Standing};

/// One contestant is to be so many times as fast as another.
struct Aim {
    who: Contestant,
    than: Contestant,
    times: f64,
}

const AIMS: [Aim; 19] = [
    aim(Contestant::IdemMemory, Contestant::BASELINE, 3.5),
    aim(Contestant::IdemMemory, Contestant::LapinTaskEach, 1.0),
    aim(Contestant::IdemMemoryOrdered, Contestant::IdemMemory, 0.8),
    aim(Contestant::IdemSqlite, Contestant::BASELINE, 1.2),
    aim(Contestant::IdemRedis, Contestant::BASELINE, 2.6),
    aim(Contestant::IdemPostgres, Contestant::BASELINE, 1.3),
    aim(
        Contestant::IdemPostgresOrdered,
        Contestant::IdemPostgres,
        0.8,
    ),
    aim(
        Contestant::IdemPostgresAtomic,
        Contestant::HandwrittenPostgresAtomic,
        1.0,
    ),
    aim(
        Contestant::IdemPostgresGrouped,
        Contestant::HandwrittenPostgresSavepoints,
        1.0,
    ),
    aim(Contestant::IdemSqliteAtomic, Contestant::BASELINE, 0.8),
    aim(
        Contestant::IdemSqliteAtomic,
        Contestant::HandwrittenSqliteAtomic,
        1.0,
    ),
    aim(
        Contestant::IdemSqliteAtomic,
        Contestant::HandwrittenSqliteSavepoints,
        1.0,
    ),
    aim(Contestant::IdemSqliteBatch, Contestant::BASELINE, 1.6),
    aim(Contestant::IdemRedisBatch, Contestant::BASELINE, 3.2),
    aim(Contestant::IdemPostgresBatch, Contestant::BASELINE, 1.6),
    aim(
        Contestant::IdemPostgresBatch,
        Contestant::HandwrittenPostgresSetwise,
        0.85,
    ),
    aim(Contestant::IdemMemory, Contestant::MqBridgeMemory, 1.0),
    aim(Contestant::IdemSqlite, Contestant::MqBridgeSqlite, 1.0),
    aim(Contestant::IdemPostgres, Contestant::MqBridgePostgres, 1.0),
];

/// Those of a stream.
const OF_STREAMS: [Aim; 4] = [
    aim(Contestant::IdemPostgres, Contestant::LapinAckTogether, 0.8),
    aim(
        Contestant::IdemPostgresBatch,
        Contestant::LapinAckTogether,
        0.5,
    ),
    aim(
        Contestant::IdemPostgresByMark,
        Contestant::LapinAckTogether,
        0.5,
    ),
    aim(
        Contestant::IdemPostgresByMark,
        Contestant::HandwrittenPostgresOffset,
        0.9,
    ),
];

const fn aim(who: Contestant, than: Contestant, times: f64) -> Aim {
    Aim { who, than, times }
}

/// A sentence for each aim of contestants under one setting: whether it was met, and by how much.
pub(crate) fn verdicts(standings: &[Standing]) -> Vec<String> {
    let of = |contestant| {
        let mut standings = standings.iter();
        standings.find(|standing| standing.contestant == contestant)
    };
    let verdict = |&Aim { who, than, times }: &Aim| {
        let (who, than) = (of(who)?, of(than)?);
        let ratio = who.msgs_per_s / than.msgs_per_s;
        let verdict = if ratio >= times { "met" } else { "MISSED" };
        Some(format!(
            "{verdict}: {}, {}: {ratio:.2} times {}, aim {times}",
            who.contestant.name(),
            who.setting,
            than.contestant.name()
        ))
    };
    let is_stream = standings
        .iter()
        .any(|it| it.setting.queue == QueueKind::Stream);
    let aims: &[Aim] = if is_stream { &OF_STREAMS } else { &AIMS };
    aims.iter().filter_map(verdict).collect()
}

#[cfg(test)]
mod tests {
    use super::{
        super::figures::tests::{SETTING, figures},
        *,
    };

    #[test]
    fn an_aim_is_met_or_missed() {
        use Contestant::{HandwrittenPostgresAtomic, IdemMemory, IdemPostgresAtomic, LapinAckEach};
        let contestants = [
            LapinAckEach,
            HandwrittenPostgresAtomic,
            IdemMemory,
            IdemPostgresAtomic,
        ];
        let figures = figures(&[
            (LapinAckEach, 100),
            (HandwrittenPostgresAtomic, 10),
            (IdemMemory, 349),
            (IdemPostgresAtomic, 10),
        ]);
        assert_eq!(
            verdicts(&figures.standings(SETTING, &contestants)),
            [
                "MISSED: idem-memory, classic queue, prefetch 256: 3.49 times lapin-ack-each, aim 3.5",
                "met: idem-postgres-atomic, classic queue, prefetch 256: 1.00 times handwritten-postgres-atomic, aim 1",
            ]
        );
    }
}
