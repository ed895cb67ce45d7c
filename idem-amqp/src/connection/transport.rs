//! The byte stream under the AMQP client: TCP, or TLS over it, without what the client cannot read.

use std::{
    io::{self, IoSlice, Read, Write},
    net::SocketAddr,
    pin::Pin,
    task::{Context, Poll, ready},
    time::{Duration, Instant},
};

use async_rs::{Runtime, Tokio, traits::Reactor, util::RuntimeParts};
use futures_util::{
    Stream,
    io::{AsyncRead, AsyncWrite},
};
use lapin::{
    Error,
    tcp::{AMQPUriTcpExt as _, AsyncTcpStream},
    uri::AMQPUri,
};

use super::{
    frames::{self, Frames, Passed},
    tls::TlsSettings,
};

/// What runs the client's tasks, and what its connections are.
type Parts = RuntimeParts<Tokio, Readable>;

/// A connection to the broker, TLS ended.
type Plain = AsyncTcpStream<<Tokio as Reactor>::TcpStream>;

/// The runtime that the client is given: the current one, with streams of ours.
pub(super) fn runtime() -> Runtime<Parts> {
    let tokio = Tokio::current();
    Runtime::new(RuntimeParts::new(tokio.clone(), Readable(tokio)))
}

/// Connects, through TLS if the address says so.
pub(super) async fn connect(
    uri: &AMQPUri,
    tls: &TlsSettings,
) -> Result<AsyncTcpStream<Filtered<Plain>>, Error> {
    let runtime = Runtime::tokio_current();
    let connected = uri.connect_with_config_async(tls.config(), &runtime).await;
    let plain = connected.map_err(with_cure)?;
    let frame_max = uri.query.frame_max.unwrap_or_default();
    // "Plain" to the client: TLS has ended below.
    Ok(AsyncTcpStream::Plain(Filtered::new(plain, frame_max)))
}

/// Says what to do about a certificate that nobody vouches for.
fn with_cure(error: io::Error) -> io::Error {
    // The words of rustls, of another authority with the same name too, and of a system without any authority.
    const UNTRUSTED: [&str; 3] = ["UnknownIssuer", "BadSignature", "native certificates"];
    let text = error.to_string();
    if !UNTRUSTED.iter().any(|words| text.contains(words)) {
        return error;
    }
    let cure = "add the authority that has signed the broker's certificate to the system's certificates, or name its \
                file in the variable SSL_CERT_FILE, or give it to `AmqpUrls::authority`";
    io::Error::new(error.kind(), format!("{text}: {cure}"))
}

/// A stream on which each content header can be read by the client.
#[derive(Debug)]
pub(super) struct Filtered<S> {
    stream: S,
    frames: Frames,
    /// The beginning of a frame that has to be looked at as a whole.
    partial: Vec<u8>,
    /// What comes before anything that is read from the stream: looked at, and given so far.
    ready: Vec<u8>,
    given: usize,
}

impl<S> Filtered<S> {
    pub(super) fn new(stream: S, frame_max: u32) -> Self {
        Self {
            stream,
            frames: Frames::new(frame_max),
            partial: Vec::new(),
            ready: Vec::new(),
            given: 0,
        }
    }

    /// Gives what is ready.
    fn give(&mut self, buffer: &mut [u8]) -> usize {
        let ready = &self.ready[self.given..];
        let given = ready.len().min(buffer.len());
        buffer[..given].copy_from_slice(&ready[..given]);
        self.given += given;
        if self.given == self.ready.len() {
            self.ready.clear();
            self.given = 0;
        }
        given
    }

    /// Looks at what was read. So many of its first bytes can stay where they are; the rest is kept here.
    fn look(&mut self, read: &[u8]) -> usize {
        if !self.partial.is_empty() {
            self.partial.extend_from_slice(read);
            self.look_at_kept();
            return 0;
        }
        let Passed { bytes, then } = self.frames.pass(read);
        let mut behind = &read[bytes..];
        if let Some(replaced) = then {
            self.ready.extend(replaced.by);
            behind = &behind[replaced.length..];
        }
        self.partial.extend_from_slice(behind);
        self.look_at_kept();
        bytes
    }

    /// How much may be read: no more than the rest of a frame that was cut, so that what is behind it stays where it is
    /// read.
    fn wanted(&self, room: usize) -> usize {
        match frames::missing(&self.partial) {
            Some(missing) => missing.min(room),
            None => room,
        }
    }

    fn look_at_kept(&mut self) {
        let mut at = 0;
        loop {
            let Passed { bytes, then } = self.frames.pass(&self.partial[at..]);
            self.ready.extend_from_slice(&self.partial[at..at + bytes]);
            at += bytes;
            let Some(replaced) = then else {
                break;
            };
            self.ready.extend(replaced.by);
            at += replaced.length;
        }
        self.partial.drain(..at);
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for Filtered<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut [u8],
    ) -> Poll<io::Result<usize>> {
        let this = &mut *self;
        loop {
            if this.given < this.ready.len() {
                return Poll::Ready(Ok(this.give(buffer)));
            }
            let wanted = this.wanted(buffer.len());
            let read = Pin::new(&mut this.stream).poll_read(context, &mut buffer[..wanted]);
            let read = ready!(read)?;
            if read == 0 {
                return Poll::Ready(Ok(0));
            }
            let passed = this.look(&buffer[..read]);
            if passed > 0 {
                return Poll::Ready(Ok(passed));
            }
        }
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for Filtered<S> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write(context, bytes)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        slices: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write_vectored(context, slices)
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(context)
    }

    fn poll_close(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_close(context)
    }
}

/// Tokio's reactor, but for what its connections are.
#[derive(Debug, Clone)]
pub(super) struct Readable(Tokio);

impl Reactor for Readable {
    type TcpStream = Filtered<Plain>;
    type Sleep = <Tokio as Reactor>::Sleep;

    fn register<H: Read + Write + Send + 'static>(
        &self,
        _: H,
    ) -> io::Result<impl AsyncRead + AsyncWrite + Send + Unpin + 'static> {
        // The client connects by `connect` alone.
        Err::<Self::TcpStream, _>(io::ErrorKind::Unsupported.into())
    }

    fn sleep(&self, duration: Duration) -> Self::Sleep {
        self.0.sleep(duration)
    }

    fn interval(&self, duration: Duration) -> impl Stream<Item = Instant> + Send + 'static {
        self.0.interval(duration)
    }

    fn tcp_connect_addr(
        &self,
        address: SocketAddr,
    ) -> impl Future<Output = io::Result<Self::TcpStream>> + Send + 'static {
        let connecting = self.0.tcp_connect_addr(address);
        async { Ok(Filtered::new(AsyncTcpStream::Plain(connecting.await?), 0)) }
    }
}

#[cfg(test)]
mod tests;
