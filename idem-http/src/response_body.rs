//! The body of an answer: the handler's own, or bytes that are there.

use std::{
    pin::Pin,
    task::{Context, Poll},
};

use bytes::Bytes;
use http::{HeaderMap, Response};
use http_body::{Body, Frame, SizeHint};
use pin_project_lite::pin_project;

pin_project! {
    /// The body of a response that has passed an [`IdempotencyLayer`](crate::IdempotencyLayer).
    #[derive(Debug)]
    pub struct ResponseBody<B> {
        #[pin]
        inner: Inner<B>,
    }
}

pin_project! {
    #[project = Projected]
    #[derive(Debug)]
    enum Inner<B> {
        Handlers { #[pin] body: B },
        Whole { bytes: Bytes, trailers: Option<HeaderMap> },
    }
}

impl<B> ResponseBody<B> {
    pub(crate) fn handlers(body: B) -> Self {
        let inner = Inner::Handlers { body };
        Self { inner }
    }

    pub(crate) fn whole(response: Response<Bytes>) -> Response<Self> {
        Self::with_trailers(response, None)
    }

    pub(crate) fn with_trailers(
        response: Response<Bytes>,
        trailers: Option<HeaderMap>,
    ) -> Response<Self> {
        response.map(|bytes| Self {
            inner: Inner::Whole { bytes, trailers },
        })
    }
}

impl<B: Body<Data = Bytes>> Body for ResponseBody<B> {
    type Data = Bytes;
    type Error = B::Error;

    fn poll_frame(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, B::Error>>> {
        match self.project().inner.project() {
            Projected::Handlers { body } => body.poll_frame(cx),
            Projected::Whole { bytes, trailers } => {
                let bytes = std::mem::take(bytes);
                let frame = if bytes.is_empty() {
                    trailers.take().map(Frame::trailers)
                } else {
                    Some(Frame::data(bytes))
                };
                Poll::Ready(frame.map(Ok))
            }
        }
    }

    fn is_end_stream(&self) -> bool {
        match &self.inner {
            Inner::Handlers { body } => body.is_end_stream(),
            Inner::Whole { bytes, trailers } => bytes.is_empty() && trailers.is_none(),
        }
    }

    fn size_hint(&self) -> SizeHint {
        match &self.inner {
            Inner::Handlers { body } => body.size_hint(),
            Inner::Whole { bytes, .. } => SizeHint::with_exact(bytes.len() as u64),
        }
    }
}

#[cfg(test)]
mod tests {
    use http_body_util::{BodyExt as _, Empty};

    use super::*;

    #[tokio::test]
    async fn a_body_that_is_there_ends_with_its_trailers() {
        let trailers = || HeaderMap::from_iter([("x-sum".parse().unwrap(), "17".parse().unwrap())]);
        for (bytes, trailers) in [
            ("", None),
            ("receipt", None),
            ("", Some(trailers())),
            ("receipt", Some(trailers())),
        ] {
            let response = Response::new(Bytes::from(bytes));
            let response = ResponseBody::<Empty<_>>::with_trailers(response, trailers.clone());
            let body = response.into_body();
            assert_eq!(body.size_hint().exact(), Some(bytes.len() as u64));
            let is_over = bytes.is_empty() && trailers.is_none();
            assert_eq!(body.is_end_stream(), is_over, "{bytes}");
            let body = body.collect().await.unwrap();
            assert_eq!(body.trailers(), trailers.as_ref(), "{bytes}");
            assert_eq!(body.to_bytes(), bytes);
        }
    }
}
