//! A service under test, and the requests that are sent to it.

use std::{
    cell::RefCell,
    collections::HashMap,
    fmt::{self, Display},
    rc::Rc,
    sync::Arc,
};

use bytes::Bytes;
use http::{HeaderValue, Request, Response};
use http_body::Body;
use http_body_util::Full;
use idem_core::handler::OutgoingContent;
use tokio::time::sleep;
use tower_service::Service;

use super::{
    Answer, CrashPoint, FaultyStore, Ground, InMemory,
    service::{AnyService, any},
};
use crate::{
    ground::published,
    harness::Make,
    probe::Watch,
    process::{Process, Ran, not_reached},
};

mod rehearse;

/// A process that serves requests.
type Server = Process<AnyService>;

type MakeService<St, G> = Rc<dyn Fn(FaultyStore<<G as Ground>::Store>, &St) -> AnyService>;

/// One service under test, with its state, in a process that can vanish.
///
/// ```test_harness
/// # use axum::{Router, routing::post};
/// # use http::{Request, StatusCode};
/// # use idem_http::IdempotencyLayer;
/// # use idem_testing::http::Setup;
/// #[tokio::test(start_paused = true)]
/// async fn of_two_copies_at_once_one_runs() {
///     let harness = Setup::new(|| ()).service(|store, ()| {
///         let once = IdempotencyLayer::new(store).unscoped();
///         Router::new().route("/notes", post(async || StatusCode::CREATED)).layer(once)
///     });
///     let note = Request::post("/notes").header("idempotency-key", "k-1").body("hello".into());
///     let [one, other] = harness.send_at_once(&note.unwrap()).await;
///     assert_eq!((one.status(), other.status()), (StatusCode::CREATED, StatusCode::CREATED));
///     assert!(one.is_replay() != other.is_replay());
/// }
/// ```
pub struct Harness<St = (), G: Ground = InMemory> {
    make: Make<St, G>,
    make_service: MakeService<St, G>,
    state: Arc<St>,
    ground: G,
    process: RefCell<Server>,
    /// The first answer that was for good, by key.
    answered: RefCell<HashMap<HeaderValue, Answer>>,
}

/// How often a request is sent before it is said that this does not end.
const MOST_TRIES: u32 = 1_000;

impl<St, G: Ground> Harness<St, G> {
    pub(crate) fn new<S, R>(
        make: Make<St, G>,
        ground: G,
        service: impl Fn(FaultyStore<G::Store>, &St) -> S + 'static,
    ) -> Self
    where
        S: Service<Request<Full<Bytes>>, Response = Response<R>, Error: Display> + Clone + 'static,
        S::Future: 'static,
        R: Body<Error: Display> + 'static,
    {
        let state = Arc::new(make(&ground));
        let make_service = Rc::new(move |store, state: &St| any(service(store, state)));
        Self::on(ground, state, make, make_service)
    }

    fn on(ground: G, state: Arc<St>, make: Make<St, G>, make_service: MakeService<St, G>) -> Self {
        let process = start(&ground, &*state, &make_service);
        Self {
            process: process.into(),
            answered: RefCell::default(),
            make,
            make_service,
            state,
            ground,
        }
    }

    /// The application's state.
    pub fn state(&self) -> &St {
        &self.state
    }

    /// The store, which can be made to fail.
    pub fn store(&self) -> &FaultyStore<G::Store> {
        self.ground.store()
    }

    /// What handlers have published by their [`Outbox`](idem_core::handler::Outbox) and have committed, in the order in
    /// which they did. It stays: no broker takes it.
    ///
    /// # Panics
    /// If the store cannot be read.
    pub async fn published(&self) -> Vec<OutgoingContent> {
        published(&self.ground).await
    }

    /// Sends a request, once.
    ///
    /// # Panics
    /// If it is not answered within a day of the paused clock.
    pub async fn send(&self, request: &Request<Bytes>) -> Answer {
        let process = self.process.borrow().clone();
        send_to(&process, request).await
    }

    /// Sends a request to two processes at once.
    ///
    /// # Panics
    /// If it is not answered within a day of the paused clock.
    pub async fn send_at_once(&self, request: &Request<Bytes>) -> [Answer; 2] {
        let [one, other] = [self.start_process(), self.start_process()];
        let both = tokio::join!(send_to(&one, request), send_to(&other, request));
        both.into()
    }

    /// Sends a request, and sends it again, as long as its answer says that this is of use.
    ///
    /// # Panics
    /// If it says so a thousand times.
    pub async fn send_until_done(&self, request: &Request<Bytes>) -> Answer {
        let process = self.process.borrow().clone();
        send_until_done_by(&process, request).await
    }

    /// Sends a request to a process that is killed at this point. What is sent from then on reaches another one. Its
    /// lease runs out when the clock says so.
    ///
    /// # Panics
    /// If the request is answered without coming as far as that.
    pub async fn crash(&self, point: CrashPoint, request: &Request<Bytes>) {
        if let Some(answer) = self.try_crash(point, request).await {
            not_reached(point, answer.kind());
        }
    }

    /// Sends a request whose client goes away when its handler waits for the so many-th time, from 1. The handler goes
    /// on by itself, beside what the test does next.
    ///
    /// # Panics
    /// If the request is answered before.
    pub async fn leave(&self, wait: u32, request: &Request<Bytes>) {
        if let Some(answer) = self.try_leave(wait, request).await {
            panic!(
                "the request was answered before its handler waited for the {wait}. time, and its client did not leave: {}",
                answer.in_words()
            );
        }
    }

    async fn try_crash(&self, point: CrashPoint, request: &Request<Bytes>) -> Option<Answer> {
        let process = self.process.borrow().clone();
        let work = (process.program)(request.clone()).mortal();
        match process.vanish(point, work).await {
            Ran::Ended(answer, _) => Some(answer),
            Ran::Vanished => {
                let next = self.start_process();
                self.process.replace(next);
                None
            }
        }
    }

    async fn try_leave(&self, wait: u32, request: &Request<Bytes>) -> Option<Answer> {
        let process = self.process.borrow().clone();
        match process
            .leave(wait, (process.program)(request.clone()))
            .await
        {
            Ran::Ended(answer, _) => Some(answer),
            Ran::Vanished => None,
        }
    }

    fn start_process(&self) -> Server {
        start(&self.ground, &*self.state, &self.make_service)
    }
}

fn start<St, G: Ground>(ground: &G, state: &St, make: &MakeService<St, G>) -> Server {
    Process::running(ground.store(), Watch::Service, |store| make(store, state))
}

async fn send_to(process: &Server, request: &Request<Bytes>) -> Answer {
    process.run((process.program)(request.clone())).await.0
}

async fn send_until_done_by(process: &Server, request: &Request<Bytes>) -> Answer {
    let mut tries = 0;
    loop {
        let answer = send_to(process, request).await;
        let Some(pause) = answer.comes_again() else {
            return answer;
        };
        tries += 1;
        assert!(
            tries < MOST_TRIES,
            "after {MOST_TRIES} tries the answer is still that the request is to come again: {}",
            answer.in_words()
        );
        sleep(pause).await;
    }
}

#[cfg(feature = "postgres")]
impl<St> Harness<St, crate::OnPostgres> {
    /// A connection of the test's own, which sees what is committed.
    ///
    /// # Panics
    /// If the server cannot be reached.
    pub async fn database(&self) -> crate::Database<idem_core::sqlx::PgConnection> {
        self.ground.database().await
    }
}

#[cfg(feature = "sqlite")]
impl<St> Harness<St, crate::OnSqlite> {
    /// A connection of the test's own, which sees what is committed.
    ///
    /// # Panics
    /// If the file cannot be opened.
    pub async fn database(&self) -> crate::Database<idem_core::sqlx::SqliteConnection> {
        self.ground.database().await
    }
}

impl<St, G: Ground> fmt::Debug for Harness<St, G> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Harness").finish_non_exhaustive()
    }
}
