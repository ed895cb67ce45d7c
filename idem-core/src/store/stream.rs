//! Streams: logs that a handler reads from where it was, and of which a store keeps where that is.

use std::time::Duration;

use crate::{
    handler::FencingToken,
    message::Key,
    store::{Owner, Store, StoreError, Write},
};

/// A store that keeps how far each handler has come in each stream, and which worker reads it.
///
/// A stream is a log: it delivers in the order of its offsets, keeps what was handled, and takes nothing
/// back. So each handler has a mark in each stream: the lowest offset that is not done, nor safe in another queue. One
/// worker at a time reads a stream for a handler; the others stand by. Scope and stream name the mark: [`Key`].
///
/// An implementation keeps these rules; the conformance suite (list `StreamStore`) holds it to them.
///
/// 1. [`claim_stream`](Self::claim_stream) is one atomic step. While the lease lasts that one owner has, others are
///    [held off](StreamClaim::Held). The owner itself has its lease again, under the same token, and prolonged.
/// 2. The fencing tokens of a stream grow strictly: over takeover, release and [`set_mark`](Self::set_mark).
/// 3. A write takes effect if and only if its token is the current one; otherwise it is [`Write::Fenced`]. A lease that
///    ran out but that nobody took over may still be extended and released.
/// 4. The mark never moves back, and never by a write that is fenced. Only [`set_mark`](Self::set_mark) moves it
///    anywhere; it ends the lease, so that whoever has it reads anew from there.
/// 5. A mark is kept until somebody sets it: no retention ends it, and no purge removes it.
/// 6. Time is the store's own clock.
/// 7. [`list_streams`](Self::list_streams) tells of every stream that is there all the while, once.
/// 8. `Err` means *unknown*; every call may be repeated without harm. A release that is repeated may be fenced.
///
/// # Cancel safety
/// A dropped future leaves the write unknown, as an `Err` does.
#[diagnostic::on_unimplemented(
    message = "`{Self}` keeps no marks, so it cannot say how far a handler has come in a stream",
    label = "not a `StreamStore`",
    note = "the memory, SQLite, PostgreSQL and Redis stores keep them"
)]
pub trait StreamStore: Store {
    /// Tries to become the one who reads a stream for a handler.
    ///
    /// # Errors
    /// If the store cannot tell; the claim may have been recorded.
    fn claim_stream(
        &self,
        stream: &Key,
        owner: Owner,
        lease: Duration,
    ) -> impl Future<Output = Result<StreamClaim, StoreError>> + Send;

    /// Makes the lease end `by` from now, and moves the mark up to this offset.
    ///
    /// # Errors
    /// If the store cannot tell; both may have been done.
    fn extend_stream(
        &self,
        lease: &StreamLease,
        mark: Option<u64>,
        by: Duration,
    ) -> impl Future<Output = Result<Write, StoreError>> + Send;

    /// Gives the stream back, and moves the mark up to this offset.
    ///
    /// # Errors
    /// If the store cannot tell; both may have been done.
    fn release_stream(
        &self,
        lease: &StreamLease,
        mark: Option<u64>,
    ) -> impl Future<Output = Result<Write, StoreError>> + Send;

    /// What is known of a stream: for people and checks. `None` if no worker has ever claimed it.
    ///
    /// # Errors
    /// If the store cannot tell.
    fn look_at_stream(
        &self,
        stream: &Key,
    ) -> impl Future<Output = Result<Option<StreamState>, StoreError>> + Send;

    /// What is known of all streams, in the order of their keys: for people.
    ///
    /// # Errors
    /// If the store cannot tell.
    fn list_streams(
        &self,
    ) -> impl Future<Output = Result<Vec<(Key, StreamState)>, StoreError>> + Send;

    /// Moves the mark to this offset by hand, also back; without one, the handler begins anew. Whoever reads the stream
    /// is fenced.
    ///
    /// # Errors
    /// If the store cannot tell; the mark may have been moved.
    fn set_mark(
        &self,
        stream: &Key,
        mark: Option<u64>,
    ) -> impl Future<Output = Result<(), StoreError>> + Send;
}

/// The store's answer to [`StreamStore::claim_stream`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum StreamClaim {
    /// The claimant reads, under this lease, from this mark on.
    Acquired {
        /// Proof of the claim.
        lease: StreamLease,
        /// The lowest offset that is not done; `None` if the handler begins.
        mark: Option<u64>,
    },
    /// Another worker reads it. Its lease ends in `remaining` unless it is extended.
    Held {
        /// May be zero.
        remaining: Duration,
    },
}

/// Proof of a claim of a stream.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct StreamLease {
    /// Scope and stream.
    pub stream: Key,
    /// The fencing token of this claim.
    pub token: FencingToken,
}

impl StreamLease {
    /// For store implementations: the proof of a claim just recorded.
    pub fn new(stream: Key, token: FencingToken) -> Self {
        Self { stream, token }
    }
}

/// What a store knows of a stream.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct StreamState {
    /// The lowest offset that is not done. A worker that finds the stream to end before it adds 2^52: see
    /// [`beyond_end`](Self::beyond_end).
    pub mark: Option<u64>,
    /// How long the lease of the worker that has it still lasts; zero if none has it.
    pub remaining: Duration,
}

impl StreamState {
    /// Added to a mark that the stream does not reach: no stream is that long.
    #[doc(hidden)]
    pub const BEYOND_END: u64 = 1 << 52;

    /// The mark, if a worker has found the stream to end before it. Nobody reads on before a person has called
    /// [`set_mark`](StreamStore::set_mark).
    pub fn beyond_end(&self) -> Option<u64> {
        self.mark?.checked_sub(Self::BEYOND_END)
    }

    /// For store implementations.
    pub fn new(mark: Option<u64>, remaining: Duration) -> Self {
        Self { mark, remaining }
    }
}
