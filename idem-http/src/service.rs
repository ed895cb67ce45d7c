//! The service that a layer makes: reads a request, has it handled once, and answers it.

use std::{
    convert::identity,
    fmt,
    future::{Future, poll_fn},
    marker::PhantomData,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll},
    time::Duration,
};

use bytes::Bytes;
use http::{Request, Response};
use http_body::Body;
use idem_core::{
    Execution, Executor, Prepared, Store,
    executor::RunsOn,
    handler::{Keyless, Leased},
};
use tokio::{
    select,
    time::{Instant, sleep, timeout},
};
use tokio_util::task::TaskTracker;
use tower_service::Service;

use crate::{
    answer::answer,
    endpoint::{Call, Endpoint, EndpointMode, Live},
    problem::{Problem, ProblemKind},
    request::{Arrived, BodyError},
    response_body::ResponseBody,
    rules::Rules,
};

/// The first wait before a key that is held, or a store that is away, is asked about again; it doubles up to
/// [`LONGEST_PAUSE`]. In the same process nobody waits for it: the end of the first request wakes its copies.
const FIRST_PAUSE: Duration = Duration::from_millis(10);
const LONGEST_PAUSE: Duration = Duration::from_millis(500);

/// A service whose requests are handled once for each key: see [`IdempotencyLayer`](crate::IdempotencyLayer).
pub struct Idempotency<S, M = Leased, Inner = ()> {
    executor: Executor<S>,
    rules: Arc<Rules>,
    tasks: TaskTracker,
    inner: Inner,
    mode: PhantomData<fn() -> M>,
}

impl<S, M, Inner> Idempotency<S, M, Inner> {
    pub(crate) fn new(
        executor: Executor<S>,
        rules: Rules,
        tasks: TaskTracker,
        inner: Inner,
    ) -> Self {
        Self {
            executor,
            rules: Arc::new(rules),
            tasks,
            inner,
            mode: PhantomData,
        }
    }
}

type BoxFuture<T> = Pin<Box<dyn Future<Output = T> + Send>>;

impl<S, M, Inner, B, RB> Service<Request<B>> for Idempotency<S, M, Inner>
where
    S: Store,
    M: EndpointMode + RunsOn<S>,
    Inner: Service<Request<B>, Response = Response<RB>> + Clone + Send + 'static,
    Inner::Future: Send + 'static,
    Inner::Error: Send + 'static,
    B: Body<Data = Bytes> + From<Bytes> + Send + 'static,
    B::Error: Into<BodyError>,
    RB: Body<Data = Bytes> + Send + 'static,
{
    type Response = Response<ResponseBody<RB>>;
    type Error = Inner::Error;
    type Future = BoxFuture<Live<RB, Inner::Error>>;

    /// Always: a copy needs no service, and whoever needs one waits for it in its turn.
    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Inner::Error>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<B>) -> Self::Future {
        if self.rules.methods.contains(request.method()) {
            return Box::pin(self.clone().handle(request));
        }
        let mut inner = self.inner.clone();
        Box::pin(async move {
            poll_fn(|cx| inner.poll_ready(cx)).await?;
            let response = inner.call(request).await?;
            Ok(response.map(ResponseBody::handlers))
        })
    }
}

impl<S: Store, M, Inner> Idempotency<S, M, Inner> {
    async fn handle<B, RB>(self, request: Request<B>) -> Live<RB, Inner::Error>
    where
        M: EndpointMode + RunsOn<S>,
        Inner: Service<Request<B>, Response = Response<RB>> + Clone + Send + 'static,
        Inner::Future: Send + 'static,
        Inner::Error: Send + 'static,
        B: Body<Data = Bytes> + From<Bytes> + Send + 'static,
        B::Error: Into<BodyError>,
        RB: Body<Data = Bytes> + Send + 'static,
    {
        let told = |problem: Problem| Ok(ResponseBody::whole(problem.into_response()));
        let request = match Arrived::read(request, &self.rules).await {
            Ok(request) => request,
            Err(problem) => return told(problem),
        };
        let deadline = self.rules.deadline;
        // A task of its own: the client may go away, which drops this future, and what has begun has to end.
        let tasks = self.tasks.clone();
        let mut work = tasks.spawn(self.work(request));
        let worked = match deadline {
            Some(deadline) => match timeout(deadline, &mut work).await {
                Ok(worked) => worked,
                Err(_) => {
                    let detail =
                        "send the request again later, with the same key, to get its response";
                    let problem = Problem::new(ProblemKind::Deadline, detail);
                    return told(problem.retry_after(FIRST_PAUSE));
                }
            },
            None => work.await,
        };
        worked.map_or_else(
            |error| {
                let detail = format!("its task ended: {error}");
                told(Problem::new(ProblemKind::HandlerFailed, detail))
            },
            identity,
        )
    }

    /// Handles a request, or waits for another one with its key to be handled.
    async fn work<B, RB>(self, mut request: Arrived<B>) -> Live<RB, Inner::Error>
    where
        M: EndpointMode + RunsOn<S>,
        Inner: Service<Request<B>, Response = Response<RB>> + Clone + Send + 'static,
        Inner::Future: Send + 'static,
        Inner::Error: Send + 'static,
        B: Body<Data = Bytes> + From<Bytes> + Send + 'static,
        B::Error: Into<BodyError>,
        RB: Body<Data = Bytes> + Send + 'static,
    {
        let mut policy = self.rules.policy;
        if request.key.is_none() && !M::RUNS_UNCLAIMED {
            request.claim_anything(&self.rules);
        } else if request.key.is_none() {
            let unkeyed = policy.to_builder().keyless(Keyless::Run).build();
            policy = unkeyed.expect("what was changed of it can be");
        }
        let call = Call::new(self.inner, (*self.rules).clone());
        let prepared = Prepared::<Endpoint<M, B>>::new(request.into_envelope(), &policy);
        let ended = match prepared {
            Ok(prepared) => until_ended(&self.executor, prepared, &call, self.rules.wait).await,
            Err(ended) => ended,
        };
        tracing::debug!(ended = %ended.kind(), "a request has ended");
        answer(ended, call.into_answered(), policy.retention())
    }
}

/// Handles a request, again and again while another one has its key or the store is away, for as long as a copy waits.
async fn until_ended<S, M, Inner, B, RB>(
    executor: &Executor<S>,
    mut request: Prepared<Endpoint<M, B>>,
    call: &Call<Inner, RB, Inner::Error>,
    wait: Duration,
) -> Execution<crate::remembered::Remembered, crate::endpoint::Unsuccessful>
where
    S: Store,
    M: EndpointMode + RunsOn<S>,
    Inner: Service<Request<B>, Response = Response<RB>> + Clone + Send + 'static,
    Inner::Future: Send + 'static,
    Inner::Error: Send + 'static,
    B: Body<Data = Bytes> + From<Bytes> + Send + 'static,
    B::Error: Into<BodyError>,
    RB: Body<Data = Bytes> + Send + 'static,
{
    let until = Instant::now() + wait;
    let mut pause = FIRST_PAUSE;
    loop {
        let ended = executor.handle(&mut request, call).await;
        let left = until.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return ended;
        }
        match &ended {
            Execution::Conflict { remaining } => {
                let next = pause.min(*remaining).min(left);
                select! {
                    () = sleep(next) => {}
                    () = request.holder_ended() => {}
                }
            }
            Execution::StoreUnavailable { .. } => sleep(pause.min(left)).await,
            _ => return ended,
        }
        pause = (pause * 2).min(LONGEST_PAUSE);
    }
}

impl<S, M, Inner: Clone> Clone for Idempotency<S, M, Inner> {
    fn clone(&self) -> Self {
        Self {
            executor: self.executor.clone(),
            rules: Arc::clone(&self.rules),
            tasks: self.tasks.clone(),
            inner: self.inner.clone(),
            mode: PhantomData,
        }
    }
}

impl<S, M, Inner> fmt::Debug for Idempotency<S, M, Inner> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Idempotency")
            .field("rules", &self.rules)
            .finish_non_exhaustive()
    }
}
