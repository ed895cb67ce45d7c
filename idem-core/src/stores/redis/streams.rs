//! Streams: each call a script of its own, as those of sessions are.

use std::{collections::BTreeSet, time::Duration};

use redis::{Value, from_redis_value};

use super::{
    RedisStore,
    calls::micros,
    fault::{self, Fault},
    scan,
    script::Source,
    script_call::ScriptCall,
};
use crate::{
    handler::FencingToken,
    message::{Key, KeyError},
    store::{Owner, StoreError, StreamClaim, StreamLease, StreamState, StreamStore, Write},
};

static SCRIPT: Source = Source::new(include_str!("script/stream.lua"));

/// Above that, doubles leave numbers out. No stream is that long.
const MAX_MARK: u64 = (1 << 53) - 1;

impl RedisStore {
    async fn ask_stream(&self, stream: &Key, request: &[&[u8]]) -> Result<Value, StoreError> {
        let call = ScriptCall {
            script: &SCRIPT,
            names: vec![self.calls.naming.stream(stream)],
            arguments: vec![request.concat()],
        };
        let answer = self.run_alone(&call).await;
        answer.map_err(|fault| fault.of_key(stream))
    }

    async fn write_stream(
        &self,
        lease: &StreamLease,
        request: &[&[u8]],
    ) -> Result<Write, StoreError> {
        match self.ask_stream(&lease.stream, request).await? {
            Value::Int(1) => Ok(Write::Applied),
            Value::Int(0) => Ok(Write::Fenced),
            _ => Err(not_understood(&lease.stream)),
        }
    }
}

impl StreamStore for RedisStore {
    async fn claim_stream(
        &self,
        stream: &Key,
        owner: Owner,
        lease: Duration,
    ) -> Result<StreamClaim, StoreError> {
        let request: [&[u8]; 3] = [b"C", owner.as_bytes(), &micros(lease)];
        let answer = self.ask_stream(stream, &request).await?;
        read_claim(stream, answer).ok_or_else(|| not_understood(stream))
    }

    async fn extend_stream(
        &self,
        lease: &StreamLease,
        mark: Option<u64>,
        by: Duration,
    ) -> Result<Write, StoreError> {
        let token = lease.token.get().to_be_bytes();
        let request: [&[u8]; 4] = [b"E", &token, &packed(mark), &micros(by)];
        self.write_stream(lease, &request).await
    }

    async fn release_stream(
        &self,
        lease: &StreamLease,
        mark: Option<u64>,
    ) -> Result<Write, StoreError> {
        let token = lease.token.get().to_be_bytes();
        let request: [&[u8]; 3] = [b"R", &token, &packed(mark)];
        self.write_stream(lease, &request).await
    }

    async fn look_at_stream(&self, stream: &Key) -> Result<Option<StreamState>, StoreError> {
        let answer = self.ask_stream(stream, &[b"L"]).await?;
        let fields: Vec<i64> = from_redis_value(answer).map_err(|_| not_understood(stream))?;
        match fields[..] {
            [] => Ok(None),
            [mark, remaining] => Ok(Some(StreamState::new(offset(mark), duration(remaining)))),
            _ => Err(not_understood(stream)),
        }
    }

    async fn list_streams(&self) -> Result<Vec<(Key, StreamState)>, StoreError> {
        let naming = &self.calls.naming;
        let found = scan::all(self, &naming.all_streams()).await;
        let found = found.map_err(|error| StoreError::Unavailable(fault::explained(error)))?;
        let names = found.iter().filter_map(|name| str::from_utf8(name).ok());
        let streams: BTreeSet<_> = names.filter_map(|name| naming.stream_of(name)).collect();
        let mut seen = Vec::new();
        for text in streams {
            let stream = text
                .parse()
                .map_err(|error: KeyError| StoreError::Corrupt {
                    key: text.clone(),
                    source: error.into(),
                })?;
            // It cannot be forgotten meanwhile, but somebody may delete it by hand.
            if let Some(state) = self.look_at_stream(&stream).await? {
                seen.push((stream, state));
            }
        }
        Ok(seen)
    }

    async fn set_mark(&self, stream: &Key, mark: Option<u64>) -> Result<(), StoreError> {
        let request: [&[u8]; 2] = [b"S", &packed(mark)];
        self.ask_stream(stream, &request).await.map(drop)
    }
}

fn read_claim(stream: &Key, answer: Value) -> Option<StreamClaim> {
    let Value::Array(fields) = answer else {
        return None;
    };
    let mut fields = fields.into_iter();
    let word: String = from_redis_value(fields.next()?).ok()?;
    let mut number = || from_redis_value::<i64>(fields.next()?).ok();
    match word.as_str() {
        "acquired" => {
            let token = FencingToken::new(number()?);
            Some(StreamClaim::Acquired {
                lease: StreamLease::new(stream.clone(), token),
                mark: offset(number()?),
            })
        }
        "held" => Some(StreamClaim::Held {
            remaining: duration(number()?),
        }),
        _ => None,
    }
}

/// None is below all others.
fn packed(mark: Option<u64>) -> [u8; 8] {
    let mark = mark.map(|mark| i64::try_from(mark.min(MAX_MARK)).unwrap_or(i64::MAX));
    mark.unwrap_or(-1).to_be_bytes()
}

fn offset(mark: i64) -> Option<u64> {
    u64::try_from(mark).ok()
}

fn duration(micros: i64) -> Duration {
    Duration::from_micros(u64::try_from(micros).unwrap_or(0))
}

fn not_understood(stream: &Key) -> StoreError {
    Fault::Redis(fault::not_understood()).of_key(stream)
}
