//! A request as an operation of the engine, whose handler is the service behind the layer.
// docs/decisions/0044

use std::{
    fmt,
    future::{pending, poll_fn},
    marker::PhantomData,
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicBool, Ordering::Relaxed},
    },
    time::Duration,
};

use bytes::Bytes;
use http::{
    Extensions, Request, Response, StatusCode,
    header::{self, HeaderMap},
    response::Parts as Head,
};
use http_body::Body;
use idem_core::{
    __private::outbox,
    Envelope, Failure, Key, Policy, Verdict,
    handler::{
        AtomicOwned, Context, DecodeError, Handler, Leased, Mode, Operation, OwnedTransaction,
        Refusal, Rejection,
    },
    message::{Fingerprint, KeyError},
};
use serde_json::Value;
use tokio::{
    sync::Notify,
    time::{Instant, sleep_until, timeout, timeout_at},
};
use tower_service::Service;

use crate::{
    reading::{Read, read},
    remember::Remember,
    remembered::Remembered,
    request::Arrived,
    response_body::ResponseBody,
    rules::Rules,
    wrapped_service::{InnerService, RequestBody},
};

/// Requests with a body of type `B`, handled in mode `M`.
pub(crate) struct Endpoint<M, B>(PhantomData<fn() -> (M, B)>);

/// A mode in which a layer can run handlers: [`Leased`], or [`AtomicOwned`]. Sealed.
pub trait EndpointMode: Mode + sealed::Attach {}

impl EndpointMode for Leased {}

impl<Tx: Send + 'static> EndpointMode for AtomicOwned<Tx> {}

mod sealed {
    use super::{AtomicOwned, Extensions, Leased, Mode, TxSlot};

    pub trait Attach: Mode {
        /// Whether what a handler publishes can commit with its response.
        const PUBLISHES: bool;

        /// Whether a handler may be called again for one request: what it wrote was rolled back because the store went
        /// away.
        const RUNS_AGAIN: bool;

        /// Puts what the handler is lent where its extractor finds it.
        fn attach(lent: Self::Lent<'_>, extensions: &mut Extensions);
    }

    impl Attach for Leased {
        const PUBLISHES: bool = false;
        // Of what was done without a transaction the end is repeated, never the work.
        const RUNS_AGAIN: bool = false;

        fn attach((): (), _: &mut Extensions) {}
    }

    impl<Tx: Send + 'static> Attach for AtomicOwned<Tx> {
        const PUBLISHES: bool = true;
        const RUNS_AGAIN: bool = true;

        fn attach(lent: Self::Lent<'_>, extensions: &mut Extensions) {
            extensions.insert(TxSlot::holding(lent));
        }
    }
}

/// Marks a request that a layer handles once: one inside of it leaves it alone.
#[derive(Clone, Copy)]
pub(crate) struct Handled;

/// A transaction until the handler takes it.
pub(crate) struct TxSlot<Tx>(Arc<Mutex<Option<OwnedTransaction<Tx>>>>);

impl<Tx> TxSlot<Tx> {
    fn holding(transaction: OwnedTransaction<Tx>) -> Self {
        Self(Arc::new(Mutex::new(Some(transaction))))
    }

    pub(crate) fn take(&self) -> Option<OwnedTransaction<Tx>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).take()
    }
}

impl<Tx> Clone for TxSlot<Tx> {
    fn clone(&self) -> Self {
        Self(Arc::clone(&self.0))
    }
}

impl<M: EndpointMode, B: RequestBody> Operation for Endpoint<M, B> {
    type Message = Request<B>;
    type Output = Remembered;
    type Error = Unsuccessful;
    type Mode = M;
    // Of the metrics. Keys begin with the layer's name.
    const SCOPE: &'static str = "http";
    const PUBLISHES: bool = M::PUBLISHES;

    fn decode(envelope: &Envelope) -> Result<Request<B>, DecodeError> {
        Arrived::of(envelope, M::RUNS_AGAIN)
    }

    fn key(_: &Request<B>, envelope: &Envelope) -> Result<Key, KeyError> {
        let missing = || KeyError::Missing {
            part: crate::key::IDEMPOTENCY_KEY.to_string(),
        };
        let arrived = Arrived::<B>::in_envelope(envelope);
        arrived.key.clone().ok_or_else(missing)
    }

    fn fingerprint(_: &Request<B>, envelope: &Envelope) -> Option<Fingerprint> {
        Arrived::<B>::in_envelope(envelope).fingerprint
    }
}

/// What the service answered, before anybody is told of it.
pub(crate) type Live<B, E> = Result<Response<ResponseBody<B>>, E>;

/// One call of the service behind the layer.
pub(crate) struct Call<Inner, B, E> {
    /// The service behind the layer. It is here until it is called for the last time.
    service: Mutex<Option<Inner>>,
    runs_again: bool,
    rules: Arc<Rules>,
    /// Whether the request's body was read before; else it can be handed on once.
    is_read: bool,
    /// Whether the request was for a route that there is.
    is_routed: AtomicBool,
    was_called: AtomicBool,
    /// Whether it is beyond the wait for a transaction.
    is_lent: AtomicBool,
    /// The time until which it waits for that, and for its service; `None` if it does so without limit.
    begins_by: Option<Instant>,
    /// Wakes whoever handles it: its service was not ready in time.
    is_kept_waiting: Notify,
    answered: Mutex<Option<Live<B, E>>>,
    last_attempt: LastAttempt,
    /// Whether the layer sees to it that the request is handled once.
    protects: bool,
}

/// How the last attempt of a call has ended: whether what it did is to stay. `None` while there is none, or it runs.
#[derive(Default)]
struct LastAttempt {
    ended: Mutex<Option<bool>>,
    /// Wakes the one task that waits.
    changed: Notify,
}

impl LastAttempt {
    fn ended(&self) -> Option<bool> {
        *self.ended.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn set(&self, ended: Option<bool>) {
        *self.ended.lock().unwrap_or_else(PoisonError::into_inner) = ended;
        self.changed.notify_one();
    }

    async fn wait_for(&self, is_awaited: impl Fn(Option<bool>) -> bool) {
        while !is_awaited(self.ended()) {
            self.changed.notified().await;
        }
    }
}

/// An attempt that has not ended. Dropped, it has: it may have panicked, or taken too long.
struct Ending<'a> {
    attempt: &'a LastAttempt,
    stays: bool,
}

impl Drop for Ending<'_> {
    fn drop(&mut self) {
        self.attempt.set(Some(self.stays));
    }
}

/// A call of this service with requests whose body is a `B`.
pub(crate) type CallOf<Inner, B> =
    Call<Inner, <Inner as InnerService<B>>::ResponseBody, <Inner as Service<Request<B>>>::Error>;

impl<Inner, B, E> Call<Inner, B, E> {
    pub(crate) fn new<M: EndpointMode>(
        service: Inner,
        rules: Arc<Rules>,
        is_read: bool,
        begins_by: Option<Instant>,
        protects: bool,
    ) -> Self {
        Self {
            service: Mutex::new(Some(service)),
            runs_again: M::RUNS_AGAIN,
            rules,
            is_read,
            is_routed: AtomicBool::new(true),
            was_called: AtomicBool::new(false),
            is_lent: AtomicBool::new(false),
            begins_by,
            is_kept_waiting: Notify::new(),
            answered: Mutex::new(None),
            last_attempt: LastAttempt::default(),
            protects,
        }
    }

    /// Waits until its handler is kept waiting for too long: for a transaction, or for the service behind the layer.
    /// Nothing has run by then. Waits for ever if its handler begins.
    pub(crate) fn kept_waiting(&self) -> impl Future<Output = ()> {
        // Before its handler can begin.
        self.is_lent.store(false, Relaxed);
        async {
            // Without a transaction there is only the claim before it, and the store sets the limit of that.
            if let Some(by) = self.begins_by.filter(|_| self.runs_again) {
                sleep_until(by).await;
                if !self.is_lent.load(Relaxed) {
                    return;
                }
            }
            self.is_kept_waiting.notified().await;
        }
    }

    /// Whether the service was called and cannot be called again, because the request's body is gone.
    pub(crate) fn is_spent(&self) -> bool {
        !self.is_read && self.was_called.load(Relaxed)
    }

    /// Whether nothing speaks against another run: what the last one did is undone, and the request is still there.
    pub(crate) fn may_run_again(&self) -> bool {
        self.runs_again && !self.is_spent()
    }

    /// The service, for one call; `None` if it has none left.
    fn service(&self) -> Option<Inner>
    where
        Inner: Clone,
    {
        let mut service = self.service.lock().unwrap_or_else(PoisonError::into_inner);
        if self.runs_again {
            service.clone()
        } else {
            service.take()
        }
    }

    /// What the service has answered in its last attempt, if there was one.
    pub(crate) fn take_answered(&self) -> Option<Live<B, E>> {
        let mut answered = self.answered.lock().unwrap_or_else(PoisonError::into_inner);
        answered.take()
    }

    /// Waits until its handler has ended, and then for the store, so long. Says whether it is known what became of what
    /// the handler did: without a transaction it is done, and what failed is rolled back.
    pub(crate) async fn ended_before(&self, wait: Duration) -> bool {
        let attempt = &self.last_attempt;
        loop {
            attempt.wait_for(|ended| ended.is_some()).await;
            // Its handler may be called again meanwhile.
            let again = attempt.wait_for(|ended| ended.is_none());
            if timeout(wait, again).await.is_err() {
                let stays = attempt.ended() == Some(true);
                return !self.runs_again || !stays;
            }
        }
    }

    fn answer(&self, answered: Option<Live<B, E>>) {
        *self.answered.lock().unwrap_or_else(PoisonError::into_inner) = answered;
    }
}

impl<M, B, Inner> Handler<CallOf<Inner, B>> for Endpoint<M, B>
where
    M: EndpointMode,
    B: RequestBody,
    Inner: InnerService<B>,
{
    fn call<'a>(
        mut request: Request<B>,
        context: &'a Context<'a, CallOf<Inner, B>>,
        lent: M::Lent<'a>,
    ) -> Result<impl Future<Output = Result<Remembered, Unsuccessful>> + Send + 'a, Rejection> {
        if context.state.protects {
            let protocol = &context.state.rules.protocol;
            protocol.uncompressed(request.headers_mut());
        }
        let extensions = request.extensions_mut();
        extensions.insert(context.attempt);
        extensions.insert(context.attempt.token());
        extensions.insert(context.key.clone());
        if context.state.protects {
            extensions.insert(Handled);
        }
        if M::PUBLISHES {
            extensions.insert(outbox(context));
        }
        M::attach(lent, extensions);
        Ok(context.state.run(request))
    }
}

impl<Inner, RB, E> Call<Inner, RB, E>
where
    RB: Body<Data = Bytes> + Send + 'static,
    E: Send,
{
    /// Calls the service, and says what is remembered of its answer.
    async fn run<B>(&self, request: Request<B>) -> Result<Remembered, Unsuccessful>
    where
        Inner: InnerService<B, ResponseBody = RB> + Service<Request<B>, Error = E>,
        B: RequestBody,
    {
        // What an earlier attempt has answered does not count any more.
        self.answer(None);
        self.last_attempt.set(None);
        let mut ending = Ending {
            attempt: &self.last_attempt,
            stays: false,
        };
        let remembered = self.run_service(request).await;
        ending.stays = remembered.is_ok();
        remembered
    }

    async fn run_service<B>(&self, request: Request<B>) -> Result<Remembered, Unsuccessful>
    where
        Inner: InnerService<B, ResponseBody = RB> + Service<Request<B>, Error = E>,
        B: RequestBody,
    {
        self.was_called.store(true, Relaxed);
        self.is_lent.store(true, Relaxed);
        self.is_routed
            .store(is_routed(request.extensions()), Relaxed);
        let Some(mut service) = self.service() else {
            return Err(Unsuccessful::failed("it was called before"));
        };
        let answered = match self.ready::<B>(&mut service).await {
            Ok(()) => service.call(request).await,
            Err(error) => Err(error),
        };
        match answered {
            Ok(response) => self.judge(response).await,
            Err(error) => {
                self.answer(Some(Err(error)));
                Err(Unsuccessful::failed("the service behind the layer failed"))
            }
        }
    }

    /// Waits until the service is ready. If that takes too long, this waits to be dropped.
    async fn ready<B>(&self, service: &mut Inner) -> Result<(), E>
    where
        Inner: Service<Request<B>, Error = E>,
    {
        let ready = poll_fn(|cx| service.poll_ready(cx));
        let Some(by) = self.begins_by else {
            return ready.await;
        };
        // One that is ready at once is not too late.
        if let Ok(ready) = timeout_at(by, ready).await {
            return ready;
        }
        self.is_kept_waiting.notify_one();
        pending().await
    }

    /// What is remembered of a response. It is kept here as it is, for the client that waits for it.
    async fn judge(&self, response: Response<RB>) -> Result<Remembered, Unsuccessful> {
        let (head, body) = response.into_parts();
        let (protocol, limit) = (&self.rules.protocol, self.rules.max_response);
        let early = self.remembers(&head, None);
        let may_keep = protocol.may_keep(&body.size_hint(), limit as u64);
        if !may_keep || early.is_some_and(Remember::keeps_nothing) {
            return self.as_it_is(head, ResponseBody::handlers(body), early);
        }
        let mut body = Box::pin(body);
        // Before anything is completed: a response that breaks off is none.
        let (bytes, trailers) = match read(body.as_mut(), limit, |read| protocol.is_one(read)).await
        {
            Ok(Read::Whole(bytes, trailers)) => (bytes, trailers.unwrap_or_default()),
            Ok(Read::TooLarge(begun) | Read::Many(begun)) => {
                return self.as_it_is(head, ResponseBody::begun(begun, body), early);
            }
            Err(_) => return Err(Unsuccessful::failed("the handler's response broke off")),
        };
        let ended = self.remembered(&head, &bytes, &trailers);
        let response = Response::from_parts(head, bytes);
        let response = ResponseBody::with_trailers(response, trailers);
        self.answer(Some(Ok(response)));
        ended
    }

    /// A response of which nothing is kept. One whose trailers are yet to come, and are not waited for, is that of work
    /// that is done.
    fn as_it_is(
        &self,
        head: Head,
        body: ResponseBody<RB>,
        early: Option<Remember>,
    ) -> Result<Remembered, Unsuccessful> {
        let status = head.status;
        self.answer(Some(Ok(Response::from_parts(head, body))));
        match early.map_or(Remember::DoneNotKept, Remember::without_response) {
            Remember::DoneNotKept => Ok(Remembered::without_response(status)),
            // A refusal that is not told again is none: another request finds out anew.
            _ => Err(Unsuccessful::answered(status)),
        }
    }

    /// What is remembered of a response that is there.
    fn remembered(
        &self,
        head: &Head,
        body: &[u8],
        trailers: &HeaderMap,
    ) -> Result<Remembered, Unsuccessful> {
        let status = head.status;
        let (limit, forgotten) = (Policy::LARGEST_OUTCOME / 2, &self.rules.forgotten);
        match self.remembers(head, Some(trailers)) {
            Some(Remember::Done) => {
                let response = Remembered::of(head, body, trailers, forgotten, limit);
                Ok(response.unwrap_or_else(|| {
                    tracing::warn!(%status, "a response is not remembered: it has a header that is no text, or is too large");
                    Remembered::without_response(status)
                }))
            }
            Some(Remember::DoneNotKept) => Ok(Remembered::without_response(status)),
            Some(Remember::Refused) => {
                let response = Remembered::value(head, body, trailers, forgotten, limit);
                let refused = response.map(|response| Unsuccessful::refused(status, response));
                Err(refused.unwrap_or_else(|| Unsuccessful::answered(status)))
            }
            Some(Remember::Failed) | None => Err(Unsuccessful::answered(status)),
        }
    }

    /// What a response says about its request: by its handler's word, or as the protocol has it. `None` if its trailers
    /// are to say it.
    fn remembers(&self, head: &Head, trailers: Option<&HeaderMap>) -> Option<Remember> {
        if let Some(said) = head.extensions.get::<Remember>() {
            return Some(*said);
        }
        let has_no_route = !self.is_routed.load(Relaxed) && head.status == StatusCode::NOT_FOUND;
        // Perhaps the body broke off, and that is what is wrong with it.
        let may_do_better = has_no_route || !self.is_read;
        let (protocol, by_status) = (&self.rules.protocol, self.rules.remember);
        Some(match protocol.remembers(head, trailers, by_status)? {
            Remember::Refused if may_do_better => Remember::Failed,
            remember if must_not_be_stored(&head.headers) => remember.without_response(),
            remember => remember,
        })
    }
}

/// Whether there is a route for the request, as far as anybody knows. An instance that is older than the route must not
/// refuse for good what a newer one can do.
fn is_routed(extensions: &Extensions) -> bool {
    #[cfg(feature = "axum")]
    if extensions.get::<axum::extract::OriginalUri>().is_some() {
        return extensions.get::<axum::extract::MatchedPath>().is_some();
    }
    let _ = extensions;
    true
}

fn must_not_be_stored(headers: &HeaderMap) -> bool {
    let values = headers.get_all(header::CACHE_CONTROL).iter();
    let mut directives = values.flat_map(|value| value.to_str().unwrap_or_default().split(','));
    directives.any(|directive| directive.trim().eq_ignore_ascii_case("no-store"))
}

/// Why nothing of what a handler wrote is to stay.
#[derive(Debug)]
pub(crate) struct Unsuccessful {
    why: String,
    /// What copies are answered with, if it is for good.
    refusal: Option<Value>,
}

impl Unsuccessful {
    fn failed(why: impl Into<String>) -> Self {
        Self {
            why: why.into(),
            refusal: None,
        }
    }

    fn answered(status: StatusCode) -> Self {
        Self::failed(format!("the handler answered {status}"))
    }

    fn refused(status: StatusCode, response: Value) -> Self {
        Self {
            refusal: Some(response),
            ..Self::answered(status)
        }
    }
}

impl fmt::Display for Unsuccessful {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.why)
    }
}

impl Failure for Unsuccessful {
    fn verdict(&self) -> Verdict {
        match self.refusal {
            Some(_) => Verdict::Reject,
            None => Verdict::RetryAfter(Duration::ZERO),
        }
    }

    fn refusal(&self) -> Refusal {
        let refusal = Refusal::rejected(&self.why);
        match &self.refusal {
            Some(response) => refusal.typed(response.clone()),
            None => refusal,
        }
    }
}
