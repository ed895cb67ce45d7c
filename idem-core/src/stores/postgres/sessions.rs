//! Sessions: a transaction of their own for each request, under the lock of the session's row.

use std::{
    hash::BuildHasher, hash::BuildHasherDefault, hash::DefaultHasher, sync::Arc, time::Duration,
};

use sqlx::{PgConnection, Row};
use tokio::sync::Mutex;

use super::{
    PostgresStore,
    fault::{Fault, Remedy, unavailable},
    length::micros,
    link::{Address, Link, Work},
    migration::MigrateError,
    names::Names,
};
use crate::{
    message::{SessionKey, SessionPlace},
    store::{Claim, ClaimRequest, OpenSession, Opened, SessionStore, StoreError, Touched},
};

mod statements;
mod step;

use statements::Statements;
use step::{Claiming, Closing, Question, Step, Touching};

/// How many sessions are decided about at the same time; more wait here rather than at the server.
const CONNECTIONS: usize = 4;

pub(super) type Links = Arc<[Mutex<Link>; CONNECTIONS]>;

/// Connections for sessions, and what is sent over them.
#[derive(Clone)]
pub(super) struct Sessions {
    /// One session always takes the same, so that its requests do not wait for each other at the
    /// server, each with a connection in hand.
    links: Links,
    statements: Arc<Statements>,
}

impl Sessions {
    /// Connects when a session is asked for.
    pub(super) fn new(address: &Address, names: &Names) -> Self {
        let link = || Mutex::new(Link::new(address.clone()));
        Self {
            links: Arc::new(std::array::from_fn(|_| link())),
            statements: Arc::new(Statements::new(names, address.response_timeout)),
        }
    }

    /// Fails unless the table answers as this version's does, and this role may use it.
    pub(super) async fn check(
        &self,
        connection: &mut PgConnection,
        names: &Names,
    ) -> Result<(), MigrateError> {
        let checked = self.statements.check(connection).await;
        checked.map_err(|error| MigrateError::unusable(names, error))
    }

    pub(super) fn links(&self) -> Links {
        Arc::clone(&self.links)
    }

    fn link(&self, key: &str) -> &Mutex<Link> {
        &self.links[place(key)]
    }
}

/// Which of the connections is that of a session, or of a sequence.
pub(super) fn place(key: &str) -> usize {
    let hash = BuildHasherDefault::<DefaultHasher>::default().hash_one(key);
    usize::try_from(hash % CONNECTIONS as u64).unwrap_or(0)
}

impl PostgresStore {
    /// Looks at the session and claims the key, in one transaction.
    pub(super) async fn claim_place(
        &self,
        request: &ClaimRequest,
        place: &SessionPlace,
    ) -> Result<Claim, StoreError> {
        let claimed = self.put_to(&place.session, Claiming { request, place });
        claimed.await.map_err(|fault| match fault.remedy() {
            Remedy::Divide => fault.about(&request.key),
            _ => fault.unavailable(),
        })?
    }

    /// Asks a session, in one transaction.
    async fn put_to<Q: Question>(
        &self,
        session: &SessionKey,
        question: Q,
    ) -> Result<Q::Answer, Fault> {
        let mut link = self.sessions.link(session.as_str()).lock().await;
        link.carry_out(&Asked {
            store: self,
            session,
            question,
        })
        .await
    }
}

/// A question on its way to the server.
struct Asked<'a, Q> {
    store: &'a PostgresStore,
    session: &'a SessionKey,
    question: Q,
}

impl<Q: Question> Work for Asked<'_, Q> {
    type Done = Q::Answer;

    async fn on(&self, connection: &mut PgConnection) -> Result<Q::Answer, sqlx::Error> {
        let Self { store, session, .. } = self;
        let skew = store.clock.skew();
        let statements = &*store.sessions.statements;
        let mut step = Step::begin(connection, statements, &store.sql, session, skew).await?;
        let answer = self.question.put(&mut step).await?;
        step.commit().await?;
        Ok(answer)
    }
}

impl SessionStore for PostgresStore {
    async fn open(&self, request: &OpenSession) -> Result<Opened, StoreError> {
        let key = request.session.as_str();
        let window = request.window.clamp(1, OpenSession::MAX_WINDOW);
        let statement = || {
            sqlx::query(self.sessions.statements.open.clone())
                .bind(self.clock.skew())
                .bind(key.to_owned())
                .bind(i64::from(window))
                .bind(micros(request.life))
        };
        let mut link = self.sessions.link(key).lock().await;
        let rows = link.fetch(statement).await.map_err(unavailable)?;
        Ok(if rows.is_empty() {
            Opened::Known
        } else {
            Opened::New
        })
    }

    async fn touch(&self, session: &SessionKey) -> Result<Touched, StoreError> {
        self.put_to(session, Touching).await.map_err(unavailable)
    }

    async fn close(&self, session: &SessionKey) -> Result<(), StoreError> {
        self.put_to(session, Closing).await.map_err(unavailable)
    }

    async fn expire(&self, batch: u32) -> Result<u32, StoreError> {
        let statement = || {
            sqlx::query(self.sessions.statements.expire.clone())
                .bind(self.clock.skew())
                .bind(i64::from(batch))
        };
        let rows = self.purging.lock().await.fetch(statement).await;
        let rows = rows.map_err(unavailable)?;
        let removed: i64 = rows
            .iter()
            .map(|row| row.try_get::<i64, _>(0))
            .sum::<Result<_, _>>()
            .map_err(unavailable)?;
        Ok(u32::try_from(removed).unwrap_or(batch))
    }
}

/// For a statement's `lock_timeout`: a tenth of the time in which it has to be answered.
pub(super) fn lock_wait(response_timeout: Duration) -> String {
    let millis = (response_timeout / 10).as_millis();
    millis.clamp(1, i32::MAX.unsigned_abs().into()).to_string()
}
