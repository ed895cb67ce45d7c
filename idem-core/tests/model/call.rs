//! The calls of an interleaving, and how they are drawn.

use std::{mem::discriminant, time::Duration};

use idem_core::store::Release;
use proptest::{collection::vec, prelude::*};

use crate::compare::Given;

/// One step. Times are in units, so that boundaries are met exactly and often.
#[derive(Debug, Clone)]
pub(crate) enum Call {
    Claim(Ask),
    Extend {
        lease: Given,
        by: u32,
    },
    Complete {
        lease: Given,
        outcome: u8,
        retention: u32,
    },
    Release {
        lease: Given,
        reason: Reason,
    },
    Purge {
        batch: u32,
    },
    Advance {
        by: u32,
    },
}

/// A claim.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Ask {
    pub(crate) key: u8,
    pub(crate) owner: u8,
    pub(crate) content: Option<u8>,
    pub(crate) lease: u32,
    pub(crate) retention: u32,
    pub(crate) replay: bool,
}

/// Why a key is given back.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Reason {
    Failed { retry_after: u32 },
    Abandoned,
    GaveUp,
    Quarantined,
}

impl Reason {
    /// Whether two releases for these reasons are one that was repeated.
    pub(crate) fn repeats(self, other: Self) -> bool {
        discriminant(&self) == discriminant(&other)
    }

    pub(crate) fn release(self, unit: Duration) -> Release {
        match self {
            Self::Failed { retry_after } => Release::retry_after(retry_after * unit, "no"),
            Self::Abandoned => Release::Abandoned,
            Self::GaveUp => Release::gave_up("no more"),
            Self::Quarantined => Release::Quarantined,
        }
    }
}

/// Some dozens of calls by a few owners on few keys.
pub(crate) fn calls() -> impl Strategy<Value = Vec<Call>> {
    vec(call(), 1..40)
}

fn call() -> impl Strategy<Value = Call> {
    prop_oneof![
        7 => ask().prop_map(Call::Claim),
        2 => (given(), units()).prop_map(|(lease, by)| Call::Extend { lease, by }),
        2 => (given(), any::<u8>(), units()).prop_map(|(lease, outcome, retention)| {
            Call::Complete { lease, outcome, retention }
        }),
        4 => (given(), reason()).prop_map(|(lease, reason)| Call::Release { lease, reason }),
        1 => prop_oneof![Just(1), Just(2), Just(100)].prop_map(|batch| Call::Purge { batch }),
        4 => units().prop_map(|by| Call::Advance { by }),
    ]
}

fn ask() -> impl Strategy<Value = Ask> {
    let content = prop_oneof![Just(None), Just(Some(0)), Just(Some(1))];
    let key = prop_oneof![4 => Just(0), 1 => Just(1), 1 => Just(2)];
    let replay = prop::bool::weighted(0.2);
    (key, 0..4_u8, content, units(), units(), replay).prop_map(
        |(key, owner, content, lease, retention, replay)| Ask {
            key,
            owner,
            content,
            lease,
            retention,
            replay,
        },
    )
}

fn given() -> impl Strategy<Value = Given> {
    prop_oneof![3 => Just(0), 2 => 1..6_usize]
}

fn reason() -> impl Strategy<Value = Reason> {
    prop_oneof![
        2 => Just(Reason::Failed { retry_after: 0 }),
        3 => units().prop_map(|retry_after| Reason::Failed { retry_after }),
        3 => Just(Reason::Abandoned),
        2 => Just(Reason::GaveUp),
        2 => Just(Reason::Quarantined),
    ]
}

fn units() -> impl Strategy<Value = u32> {
    prop_oneof![Just(1), Just(2), Just(3), Just(5), Just(8), Just(13)]
}
