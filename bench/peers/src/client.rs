//! A client of services under test: one connection for each request.

use std::net::SocketAddr;

use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::TcpStream,
};

use crate::Result;

/// A request to `POST /charges`.
#[derive(Debug, Clone)]
pub(crate) struct Charge {
    headers: Vec<String>,
    body: &'static str,
}

impl Charge {
    pub(crate) fn new(body: &'static str) -> Self {
        Self {
            headers: Vec::new(),
            body,
        }
    }

    pub(crate) fn key(self, key: &str) -> Self {
        self.header("idempotency-key", key)
    }

    pub(crate) fn header(mut self, name: &str, value: &str) -> Self {
        self.headers.push(format!("{name}: {value}\r\n"));
        self
    }

    async fn begin(&self, to: SocketAddr, path: &str) -> Result<TcpStream> {
        let mut stream = TcpStream::connect(to).await?;
        let (headers, body) = (self.headers.concat(), self.body);
        let request = format!(
            "POST {path} HTTP/1.1\r\nhost: {to}\r\nconnection: close\r\ncontent-type: text/plain\r\ncontent-length: {}\r\n{headers}\r\n{body}",
            body.len(),
        );
        stream.write_all(request.as_bytes()).await?;
        Ok(stream)
    }

    /// Sends it, and goes away without waiting.
    pub(crate) async fn leave(&self, to: SocketAddr) -> Result<TcpStream> {
        self.begin(to, "/charges").await
    }

    pub(crate) async fn send(&self, to: SocketAddr) -> Result<Answer> {
        self.send_to(to, "/charges").await
    }

    pub(crate) async fn send_to(&self, to: SocketAddr, path: &str) -> Result<Answer> {
        let mut stream = self.begin(to, path).await?;
        let mut answer = Vec::new();
        stream.read_to_end(&mut answer).await?;
        let answer = String::from_utf8(answer)?;
        let (head, body) = answer.split_once("\r\n\r\n").ok_or("no answer")?;
        let status = head.split(' ').nth(1).ok_or("no status")?.parse()?;
        Ok(Answer {
            status,
            head: head.to_owned(),
            body: body.to_owned(),
        })
    }
}

/// What a client was answered.
#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) status: u16,
    head: String,
    pub(crate) body: String,
}

impl Answer {
    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        let mut lines = self.head.lines().filter_map(|line| line.split_once(": "));
        lines.find_map(|(found, value)| found.eq_ignore_ascii_case(name).then_some(value))
    }
}
