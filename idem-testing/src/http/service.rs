//! A user's service, whatever its type; and a request to it that ends with its process.

use std::{
    fmt::Display,
    future::poll_fn,
    pin::Pin,
    rc::Rc,
    task::{Context, Poll},
};

use bytes::Bytes;
use http::{Request, Response};
use http_body::Body;
use http_body_util::{BodyExt as _, Full};
use idem_http::end_with_process;
use tower_service::Service;

use super::Answer;
use crate::{probe, watched::watch_waits};

/// A service of any type.
pub(super) type AnyService = Rc<dyn Fn(Request<Bytes>) -> Answering>;

pub(super) fn any<S, R>(service: S) -> AnyService
where
    S: Service<Request<Full<Bytes>>, Response = Response<R>, Error: Display> + Clone + 'static,
    S::Future: 'static,
    R: Body<Error: Display> + 'static,
{
    Rc::new(move |request| {
        let work = watch_waits(answer(service.clone(), request), probe::service_waits);
        Answering(Some(Box::pin(work)))
    })
}

async fn answer<S, R>(mut service: S, request: Request<Bytes>) -> Answer
where
    S: Service<Request<Full<Bytes>>, Response = Response<R>, Error: Display>,
    R: Body<Error: Display>,
{
    let answered = async {
        let failed = |error: S::Error| format!("the service failed: {error}");
        let ready = poll_fn(|cx| service.poll_ready(cx)).await;
        ready.map_err(failed)?;
        let response = service.call(request.map(Full::new)).await;
        let (head, body) = response.map_err(failed)?.into_parts();
        let body = body.collect().await;
        let body = body.map_err(|error| format!("its response broke off: {error}"))?;
        Ok(Response::from_parts(head, body.to_bytes()))
    };
    Answer::new(answered.await)
}

/// A request under way. Dropped, it goes on, as one whose client has gone.
pub(super) struct Answering(Option<Pin<Box<dyn Future<Output = Answer>>>>);

impl Answering {
    /// The same request, which ends with its process when it is dropped.
    pub(super) fn mortal(self) -> Mortal {
        Mortal(self)
    }
}

impl Future for Answering {
    type Output = Answer;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Answer> {
        let work = self.0.as_mut().expect("it is there until it is dropped");
        work.as_mut().poll(cx)
    }
}

/// A request whose process is killed before it has ended.
pub(super) struct Mortal(Answering);

impl Future for Mortal {
    type Output = Answer;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Answer> {
        Pin::new(&mut self.0).poll(cx)
    }
}

impl Drop for Mortal {
    fn drop(&mut self) {
        end_with_process(self.0.0.take());
    }
}
