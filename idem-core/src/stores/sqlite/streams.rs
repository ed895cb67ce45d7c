//! Streams within a transaction of the writer, which alone writes: so each step is one.

use std::time::Duration;

use sqlx::{Row as _, sqlite::SqliteRow};

use super::{
    SqliteStore,
    batch::{Batch, CallError, alone},
    call::{Call, StreamAnswer, StreamAsk, StreamCall},
    fault::{Fault, unavailable},
};
use crate::{
    message::Key,
    store::{
        Owner, StoreError, StreamClaim, StreamLease, StreamState, StreamStore, Write,
        rules::stream::{self, Stream},
    },
    stores::rows::number,
};

impl SqliteStore {
    async fn ask_stream(&self, stream: &Key, ask: StreamAsk) -> Result<StreamAnswer, StoreError> {
        let stream = stream.clone();
        let call = |reply| Call::Stream(StreamCall { stream, ask, reply });
        self.writer.call(call).await
    }

    async fn write_stream(&self, stream: &Key, ask: StreamAsk) -> Result<Write, StoreError> {
        match self.ask_stream(stream, ask).await? {
            StreamAnswer::Written(write) => Ok(write),
            other => unreachable!("a write is answered by {other:?}"),
        }
    }
}

impl StreamStore for SqliteStore {
    async fn claim_stream(
        &self,
        stream: &Key,
        owner: Owner,
        lease: Duration,
    ) -> Result<StreamClaim, StoreError> {
        let ask = StreamAsk::Claim { owner, lease };
        match self.ask_stream(stream, ask).await? {
            StreamAnswer::Claimed(claim) => Ok(claim),
            other => unreachable!("a claim is answered by {other:?}"),
        }
    }

    async fn extend_stream(
        &self,
        lease: &StreamLease,
        mark: Option<u64>,
        by: Duration,
    ) -> Result<Write, StoreError> {
        let token = lease.token.get();
        let ask = StreamAsk::Extend { token, mark, by };
        self.write_stream(&lease.stream, ask).await
    }

    async fn release_stream(
        &self,
        lease: &StreamLease,
        mark: Option<u64>,
    ) -> Result<Write, StoreError> {
        let token = lease.token.get();
        let ask = StreamAsk::Release { token, mark };
        self.write_stream(&lease.stream, ask).await
    }

    async fn look_at_stream(&self, stream: &Key) -> Result<Option<StreamState>, StoreError> {
        match self.ask_stream(stream, StreamAsk::Look).await? {
            StreamAnswer::Seen(state) => Ok(state),
            other => unreachable!("a look is answered by {other:?}"),
        }
    }

    async fn list_streams(&self) -> Result<Vec<(Key, StreamState)>, StoreError> {
        let mut connection = self.reader().await?;
        let rows = sqlx::query(self.sql.streams.list.clone())
            .fetch_all(&mut connection)
            .await
            .map_err(unavailable)?;
        self.close(connection).await?;
        let now = self.clock.now();
        rows.iter()
            .map(|row| {
                let key: String = row.try_get("key").map_err(unavailable)?;
                let of = |source| StoreError::Corrupt {
                    key: key.clone(),
                    source,
                };
                let known = read(row).map_err(of)?;
                let key = key.parse().map_err(|error| of(Box::new(error)))?;
                Ok((key, stream::state(&known, now)))
            })
            .collect()
    }

    async fn set_mark(&self, stream: &Key, mark: Option<u64>) -> Result<(), StoreError> {
        self.ask_stream(stream, StreamAsk::Set(mark))
            .await
            .map(drop)
    }
}

impl Batch<'_> {
    pub(super) async fn execute_stream(&mut self, call: &mut StreamCall) -> Result<(), Fault> {
        let answer = self.decide_stream(&call.stream, &call.ask).await;
        call.reply.hold(alone(answer)?);
        Ok(())
    }

    async fn decide_stream(
        &mut self,
        key: &Key,
        ask: &StreamAsk,
    ) -> Result<StreamAnswer, CallError> {
        let known = self.load_stream(key).await?;
        let (known, now) = (known.as_ref(), self.now);
        let (written, answer) = match ask {
            StreamAsk::Claim { owner, lease } => {
                let (written, claim) = stream::claim(known, key, *owner, *lease, now);
                (written, StreamAnswer::Claimed(claim))
            }
            StreamAsk::Extend { token, mark, by } => {
                let (written, write) = stream::extend(known, *token, *mark, *by, now);
                (written, StreamAnswer::Written(write))
            }
            StreamAsk::Release { token, mark } => {
                let (written, write) = stream::release(known, *token, *mark, now);
                (written, StreamAnswer::Written(write))
            }
            StreamAsk::Look => {
                let state = known.map(|known| stream::state(known, now));
                (None, StreamAnswer::Seen(state))
            }
            StreamAsk::Set(mark) => {
                let written = stream::set(known, *mark, now);
                (Some(written), StreamAnswer::Written(Write::Applied))
            }
        };
        if let Some(written) = written {
            self.save_stream(key, &written).await?;
        }
        Ok(answer)
    }

    async fn load_stream(&mut self, key: &Key) -> Result<Option<Stream>, CallError> {
        let row: Option<SqliteRow> = sqlx::query(self.sql.streams.load.clone())
            .bind(key.as_str().to_owned())
            .fetch_optional(&mut *self.connection)
            .await?;
        row.map(|row| read(&row))
            .transpose()
            .map_err(|source| CallError::corrupt(key.as_str(), source))
    }

    async fn save_stream(&mut self, key: &Key, stream: &Stream) -> Result<(), CallError> {
        sqlx::query(self.sql.streams.save.clone())
            .bind(key.as_str().to_owned())
            .bind(stream.token)
            .bind(stream.owner.as_bytes().to_vec())
            .bind(stream.lease_ends)
            .bind(stream.mark.map(number))
            .execute(&mut *self.connection)
            .await?;
        self.note_written();
        Ok(())
    }
}

fn read(row: &SqliteRow) -> Result<Stream, Box<dyn std::error::Error + Send + Sync>> {
    let owner: Vec<u8> = row.try_get("owner")?;
    let mark: Option<i64> = row.try_get("mark")?;
    Ok(Stream {
        token: row.try_get("token")?,
        owner: Owner::from_bytes(owner[..].try_into()?),
        lease_ends: row.try_get("lease_ends")?,
        mark: mark.map(u64::try_from).transpose()?,
    })
}
