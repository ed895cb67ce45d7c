//! The model: what a store must answer, written from the contract alone.

use std::collections::BTreeMap;

use idem_core::store::{Claim, Lease, Write};

use crate::call::{Ask, Reason};

/// All that a store is expected to know, with times in units.
#[derive(Debug, Default)]
pub(crate) struct Oracle {
    now: u32,
    records: BTreeMap<u8, Known>,
    greatest: BTreeMap<u8, i64>,
}

/// What is known of a key.
#[derive(Debug, Clone)]
struct Known {
    token: i64,
    attempts: u32,
    in_doubt: bool,
    owner: u8,
    content: Option<u8>,
    retention: u32,
    forget_at: u32,
    phase: Phase,
    /// A purge has removed some of several such records, and has not said which.
    perhaps_gone: bool,
}

#[derive(Debug, Clone, Copy, PartialEq)]
enum Phase {
    Working { until: u32 },
    Done { outcome: u8 },
    Free { reason: Reason, due: u32 },
}

/// The answer to a claim, with times in units.
#[derive(Debug, PartialEq)]
pub(crate) enum Expected {
    Acquired {
        token: Token,
        attempt: u32,
        in_doubt: bool,
    },
    Held {
        remaining: u32,
    },
    Completed {
        outcome: u8,
        remaining: u32,
    },
    KeyReused,
    Quarantined,
}

/// The token of a lease.
#[derive(Debug, PartialEq)]
pub(crate) enum Token {
    Same(i64),
    GreaterThan(i64),
}

impl Oracle {
    pub(crate) fn advance(&mut self, by: u32) {
        self.now += by;
    }

    /// What a claim must be answered.
    pub(crate) fn expect(&self, ask: &Ask) -> Expected {
        let Some(known) = self.remembered(ask.key) else {
            return self.fresh(ask, 1, false);
        };
        let other_content = matches!((known.content, ask.content), (Some(a), Some(b)) if a != b);
        match known.phase {
            Phase::Done { .. } if other_content => Expected::KeyReused,
            Phase::Done { outcome } => Expected::Completed {
                outcome,
                remaining: known.forget_at - self.now,
            },
            Phase::Working { .. } if known.owner == ask.owner => Expected::Acquired {
                token: Token::Same(known.token),
                attempt: known.attempts,
                in_doubt: known.in_doubt,
            },
            Phase::Working { until } if until > self.now => Expected::Held {
                remaining: until - self.now,
            },
            Phase::Working { .. } if ask.replay => self.fresh(ask, 1, true),
            Phase::Working { .. } => self.fresh(ask, known.attempts + 1, true),
            Phase::Free { .. } if known.owner == ask.owner => Expected::Held { remaining: 0 },
            Phase::Free {
                reason: Reason::Quarantined,
                ..
            } => {
                if ask.replay {
                    self.fresh(ask, 1, false)
                } else {
                    Expected::Quarantined
                }
            }
            Phase::Free { .. } if other_content => Expected::KeyReused,
            Phase::Free { .. } if ask.replay => self.fresh(ask, 1, known.in_doubt),
            Phase::Free { due, .. } if due > self.now => Expected::Held {
                remaining: due - self.now,
            },
            Phase::Free { .. } => self.fresh(ask, known.attempts + 1, known.in_doubt),
        }
    }

    fn fresh(&self, ask: &Ask, attempt: u32, in_doubt: bool) -> Expected {
        let greatest = self.greatest.get(&ask.key).copied().unwrap_or(0);
        Expected::Acquired {
            token: Token::GreaterThan(greatest),
            attempt,
            in_doubt,
        }
    }

    /// Takes note of an answer that was as expected.
    pub(crate) fn note(&mut self, ask: &Ask, answer: &Claim) {
        let Claim::Acquired(lease) = answer else {
            return;
        };
        let old = self.remembered(ask.key).cloned();
        let ends = self.now + ask.lease;
        let repeats = old.as_ref().filter(|old| old.token == lease.token.get());
        let until = match repeats.map(|old| old.phase) {
            Some(Phase::Working { until }) => until.max(ends),
            _ => ends,
        };
        let content = match &old {
            Some(old) if repeats.is_some() => old.content,
            Some(old) if old.is_quarantined() => ask.content,
            Some(old) => ask.content.or(old.content),
            None => ask.content,
        };
        let record = Known {
            token: lease.token.get(),
            attempts: lease.attempt,
            in_doubt: lease.in_doubt,
            owner: ask.owner,
            content,
            retention: ask.retention,
            forget_at: until + ask.retention,
            phase: Phase::Working { until },
            perhaps_gone: false,
        };
        self.greatest.insert(ask.key, record.token);
        self.records.insert(ask.key, record);
    }

    /// Whether `extend` was answered as it must be.
    pub(crate) fn extend(&mut self, key: u8, lease: &Lease, by: u32, answer: Write) -> bool {
        let now = self.now;
        self.write(key, lease, answer, |known| {
            let Phase::Working { .. } = known.phase else {
                return Write::Fenced;
            };
            known.phase = Phase::Working { until: now + by };
            known.forget_at = now + by + known.retention;
            Write::Applied
        })
    }

    /// Whether `complete` was answered as it must be.
    pub(crate) fn complete(
        &mut self,
        key: u8,
        lease: &Lease,
        (outcome, retention): (u8, u32),
        answer: Write,
    ) -> bool {
        let now = self.now;
        self.write(key, lease, answer, |known| match known.phase {
            Phase::Working { .. } => {
                known.phase = Phase::Done { outcome };
                known.retention = retention;
                known.forget_at = now + retention;
                Write::Applied
            }
            Phase::Done { .. } => Write::Applied,
            Phase::Free { .. } => Write::Fenced,
        })
    }

    /// Whether `release` was answered as it must be.
    pub(crate) fn release(
        &mut self,
        key: u8,
        lease: &Lease,
        reason: Reason,
        answer: Write,
    ) -> bool {
        let now = self.now;
        self.write(key, lease, answer, |known| match known.phase {
            Phase::Working { .. } => {
                known.give_back(reason, now);
                Write::Applied
            }
            Phase::Free { reason: before, .. } if before.repeats(reason) => Write::Applied,
            _ => Write::Fenced,
        })
    }

    fn write(
        &mut self,
        key: u8,
        lease: &Lease,
        answer: Write,
        change: impl FnOnce(&mut Known) -> Write,
    ) -> bool {
        let known = self.records.get_mut(&key);
        let Some(known) = known.filter(|known| known.token == lease.token.get()) else {
            return answer == Write::Fenced;
        };
        if known.perhaps_gone && answer == Write::Fenced {
            // It may as well be there and have ended: then there is nothing more to find out.
            let ended = change(&mut known.clone()) == Write::Fenced;
            if !ended {
                self.records.remove(&key);
            }
            return true;
        }
        let expected = change(known);
        known.perhaps_gone = false;
        answer == expected
    }

    /// Whether `purge` has said a number that it may say.
    pub(crate) fn purge(&mut self, batch: u32, removed: u32) -> bool {
        let now = self.now;
        let forgotten = || self.records.values().filter(|known| known.forgotten(now));
        let possible = forgotten().count();
        let certain = forgotten().filter(|known| !known.perhaps_gone).count();
        let least = batch.min(u32::try_from(certain).expect("there are few keys"));
        let most = batch.min(u32::try_from(possible).expect("there are few keys"));
        if removed < batch || removed as usize == possible {
            self.records.retain(|_, known| !known.forgotten(now));
        } else {
            let records = self.records.values_mut();
            for known in records.filter(|known| known.forgotten(now)) {
                known.perhaps_gone = true;
            }
        }
        (least..=most).contains(&removed)
    }

    fn remembered(&self, key: u8) -> Option<&Known> {
        let known = self.records.get(&key);
        known.filter(|known| !known.forgotten(self.now))
    }
}

impl Known {
    fn forgotten(&self, now: u32) -> bool {
        self.forget_at <= now
    }

    fn is_quarantined(&self) -> bool {
        matches!(self.phase, Phase::Free { reason, .. } if reason == Reason::Quarantined)
    }

    fn give_back(&mut self, reason: Reason, now: u32) {
        let due = match reason {
            Reason::Failed { retry_after } => now + retry_after,
            _ => now,
        };
        self.phase = Phase::Free { reason, due };
        self.forget_at = due + self.retention;
        match reason {
            Reason::Failed { .. } => self.in_doubt = false,
            Reason::Abandoned => {
                self.attempts -= 1;
                if self.attempts == 0 || self.in_doubt {
                    self.content = None;
                }
            }
            Reason::GaveUp => {
                self.attempts = 0;
                self.in_doubt = false;
                self.content = None;
            }
            Reason::Quarantined => {}
        }
    }
}
