//! The body of an answer: the handler's own, or bytes that are there.

use std::{
    pin::Pin,
    task::{Context, Poll},
};

use bytes::Bytes;
use http::Response;
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
        Whole { bytes: Bytes },
    }
}

impl<B> ResponseBody<B> {
    pub(crate) fn handlers(body: B) -> Self {
        let inner = Inner::Handlers { body };
        Self { inner }
    }

    pub(crate) fn whole(response: Response<Bytes>) -> Response<Self> {
        response.map(|bytes| Self {
            inner: Inner::Whole { bytes },
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
            Projected::Whole { bytes } => {
                let bytes = std::mem::take(bytes);
                Poll::Ready((!bytes.is_empty()).then(|| Ok(Frame::data(bytes))))
            }
        }
    }

    fn is_end_stream(&self) -> bool {
        match &self.inner {
            Inner::Handlers { body } => body.is_end_stream(),
            Inner::Whole { bytes } => bytes.is_empty(),
        }
    }

    fn size_hint(&self) -> SizeHint {
        match &self.inner {
            Inner::Handlers { body } => body.size_hint(),
            Inner::Whole { bytes } => SizeHint::with_exact(bytes.len() as u64),
        }
    }
}
