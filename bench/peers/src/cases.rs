//! The cases: what comes to a service, and what must become of it.

use std::time::Duration;

use idem_servers::Redis;
use tokio::{
    task::{JoinSet, spawn_blocking},
    time::{Instant, sleep, timeout},
};

use crate::{
    Result,
    client::{Answer, Charge},
    crash,
    peer::{LEASE, Peer, SLOW, Service},
};

/// A case, and what the peers' own documentation says where they do not claim it.
pub(crate) struct Case {
    pub(crate) title: &'static str,
    which: Which,
    idempotent: Option<&'static str>,
    axum_idempotent: Option<&'static str>,
}

#[derive(Clone, Copy)]
enum Which {
    Retry,
    AtOnce,
    Waits,
    OtherPayload,
    TooLarge,
    ServerError,
    ClientGone,
    Crash,
    OtherTenant,
    StoreAway,
    StoreFrozen,
    NoKey,
    TwoKeys,
}

const BEST_EFFORT: Option<&str> = Some("best effort, by its README");

const fn case(
    which: Which,
    title: &'static str,
    idempotent: Option<&'static str>,
    axum_idempotent: Option<&'static str>,
) -> Case {
    Case {
        title,
        which,
        idempotent,
        axum_idempotent,
    }
}

pub(crate) const CASES: [Case; 13] = [
    case(
        Which::Retry,
        "a retry is answered with the first response",
        None,
        None,
    ),
    case(
        Which::AtOnce,
        "of 1,000 copies at once one runs",
        None,
        BEST_EFFORT,
    ),
    case(
        Which::Waits,
        "a copy that comes while the first runs is answered with its response",
        Some("it answers 409, by its documentation"),
        BEST_EFFORT,
    ),
    case(
        Which::OtherPayload,
        "another payload under the key is refused",
        None,
        Some("the key alone counts, or the payload is the key"),
    ),
    case(
        Which::TooLarge,
        "a request whose response is too large to keep never runs again",
        None,
        BEST_EFFORT,
    ),
    case(
        Which::ServerError,
        "a 500 frees the key",
        Some("it replays the 500, unless that is `no-store`"),
        None,
    ),
    case(
        Which::ClientGone,
        "a handler whose client has gone runs to its end, once",
        None,
        Some("the server drops the handler"),
    ),
    case(
        Which::Crash,
        "a crash between effect and record doubles nothing in the database",
        Some("it says that it cannot prevent a second run"),
        BEST_EFFORT,
    ),
    case(
        Which::OtherTenant,
        "the key of another client is another key",
        None,
        None,
    ),
    case(
        Which::StoreAway,
        "nothing runs while the store is away",
        None,
        Some("it passes the request on, by its README"),
    ),
    case(
        Which::StoreFrozen,
        "a store that does not answer is given up within 15 s, and nothing runs",
        None,
        Some("it passes the request on, by its README"),
    ),
    case(
        Which::NoKey,
        "a request without the required key does not run",
        None,
        None,
    ),
    case(
        Which::TwoKeys,
        "a request with two keys does not run",
        Some("it takes the first"),
        Some("it takes the first"),
    ),
];

impl Case {
    /// Why a peer is not asked.
    pub(crate) fn lacking(&self, peer: Peer) -> Option<&'static str> {
        match peer {
            Peer::Idem => None,
            Peer::Idempotent => self.idempotent,
            Peer::AxumIdempotent => self.axum_idempotent,
        }
    }

    /// What was found instead, if a peer does not pass.
    pub(crate) async fn run(&self, peer: Peer) -> Result<()> {
        match self.which {
            Which::Crash if peer == Peer::Idem => return crash::doubles_nothing().await,
            Which::Crash => return Err("not run".into()),
            Which::StoreAway => return store_away(peer).await,
            Which::StoreFrozen => return store_frozen(peer).await,
            _ => {}
        }
        let service = Service::start(peer).await?;
        let to = service.address;
        let charge = async |what| {
            Ok::<_, Box<dyn std::error::Error + Send + Sync>>(
                service.charge_by("ann", what).await?.key("k-1"),
            )
        };
        match self.which {
            Which::Retry => {
                let charge = charge("").await?;
                let (first, copy) = (charge.send(to).await?, charge.send(to).await?);
                same(&first, &copy)?;
                runs(&service, 1)
            }
            Which::AtOnce => {
                let charge = charge("slow").await?;
                let mut copies = JoinSet::new();
                for _ in 0..1000 {
                    let charge = charge.clone();
                    copies.spawn(async move { charge.send(to).await });
                }
                while let Some(copy) = copies.join_next().await {
                    copy??;
                }
                runs(&service, 1)
            }
            Which::Waits => {
                let charge = charge("slow").await?;
                let first = charge.clone();
                let first = tokio::spawn(async move { first.send(to).await });
                until(|| service.effects() == 1).await?;
                let copy = charge.send(to).await?;
                same(&first.await??, &copy)?;
                runs(&service, 1)
            }
            Which::OtherPayload => {
                charge("").await?.send(to).await?;
                let other = service.charge_by("ann", "other").await?;
                refused(&other.key("k-1").send(to).await?)?;
                runs(&service, 1)
            }
            Which::TooLarge => {
                let charge = charge("large").await?;
                charge.send(to).await?;
                sleep(LEASE * 2).await;
                charge.send(to).await?;
                match service.effects() {
                    1 => Ok(()),
                    _ => Err("runs again when its lease is over, as its documentation says".into()),
                }
            }
            Which::ServerError => {
                let charge = charge("failing").await?;
                let (failed, again) = (charge.send(to).await?, charge.send(to).await?);
                if (failed.status, again.status) != (500, 201) {
                    return Err(format!("answers {}, then {}", failed.status, again.status).into());
                }
                runs(&service, 2)
            }
            Which::ClientGone => {
                let charge = charge("slow").await?;
                let gone = charge.leave(to).await?;
                until(|| service.effects() == 1).await?;
                drop(gone);
                sleep(SLOW * 2).await;
                let answer = charge.send(to).await?;
                if answer.status != 201 {
                    return Err(format!("the retry is answered with {}", answer.status).into());
                }
                runs(&service, 1)
            }
            Which::OtherTenant => {
                charge("").await?.send(to).await?;
                let bob = service.charge_by("bob", "").await?;
                bob.key("k-1").send(to).await?;
                runs(&service, 2)
            }
            Which::NoKey => {
                let answer = service.charge_by("ann", "").await?.send(to).await?;
                refused(&answer)?;
                runs(&service, 0)
            }
            Which::TwoKeys => {
                let answer = charge("").await?.key("k-2").send(to).await?;
                refused(&answer)?;
                runs(&service, 0)
            }
            Which::Crash | Which::StoreAway | Which::StoreFrozen => {
                unreachable!("these have services of their own")
            }
        }
    }
}

async fn store_away(peer: Peer) -> Result<()> {
    let redis = spawn_blocking(Redis::start).await??;
    let service = Service::start_on(peer, &redis.url()).await?;
    let charge: Charge = service.charge_by("ann", "").await?;
    charge.clone().key("k-1").send(service.address).await?;
    spawn_blocking(move || redis.kill()).await??;
    let answer = charge.key("k-2").send(service.address).await?;
    if answer.status != 503 {
        return Err(format!("answers {}", answer.status).into());
    }
    runs(&service, 1)
}

async fn store_frozen(peer: Peer) -> Result<()> {
    let redis = spawn_blocking(Redis::start).await??;
    let service = Service::start_on(peer, &redis.url()).await?;
    let charge: Charge = service.charge_by("ann", "").await?;
    charge.clone().key("k-1").send(service.address).await?;
    redis.freeze()?;
    let sent = timeout(
        Duration::from_secs(15),
        charge.key("k-2").send(service.address),
    )
    .await;
    redis.thaw()?;
    let answer = sent.map_err(|_| "it is not answered within 15 s")??;
    if answer.status < 500 {
        return Err(format!("answers {}", answer.status).into());
    }
    runs(&service, 1)
}

fn same(first: &Answer, copy: &Answer) -> Result<()> {
    if (first.status, &first.body) == (copy.status, &copy.body) {
        return Ok(());
    }
    Err(format!(
        "answers {} {:?}, then {} {:?}",
        first.status, first.body, copy.status, copy.body
    )
    .into())
}

fn refused(answer: &Answer) -> Result<()> {
    match answer.status {
        400..=499 => Ok(()),
        status => Err(format!("answers {status}").into()),
    }
}

fn runs(service: &Service, expected: u32) -> Result<()> {
    match service.effects() {
        effects if effects == expected => Ok(()),
        effects => Err(format!("runs {effects} times").into()),
    }
}

/// Waits for it, for a minute at most.
async fn until(is_so: impl Fn() -> bool) -> Result<()> {
    let limit = Instant::now() + Duration::from_mins(1);
    while !is_so() {
        if Instant::now() > limit {
            return Err("it does not begin".into());
        }
        sleep(Duration::from_millis(5)).await;
    }
    Ok(())
}
