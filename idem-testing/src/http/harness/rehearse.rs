//! The harness, as it is asked by `assert_idempotent`.

use std::{borrow::Cow, rc::Rc, sync::Arc};

use bytes::Bytes;
use http::Request;
use idem_core::executor::ExecutionKind;

use super::{Answer, Harness, send_until_done_by};
use crate::{Call, CrashPoint, Ending, Ground, Rehearsal, rehearsal::sealed};

const KEY: &str = "idempotency-key";

impl<St, G: Ground> sealed::Rehearsal for Harness<St, G> {}

impl<St, G: Ground> Rehearsal for Harness<St, G> {
    type Message = Request<Bytes>;

    const HAS_CLIENT: bool = true;

    fn scope(&self) -> &'static str {
        "http"
    }

    fn name_of(&self, request: &Request<Bytes>) -> Cow<'static, str> {
        format!("{} {}", request.method(), request.uri().path()).into()
    }

    async fn fresh(&self) -> Self {
        let (ground, make) = (self.ground.fresh().await, Arc::clone(&self.make));
        let state = Arc::new(make(&ground));
        Self::on(ground, state, make, Rc::clone(&self.make_service))
    }

    async fn forgetful(&self) -> Self {
        let ground = self.ground.forgetful().await;
        let (state, make) = (Arc::clone(&self.state), Arc::clone(&self.make));
        Self::on(ground, state, make, Rc::clone(&self.make_service))
    }

    fn again(request: &Request<Bytes>) -> Request<Bytes> {
        request.clone()
    }

    async fn ending(&self, request: &Request<Bytes>) -> Ending {
        let answer = self.send_until_done(request).await;
        self.ending_of(request, &answer)
    }

    async fn endings_at_once(&self, request: &Request<Bytes>) -> [Ending; 2] {
        let [one, other] = [self.start_process(), self.start_process()];
        let (one, other) = tokio::join!(
            send_until_done_by(&one, request),
            send_until_done_by(&other, request)
        );
        [one, other].map(|answer| self.ending_of(request, &answer))
    }

    async fn crash_or_end(&self, point: CrashPoint, request: &Request<Bytes>) -> Option<Ending> {
        let answer = self.try_crash(point, request).await?;
        Some(self.ending_of(request, &answer))
    }

    fn lose_answer(&self, call: Call) {
        self.store().lose_next_answer(call);
    }

    fn fail(&self, call: Call) {
        self.store().fail_next(call);
    }

    async fn leave_or_end(&self, wait: u32, request: &Request<Bytes>) -> Option<Ending> {
        let answer = self.try_leave(wait, request).await?;
        Some(self.ending_of(request, &answer))
    }

    /// White space at the end: JSON and forms say the same with it, and a layer that compares bodies sees it.
    fn with_other_content(request: &Request<Bytes>) -> Option<Request<Bytes>> {
        let mut body = request.body().to_vec();
        body.push(b' ');
        Some(request.clone().map(|_| body.into()))
    }
}

impl<St, G: Ground> Harness<St, G> {
    /// A copy has to be answered as the first was.
    fn ending_of(&self, request: &Request<Bytes>, answer: &Answer) -> Ending {
        let key = request.headers().get(KEY);
        let ending = |kind, error| Ending {
            kind,
            key: key.map(|key| String::from_utf8_lossy(key.as_bytes()).into_owned()),
            error,
        };
        let kind = answer.kind();
        if kind == ExecutionKind::Executed || kind == ExecutionKind::Duplicate {
            let Some(key) = key else {
                return ending(kind, None);
            };
            let mut answered = self.answered.borrow_mut();
            let first = answered.entry(key.clone()).or_insert(answer.clone());
            if first.is_like(answer) {
                return ending(kind, None);
            }
            let error = format!(
                "it was answered with {}, and before with {}",
                answer.in_words(),
                first.in_words()
            );
            return ending(ExecutionKind::Failed, Some(error));
        }
        ending(kind, Some(answer.in_words()))
    }
}
