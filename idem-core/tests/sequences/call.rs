//! The calls of an interleaving about sequences, and how they are drawn.

use proptest::{collection::vec, prelude::*};

use crate::compare::Given;

/// How many numbers may be in use.
pub(crate) const WINDOW: u32 = 4;
/// With which number its producers begin.
pub(crate) const FIRST: u8 = 1;
/// How long a lease lasts, in units.
pub(crate) const LEASE: u32 = 2;
/// How long a record is remembered, in units: a look is due after 2 of them.
pub(crate) const RETENTION: u32 = 16;
/// How long claims are ahead before a gap may be skipped, in units.
pub(crate) const PATIENCE: u32 = 4;

/// The outcome that stands for a rejection.
pub(crate) const REFUSED: u8 = b'!';

/// One step of one of two producers, of a worker, or of whoever purges.
#[derive(Debug, Clone)]
pub(crate) enum Call {
    Claim(Ask),
    Complete { lease: Given, outcome: u8 },
    Fail { lease: Given },
    GiveUp { lease: Given },
    Quarantine { lease: Given },
    Purge,
    Advance { by: u32 },
}

/// A claim of a message.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Ask {
    pub(crate) producer: u8,
    /// Above the lowest number that the producer has not yet had done, or below.
    pub(crate) ahead: i8,
    pub(crate) owner: u8,
    pub(crate) replay: bool,
    pub(crate) skips: bool,
}

/// Some dozens of calls.
pub(crate) fn calls() -> impl Strategy<Value = Vec<Call>> {
    let some = prop_oneof![
        24 => call().prop_map(|call| vec![call]),
        1 => producer().prop_map(waits),
    ];
    vec(some, 1..80).prop_map(|calls| calls.concat())
}

/// A message that is ahead, and asks again and again until what is missing is skipped.
fn waits(producer: u8) -> Vec<Call> {
    let ask = Ask {
        producer,
        ahead: 9,
        owner: 0,
        replay: false,
        skips: true,
    };
    let step = [Call::Claim(ask), Call::Advance { by: 1 }];
    step.iter()
        .cycle()
        .take(2 * PATIENCE as usize + 4)
        .cloned()
        .collect()
}

fn producer() -> impl Strategy<Value = u8> {
    prop_oneof![4 => Just(0), 1 => Just(1)]
}

fn call() -> impl Strategy<Value = Call> {
    prop_oneof![
        14 => ask().prop_map(Call::Claim),
        8 => (given(), outcome()).prop_map(|(lease, outcome)| Call::Complete { lease, outcome }),
        1 => given().prop_map(|lease| Call::Fail { lease }),
        1 => given().prop_map(|lease| Call::GiveUp { lease }),
        1 => given().prop_map(|lease| Call::Quarantine { lease }),
        1 => Just(Call::Purge),
        3 => prop_oneof![6 => Just(1), 4 => Just(2), 2 => Just(4), 1 => Just(9), 1 => Just(20)]
            .prop_map(|by| Call::Advance { by }),
    ]
}

fn ask() -> impl Strategy<Value = Ask> {
    let ahead = prop_oneof![
        6 => Just(0_i8), 4 => Just(1), 2 => Just(2), 1 => Just(3), 1 => Just(4), 1 => Just(9),
        3 => Just(-1), 2 => Just(-2), 1 => Just(-4), 1 => Just(-9),
    ];
    let rarely = || prop_oneof![5 => Just(false), 1 => Just(true)];
    (producer(), ahead, 0..3_u8, rarely(), rarely()).prop_map(
        |(producer, ahead, owner, replay, skips)| Ask {
            producer,
            ahead,
            owner,
            replay,
            skips,
        },
    )
}

fn outcome() -> impl Strategy<Value = u8> {
    prop_oneof![8 => any::<u8>(), 1 => Just(REFUSED)]
}

fn given() -> impl Strategy<Value = Given> {
    prop_oneof![4 => Just(0), 2 => 1..6_usize]
}
