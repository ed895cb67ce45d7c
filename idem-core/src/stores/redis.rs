//! A store in Redis or Valkey: fast, shared by all workers, as durable as the server is set up.

use std::{fmt, sync::Arc, time::Duration};

use crate::{
    handler::Outcome,
    message::{Key, Position, PositionKind},
    store::{
        Claim, ClaimRequest, ConnectError, Finding, Lease, Purge, Release, Store, StoreError, Write,
    },
    stores::server_clock::Clock,
};

mod answer;
mod builder;
mod calls;
mod facts;
mod fault;
mod findings;
mod known;
mod link;
mod location;
mod naming;
mod operator;
mod permissions;
mod primaries;
mod replicas;
mod scan;
mod script;
mod script_call;
mod sender;
mod sentinel;
mod sequences;
mod server;
mod sessions;
mod streams;
#[cfg(test)]
mod tests;

pub use builder::RedisStoreBuilder;
use calls::{Call, Calls};
use facts::Facts;
use findings::Demands;
use naming::Naming;
use sender::Sender;
use server::Server;

/// Remembers keys in Redis 6.2 or newer, Valkey, or a cluster of either. Clones share one
/// connection.
///
/// | | |
/// |---|---|
/// | durability | what the server is set to: with `appendonly yes` and `appendfsync always` an answered write survives a crash, with `everysec` all but the last two seconds do, without an append-only file a restart forgets keys |
/// | after a fail-over | replicas lag behind, so the last writes are forgotten, and copies of their messages run again; [`min_replicas`](RedisStoreBuilder::min_replicas) makes that unlikely |
/// | processes | any number on any hosts |
/// | time | the server's clock |
/// | speed | one round trip per call; calls that come together share one, but not in a cluster |
/// | memory | Redis forgets a record by itself when its retention ends; there is nothing to purge |
/// | atomic handlers | none: Redis lends no transaction |
///
/// Fencing tokens are the server's time in microseconds, or one more than the key's last, so they
/// grow even after everything was forgotten. The one exception is a key whose record was forgotten
/// early *and* whose server's clock has stepped back since.
///
/// ```no_run
/// # async fn example() -> Result<(), idem_core::store::ConnectError> {
/// use idem_core::RedisStore;
///
/// let one = RedisStore::connect("redis://:secret@cache.internal/0").await?;
/// let cluster = RedisStore::connect("redis+cluster://10.0.0.1:7000,10.0.0.2:7000").await?;
/// let watched = RedisStore::connect("redis+sentinel://10.0.0.1,10.0.0.2,10.0.0.3/orders").await?;
/// # Ok(()) }
/// ```
///
/// # The server's settings
/// `maxmemory-policy` must be `noeviction`, or Redis forgets keys when its memory is full. What
/// else the settings mean is logged when the store connects; [`findings`](Self::findings) tells
/// it again.
///
/// # When a server fails
/// A call that finds its connection broken is repeated over a new one, which is harmless. A server that cannot be
/// reached, does not answer within the response timeout, still loads its data or is a replica makes calls answer
/// [`StoreError::Unavailable`]; the next call tries again. In a cluster that concerns the keys of that server only.
/// With Sentinel every connection begins with the question which server is the primary now.
///
/// # Records
/// A record is the string `prefix:{scope:part}`; `SCAN 0 MATCH idem:*` lists them. A session is the
/// string `prefix:{session}~`, its answers are the records `prefix:{session}~NUMBER` beside it, in
/// one slot of a cluster; so are the numbered messages of a sequence, the string
/// `prefix:{sequence}~mark` and the set `prefix:{sequence}~exceptions`. A record that
/// another program has put there answers [`StoreError::Corrupt`] and is left alone.
#[derive(Clone)]
pub struct RedisStore {
    server: Server,
    /// There is none in a cluster, where each call goes to the server that has its record.
    sender: Option<Sender>,
    calls: Calls,
    clock: Clock,
    demands: Demands,
    addresses: Arc<str>,
}

impl RedisStore {
    /// Connects to one server (`redis://HOST`), a cluster (`redis+cluster://HOST,HOST`), or the primary that sentinels
    /// name (`redis+sentinel://HOST,HOST,HOST/NAME`), with `rediss` instead of `redis` through TLS (feature `rustls`).
    ///
    /// # Errors
    /// If the URL cannot be read, or Redis cannot be reached, refuses or is older than 6.2.
    ///
    /// # Cancel safety
    /// A dropped call leaves neither a connection nor a key. Call it again.
    pub async fn connect(url: &str) -> Result<Self, ConnectError> {
        Self::builder(url).build().await
    }

    /// Starts from the defaults, with a URL as for [`connect`](Self::connect).
    pub fn builder(url: &str) -> RedisStoreBuilder {
        RedisStoreBuilder::of_url(url)
    }

    /// Starts from the defaults, with what the client [`redis`](crate::redis) knows of one server: for what a URL
    /// cannot say, such as a client's certificate (`redis::Client::build_with_tls`).
    ///
    /// ```no_run
    /// # async fn example(password: &str) -> Result<(), Box<dyn std::error::Error>> {
    /// use idem_core::{RedisStore, redis::{IntoConnectionInfo as _, RedisConnectionInfo}};
    ///
    /// let user = RedisConnectionInfo::default().set_username("worker").set_password(password);
    /// let info = "redis://cache.internal".into_connection_info()?.set_redis_settings(user);
    /// let store = RedisStore::builder_with(info).build().await?;
    /// # drop(store);
    /// # Ok(()) }
    /// ```
    pub fn builder_with(info: redis::ConnectionInfo) -> RedisStoreBuilder {
        RedisStoreBuilder::of_info(info)
    }

    /// Starts from the defaults, with the URLs of some nodes of a cluster: `redis://HOST:PORT`.
    pub fn cluster(nodes: impl IntoIterator<Item = impl Into<String>>) -> RedisStoreBuilder {
        RedisStoreBuilder::of_cluster(nodes.into_iter().map(Into::into).collect())
    }

    /// Looks at the settings of all servers: what they mean for the keys that are remembered
    /// there, one finding for each thing that can be lost.
    ///
    /// # Errors
    /// If a server does not tell.
    pub async fn findings(&self) -> Result<Vec<Finding>, StoreError> {
        match Facts::gather(&self.server).await {
            Ok(servers) => Ok(findings::of_all(&servers, self.demands)),
            Err(error) => Err(StoreError::Unavailable(fault::explained(error))),
        }
    }

    /// Moves this store's clock forward, and that of its clones.
    #[cfg(any(test, feature = "testing"))]
    #[doc(hidden)]
    pub fn advance(&self, by: Duration) {
        self.clock.advance(by);
    }

    async fn run<T>(
        &self,
        key: &Key,
        call: Call,
        read: impl FnOnce(redis::Value) -> redis::RedisResult<T>,
    ) -> Result<T, StoreError> {
        let answer = if let Some(sender) = &self.sender {
            sender.run(call).await
        } else {
            let ask = |command| async move { Ok(self.server.ask(&command).await?) };
            script::run_alone(&call, self.clock.skew(), ask).await
        };
        answer
            .and_then(|answer| Ok(read(answer)?))
            .map_err(|fault| fault.of_key(key))
    }
}

impl fmt::Debug for RedisStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RedisStore")
            .field("addresses", &self.addresses)
            .field("prefix", &self.calls.naming.prefix())
            .finish_non_exhaustive()
    }
}

impl Store for RedisStore {
    async fn claim(&self, request: &ClaimRequest) -> Result<Claim, StoreError> {
        match request.checked_position()? {
            Position::None => {
                let key = &request.key;
                let read = |value| answer::claim(value, key);
                self.run(key, self.calls.claim(request), read).await
            }
            Position::Session(place) => Box::pin(self.claim_place(request, place)).await,
            Position::Sequence(place) => Box::pin(self.claim_numbered(request, place)).await,
        }
    }

    async fn extend(&self, lease: &Lease, by: Duration) -> Result<Write, StoreError> {
        let call = self.calls.extend(lease, by);
        self.run(&lease.key, call, |value| answer::write(&value))
            .await
    }

    async fn complete(
        &self,
        lease: &Lease,
        outcome: &Outcome,
        retention: Duration,
    ) -> Result<Write, StoreError> {
        let call = self.calls.complete(lease, outcome, retention);
        self.run(&lease.key, call, |value| answer::write(&value))
            .await
    }

    async fn release(&self, lease: &Lease, reason: &Release) -> Result<Write, StoreError> {
        let call = self.calls.release(lease, reason);
        self.run(&lease.key, call, |value| answer::write(&value))
            .await
    }

    fn keeps(&self, kind: PositionKind) -> bool {
        match kind {
            PositionKind::Session | PositionKind::Sequence => true,
        }
    }
}

/// Redis forgets a record by itself when its retention ends.
impl Purge for RedisStore {
    async fn purge(&self, _: u32) -> Result<u32, StoreError> {
        Ok(0)
    }
}
