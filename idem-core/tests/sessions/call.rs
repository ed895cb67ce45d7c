//! The calls of an interleaving about sessions, and how they are drawn.

use proptest::{collection::vec, prelude::*};

use crate::compare::Given;

/// How many numbers may be in use.
pub(crate) const WINDOW: u32 = 3;
/// How long a session lives, in units.
pub(crate) const LIFE: u32 = 4;
/// How long a lease lasts, in units.
pub(crate) const LEASE: u32 = 2;

/// One step of one of two clients, of a worker, or of whoever removes sessions.
#[derive(Debug, Clone)]
pub(crate) enum Call {
    Open { client: u8 },
    Touch { client: u8 },
    Close { client: u8 },
    Claim(Ask),
    Complete { lease: Given, outcome: u8 },
    Fail { lease: Given },
    Expire,
    Advance { by: u32 },
}

/// A claim of a request.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Ask {
    pub(crate) client: u8,
    pub(crate) number: u8,
    pub(crate) awaited: u8,
    pub(crate) owner: u8,
}

/// Some dozens of calls; each client opens its session early, mostly.
pub(crate) fn calls() -> impl Strategy<Value = Vec<Call>> {
    vec(call(), 1..50).prop_map(|mut calls| {
        calls.insert(0, Call::Open { client: 0 });
        calls
    })
}

fn call() -> impl Strategy<Value = Call> {
    prop_oneof![
        2 => client().prop_map(|client| Call::Open { client }),
        2 => client().prop_map(|client| Call::Touch { client }),
        1 => client().prop_map(|client| Call::Close { client }),
        12 => ask().prop_map(Call::Claim),
        4 => (given(), any::<u8>()).prop_map(|(lease, outcome)| Call::Complete { lease, outcome }),
        2 => given().prop_map(|lease| Call::Fail { lease }),
        2 => Just(Call::Expire),
        4 => prop_oneof![3 => Just(1), 2 => Just(2), 1 => Just(4), 1 => Just(8)]
            .prop_map(|by| Call::Advance { by }),
    ]
}

fn client() -> impl Strategy<Value = u8> {
    prop_oneof![3 => Just(0), 1 => Just(1)]
}

fn ask() -> impl Strategy<Value = Ask> {
    // Mostly near the mark of a client that moves on, sometimes far behind, or ahead of itself.
    let awaited = prop_oneof![3 => 0..4_u8, 1 => 4..9_u8];
    let ahead = prop_oneof![1 => Just(-1), 2 => Just(0), 2 => Just(1), 1 => Just(2), 1 => Just(3)];
    (client(), awaited, ahead, 0..3_u8).prop_map(|(client, awaited, ahead, owner)| Ask {
        client,
        number: awaited.saturating_add_signed(ahead),
        awaited,
        owner,
    })
}

fn given() -> impl Strategy<Value = Given> {
    prop_oneof![3 => Just(0), 2 => 1..6_usize]
}
