//! The crates under test, each as its documentation says to lay it: round one route, with keys of its clients kept
//! apart, and a key required.

use std::{
    net::SocketAddr,
    sync::{
        Arc,
        atomic::{AtomicU32, Ordering::SeqCst},
    },
    time::Duration,
};

use axum::{
    Router, extract,
    http::{StatusCode, request::Parts},
    response::{IntoResponse, Response},
    routing::{MethodRouter, post},
};
use axum_idempotent::{IdempotentLayer, IdempotentOptions};
use idem_core::{MemoryStore, Policy, RedisStore};
use idempotent::{IdempotencyStore, memory, valkey};
use ruts::{
    CookieOptions, Session, SessionLayer,
    store::{Ttl, moka::MokaStore},
};
use tokio::{net::TcpListener, time::sleep};
use tower_cookies::CookieManagerLayer;

use crate::{Result, client::Charge};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Peer {
    Idem,
    Idempotent,
    AxumIdempotent,
}

impl Peer {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Idem => "`idem-http`",
            Self::Idempotent => "`idempotent` 2.0.0",
            Self::AxumIdempotent => "`axum-idempotent` 0.6.0",
        }
    }
}

/// A service of a peer's, on a socket.
pub(crate) struct Service {
    pub(crate) address: SocketAddr,
    effects: Effects,
    peer: Peer,
}

/// How long a claim outlives its process.
pub(crate) const LEASE: Duration = Duration::from_secs(1);
/// How long the handler of a slow charge takes.
pub(crate) const SLOW: Duration = Duration::from_millis(300);

/// How often the handler has run.
#[derive(Debug, Clone, Default)]
struct Effects(Arc<AtomicU32>);

async fn charge(extract::State(effects): extract::State<Effects>, what: String) -> Response {
    let run = effects.0.fetch_add(1, SeqCst) + 1;
    let receipt = |padding: usize| format!("receipt {run}{}", " ".repeat(padding));
    match what.as_str() {
        "slow" => sleep(SLOW).await,
        "large" => return (StatusCode::CREATED, receipt(2 * 1024 * 1024)).into_response(),
        "failing" if run == 1 => return StatusCode::INTERNAL_SERVER_ERROR.into_response(),
        _ => {}
    }
    (StatusCode::CREATED, receipt(0)).into_response()
}

pub(crate) fn tenant(request: &Parts) -> Option<String> {
    let tenant = request.headers.get("x-tenant");
    Some(tenant?.to_str().ok()?.to_owned())
}

/// A service that a layer can be laid round, whatever its state is.
pub(crate) trait State: Clone + Send + Sync + 'static {}

impl<S: Clone + Send + Sync + 'static> State for S {}

pub(crate) fn idem<T: State>(route: MethodRouter<T>, store: impl idem_core::Store) -> Router<T> {
    let policy = Policy::builder().lease(LEASE).build();
    let once = idem_http::IdempotencyLayer::new(store).scoped_by(tenant);
    let once = once.policy(policy.expect("a lease of a second"));
    Router::new().route("/charges", route).layer(once)
}

pub(crate) fn idempotent<T: State>(
    route: MethodRouter<T>,
    store: impl IdempotencyStore + Clone,
) -> Router<T> {
    let once = idempotent::middleware::IdempotencyLayer::new(store);
    let once = once.processing_ttl(LEASE).require_key(true).scope(tenant);
    Router::new().route("/charges", route).layer(once)
}

pub(crate) fn axum_idempotent<T: State>(route: MethodRouter<T>) -> Router<T> {
    let options = IdempotentOptions::default().use_idempotency_key_header(None, true);
    let session = SessionLayer::new(Arc::new(MokaStore::builder().build()));
    let cookie = CookieOptions::build()
        .name("session")
        .path("/")
        .max_age(3600);
    let login = async |session: Session<MokaStore>| {
        let hour = Ttl::new(3600).expect("an hour");
        session
            .set("user", &"ann", hour, None)
            .await
            .expect("kept in memory");
    };
    Router::new()
        .route("/charges", route)
        .layer(IdempotentLayer::<MokaStore>::new(options))
        .route("/login", post(login))
        .layer(session.with_cookie_options(cookie))
        .layer(CookieManagerLayer::new())
}

/// The session of a client of `axum-idempotent`, as its cookie.
pub(crate) async fn session(at: SocketAddr) -> Result<String> {
    let login = Charge::new("").send_to(at, "/login").await?;
    let cookie = login.header("set-cookie").ok_or("no session")?;
    Ok(cookie.split(';').next().unwrap_or_default().to_owned())
}

impl Service {
    /// On a store in memory.
    pub(crate) async fn start(peer: Peer) -> Result<Self> {
        let router = match peer {
            Peer::Idem => idem(post(charge), MemoryStore::new()),
            Peer::Idempotent => {
                let store = memory::MemoryStore::builder().try_build()?;
                idempotent(post(charge), store)
            }
            Peer::AxumIdempotent => axum_idempotent(post(charge)),
        };
        Self::serve(peer, router).await
    }

    /// On a Redis.
    pub(crate) async fn start_on(peer: Peer, redis: &str) -> Result<Self> {
        let router = match peer {
            Peer::Idem => idem(post(charge), RedisStore::connect(redis).await?),
            Peer::Idempotent => {
                let store = valkey::ValkeyStore::with_url(redis).try_build().await?;
                idempotent(post(charge), store)
            }
            Peer::AxumIdempotent => return Err("it is not run on Redis here".into()),
        };
        Self::serve(peer, router).await
    }

    async fn serve(peer: Peer, router: Router<Effects>) -> Result<Self> {
        let effects = Effects::default();
        let router = router.with_state(effects.clone());
        let listener = TcpListener::bind("127.0.0.1:0").await?;
        let address = listener.local_addr()?;
        tokio::spawn(async move { axum::serve(listener, router).await });
        Ok(Self {
            address,
            effects,
            peer,
        })
    }

    /// A charge by this client, as each peer knows its clients.
    pub(crate) async fn charge_by(&self, client: &str, what: &'static str) -> Result<Charge> {
        if self.peer != Peer::AxumIdempotent {
            return Ok(Charge::new(what).header("x-tenant", client));
        }
        let session = session(self.address).await?;
        Ok(Charge::new(what).header("cookie", &session))
    }

    pub(crate) fn effects(&self) -> u32 {
        self.effects.0.load(SeqCst)
    }
}
