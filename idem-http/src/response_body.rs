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
        Begun { read: Bytes, body: Pin<Box<B>> },
        Whole { bytes: Bytes, trailers: Option<HeaderMap> },
    }
}

impl<B> ResponseBody<B> {
    pub(crate) fn handlers(body: B) -> Self {
        let inner = Inner::Handlers { body };
        Self { inner }
    }

    /// The handler's, of which so much was read.
    pub(crate) fn begun(read: Bytes, body: Pin<Box<B>>) -> Self {
        let inner = Inner::Begun { read, body };
        Self { inner }
    }

    pub(crate) fn whole(response: Response<Bytes>) -> Response<Self> {
        Self::with_trailers(response, HeaderMap::new())
    }

    pub(crate) fn with_trailers(response: Response<Bytes>, trailers: HeaderMap) -> Response<Self> {
        let trailers = Some(trailers).filter(|trailers| !trailers.is_empty());
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
            Projected::Begun { read, body } if read.is_empty() => body.as_mut().poll_frame(cx),
            Projected::Begun { read, .. } => {
                let read = std::mem::take(read);
                Poll::Ready(Some(Ok(Frame::data(read))))
            }
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
            Inner::Begun { read, body } => read.is_empty() && body.is_end_stream(),
            Inner::Whole { bytes, trailers } => bytes.is_empty() && trailers.is_none(),
        }
    }

    fn size_hint(&self) -> SizeHint {
        match &self.inner {
            Inner::Handlers { body } => body.size_hint(),
            Inner::Begun { read, body } => {
                let (read, rest) = (read.len() as u64, body.size_hint());
                let mut size = SizeHint::new();
                size.set_lower(rest.lower().saturating_add(read));
                if let Some(upper) = rest.upper() {
                    size.set_upper(upper.saturating_add(read));
                }
                size
            }
            Inner::Whole {
                bytes,
                trailers: None,
            } => SizeHint::with_exact(bytes.len() as u64),
            // HTTP/1.1 sends trailers after chunks, and those only if no length was told.
            Inner::Whole { bytes, .. } => {
                let mut size = SizeHint::new();
                size.set_lower(bytes.len() as u64);
                size
            }
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
            ("", HeaderMap::new()),
            ("receipt", HeaderMap::new()),
            ("", trailers()),
            ("receipt", trailers()),
        ] {
            let response = Response::new(Bytes::from(bytes));
            let response = ResponseBody::<Empty<_>>::with_trailers(response, trailers.clone());
            let body = response.into_body();
            let exact = trailers.is_empty().then_some(bytes.len() as u64);
            assert_eq!(body.size_hint().exact(), exact);
            assert_eq!(body.size_hint().lower(), bytes.len() as u64);
            let is_over = bytes.is_empty() && trailers.is_empty();
            assert_eq!(body.is_end_stream(), is_over, "{bytes}");
            let body = body.collect().await.unwrap();
            let sent = body.trailers().cloned().unwrap_or_default();
            assert_eq!(sent, trailers, "{bytes}");
            assert_eq!(body.to_bytes(), bytes);
        }
    }

    #[tokio::test]
    async fn a_body_that_was_begun_is_sent_from_its_beginning() {
        for (read, rest) in [("a ", "receipt"), ("a receipt", ""), ("", "a receipt")] {
            let full = http_body_util::Full::new(Bytes::from(rest));
            let body = ResponseBody::begun(Bytes::from(read), Box::pin(full));
            assert_eq!(body.size_hint().exact(), Some(9));
            assert!(!body.is_end_stream());
            assert_eq!(body.collect().await.unwrap().to_bytes(), "a receipt");
        }
    }
}
