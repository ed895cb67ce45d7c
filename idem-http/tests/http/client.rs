//! A client that writes bytes to a socket, so that it can also write what no proper one does.

use std::net::SocketAddr;

use serde_json::Value;
use tokio::{
    io::{AsyncRead, AsyncReadExt as _, AsyncWriteExt as _},
    net::TcpStream,
};

/// A request in the making.
#[derive(Clone)]
pub(crate) struct Request {
    method: &'static str,
    target: String,
    headers: Vec<(String, String)>,
    body: Vec<u8>,
}

/// What came back.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Answer {
    pub(crate) status: u16,
    pub(crate) headers: Vec<(String, String)>,
    pub(crate) body: Vec<u8>,
}

/// A JSON request to `/charges`.
pub(crate) fn post(body: &str) -> Request {
    Request {
        method: "POST",
        target: "/charges".into(),
        headers: vec![("content-type".into(), "application/json".into())],
        body: body.into(),
    }
}

impl Request {
    pub(crate) fn key(self, key: &str) -> Self {
        self.header("idempotency-key", key)
    }

    pub(crate) fn header(mut self, name: &str, value: &str) -> Self {
        self.headers.push((name.into(), value.into()));
        self
    }

    pub(crate) fn without(mut self, name: &str) -> Self {
        self.headers.retain(|(it, _)| it != name);
        self
    }

    pub(crate) fn method(self, method: &'static str) -> Self {
        Self { method, ..self }
    }

    pub(crate) fn to(self, target: &str) -> Self {
        Self {
            target: target.into(),
            ..self
        }
    }

    fn head(&self, length: &str) -> Vec<u8> {
        let Self { method, target, .. } = self;
        let mut head =
            format!("{method} {target} HTTP/1.1\r\nhost: test\r\nconnection: close\r\n{length}");
        for (name, value) in &self.headers {
            head.extend([name, ": ", value, "\r\n"]);
        }
        head.push_str("\r\n");
        head.into_bytes()
    }

    /// Sends it whole and waits for the answer.
    pub(crate) async fn send(&self, to: SocketAddr) -> Answer {
        let mut stream = self.begin(to, self.body.len()).await;
        // A server that has answered already need not take the rest.
        let _ = stream.write_all(&self.body).await;
        answer(stream).await
    }

    /// Sends it in chunks, so that its length is not told before.
    pub(crate) async fn send_in_chunks(&self, to: SocketAddr) -> Answer {
        let mut stream = TcpStream::connect(to).await.unwrap();
        let head = self.head("transfer-encoding: chunked\r\n");
        stream.write_all(&head).await.unwrap();
        for chunk in self.body.chunks(1000) {
            let chunk = [format!("{:x}\r\n", chunk.len()).as_bytes(), chunk, b"\r\n"].concat();
            let _ = stream.write_all(&chunk).await;
        }
        let _ = stream.write_all(b"0\r\n\r\n").await;
        answer(stream).await
    }

    /// Sends the head alone, which announces so many bytes.
    pub(crate) async fn begin(&self, to: SocketAddr, length: usize) -> TcpStream {
        let mut stream = TcpStream::connect(to).await.unwrap();
        let head = self.head(&format!("content-length: {length}\r\n"));
        stream.write_all(&head).await.unwrap();
        stream
    }

    /// Sends it, and goes away as soon as `begun` has come to pass.
    pub(crate) async fn send_and_leave(&self, to: SocketAddr, begun: impl Future) {
        let mut stream = self.begin(to, self.body.len()).await;
        stream.write_all(&self.body).await.unwrap();
        begun.await;
        drop(stream);
    }
}

/// What the server says until it closes the connection.
pub(crate) async fn answer(mut stream: impl AsyncRead + Unpin) -> Answer {
    let mut said = Vec::new();
    // A reset after the answer is no less an end.
    let _ = stream.read_to_end(&mut said).await;
    let end = said.windows(4).position(|bytes| bytes == b"\r\n\r\n");
    let end = end.unwrap_or_else(|| panic!("no head: {:?}", String::from_utf8_lossy(&said)));
    let head = std::str::from_utf8(&said[..end]).unwrap();
    let mut lines = head.split("\r\n");
    let status = lines
        .next()
        .unwrap()
        .split(' ')
        .nth(1)
        .unwrap()
        .parse()
        .unwrap();
    let headers: Vec<_> = lines
        .map(|line| line.split_once(": ").unwrap())
        .map(|(name, value)| (name.to_owned(), value.to_owned()))
        .collect();
    let body = &said[end + 4..];
    let is_chunked = headers.iter().any(|(name, _)| name == "transfer-encoding");
    let body = if is_chunked {
        unchunked(body)
    } else {
        body.to_vec()
    };
    Answer {
        status,
        headers,
        body,
    }
}

fn unchunked(mut body: &[u8]) -> Vec<u8> {
    let mut whole = Vec::new();
    loop {
        let line = body.windows(2).position(|bytes| bytes == b"\r\n").unwrap();
        let length = std::str::from_utf8(&body[..line]).unwrap();
        let length = usize::from_str_radix(length, 16).unwrap();
        let chunk = line + 2;
        whole.extend(&body[chunk..chunk + length]);
        if length == 0 {
            return whole;
        }
        body = &body[chunk + length + 2..];
    }
}

impl Answer {
    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        let mut headers = self.headers.iter();
        headers
            .find(|(it, _)| it == name)
            .map(|(_, value)| value.as_str())
    }

    pub(crate) fn json(&self) -> Value {
        let text = String::from_utf8_lossy(&self.body);
        serde_json::from_slice(&self.body).unwrap_or_else(|error| panic!("{error}: {text}"))
    }

    pub(crate) fn is_replayed(&self) -> bool {
        self.header("idempotency-replayed") == Some("true")
    }

    /// Of the first request, or of a copy.
    #[track_caller]
    pub(crate) fn assert(&self, status: u16, is_replayed: bool) -> &Self {
        assert_eq!(
            (self.status, self.is_replayed()),
            (status, is_replayed),
            "{self:?}"
        );
        self
    }

    /// That it is this problem, with a status that fits, and says what it is about.
    #[track_caller]
    pub(crate) fn assert_problem(&self, status: u16, kind: &str) -> &Self {
        assert_eq!(
            self.header("content-type"),
            Some("application/problem+json"),
            "{self:?}"
        );
        let problem = self.json();
        let told = (
            self.status,
            problem["type"].as_str().unwrap(),
            problem["status"].as_u64(),
        );
        let kind = format!("urn:idem:http:{kind}");
        assert_eq!(
            told,
            (status, kind.as_str(), Some(status.into())),
            "{problem}"
        );
        for field in ["title", "detail"] {
            assert!(!problem[field].as_str().unwrap().is_empty(), "{problem}");
        }
        assert!(!self.is_replayed());
        self
    }
}
