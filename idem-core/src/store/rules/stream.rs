//! The state machine of one handler in one stream. Pure: the call, what is kept and the time go in, and what is kept
//! then comes out. Stores call it while nobody else can change the stream.
//!
//! What must stay true:
//!
//! - At most one token is current, and tokens only grow.
//! - The mark only grows, unless a person sets it.
// docs/decisions/0045

use std::time::Duration;

use crate::{
    handler::FencingToken,
    message::Key,
    store::{Owner, StreamClaim, StreamLease, StreamState, Write, rules::record::micros},
};

/// What a store keeps of one handler in one stream. Times are microseconds of the store's clock.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Stream {
    pub(crate) token: i64,
    pub(crate) owner: Owner,
    /// When the lease ends: until then nobody else gets the stream.
    pub(crate) lease_ends: i64,
    /// The lowest offset that is not done.
    pub(crate) mark: Option<u64>,
}

/// Nobody has this.
const NOBODY: Owner = Owner::from_bytes([0; 16]);

/// A store's call to claim: what to write, if anything, and the answer.
pub(crate) fn claim(
    known: Option<&Stream>,
    key: &Key,
    owner: Owner,
    lease: Duration,
    now: i64,
) -> (Option<Stream>, StreamClaim) {
    let held = known.filter(|stream| stream.lease_ends > now);
    let token = match held {
        Some(stream) if stream.owner == owner => stream.token,
        Some(stream) => {
            let remaining = remaining(stream, now);
            return (None, StreamClaim::Held { remaining });
        }
        None => next_token(known, now),
    };
    let mark = known.and_then(|stream| stream.mark);
    let written = Stream {
        token,
        owner,
        lease_ends: now.saturating_add(micros(lease)),
        mark,
    };
    let lease = StreamLease::new(key.clone(), FencingToken::new(token));
    (Some(written), StreamClaim::Acquired { lease, mark })
}

/// A store's call to extend.
pub(crate) fn extend(
    known: Option<&Stream>,
    token: i64,
    mark: Option<u64>,
    by: Duration,
    now: i64,
) -> (Option<Stream>, Write) {
    write(known, token, |stream| Stream {
        lease_ends: now.saturating_add(micros(by)),
        // `None` is less than any offset.
        mark: stream.mark.max(mark),
        ..*stream
    })
}

/// A store's call to release.
pub(crate) fn release(
    known: Option<&Stream>,
    token: i64,
    mark: Option<u64>,
    now: i64,
) -> (Option<Stream>, Write) {
    write(known, token, |stream| Stream {
        // A heartbeat that comes late must not bring the lease back.
        token: stream.token.saturating_add(1),
        owner: NOBODY,
        lease_ends: now,
        mark: stream.mark.max(mark),
    })
}

/// A person's call to set the mark: what to write.
pub(crate) fn set(known: Option<&Stream>, mark: Option<u64>, now: i64) -> Stream {
    Stream {
        token: next_token(known, now),
        owner: NOBODY,
        lease_ends: now,
        mark,
    }
}

/// What is told of it.
pub(crate) fn state(stream: &Stream, now: i64) -> StreamState {
    StreamState::new(stream.mark, remaining(stream, now))
}

fn write(
    known: Option<&Stream>,
    token: i64,
    step: impl FnOnce(&Stream) -> Stream,
) -> (Option<Stream>, Write) {
    match known {
        Some(stream) if stream.token == token => (Some(step(stream)), Write::Applied),
        _ => (None, Write::Fenced),
    }
}

/// A token that is at least the time: so it is greater than any of before, also if somebody has deleted what was
/// kept.
fn next_token(known: Option<&Stream>, now: i64) -> i64 {
    known.map_or(now, |stream| now.max(stream.token.saturating_add(1)))
}

fn remaining(stream: &Stream, now: i64) -> Duration {
    let micros = stream.lease_ends.saturating_sub(now);
    Duration::from_micros(u64::try_from(micros).unwrap_or(0))
}
