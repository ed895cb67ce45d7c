//! The model: what a store that keeps sequences must answer, written from the contract alone.

use std::collections::{BTreeMap, BTreeSet};

use idem_core::store::{Claim, Lease, Write};

use super::call::{Ask, LEASE, PATIENCE, REFUSED, RETENTION, WINDOW};

/// A number of a producer.
pub(crate) type Message = (u8, u64);

/// All that a store is expected to know, with times in units.
#[derive(Debug, Default)]
pub(crate) struct Oracle {
    now: u32,
    sequences: BTreeMap<u8, Sequence>,
    records: BTreeMap<Message, Record>,
}

#[derive(Debug, Clone, Default)]
struct Sequence {
    joined: u64,
    mark: u64,
    /// Since when claims that skip have been ahead, and when the last of them was.
    ahead: Option<(u32, u32)>,
    look_by: u32,
    expires_at: u32,
    exceptions: BTreeSet<u64>,
}

#[derive(Debug, Clone, Copy)]
struct Record {
    token: i64,
    attempts: u32,
    in_doubt: bool,
    owner: u8,
    forget_at: u32,
    phase: Phase,
}

#[derive(Debug, Clone, Copy, PartialEq)]
enum Phase {
    Working { until: u32 },
    Done { outcome: u8 },
    Failed,
    GivenUp,
    Quarantined,
}

/// The answer to a claim.
#[derive(Debug, PartialEq)]
pub(crate) enum Expected {
    Acquired {
        /// If it was acquired before by this owner.
        token: Option<i64>,
        attempt: u32,
        in_doubt: bool,
    },
    Held,
    Completed(u8),
    Done,
    Quarantined,
    Late,
    Ahead {
        mark: u64,
    },
}

impl Oracle {
    pub(crate) fn advance(&mut self, by: u32) {
        self.now += by;
    }

    pub(crate) fn claim(&mut self, ask: Ask, number: u64) -> Expected {
        let now = self.now;
        let message = (ask.producer, number);
        let window = u64::from(WINDOW);
        let known = self.sequences.get(&ask.producer).cloned();
        let sequence = match known.filter(|known| now < known.expires_at) {
            Some(mut known) => {
                let due = number >= known.mark && known.look_by <= now;
                if number >= known.mark + window / 2 || due {
                    self.look(ask, number, &mut known);
                }
                known
            }
            None if ask.replay => return self.ordinary(ask, message),
            None => Self::begun(number, now),
        };
        self.sequences.insert(ask.producer, sequence.clone());
        let mark = sequence.mark;
        match () {
            () if number < sequence.joined => self.ordinary(ask, message),
            () if number < mark => self.below(ask, message, &sequence),
            () if number < mark + window => self.ordinary(ask, message),
            () => Expected::Ahead { mark },
        }
    }

    fn begun(number: u64, now: u32) -> Sequence {
        Sequence {
            joined: number,
            mark: number,
            ahead: None,
            look_by: now + RETENTION / 8,
            expires_at: now + RETENTION,
            exceptions: BTreeSet::new(),
        }
    }

    fn look(&mut self, ask: Ask, number: u64, sequence: &mut Sequence) {
        let now = self.now;
        let began_at = sequence.mark;
        let end = number.min(began_at + u64::from(WINDOW));
        self.pass(ask.producer, end, sequence);
        let is_ahead = number >= began_at + u64::from(WINDOW);
        if sequence.mark > began_at {
            sequence.ahead = None;
        } else if is_ahead && ask.skips {
            let since = match sequence.ahead {
                Some((since, last)) if now - last < PATIENCE / 2 => since,
                _ => now,
            };
            sequence.ahead = Some((since, now));
            if now - since >= PATIENCE && self.record((ask.producer, began_at)).is_none() {
                sequence.ahead = None;
                self.skip(ask.producer, end, sequence);
            }
        }
        if sequence.look_by <= now {
            sequence.look_by = now + RETENTION / 8;
            sequence.expires_at = now + RETENTION;
            for kept in sequence.mark..sequence.mark + u64::from(WINDOW) {
                let ended = |record: &Record| {
                    !matches!(record.phase, Phase::Working { .. } | Phase::Failed)
                };
                if let Some(mut record) = self.record((ask.producer, kept)).filter(ended) {
                    record.forget_at = record.forget_at.max(sequence.expires_at);
                    self.records.insert((ask.producer, kept), record);
                }
            }
        }
    }

    fn skip(&mut self, producer: u8, end: u64, sequence: &mut Sequence) {
        let mut window = (sequence.mark..end).rev();
        let last = window.find(|number| self.record((producer, *number)).is_some());
        while sequence.mark < last.unwrap_or(end)
            && self.record((producer, sequence.mark)).is_none()
        {
            sequence.exceptions.insert(sequence.mark);
            sequence.mark += 1;
            self.pass(producer, end, sequence);
        }
    }

    fn pass(&mut self, producer: u8, end: u64, sequence: &mut Sequence) {
        while sequence.mark < end {
            let mark = sequence.mark;
            match self.record((producer, mark)).map(|record| record.phase) {
                Some(Phase::Done { outcome: REFUSED } | Phase::GivenUp | Phase::Quarantined) => {
                    sequence.exceptions.insert(mark);
                }
                Some(Phase::Done { .. }) => {
                    self.records.remove(&(producer, mark));
                }
                Some(Phase::Working { .. } | Phase::Failed) | None => return,
            }
            sequence.mark += 1;
        }
    }

    fn below(&mut self, ask: Ask, message: Message, sequence: &Sequence) -> Expected {
        let phase = self.record(message).map(|record| record.phase);
        let is_done = !sequence.exceptions.contains(&message.1);
        match phase {
            None if is_done => Expected::Done,
            None | Some(Phase::GivenUp) if !ask.replay => Expected::Late,
            _ => self.ordinary(ask, message),
        }
    }

    fn ordinary(&mut self, ask: Ask, message: Message) -> Expected {
        let Some(record) = self.record(message) else {
            return Expected::Acquired {
                token: None,
                attempt: 1,
                in_doubt: false,
            };
        };
        let acquired = |attempt, in_doubt| Expected::Acquired {
            token: None,
            attempt,
            in_doubt,
        };
        let next = if ask.replay { 1 } else { record.attempts + 1 };
        match record.phase {
            Phase::Done { outcome } => Expected::Completed(outcome),
            Phase::Working { .. } if record.owner == ask.owner => Expected::Acquired {
                token: Some(record.token),
                attempt: record.attempts,
                in_doubt: record.in_doubt,
            },
            Phase::Working { until } if until > self.now => Expected::Held,
            Phase::Working { .. } => acquired(next, true),
            _ if record.owner == ask.owner => Expected::Held,
            Phase::Quarantined if ask.replay => acquired(1, false),
            Phase::Quarantined => Expected::Quarantined,
            Phase::Failed | Phase::GivenUp => acquired(next, record.in_doubt),
        }
    }

    /// Takes note of what the store has answered, which must be what was expected.
    pub(crate) fn note(&mut self, ask: Ask, message: Message, answer: &Claim) {
        let Claim::Acquired(lease) = answer else {
            return;
        };
        let mut until = self.now + LEASE;
        if let Some(old) = self.record(message)
            && let Phase::Working { until: held } = old.phase
            && old.owner == ask.owner
        {
            until = until.max(held);
        }
        let record = Record {
            token: lease.token.get(),
            attempts: lease.attempt,
            in_doubt: lease.in_doubt,
            owner: ask.owner,
            forget_at: until + RETENTION,
            phase: Phase::Working { until },
        };
        self.records.insert(message, record);
    }

    /// A write; without a lease that is the current one, only a repeat of what ended it applies.
    fn write(&mut self, of: Message, lease: &Lease, ends: Phase) -> Write {
        let now = self.now;
        let record = self.records.get_mut(&of);
        let Some(record) = record.filter(|record| record.token == lease.token.get()) else {
            return Write::Fenced;
        };
        if matches!(record.phase, Phase::Working { .. }) {
            record.phase = ends;
            record.forget_at = now + RETENTION;
            match ends {
                Phase::Failed => record.in_doubt = false,
                Phase::GivenUp => {
                    record.in_doubt = false;
                    record.attempts = 0;
                }
                _ => {}
            }
            return Write::Applied;
        }
        let same = std::mem::discriminant(&record.phase) == std::mem::discriminant(&ends);
        if same { Write::Applied } else { Write::Fenced }
    }

    pub(crate) fn complete(&mut self, of: Message, lease: &Lease, outcome: u8) -> Write {
        self.write(of, lease, Phase::Done { outcome })
    }

    pub(crate) fn fail(&mut self, of: Message, lease: &Lease) -> Write {
        self.write(of, lease, Phase::Failed)
    }

    pub(crate) fn give_up(&mut self, of: Message, lease: &Lease) -> Write {
        self.write(of, lease, Phase::GivenUp)
    }

    pub(crate) fn quarantine(&mut self, of: Message, lease: &Lease) -> Write {
        self.write(of, lease, Phase::Quarantined)
    }

    /// What a store was told to forget is gone: writes find nothing.
    pub(crate) fn forget(&mut self) {
        let now = self.now;
        self.records.retain(|_, record| record.forget_at > now);
    }

    fn record(&self, message: Message) -> Option<Record> {
        let record = self.records.get(&message).copied();
        record.filter(|record| record.forget_at > self.now)
    }
}
