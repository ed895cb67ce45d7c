//! Reads a body up to where it is too large, or more than one message.

use std::{mem, pin::Pin};

use bytes::{Bytes, BytesMut};
use http::HeaderMap;
use http_body::Body;
use http_body_util::BodyExt as _;

/// What was read of a body.
#[derive(Debug)]
pub(crate) enum Read {
    /// All of it.
    Whole(Bytes, Option<HeaderMap>),
    /// The beginning of one that has more than so many bytes.
    TooLarge(Bytes),
    /// The beginning of one that holds more than one message.
    Many(Bytes),
}

/// Reads until the end, or until it is known that there are more than `limit` bytes, or that they are not `one`
/// message.
pub(crate) async fn read<B>(
    body: Pin<&mut B>,
    limit: usize,
    is_one: impl Fn(&[u8]) -> bool,
) -> Result<Read, B::Error>
where
    B: Body<Data = Bytes>,
{
    read_into(&mut Bytes::new(), body, limit, is_one).await
}

/// The same. Dropped in the middle, it leaves there what it has read.
pub(crate) async fn read_into<B>(
    so_far: &mut Bytes,
    mut body: Pin<&mut B>,
    limit: usize,
    is_one: impl Fn(&[u8]) -> bool,
) -> Result<Read, B::Error>
where
    B: Body<Data = Bytes>,
{
    let mut trailers = None;
    while let Some(frame) = body.frame().await {
        match frame?.into_data() {
            Ok(data) => *so_far = joined(mem::take(so_far), data),
            Err(frame) => trailers = frame.into_trailers().ok().or(trailers),
        }
        if !is_one(so_far) {
            return Ok(Read::Many(mem::take(so_far)));
        }
        if so_far.len() > limit {
            return Ok(Read::TooLarge(mem::take(so_far)));
        }
    }
    Ok(Read::Whole(mem::take(so_far), trailers))
}

/// Joins two pieces. The first is not copied if nobody else has it.
fn joined(first: Bytes, second: Bytes) -> Bytes {
    if first.is_empty() {
        return second;
    }
    let mut both = BytesMut::from(first);
    both.extend_from_slice(&second);
    both.freeze()
}

#[cfg(test)]
mod tests {
    use std::{convert::Infallible, pin::pin};

    use http_body::Frame;
    use http_body_util::StreamBody;

    use super::*;

    async fn of(chunks: &[&'static str], limit: usize) -> Read {
        let frames = chunks.iter().map(|chunk| Frame::data(Bytes::from(*chunk)));
        let trailers = HeaderMap::from_iter([("x-sum".parse().unwrap(), "17".parse().unwrap())]);
        let frames: Vec<_> = frames.chain([Frame::trailers(trailers)]).collect();
        let frames = frames.into_iter().map(Ok::<_, Infallible>);
        let body = pin!(StreamBody::new(futures_util::stream::iter(frames)));
        let read = read(body, limit, |read| !read.contains(&b';')).await;
        read.unwrap_or_else(|never| match never {})
    }

    #[tokio::test]
    async fn a_body_is_read_to_its_end_or_to_where_it_is_known_not_to_fit() {
        for chunks in [
            &["abc", "", "def"][..],
            &["abcdef"],
            &["a", "b", "c", "def"],
        ] {
            let read = of(chunks, 6).await;
            let Read::Whole(bytes, Some(trailers)) = read else {
                panic!("{read:?}");
            };
            assert_eq!(
                (&*bytes, &trailers["x-sum"]),
                (&b"abcdef"[..], &"17".parse().unwrap())
            );
        }
        let read = of(&["abc", "def", "ghi"], 5).await;
        assert!(
            matches!(&read, Read::TooLarge(bytes) if bytes == "abcdef"),
            "{read:?}"
        );
        let read = of(&["abc", ";def", "ghi"], 5).await;
        assert!(
            matches!(&read, Read::Many(bytes) if bytes == "abc;def"),
            "{read:?}"
        );
        let read = of(&[], 0).await;
        assert!(
            matches!(&read, Read::Whole(bytes, Some(_)) if bytes.is_empty()),
            "{read:?}"
        );
    }
}
