//! Who came how far: the medians of what was measured.

use serde::Serialize;

use super::{super::median::median, Contestant, Finish, plan::Heat, setting::Setting};

/// Every finish.
#[derive(Debug, Default)]
pub(crate) struct Figures(Vec<(Heat, Finish)>);

/// One contestant under one setting.
#[derive(Clone, Debug, Serialize, PartialEq)]
pub(crate) struct Standing {
    #[serde(flatten)]
    pub(crate) setting: Setting,
    pub(crate) contestant: Contestant,
    /// The median of the rounds.
    pub(crate) msgs_per_s: f64,
    /// Of each round.
    pub(crate) rounds: Vec<f64>,
    /// How many times as fast as the baseline, by the medians.
    pub(crate) ratio: f64,
    /// The least and the greatest ratio of one round.
    pub(crate) ratios: (f64, f64),
    /// In each round.
    pub(crate) executions: u32,
}

impl Standing {
    pub(crate) fn slowest(&self) -> f64 {
        self.rounds.iter().copied().fold(f64::INFINITY, f64::min)
    }

    pub(crate) fn fastest(&self) -> f64 {
        self.rounds.iter().copied().fold(0.0, f64::max)
    }
}

impl Figures {
    pub(crate) fn add(&mut self, heat: Heat, finish: Finish) {
        self.0.push((heat, finish));
    }

    /// Where each of them stands under this setting, in the order given.
    pub(crate) fn standings(&self, setting: Setting, contestants: &[Contestant]) -> Vec<Standing> {
        let base = self.rounds(setting, Contestant::BASELINE);
        let stands = |&contestant| self.standing(setting, contestant, &base);
        contestants.iter().filter_map(stands).collect()
    }

    fn standing(&self, setting: Setting, contestant: Contestant, base: &[f64]) -> Option<Standing> {
        let rounds = self.rounds(setting, contestant);
        let msgs_per_s = median(rounds.iter().copied())?;
        let ratios = || rounds.iter().zip(base).map(|(own, base)| own / base);
        Some(Standing {
            setting,
            contestant,
            msgs_per_s,
            ratio: msgs_per_s / median(base.iter().copied())?,
            ratios: (
                ratios().fold(f64::INFINITY, f64::min),
                ratios().fold(0.0, f64::max),
            ),
            executions: self.of(setting, contestant).next()?.1.executions,
            rounds,
        })
    }

    /// Messages per second, the first round first.
    fn rounds(&self, setting: Setting, contestant: Contestant) -> Vec<f64> {
        let mut finishes: Vec<_> = self.of(setting, contestant).collect();
        finishes.sort_by_key(|(heat, _)| heat.round);
        finishes.iter().map(|(_, end)| end.per_second()).collect()
    }

    fn of(
        &self,
        setting: Setting,
        contestant: Contestant,
    ) -> impl Iterator<Item = &(Heat, Finish)> {
        (self.0.iter())
            .filter(move |(heat, _)| heat.setting == setting && heat.contestant == contestant)
    }
}

#[cfg(test)]
pub(super) mod tests {
    use super::{super::QueueKind, *};

    pub(crate) const SETTING: Setting = Setting {
        queue: QueueKind::Classic,
        prefetch: 256,
    };

    /// A round each per pair of contestant and messages per second.
    pub(crate) fn figures(rounds: &[(Contestant, u32)]) -> Figures {
        let mut figures = Figures::default();
        for (round, &(contestant, messages)) in (0..).zip(rounds) {
            let heat = Heat {
                setting: SETTING,
                round,
                contestant,
            };
            let finish = Finish {
                messages,
                executions: 9,
                seconds: 1.0,
            };
            figures.add(heat, finish);
        }
        figures
    }

    #[test]
    fn a_contestant_stands_where_the_medians_put_it() {
        use Contestant::{IdemMemory, LapinAckEach};
        let figures = figures(&[
            (LapinAckEach, 100),
            (IdemMemory, 300),
            (IdemMemory, 200),
            (LapinAckEach, 120),
            (LapinAckEach, 80),
            (IdemMemory, 160),
        ]);
        let standings = figures.standings(SETTING, &[IdemMemory, Contestant::IdemRedis]);
        let [ours] = &standings[..] else {
            panic!("{standings:?}");
        };
        assert_eq!(ours.rounds, [300.0, 200.0, 160.0]);
        assert!((ours.msgs_per_s - 200.0).abs() < 1e-9);
        assert!((ours.ratio - 2.0).abs() < 1e-9);
        assert!((ours.ratios.0 - 200.0 / 120.0).abs() < 1e-9);
        assert!((ours.ratios.1 - 3.0).abs() < 1e-9);
        assert!((ours.slowest() - 160.0).abs() < 1e-9);
        assert!((ours.fastest() - 300.0).abs() < 1e-9);
        assert_eq!(ours.executions, 9);
    }
}
