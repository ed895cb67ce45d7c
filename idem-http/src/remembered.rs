//! A response as it is remembered: status, headers and body, as JSON that a person can read.

use std::collections::HashSet;

use base64::{Engine as _, prelude::BASE64_STANDARD};
use bytes::Bytes;
use http::{
    HeaderMap, HeaderName, HeaderValue, Response, StatusCode, header, response::Parts as Head,
};
use serde::{Deserialize, Serialize};
use serde_json::value::{RawValue, to_raw_value};

/// Those of one connection, and the length, which is the body's.
const CONNECTION: [HeaderName; 9] = [
    header::CONNECTION,
    HeaderName::from_static("keep-alive"),
    header::PROXY_AUTHENTICATE,
    header::PROXY_AUTHORIZATION,
    header::TE,
    header::TRAILER,
    header::TRANSFER_ENCODING,
    header::UPGRADE,
    header::CONTENT_LENGTH,
];

/// What a store keeps of a response. Written once, so its size is known before anything is completed.
#[derive(Debug, Serialize)]
#[serde(transparent)]
pub(crate) struct Remembered(Box<RawValue>);

#[derive(Debug, Serialize, Deserialize)]
struct Stored<H, B> {
    status: u16,
    #[serde(skip_serializing_if = "Option::is_none")]
    headers: Option<H>,
    /// `None` if the response is not kept.
    #[serde(skip_serializing_if = "Option::is_none")]
    body: Option<B>,
    /// `None` if there are none, as in what earlier builds have stored.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    trailers: Option<H>,
}

/// What was stored, as it is read.
type Read = Stored<Vec<(String, String)>, Body<Box<RawValue>, String>>;

/// A body in the first of these forms that gives it back byte by byte.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
enum Body<J, T> {
    Json(J),
    Text(T),
    Base64(String),
}

/// What is known of a response that was remembered.
#[derive(Debug)]
#[expect(
    clippy::large_enum_variant,
    reason = "it is taken apart where it was made"
)]
pub(crate) enum Recalled {
    /// All of it, and its trailers.
    Response(Response<Bytes>, HeaderMap),
    /// It had this status, and nothing else of it was kept.
    WithoutResponse(StatusCode),
}

impl Remembered {
    /// All of a response but these headers and those of its connection; `None` if that cannot be given back as it was:
    /// a header is no text, or it is larger than `limit` in all.
    pub(crate) fn of(
        head: &Head,
        body: &[u8],
        trailers: &HeaderMap,
        forgotten: &HashSet<HeaderName>,
        limit: usize,
    ) -> Option<Self> {
        Self::stored(head, in_json(body), trailers, forgotten, limit)
    }

    /// The same as a value, which does not keep how JSON was spaced: its body is a text.
    pub(crate) fn value(
        head: &Head,
        body: &[u8],
        trailers: &HeaderMap,
        forgotten: &HashSet<HeaderName>,
        limit: usize,
    ) -> Option<serde_json::Value> {
        let Self(json) = Self::stored(head, as_text(body), trailers, forgotten, limit)?;
        serde_json::from_str(json.get()).ok()
    }

    /// That there was a response, and nothing else of it.
    pub(crate) fn without_response(status: StatusCode) -> Self {
        let stored = Stored::<(), ()> {
            status: status.as_u16(),
            headers: None,
            body: None,
            trailers: None,
        };
        Self(to_raw_value(&stored).expect("a number is expressible as JSON"))
    }

    fn stored(
        head: &Head,
        body: Body<&RawValue, &str>,
        trailers: &HeaderMap,
        forgotten: &HashSet<HeaderName>,
        limit: usize,
    ) -> Option<Self> {
        let trailers = Some(trailers).filter(|trailers| !trailers.is_empty());
        let stored = Stored {
            status: head.status.as_u16(),
            headers: Some(kept(&head.headers, forgotten, trailers.is_some())?),
            body: Some(body),
            trailers: match trailers {
                Some(trailers) => Some(kept(trailers, forgotten, false)?),
                None => None,
            },
        };
        let json = to_raw_value(&stored).ok()?;
        (json.get().len() <= limit).then_some(Self(json))
    }
}

impl Recalled {
    /// What was remembered so; `None` if it is nothing of the kind.
    pub(crate) fn of(json: &[u8]) -> Option<Self> {
        let stored: Read = serde_json::from_slice(json).ok()?;
        let status = StatusCode::from_u16(stored.status).ok()?;
        let Some(body) = stored.body else {
            return Some(Self::WithoutResponse(status));
        };
        let body = match body {
            Body::Json(json) => String::from(Box::<str>::from(json)).into(),
            Body::Text(text) => text.into(),
            Body::Base64(text) => BASE64_STANDARD.decode(text).ok()?.into(),
        };
        let mut response = Response::new(body);
        *response.status_mut() = status;
        *response.headers_mut() = headers(stored.headers.unwrap_or_default())?;
        let trailers = headers(stored.trailers.unwrap_or_default())?;
        Some(Self::Response(response, trailers))
    }
}

fn headers(stored: Vec<(String, String)>) -> Option<HeaderMap> {
    let mut headers = HeaderMap::with_capacity(stored.len());
    for (name, value) in stored {
        let value = HeaderValue::from_bytes(value.as_bytes()).ok()?;
        headers.append(name.parse::<HeaderName>().ok()?, value);
    }
    Some(headers)
}

/// The headers that are kept, and the one that announces trailers if there are any; `None` if one is no text.
fn kept<'a>(
    headers: &'a HeaderMap,
    forgotten: &HashSet<HeaderName>,
    has_trailers: bool,
) -> Option<Vec<(&'a str, &'a str)>> {
    // What a connection's header names is of the connection, too.
    let of_connection = |name: &HeaderName| {
        (CONNECTION.contains(name) && !(has_trailers && name == header::TRAILER))
            || headers.get_all(header::CONNECTION).iter().any(|named| {
                let named = named.to_str().unwrap_or_default().split(',');
                named
                    .into_iter()
                    .any(|it| it.trim().eq_ignore_ascii_case(name.as_str()))
            })
    };
    let kept = headers.iter();
    let kept = kept.filter(|(name, _)| !forgotten.contains(*name) && !of_connection(name));
    kept.map(|(name, value)| Some((name.as_str(), str::from_utf8(value.as_bytes()).ok()?)))
        .collect()
}

fn in_json(body: &[u8]) -> Body<&RawValue, &str> {
    match serde_json::from_slice::<&RawValue>(body) {
        // White space round it is not part of the value.
        Ok(json) if json.get().len() == body.len() => Body::Json(json),
        _ => as_text(body),
    }
}

fn as_text(body: &[u8]) -> Body<&RawValue, &str> {
    match str::from_utf8(body) {
        // A zero byte is no text for people, nor for every database.
        Ok(text) if !body.contains(&0) => Body::Text(text),
        _ => Body::Base64(BASE64_STANDARD.encode(body)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn response(headers: &[(&str, &[u8])]) -> Head {
        let mut response = Response::builder().status(201);
        for (name, value) in headers {
            response = response.header(*name, HeaderValue::from_bytes(value).unwrap());
        }
        response.body(()).unwrap().into_parts().0
    }

    fn recalled(head: &Head, body: &[u8]) -> Response<Bytes> {
        let remembered = Remembered::of(head, body, &HeaderMap::new(), &HashSet::new(), 1 << 20);
        let json = serde_json::to_vec(&remembered.expect("it is kept")).unwrap();
        match Recalled::of(&json) {
            Some(Recalled::Response(response, trailers)) if trailers.is_empty() => response,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn a_body_comes_back_byte_by_byte() {
        let (none, all) = (HeaderMap::new(), HashSet::new());
        let deep = [b"[".repeat(200), b"]".repeat(200)].concat();
        for (body, form) in [
            (&br#"{"a": 1,  "b":[1.50, 1e3]}"#[..], "json"),
            (b"17", "json"),
            (b" {} ", "text"),
            (b"{} {}", "text"),
            (b"", "text"),
            ("Gr\u{fc}\u{df}e \u{1}\n\"".as_bytes(), "text"),
            (b"\0\0\0\0\x02ok", "base64"),
            (b"\xff\x00\xfe", "base64"),
            (&deep, "json"),
        ] {
            let head = response(&[]);
            let remembered = Remembered::of(&head, body, &none, &all, 1 << 20).unwrap();
            let json = serde_json::to_string(&remembered).unwrap();
            assert!(json.contains(&format!(r#""body":{{"{form}":"#)), "{json}");
            assert_eq!(recalled(&head, body).body(), body, "{json}");
            let value = Remembered::value(&head, body, &none, &all, 1 << 20).unwrap();
            let Some(Recalled::Response(again, _)) = Recalled::of(value.to_string().as_bytes())
            else {
                panic!("{value}");
            };
            assert_eq!(again.body(), body, "{value}");
        }
    }

    #[test]
    fn headers_come_back_but_those_of_the_connection_and_those_to_be_forgotten() {
        let head = response(&[
            ("content-type", b"application/json"),
            ("x-two", b"1"),
            ("x-two", "\u{fc}".as_bytes()),
            ("trailer", b"x-two"),
            ("connection", b"close, X-Hop"),
            ("x-hop", b"1"),
            ("keep-alive", b"1"),
            ("transfer-encoding", b"chunked"),
            ("content-length", b"2"),
            ("date", b"now"),
        ]);
        let forgotten = HashSet::from([header::DATE]);
        let trailers = response(&[("grpc-status", b"0"), ("x-two", b"1"), ("x-two", b"2")]).headers;
        let remembered = Remembered::of(&head, b"{}", &trailers, &forgotten, 1 << 20).unwrap();
        let Some(Recalled::Response(again, sent)) =
            Recalled::of(&serde_json::to_vec(&remembered).unwrap())
        else {
            panic!("{remembered:?}");
        };
        let again: Vec<_> = again
            .headers()
            .iter()
            .map(|(name, value)| (name.as_str(), value.as_bytes()))
            .collect();
        let expected: [(&str, &[u8]); 4] = [
            ("content-type", b"application/json"),
            ("x-two", b"1"),
            ("x-two", "\u{fc}".as_bytes()),
            // Without trailers it would announce what does not come.
            ("trailer", b"x-two"),
        ];
        assert_eq!(again, expected);
        assert_eq!(sent, trailers);
        let without = recalled(&head, b"{}");
        assert_eq!(without.status(), 201);
        assert!(!without.headers().contains_key(header::TRAILER));
    }

    #[test]
    fn what_cannot_be_given_back_is_not_kept() {
        let of = |head: &Head, body: &[u8], trailers: &HeaderMap| {
            Remembered::of(head, body, trailers, &HashSet::new(), 1000)
        };
        let (plain, odd) = (response(&[]), response(&[("x", b"\xff")]));
        assert!(of(&odd, b"{}", &plain.headers).is_none());
        assert!(of(&plain, b"{}", &odd.headers).is_none());
        assert!(of(&plain, &[b'1'; 1000], &plain.headers).is_none());
        let stored =
            serde_json::to_vec(&Remembered::without_response(StatusCode::CREATED)).unwrap();
        assert!(
            matches!(Recalled::of(&stored), Some(Recalled::WithoutResponse(status)) if status == 201)
        );
        assert!(Recalled::of(b"17").is_none());
        assert!(Recalled::of(br#"{"status":99999,"body":{"json":1}}"#).is_none());
    }
}
