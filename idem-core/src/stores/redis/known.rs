//! Completed keys that processes know together, in front of a store that decides: `Cached` asks it, and tells it.
//!
//! What must stay true: the server alone compares times, because late writes are told by them. `script/known.lua` says
//! how.

use std::{
    fmt,
    sync::{
        Mutex, PoisonError,
        atomic::{AtomicBool, Ordering::Relaxed},
    },
    time::Duration,
};

use redis::{Value, from_redis_value};
use tokio::{sync::watch, time::Instant};

use super::{
    fault, link::Timeouts, location::Location, naming::Naming, script::Source,
    script_call::ScriptCall, server::Server,
};
use crate::{
    error_chain::ErrorChain,
    futures::BoxFuture,
    handler::Outcome,
    message::{Fingerprint, Key},
    store::rules::record::micros,
    stores::{
        cached::shared::{KnownKey, Moment, Refusal, SharedKeys},
        server_clock::Clock,
    },
};

static SCRIPT: Source = Source::new(include_str!("script/known.lua"));

/// Connects when it is first asked, and goes on trying.
pub(super) struct KnownInRedis {
    location: Location,
    timeouts: Timeouts,
    naming: Naming,
    clock: Clock,
    server: watch::Sender<Option<Server>>,
    connects: AtomicBool,
    /// What the server's time was, at the latest then.
    told: Mutex<Option<(Moment, Instant)>>,
}

impl KnownInRedis {
    /// Between two tries to connect.
    const PAUSE: Duration = Duration::from_secs(1);

    pub(super) fn new(location: Location, timeouts: Timeouts, naming: Naming) -> Self {
        Self {
            location,
            timeouts,
            naming,
            clock: Clock::default(),
            server: watch::Sender::new(None),
            connects: AtomicBool::new(false),
            told: Mutex::default(),
        }
    }

    /// Asks, and learns the server's time.
    async fn ask(&self, key: &Key, arguments: Vec<Vec<u8>>) -> Result<Vec<Value>, Refusal> {
        let call = ScriptCall {
            script: &SCRIPT,
            names: vec![[&*self.naming.record(key), b"~known"].concat()],
            arguments,
        };
        let server = &self.connected().await?;
        let ask = |command| async move { Ok(server.ask(&command).await?) };
        let answer = call.run(self.clock.skew(), ask).await?;
        let Value::Array(answer) = answer else {
            return Err(fault::not_understood().into());
        };
        let now = answer.first().cloned().unwrap_or(Value::Nil);
        self.learn_time(Moment(from_redis_value(now)?));
        Ok(answer)
    }

    /// The server, once there is a connection. It is waited for as long as one may take.
    async fn connected(&self) -> Result<Server, Refusal> {
        let mut server = self.server.subscribe();
        if !self.connects.swap(true, Relaxed) {
            tokio::spawn(connect(
                self.location.clone(),
                self.timeouts,
                self.server.clone(),
            ));
        }
        let connected = server.wait_for(Option::is_some);
        let connected = tokio::time::timeout(self.timeouts.connect, connected).await??;
        connected.clone().ok_or_else(|| "not connected".into())
    }

    fn learn_time(&self, now: Moment) {
        let mut told = self.told.lock().unwrap_or_else(PoisonError::into_inner);
        *told = Some((now, Instant::now()));
    }
}

async fn connect(location: Location, timeouts: Timeouts, connected: watch::Sender<Option<Server>>) {
    let mut is_known_to_fail = false;
    loop {
        match Server::connect(location.clone(), timeouts).await {
            Ok(server) => {
                connected.send_replace(Some(server));
                return;
            }
            Err(error) if !is_known_to_fail => {
                is_known_to_fail = true;
                let error = fault::explained(error);
                tracing::warn!(
                    addresses = location.addresses(),
                    error = %ErrorChain::of(&*error),
                    "the shared cache cannot be reached yet"
                );
            }
            Err(_) => {}
        }
        tokio::time::sleep(KnownInRedis::PAUSE).await;
    }
}

impl fmt::Debug for KnownInRedis {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("KnownInRedis")
            .field("addresses", &self.location.addresses())
            .field("prefix", &self.naming.prefix())
            .finish_non_exhaustive()
    }
}

impl SharedKeys for KnownInRedis {
    fn look<'a>(&'a self, key: &'a Key) -> BoxFuture<'a, Result<Option<KnownKey>, Refusal>> {
        Box::pin(async move {
            let answer = self.ask(key, vec![b"l".to_vec()]).await?;
            let Ok([_, remaining, known]) = <[Value; 3]>::try_from(answer) else {
                return Ok(None);
            };
            let (remaining, known): (u64, Vec<u8>) =
                (from_redis_value(remaining)?, from_redis_value(known)?);
            Ok(unpacked(&known, Duration::from_micros(remaining)))
        })
    }

    fn tell<'a>(
        &'a self,
        key: &'a Key,
        known: &'a KnownKey,
        asked: Moment,
        longest: Duration,
    ) -> BoxFuture<'a, Result<(), Refusal>> {
        Box::pin(async move {
            let lasts = micros(longest.min(known.remaining));
            let numbers = [asked.0, lasts, micros(known.remaining)];
            let mut arguments = vec![b"t".to_vec()];
            arguments.extend(numbers.map(|number| number.to_string().into_bytes()));
            arguments.push(packed(known));
            self.ask(key, arguments).await.map(drop)
        })
    }

    fn forget<'a>(&'a self, key: &'a Key) -> BoxFuture<'a, Result<(), Refusal>> {
        Box::pin(async move { self.ask(key, vec![b"f".to_vec()]).await.map(drop) })
    }

    fn now(&self) -> Option<Moment> {
        let told = *self.told.lock().unwrap_or_else(PoisonError::into_inner);
        told.map(|(moment, at)| Moment(moment.0.saturating_add(micros(at.elapsed()))))
    }

    #[cfg(any(test, feature = "testing"))]
    fn advance(&self, by: Duration) {
        self.clock.advance(by);
        let mut told = self.told.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((moment, _)) = &mut *told {
            moment.0 += micros(by);
        }
    }
}

/// One byte says whether there is a fingerprint; then that, and the outcome.
fn packed(known: &KnownKey) -> Vec<u8> {
    let fingerprint = known.fingerprint.as_ref();
    let fingerprint = fingerprint.map_or(&[][..], |it| it.as_bytes());
    let is_there = u8::from(!fingerprint.is_empty());
    [&[is_there], fingerprint, known.outcome.as_bytes()].concat()
}

/// `None` if somebody else has put something there.
fn unpacked(packed: &[u8], remaining: Duration) -> Option<KnownKey> {
    let (fingerprint, outcome) = match packed.split_first()? {
        (0, outcome) => (None, outcome),
        (1, rest) => {
            let (digest, outcome) = rest.split_first_chunk()?;
            (Some(Fingerprint::from_bytes(*digest)), outcome)
        }
        _ => return None,
    };
    Some(KnownKey {
        outcome: Outcome::new(outcome.to_vec()),
        fingerprint,
        remaining,
    })
}
