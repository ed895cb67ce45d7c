//! Opens connections: heartbeats on, credentials never in a text.

use std::{fmt, io, sync::Arc, time::Duration};

use lapin::{
    Connection, ConnectionProperties, Error,
    uri::{AMQPScheme, AMQPUri},
};
use tokio::time::timeout;

mod brokers;
mod frames;
pub(crate) mod health;
mod properties;
mod tls;
mod transport;
mod urls;
mod watch;

pub(crate) use brokers::{Brokers, Link};
use tls::TlsSettings;
pub use urls::AmqpUrls;
use watch::Watch;

/// One RabbitMQ, perhaps one node of a cluster.
#[derive(Clone)]
pub(crate) struct Broker {
    uri: AMQPUri,
    tls: Arc<TlsSettings>,
}

/// Seconds; a link that is silent for twice as long is given up.
const HEARTBEAT: u16 = 10;
const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);

impl Broker {
    /// Reads a URL; the error does not repeat it, for it holds a password.
    pub(super) fn parse(url: &str, tls: &Arc<TlsSettings>) -> Result<Self, String> {
        if !has_scheme(url) {
            return Err("it must begin with `amqp://` or `amqps://`".into());
        }
        if has_misread_password(url) {
            return Err(
                "it has an `@` behind its host: write `/`, `?` and `#` in a password as `%2F`, \
                 `%3F` and `%23`, and `@` in a vhost as `%40`"
                    .into(),
            );
        }
        let mut uri: AMQPUri = url.parse()?;
        if uri.scheme == AMQPScheme::AMQPS && !cfg!(feature = "rustls") {
            return Err("`amqps:` needs the cargo feature `rustls`".into());
        }
        if uri.scheme == AMQPScheme::AMQP && !tls.is_default() {
            return Err("certificates are for TLS: write `amqps://`, or leave them out".into());
        }
        if uri.vhost.is_empty() {
            return Err(
                "its vhost is empty: for the vhost `/` end it with `/%2f`, or without a `/`".into(),
            );
        }
        uri.query.heartbeat.get_or_insert(HEARTBEAT);
        Ok(Self {
            uri,
            tls: Arc::clone(tls),
        })
    }

    /// The address, password included.
    pub(crate) fn uri(&self) -> &AMQPUri {
        &self.uri
    }

    /// Opens a connection that shows up in the broker under this name.
    pub(crate) async fn connect(&self, name: &str) -> Result<Connection, Error> {
        let properties = ConnectionProperties::default().with_connection_name(name.into());
        let tls = Arc::clone(&self.tls);
        let connecting = Connection::connector(
            self.uri.clone(),
            transport::runtime(),
            async move |uri, _| transport::connect(&uri, &tls).await,
            properties,
        );
        // Boxed: a large future, within many.
        match timeout(self.connect_timeout(), Box::pin(connecting)).await {
            Ok(connected) => connected,
            Err(_) => Err(io::Error::new(io::ErrorKind::TimedOut, "it does not answer").into()),
        }
    }

    /// How long a broker may take to let us in: one that is frozen accepts, and then says nothing.
    fn connect_timeout(&self) -> Duration {
        let given = self.uri.query.connection_timeout;
        given.map_or(CONNECT_TIMEOUT, Duration::from_millis)
    }
}

/// Host, port and vhost, for people.
impl fmt::Display for Broker {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let authority = &self.uri.authority;
        write!(
            f,
            "{}:{} (vhost `{}`)",
            authority.host, authority.port, self.uri.vhost
        )
    }
}

impl fmt::Debug for Broker {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Broker({self})")
    }
}

fn has_scheme(url: &str) -> bool {
    let begins = |scheme: &str| {
        let start = url.get(..scheme.len());
        start.is_some_and(|start| start.eq_ignore_ascii_case(scheme))
    };
    begins("amqp://") || begins("amqps://")
}

/// Whether a password's `/`, `?` or `#` ended the host too early: its rest would be taken for the
/// vhost, and be shown as such.
fn has_misread_password(url: &str) -> bool {
    let behind_scheme = url.split_once("//").map_or("", |(_, rest)| rest);
    let host_ends = behind_scheme.find(['/', '?', '#']);
    host_ends.is_some_and(|end| behind_scheme[end..].contains('@'))
}

#[cfg(test)]
mod tests;
