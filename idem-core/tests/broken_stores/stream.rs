//! Streams of the plain store.

use std::time::Duration;

use idem_core::{
    Key, StoreError,
    handler::FencingToken,
    store::{MarkMove, Owner, StreamClaim, StreamLease, StreamState, StreamStore, Write},
};

use crate::{
    flaw::Flaw,
    store::{PlainStore, Shared},
};

/// What is kept of one. Times count from the store's making.
#[derive(Debug, Clone)]
pub(crate) struct Stream {
    token: i64,
    owner: Option<Owner>,
    lease_ends: Duration,
    mark: Option<u64>,
    written_at: Duration,
}

impl PlainStore {
    fn stream_name(&self, stream: &Key) -> String {
        if self.has(Flaw::OneMarkForAll) {
            stream.scope().to_owned()
        } else {
            stream.to_string()
        }
    }

    fn known_stream(&self, shared: &Shared, name: &str) -> Option<Stream> {
        let known = shared.streams.get(name).cloned();
        let fresh = |stream: &Stream| {
            !self.has(Flaw::ForgetsMarks)
                || self.now() < stream.written_at + Duration::from_hours(72)
        };
        known.filter(fresh)
    }

    fn offset(&self, mark: Option<u64>) -> Option<u64> {
        if self.has(Flaw::CutsOffsets) {
            mark.map(|mark| mark & u64::from(u32::MAX))
        } else {
            mark
        }
    }

    fn write_stream(&self, lease: &StreamLease, write: impl FnOnce(&mut Stream)) -> Write {
        let mut shared = self.shared();
        let name = self.stream_name(&lease.stream);
        let Some(mut stream) = self.known_stream(&shared, &name) else {
            return Write::Fenced;
        };
        let is_current = stream.token == lease.token.get() || self.has(Flaw::StreamsUnfenced);
        let is_over = self.has(Flaw::EndsWithTheLease) && stream.lease_ends <= self.now();
        if !is_current || is_over {
            return Write::Fenced;
        }
        write(&mut stream);
        stream.written_at = self.now();
        shared.streams.insert(name, stream);
        Write::Applied
    }

    /// What is kept of a stream when its mark is moved by a transaction; `None` if that is fenced.
    pub(crate) fn stream_moved(
        &self,
        shared: &Shared,
        it: MarkMove<'_>,
    ) -> Option<(String, Stream)> {
        let name = self.stream_name(&it.lease.stream);
        let mut stream = self.known_stream(shared, &name)?;
        let mark = stream.mark.unwrap_or(0);
        let is_current = stream.token == it.lease.token.get() || self.has(Flaw::MovesMarksUnfenced);
        let is_over = self.has(Flaw::MovesEndWithTheLease) && stream.lease_ends <= self.now();
        let is_done = mark > it.from && !self.has(Flaw::MovesMarksAgain);
        let leaps = mark < it.from || it.to > it.from + 1;
        if !is_current || is_over || is_done || leaps && self.has(Flaw::MovesMarksStepByStep) {
            return None;
        }
        if !self.has(Flaw::LeavesMarks) {
            stream.mark = Some(mark.max(it.to));
        }
        if self.has(Flaw::MovesExtendLeases) {
            stream.lease_ends = self.now() + Duration::from_mins(1);
        }
        stream.written_at = self.now();
        Some((name, stream))
    }

    fn stream_state(&self, stream: &Stream) -> StreamState {
        let remaining = stream.lease_ends.saturating_sub(self.now());
        StreamState::new(stream.mark, remaining)
    }

    fn moved(&self, from: Option<u64>, to: Option<u64>) -> Option<u64> {
        let to = self.offset(to);
        if self.has(Flaw::StreamMarksMoveBack) {
            to.or(from)
        } else {
            from.max(to)
        }
    }
}

impl StreamStore for PlainStore {
    async fn claim_stream(
        &self,
        stream: &Key,
        owner: Owner,
        lease: Duration,
    ) -> Result<StreamClaim, StoreError> {
        let name = self.stream_name(stream);
        let mut shared = self.shared();
        let known = self.known_stream(&shared, &name);
        if self.has(Flaw::ClaimsStreamsInTwoSteps) {
            drop(shared);
            std::thread::sleep(Duration::from_millis(1));
            shared = self.shared();
        }
        let now = self.now();
        let held = known.as_ref().filter(|stream| {
            (stream.lease_ends > now || self.has(Flaw::NeverTakesStreamsOver))
                && stream.owner.is_some()
        });
        let token = match held {
            Some(held) if held.owner == Some(owner) && !self.has(Flaw::HoldsOffItsReader) => {
                held.token
            }
            Some(held) if !self.has(Flaw::EverybodyReads) => {
                let remaining = held.lease_ends.saturating_sub(now);
                return Ok(StreamClaim::Held { remaining });
            }
            _ => known.as_ref().map_or(1, |known| {
                known.token + i64::from(!self.has(Flaw::StreamTokensStay))
            }),
        };
        let begins = self.has(Flaw::BeginsWithAMark).then_some(0);
        let mark = known.and_then(|known| known.mark).or(begins);
        let written = Stream {
            token,
            owner: Some(owner),
            lease_ends: now + lease,
            mark,
            written_at: now,
        };
        shared.streams.insert(name, written);
        let lease = StreamLease::new(stream.clone(), FencingToken::new(token));
        Ok(StreamClaim::Acquired { lease, mark })
    }

    async fn extend_stream(
        &self,
        lease: &StreamLease,
        mark: Option<u64>,
        by: Duration,
    ) -> Result<Write, StoreError> {
        Ok(self.write_stream(lease, |stream| {
            stream.mark = self.moved(stream.mark, mark);
            if !self.has(Flaw::HeartbeatsDoNothing) {
                stream.lease_ends = self.now() + by;
            }
        }))
    }

    async fn release_stream(
        &self,
        lease: &StreamLease,
        mark: Option<u64>,
    ) -> Result<Write, StoreError> {
        Ok(self.write_stream(lease, |stream| {
            stream.mark = self.moved(stream.mark, mark);
            if self.has(Flaw::LosesTheLastMark) {
                stream.mark = None;
            }
            if !self.has(Flaw::KeepsStreamsGivenBack) {
                stream.lease_ends = self.now();
            }
            if !self.has(Flaw::HeartbeatsBringStreamsBack) {
                stream.token += 1;
            }
        }))
    }

    async fn look_at_stream(&self, stream: &Key) -> Result<Option<StreamState>, StoreError> {
        let known = self.known_stream(&self.shared(), &self.stream_name(stream));
        Ok(known.map(|stream| self.stream_state(&stream)))
    }

    async fn list_streams(&self) -> Result<Vec<(Key, StreamState)>, StoreError> {
        let shared = self.shared();
        let mut listed = Vec::new();
        for name in shared.streams.keys() {
            let (Some(stream), Ok(key)) = (self.known_stream(&shared, name), name.parse()) else {
                continue;
            };
            let mut state = self.stream_state(&stream);
            if self.has(Flaw::ListsWhatIsRead) && state.remaining.is_zero() {
                continue;
            }
            if self.has(Flaw::ListsNoMarks) {
                state.mark = None;
            }
            listed.push((key, state));
        }
        listed.sort_by_key(|(key, _): &(Key, _)| key.as_str().to_owned());
        if self.has(Flaw::ListsStreamsBackwards) {
            listed.reverse();
        }
        Ok(listed)
    }

    async fn set_mark(&self, stream: &Key, mark: Option<u64>) -> Result<(), StoreError> {
        let name = self.stream_name(stream);
        let mut shared = self.shared();
        let known = self.known_stream(&shared, &name);
        let (old, token) = known.map_or((None, 0), |known| (known.mark, known.token));
        let mark = if self.has(Flaw::SetsMarksForwardOnly) {
            old.max(mark)
        } else {
            mark
        };
        let written = Stream {
            token: token + i64::from(!self.has(Flaw::SetsMarksUnderItsReader)),
            owner: None,
            lease_ends: self.now(),
            mark,
            written_at: self.now(),
        };
        shared.streams.insert(name, written);
        Ok(())
    }
}
