//! Who consumes what, and in what order.

use std::fmt;

use clap::ValueEnum as _;

use super::{
    super::arena::Messages,
    Contestant, Options, QueueKind,
    setting::{Delays, Setting},
};

const PREFETCH: [u16; 2] = [256, 1000];

#[derive(Debug)]
pub(crate) struct Plan {
    contestants: Vec<Contestant>,
    settings: Vec<Setting>,
    messages: Messages,
    delays: Delays,
    rounds: u32,
}

/// One queue for one contestant.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Heat {
    pub(crate) setting: Setting,
    pub(crate) round: u32,
    pub(crate) contestant: Contestant,
}

impl Plan {
    pub(crate) fn new(options: &Options) -> Self {
        let quick = options.quick;
        let queues = or(&options.queues, &QueueKind::QUEUES, quick);
        let prefetches = or(&options.prefetch, &PREFETCH, quick);
        let settings = queues.iter().flat_map(|&queue| {
            let with = move |&prefetch| Setting { queue, prefetch };
            prefetches.iter().map(with)
        });
        let takes_part =
            |contestant: Contestant| queues.iter().any(|&queue| contestant.takes(queue));
        let asked_for = |contestant: &Contestant| {
            *contestant == Contestant::BASELINE
                || options.contestant.contains(contestant)
                || options.contestant.is_empty()
                    && !contestant.is_guest()
                    && !contestant.publishes()
                    && takes_part(*contestant)
        };
        let contestants = Contestant::value_variants().iter().copied();
        Self {
            settings: settings.collect(),
            contestants: contestants.filter(asked_for).collect(),
            messages: Messages {
                count: (options.messages).unwrap_or(if quick { 4_000 } else { 50_000 }),
                duplicates: options.duplicates,
            },
            delays: Delays {
                handler_ms: options.handler_ms,
                link_ms: options.link_ms,
            },
            rounds: options.rounds.unwrap_or(if quick { 3 } else { 5 }),
        }
    }

    pub(crate) fn contestants(&self) -> &[Contestant] {
        &self.contestants
    }

    pub(crate) fn messages(&self) -> Messages {
        self.messages
    }

    /// What is in the queue of a heat.
    pub(crate) fn messages_in(&self, queue: QueueKind) -> Messages {
        match queue {
            QueueKind::Classic | QueueKind::Quorum => self.messages,
            // What comes again from a stream has its old offset; a second message is another one.
            QueueKind::Stream => Messages {
                duplicates: 0,
                ..self.messages
            },
        }
    }

    pub(crate) fn delays(&self) -> Delays {
        self.delays
    }

    pub(crate) fn rounds(&self) -> u32 {
        self.rounds
    }

    pub(crate) fn settings(&self) -> &[Setting] {
        &self.settings
    }

    /// Who takes no part under which setting, and why.
    pub(crate) fn left_out(&self) -> impl Iterator<Item = (Setting, Contestant, &'static str)> {
        self.settings.iter().flat_map(move |&setting| {
            let contestants = self.contestants.iter().copied();
            contestants.filter_map(move |contestant| {
                let reason = contestant.cannot(setting.queue)?;
                Some((setting, contestant, reason))
            })
        })
    }

    /// All heats: in each round everyone has a turn, and each round begins with another one, so
    /// that nobody always comes after the same.
    pub(crate) fn heats(&self) -> impl Iterator<Item = Heat> {
        self.settings.iter().flat_map(move |&setting| {
            (0..self.rounds).flat_map(move |round| {
                let first = round as usize * self.contestants.len() / self.rounds as usize;
                let order = self.contestants.iter().cycle().skip(first);
                order
                    .take(self.contestants.len())
                    .filter(move |contestant| contestant.takes(setting.queue))
                    .map(move |&contestant| Heat {
                        setting,
                        round,
                        contestant,
                    })
            })
        })
    }
}

/// What was asked for; if nothing was, all there is, or in a hurry the first.
fn or<T: Copy>(some: &[T], all: &[T], quick: bool) -> Vec<T> {
    match some {
        [] if quick => all[..1].to_vec(),
        [] => all.to_vec(),
        some => some.to_vec(),
    }
}

impl fmt::Display for Heat {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (contestant, round) = (self.contestant.name(), self.round + 1);
        write!(f, "{}, round {round}: {contestant}", self.setting)
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use clap::Parser;

    use super::*;

    #[derive(Parser)]
    struct Line {
        #[command(flatten)]
        options: Options,
    }

    fn plan(line: &str) -> Plan {
        Plan::new(&Line::parse_from(line.split(' ')).options)
    }

    #[test]
    fn a_quick_run_has_one_setting_for_all_contestants() {
        let quick = plan("bench --quick");
        let [setting] = quick.settings() else {
            panic!("{:?}", quick.settings());
        };
        assert_eq!(setting.to_string(), "classic queue, prefetch 256");
        let at_home = Contestant::value_variants().iter().copied();
        let at_home =
            at_home.filter(|it| !it.is_guest() && !it.publishes() && it.takes(QueueKind::Classic));
        assert_eq!(quick.contestants(), at_home.collect::<Vec<_>>());
        assert_eq!(plan("bench").settings().len(), 4);
    }

    #[test]
    fn a_guest_takes_part_if_it_is_named() {
        let invited = plan("bench --contestant mq-bridge-sqlite,idem-sqlite");
        let expected = [
            Contestant::LapinAckEach,
            Contestant::MqBridgeSqlite,
            Contestant::IdemSqlite,
        ];
        assert_eq!(invited.contestants(), expected);
    }

    #[test]
    fn who_cannot_consume_a_quorum_queue_is_left_out_there() {
        let plan = plan("bench --contestant mq-bridge-memory --prefetch 16 --rounds 1");
        let heats: Vec<_> = plan.heats().map(|heat| heat.to_string()).collect();
        assert_eq!(
            heats,
            [
                "classic queue, prefetch 16, round 1: lapin-ack-each",
                "classic queue, prefetch 16, round 1: mq-bridge-memory",
                "quorum queue, prefetch 16, round 1: lapin-ack-each",
            ]
        );
        let out: Vec<_> = plan.left_out().map(|(at, who, _)| (at, who)).collect();
        assert_eq!(out, [(plan.settings()[1], Contestant::MqBridgeMemory)]);
    }

    #[test]
    fn a_stream_has_no_copies_and_readers_of_its_own() {
        let plan = plan("bench --queues stream --prefetch 256 --rounds 1");
        assert!(plan.contestants().contains(&Contestant::IdemPostgresByMark));
        assert!(!plan.contestants().contains(&Contestant::LapinNoAck));
        assert_eq!(plan.left_out().count(), 0);
        assert_eq!(plan.messages_in(QueueKind::Stream).duplicates, 0);
        assert_eq!(plan.messages_in(QueueKind::Classic).duplicates, 10);
        let first = plan.heats().next().map(|heat| heat.to_string());
        assert_eq!(
            first.as_deref(),
            Some("stream without copies, prefetch 256, round 1: lapin-ack-each")
        );
    }

    #[test]
    fn the_one_to_compare_with_is_always_there() {
        let few = plan("bench --contestant idem-redis,naive-redis --queues quorum --prefetch 16");
        let expected = [
            Contestant::LapinAckEach,
            Contestant::NaiveRedis,
            Contestant::IdemRedis,
        ];
        assert_eq!(few.contestants(), expected);
        assert_eq!(few.settings()[0].to_string(), "quorum queue, prefetch 16");
    }

    #[test]
    fn a_tenth_of_the_messages_are_copies_unless_it_is_said_otherwise() {
        assert_eq!(plan("bench").messages().duplicates, 10);
        assert_eq!(plan("bench --duplicates 0").messages().duplicates, 0);
    }

    #[test]
    fn everyone_has_a_turn_in_each_round_and_another_one_is_first() {
        let plan = plan("bench --quick --rounds 3");
        let heats: Vec<_> = plan.heats().collect();
        let everyone = plan.contestants().len();
        assert_eq!(heats.len(), 3 * everyone);
        let mut first = HashSet::new();
        for round in heats.chunks(everyone) {
            first.insert(round[0].contestant);
            let turns: HashSet<_> = round.iter().map(|heat| heat.contestant).collect();
            assert_eq!(turns.len(), everyone);
        }
        assert_eq!(first.len(), 3);
    }
}
