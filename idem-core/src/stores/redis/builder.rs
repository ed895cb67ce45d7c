//! Connects: address, names, timeouts, replicas.

use std::{error::Error, fmt, num::NonZeroUsize, sync::Arc, time::Duration};

use redis::ConnectionInfo;

use super::{
    Calls, Clock, Naming, RedisStore,
    facts::Facts,
    fault,
    findings::{self, Demands},
    known::KnownInRedis,
    link::{Link, Timeouts},
    location::Location,
    permissions,
    replicas::{Quorum, Replicas},
    sender::Sender,
    server::Server,
};
use crate::{store::ConnectError, stores::cached::SharedCache};

/// A [`RedisStore`] in the making.
///
/// | | default | |
/// |---|---|---|
/// | prefix | `idem` | records are called `idem:{scope:part}` |
/// | connect timeout | 2 s | how long a connection may take |
/// | response timeout | 2 s | how long an answer may take before it is *unknown* |
/// | minimum of replicas | none | how many must have what an answer rests on |
///
/// ```no_run
/// # async fn example() -> Result<(), idem_core::store::ConnectError> {
/// use std::{num::NonZeroUsize, time::Duration};
/// use idem_core::RedisStore;
///
/// let store = RedisStore::builder("redis://cache.internal/0")
///     .prefix("shop")
///     .response_timeout(Duration::from_secs(1))
///     .min_replicas(NonZeroUsize::MIN, Duration::from_millis(500))
///     .build()
///     .await?;
/// # drop(store);
/// # Ok(()) }
/// ```
#[must_use]
pub struct RedisStoreBuilder {
    address: Address,
    prefix: String,
    timeouts: Timeouts,
    quorum: Option<Quorum>,
}

/// URLs, which may hold a password, or what the client makes of one.
enum Address {
    Url(String),
    Info(Box<ConnectionInfo>),
    Cluster(Vec<String>),
}

impl RedisStoreBuilder {
    pub(super) fn of_url(url: &str) -> Self {
        Self::new(Address::Url(url.to_owned()))
    }

    pub(super) fn of_info(info: ConnectionInfo) -> Self {
        Self::new(Address::Info(Box::new(info)))
    }

    pub(super) fn of_cluster(nodes: Vec<String>) -> Self {
        Self::new(Address::Cluster(nodes))
    }

    fn new(address: Address) -> Self {
        Self {
            address,
            prefix: "idem".to_owned(),
            timeouts: Timeouts {
                connect: Duration::from_secs(2),
                response: Duration::from_secs(2),
            },
            quorum: None,
        }
    }

    /// What the names of all records begin with: 1 to 48 ASCII letters, digits, `_`, `-`, `.`,
    /// `:` and `/`. Stores with different prefixes know nothing of each other.
    pub fn prefix(mut self, prefix: impl Into<String>) -> Self {
        self.prefix = prefix.into();
        self
    }

    /// How long a connection may take.
    pub fn connect_timeout(mut self, timeout: Duration) -> Self {
        self.timeouts.connect = timeout;
        self
    }

    /// How long an answer may take before it is *unknown*. A server that forks or syncs to a slow
    /// disk is silent for some hundred milliseconds; choose it longer than that, and well below
    /// the leases.
    pub fn response_timeout(mut self, timeout: Duration) -> Self {
        self.timeouts.response = timeout;
        self
    }

    /// Gives every answer only after that many replicas have confirmed that they have what it
    /// rests on (`WAIT`). If they do not within the time, the answer is *unknown*, and asking
    /// again is harmless. Not for a cluster.
    ///
    /// It makes it unlikely that a fail-over forgets an answered write, not impossible: a replica
    /// that has not confirmed may be the one that is promoted, a primary that is cut off knows
    /// nothing of its successor, and a replica that restarts without its data confirms what it
    /// then has no longer.
    pub fn min_replicas(mut self, replicas: NonZeroUsize, within: Duration) -> Self {
        self.quorum = Some(Quorum { replicas, within });
        self
    }

    /// What workers know together of the completed keys of another store, under this name: for
    /// [`CachedBuilder::shared`](crate::stores::CachedBuilder::shared).
    ///
    /// The name is that of the store behind it, such as `orders-production`, with the characters of a
    /// [`prefix`](Self::prefix), instead of which it is used. Two stores never share it: what one has completed would
    /// be a duplicate to the other, and lost.
    ///
    /// It connects when it is first asked. Redis may be set up as a cache: it needs no append-only file, and may evict
    /// keys. [`min_replicas`](Self::min_replicas) has no meaning here.
    ///
    /// # Errors
    /// If the URL cannot be read, or the name cannot be one.
    pub fn cache(self, name: &str) -> Result<SharedCache, ConnectError> {
        let naming = Naming::new(name)?;
        let location = self.location()?;
        let known = KnownInRedis::new(location, self.timeouts, naming);
        Ok(SharedCache::new(known))
    }

    fn location(&self) -> Result<Location, ConnectError> {
        match &self.address {
            Address::Url(url) => Location::parse(url),
            Address::Info(info) => Ok(Location::Server(info.clone())),
            Address::Cluster(nodes) => Location::cluster(nodes),
        }
    }

    /// Connects, and logs what the server's settings mean for the store.
    ///
    /// # Errors
    /// If the URL cannot be read, the prefix cannot be one, or Redis cannot be reached, refuses, does
    /// not let the user run what the store needs, or is older than 6.2.
    ///
    /// # Cancel safety
    /// A dropped call leaves neither a connection nor a key. Build the store again.
    pub async fn build(self) -> Result<RedisStore, ConnectError> {
        let naming = Naming::new(&self.prefix)?;
        let location = self.location()?;
        let addresses = location.addresses();
        let cannot = |source| cannot_connect(addresses.clone(), source);
        let demands = Demands {
            in_a_cluster: matches!(location, Location::Cluster(_)),
            replicas: self.quorum.map(|quorum| quorum.replicas),
        };
        let clock = Clock::default();
        let waiting = self.waiting(&location, &naming).map_err(cannot)?;
        let server = Server::connect(location, self.timeouts).await;
        let server = server.map_err(|error| cannot(fault::explained(error)))?;
        let sender = match (&server, waiting) {
            (_, Some((link, replicas))) => Some(Sender::spawn(link, clock.clone(), Some(replicas))),
            (Server::One(link), None) => Some(Sender::spawn(link.clone(), clock.clone(), None)),
            (Server::Cluster(_), None) => None,
        };
        let store = RedisStore {
            server,
            sender,
            calls: Calls { naming },
            clock,
            demands,
            addresses: addresses.as_str().into(),
        };
        look_at(&store).await.map_err(cannot)?;
        Ok(store)
    }

    /// A connection on which answers wait for replicas.
    fn waiting(
        &self,
        location: &Location,
        naming: &Naming,
    ) -> Result<Option<(Arc<Link>, Replicas)>, Refusal> {
        let Some(quorum) = self.quorum else {
            return Ok(None);
        };
        let timeouts = Timeouts {
            response: self.timeouts.response.saturating_add(quorum.within),
            ..self.timeouts
        };
        let link = match location {
            Location::Server(node) => {
                Link::new((**node).clone(), timeouts).map_err(fault::explained)?
            }
            Location::Watched(watched) => Link::watched((**watched).clone(), timeouts),
            Location::Cluster(_) => {
                let refusal =
                    "`min_replicas` does not work in a cluster; set `min-replicas-to-write`";
                return Err(refusal.into());
            }
        };
        Ok(Some((Arc::new(link), Replicas::new(quorum, naming))))
    }
}

impl fmt::Debug for RedisStoreBuilder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RedisStoreBuilder")
            .field("prefix", &self.prefix)
            .field("timeouts", &self.timeouts)
            .field("quorum", &self.quorum)
            .finish_non_exhaustive()
    }
}

/// Logs the findings, and refuses a server on which a script would not run, or not to its end. What cannot be found out
/// is no reason to refuse.
async fn look_at(store: &RedisStore) -> Result<(), Refusal> {
    let servers = Facts::gather(&store.server).await;
    let findings = match &servers {
        Ok(servers) => findings::of_all(servers, store.demands),
        Err(error) => vec![findings::silent(error.clone())],
    };
    for finding in findings {
        finding.log("redis");
    }
    if let Some(finding) = findings::too_old(&servers.unwrap_or_default()) {
        return Err(finding.text.into());
    }
    match permissions::lacking(store).await {
        Some(lacking) => Err(lacking.into()),
        None => Ok(()),
    }
}

type Refusal = Box<dyn Error + Send + Sync>;

fn cannot_connect(addresses: String, source: Refusal) -> ConnectError {
    ConnectError::Unavailable(Box::new(CannotConnect { addresses, source }))
}

#[derive(Debug, thiserror::Error)]
#[error("redis at {addresses} cannot be used")]
struct CannotConnect {
    addresses: String,
    source: Refusal,
}
