//! The service that a layer makes: reads a request, has it handled once, and answers it.

use std::{
    fmt,
    future::{Future, poll_fn, ready},
    marker::PhantomData,
    pin::Pin,
    sync::{Arc, Weak},
    task::{Context, Poll},
    time::Duration,
};

use http::{Request, Response};
use idem_core::{
    Execution, Executor, Key, Prepared, Store, StoreError,
    executor::{ExecutionKind, RunsOn},
    handler::{Keyless, Leased},
};
use tokio::{
    select,
    time::{Instant, sleep, timeout},
};
use tokio_util::task::TaskTracker;
use tower_service::Service;
use tracing::Instrument as _;

use crate::{
    answer::{A_WHILE, answer},
    detach_on_drop::DetachOnDrop,
    endpoint::{Call, CallOf, Endpoint, EndpointMode, Handled, Live, Unsuccessful},
    problem::{FAILED, Problem, ProblemKind},
    remembered::Remembered,
    request::Arrived,
    response_body::ResponseBody,
    rules::Rules,
    telemetry::{Meters, Open},
    wrapped_service::{InnerService, RequestBody},
};

/// The first wait before a key that is held, or a store that is away, is asked about again; it doubles up to
/// [`LONGEST_PAUSE`]. In the same process nobody waits for it: the end of the first request wakes its copies.
const FIRST_PAUSE: Duration = Duration::from_millis(10);
const LONGEST_PAUSE: Duration = Duration::from_millis(500);

/// Longer than any client waits, and short enough to be added to a time.
const LONGEST_WAIT: Duration = Duration::from_hours(24 * 365);

const SAMPLED_EVERY: Duration = Duration::from_secs(1);

/// A service whose requests are handled once for each key: see [`IdempotencyLayer`](crate::IdempotencyLayer).
pub struct Idempotency<S, M = Leased, Inner = ()> {
    /// One reference for all of it: routers clone their services for each request.
    shared: Arc<Shared<S>>,
    inner: Inner,
    mode: PhantomData<fn() -> M>,
}

struct Shared<S> {
    executor: Executor<S>,
    rules: Arc<Rules>,
    tasks: TaskTracker,
    meters: Arc<Meters>,
}

impl<S, M, Inner> Idempotency<S, M, Inner> {
    pub(crate) fn new(
        executor: Executor<S>,
        rules: Rules,
        tasks: TaskTracker,
        meters: Arc<Meters>,
        inner: Inner,
    ) -> Self {
        let shared = Shared {
            executor,
            rules: Arc::new(rules),
            tasks,
            meters,
        };
        Self {
            shared: Arc::new(shared),
            inner,
            mode: PhantomData,
        }
    }
}

type BoxFuture<T> = Pin<Box<dyn Future<Output = T> + Send>>;

/// The answer of a layer round this service.
type Answer<Inner, B> =
    Live<<Inner as InnerService<B>>::ResponseBody, <Inner as Service<Request<B>>>::Error>;

impl<S, M, Inner, B> Service<Request<B>> for Idempotency<S, M, Inner>
where
    S: Store,
    M: EndpointMode + RunsOn<S>,
    Inner: InnerService<B>,
    B: RequestBody,
{
    type Response = Response<ResponseBody<Inner::ResponseBody>>;
    type Error = Inner::Error;
    type Future = BoxFuture<Answer<Inner, B>>;

    /// Always: a copy needs no service, and whoever needs one waits for it in its turn.
    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Inner::Error>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<B>) -> Self::Future {
        let is_handled = request.extensions().get::<Handled>().is_some();
        let rules = &self.shared.rules;
        if rules.are_for(&request) && !is_handled {
            if let Some(told) = rules.protocol.refuses(request.headers()) {
                let open = Open::request(&self.shared.meters);
                if rules.only_observe() {
                    return Box::pin(self.clone().run(Arrived::unread(request), open));
                }
                open.end(ProblemKind::OtherProtocol.outcome(), None, None);
                return Box::pin(ready(Ok(ResponseBody::whole(told))));
            }
            // A mode that runs nothing without a claim lends its transaction to a request without a key, too.
            if !M::RUNS_UNCLAIMED || !rules.let_through(&request) {
                return Box::pin(self.clone().handle(request));
            }
            let open = self.shared.open_unkeyed(&request);
            let passed = pass(self.inner.clone(), request);
            return Box::pin(async move {
                // It has ended when its response begins, which may be a stream, or when its client goes.
                let _open = open;
                passed.await
            });
        }
        Box::pin(pass(self.inner.clone(), request))
    }
}

/// Hands a request on as it comes, as if there were no layer.
async fn pass<Inner: InnerService<B>, B>(
    mut inner: Inner,
    request: Request<B>,
) -> Answer<Inner, B> {
    poll_fn(|cx| inner.poll_ready(cx)).await?;
    let response = inner.call(request).await?;
    Ok(response.map(ResponseBody::handlers))
}

impl<S> Shared<S> {
    /// A request without a key that is handed on as it comes.
    fn open_unkeyed<B>(&self, request: &Request<B>) -> Open {
        let Self { rules, meters, .. } = self;
        meters.tell_unkeyed(&rules.name, || request.uri().path().to_owned());
        let mut open = Open::request(meters);
        open.otherwise(if rules.only_observe() {
            ExecutionKind::Observed
        } else {
            ExecutionKind::Unclaimed
        });
        open
    }
}

impl<S: Store, M, Inner> Idempotency<S, M, Inner> {
    async fn handle<B>(self, request: Request<B>) -> Answer<Inner, B>
    where
        M: EndpointMode + RunsOn<S>,
        Inner: InnerService<B>,
        B: RequestBody,
    {
        let shared = Arc::clone(&self.shared);
        let Shared { rules, meters, .. } = &*shared;
        let open = Open::request(meters);
        match Arrived::read(request, rules).await {
            Ok(request) => self.run(request, open).await,
            Err(problem) => {
                open.end(problem.kind.outcome(), None, None);
                Ok(ResponseBody::whole(rules.protocol.tell(problem)))
            }
        }
    }

    /// Handles a request that is there as a whole. Dropped, it goes on.
    async fn run<B>(self, request: Arrived<B>, mut open: Open) -> Answer<Inner, B>
    where
        M: EndpointMode + RunsOn<S>,
        Inner: InnerService<B>,
        B: RequestBody,
    {
        let shared = Arc::clone(&self.shared);
        let Shared {
            executor,
            rules,
            tasks,
            meters,
        } = &*shared;
        if meters.is_to_be_sampled() {
            tokio::spawn(sample(executor.clone(), Arc::downgrade(meters)));
        }
        open.otherwise(ExecutionKind::Interrupted);
        let told = |problem| Ok(ResponseBody::whole(rules.protocol.tell(problem)));
        // Who has no key must not be told to come again: another handler would run beside this one. Nor must whoever is
        // only observed.
        let is_told = request.key.is_some() && !rules.only_observe();
        let deadline = rules.deadline.filter(|_| is_told);
        let wait = rules.wait.clamp(A_WHILE, LONGEST_WAIT);
        // Whoever is only observed runs, however long that takes.
        let begins_by = (!rules.only_observe()).then(|| Instant::now() + wait);
        let call = Arc::new(Call::new::<M>(
            self.inner.clone(),
            Arc::clone(rules),
            request.is_read(),
            begins_by,
            is_told,
        ));
        // The client may go away, which drops this future; what has begun has to end all the same, and whoever drains
        // waits for it.
        let work = tasks.track_future(
            self.work(request, Arc::clone(&call), open)
                .in_current_span(),
        );
        let mut work = DetachOnDrop::new(work);
        let worked = match deadline {
            Some(deadline) => {
                let Ok(worked) = timeout(deadline, &mut work).await else {
                    let detail = "send the request again later, with the same key";
                    let problem = Problem::new(ProblemKind::Deadline, detail);
                    return told(problem.retry_after(A_WHILE));
                };
                worked
            }
            None if is_told => {
                select! {
                    biased;
                    worked = &mut work => worked,
                    is_known = call.ended_before(wait) => {
                        meters.count_unrecorded();
                        tracing::warn!(is_known, "a request is answered before its end is recorded: the store does not answer");
                        return match call.take_answered().filter(|_| is_known) {
                            Some(live) => live,
                            None if is_known => told(Problem::new(ProblemKind::HandlerFailed, FAILED)),
                            None => {
                                let detail = "it may have been handled; send it again with the same key";
                                told(Problem::new(ProblemKind::Deadline, detail).retry_after(A_WHILE))
                            }
                        };
                    }
                }
            }
            None => work.await,
        };
        worked.unwrap_or_else(|_| {
            tracing::error!("a request has ended without an answer: its handling panicked");
            told(Problem::new(ProblemKind::HandlerFailed, FAILED))
        })
    }

    /// Handles a request, or waits for another one with its key to be handled.
    async fn work<B>(
        self,
        mut request: Arrived<B>,
        call: Arc<CallOf<Inner, B>>,
        open: Open,
    ) -> Answer<Inner, B>
    where
        M: EndpointMode + RunsOn<S>,
        Inner: InnerService<B>,
        B: RequestBody,
    {
        let Shared {
            executor,
            rules,
            tasks,
            meters,
        } = &*self.shared;
        if !M::RUNS_UNCLAIMED {
            request.body_timeout = Some(rules.body_timeout.min(LONGEST_WAIT));
        }
        let mut policy = rules.policy;
        let (key, refused) = (request.key.clone(), request.refused);
        if key.is_none() && refused.is_none() {
            meters.tell_unkeyed(&rules.name, || request.path());
        }
        if request.key.is_none() && !M::RUNS_UNCLAIMED {
            request.claim_anything(rules);
            // Nobody can ask for its response.
            let forgotten = policy.to_builder().retention(policy.lease()).build();
            policy = forgotten.expect("a retention may be as short as the lease");
        } else if request.key.is_none() {
            let unkeyed = policy.to_builder().keyless(Keyless::Run).build();
            policy = unkeyed.expect("what was changed of it can be");
        }
        let prepared = Prepared::<Endpoint<M, B>>::new(request.into_envelope(), &policy);
        let (ended, mut would_have_been) = match prepared {
            Ok(mut prepared) => {
                let ended = until_ended(executor, &mut prepared, &call, rules.wait).await;
                let would_have_been = prepared.would_have_been();
                if !prepared.is_unclaimed() && ended.as_ref().is_none_or(may_be_claimed) {
                    // Its client may send it again at once, and nobody else gives its claim up.
                    tasks.spawn(executor.abandon(prepared).in_current_span());
                }
                (ended, would_have_been)
            }
            Err(ended) => (Some(ended), None),
        };
        let Some(ended) = ended else {
            tracing::warn!(
                key = key.as_ref().map_or("none", Key::as_str),
                "a request was not handled: no transaction was to be had, or the service behind the layer was not ready"
            );
            open.end(ProblemKind::Busy.outcome(), None, key.as_ref());
            let detail = "this copy has done nothing; send the request again, with the same key";
            let problem = Problem::new(ProblemKind::Busy, detail).retry_after(A_WHILE);
            return Ok(ResponseBody::whole(rules.protocol.tell(problem)));
        };
        if key.is_none() {
            // The engine knows only that it has no key. It needs none, or something was wrong with it.
            would_have_been = refused;
        }
        let kind = match ended.kind() {
            // What is claimed for it is a key that nobody can send: a copy runs again.
            ExecutionKind::Executed if key.is_none() => ExecutionKind::Unclaimed,
            kind => kind,
        };
        tracing::debug!(ended = %kind, "a request has ended");
        open.end(kind, would_have_been, key.as_ref());
        let is_remembered = key.is_some() && !rules.only_observe();
        answer(
            ended,
            call.take_answered(),
            key.as_ref(),
            is_remembered.then(|| policy.retention()),
            rules.wait,
            &*rules.protocol,
        )
    }
}

/// Handles a request, again and again while another one has its key or the store is away, for as long as a copy waits.
/// `None` if its handler was kept waiting for as long.
async fn until_ended<S, M, Inner, B>(
    executor: &Executor<S>,
    request: &mut Prepared<Endpoint<M, B>>,
    call: &CallOf<Inner, B>,
    wait: Duration,
) -> Option<Execution<Remembered, Unsuccessful>>
where
    S: Store,
    M: EndpointMode + RunsOn<S>,
    Inner: InnerService<B>,
    B: RequestBody,
{
    let until = Instant::now() + wait.min(LONGEST_WAIT);
    let mut pause = FIRST_PAUSE;
    loop {
        let ended = select! {
            biased;
            ended = executor.handle(request, call) => ended,
            () = call.kept_waiting() => return None,
        };
        let left = until.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return Some(ended);
        }
        match &ended {
            Execution::Conflict { remaining } => {
                let next = pause.min(*remaining).max(FIRST_PAUSE).min(left);
                select! {
                    () = sleep(next) => {}
                    () = request.holder_ended() => {}
                }
            }
            Execution::StoreUnavailable { .. } if !call.is_spent() => sleep(pause.min(left)).await,
            // What it did is rolled back, and another request has the key, or has had it: this one is its copy now.
            Execution::LeaseLost { .. } if call.may_run_again() => {
                request.renew_owner();
                sleep(pause.min(left)).await;
            }
            _ => return Some(ended),
        }
        pause = (pause * 2).min(LONGEST_PAUSE);
    }
}

/// Whether the store may have a claim of a request that ended so, and did not run.
fn may_be_claimed<T, E>(ended: &Execution<T, E>) -> bool {
    // One that is full has recorded nothing.
    matches!(ended, Execution::StoreUnavailable { error } if !matches!(error, StoreError::Full(_)))
}

/// Brings the engine's gauges up to date, as a worker does, for as long as there is a layer.
async fn sample<S: Store>(executor: Executor<S>, meters: Weak<Meters>) {
    while meters.strong_count() > 0 {
        executor.sample();
        sleep(SAMPLED_EVERY).await;
    }
}

impl<S, M, Inner: Clone> Clone for Idempotency<S, M, Inner> {
    fn clone(&self) -> Self {
        Self {
            shared: Arc::clone(&self.shared),
            inner: self.inner.clone(),
            mode: PhantomData,
        }
    }
}

#[cfg(feature = "tonic")]
impl<S, M, Inner: tonic::server::NamedService> tonic::server::NamedService
    for Idempotency<S, M, Inner>
{
    const NAME: &'static str = Inner::NAME;
}

impl<S, M, Inner> fmt::Debug for Idempotency<S, M, Inner> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Idempotency")
            .field("rules", &self.shared.rules)
            .finish_non_exhaustive()
    }
}
