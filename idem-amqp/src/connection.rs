//! Opens connections: heartbeats on, credentials never in a text.

use std::time::Duration;

use lapin::{
    Connection, ConnectionProperties, Error,
    uri::{AMQPScheme, AMQPUri},
};
use tokio::time::timeout;

/// Where RabbitMQ is.
#[derive(Clone)]
pub(crate) struct Broker {
    uri: AMQPUri,
}

/// Seconds; a link that is silent for twice as long is given up.
const HEARTBEAT: u16 = 10;
const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);

impl Broker {
    /// Reads a URL; the error does not repeat it, for it holds a password.
    pub(crate) fn parse(url: &str) -> Result<Self, String> {
        let mut uri: AMQPUri = url.parse()?;
        if uri.scheme == AMQPScheme::AMQPS && !cfg!(feature = "rustls") {
            return Err("`amqps:` needs the cargo feature `rustls`".into());
        }
        uri.query.heartbeat.get_or_insert(HEARTBEAT);
        Ok(Self { uri })
    }

    /// Opens a connection that shows up in the broker under this name.
    pub(crate) async fn connect(&self, name: &str) -> Result<Connection, Error> {
        let properties = ConnectionProperties::default().with_connection_name(name.into());
        match timeout(
            CONNECT_TIMEOUT,
            Connection::connect_uri(self.uri.clone(), properties),
        )
        .await
        {
            Ok(connected) => connected,
            Err(_) => Err(std::io::Error::from(std::io::ErrorKind::TimedOut).into()),
        }
    }
}

/// Host, port and vhost, for people.
impl std::fmt::Display for Broker {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let authority = &self.uri.authority;
        write!(
            f,
            "{}:{} (vhost `{}`)",
            authority.host, authority.port, self.uri.vhost
        )
    }
}

impl std::fmt::Debug for Broker {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Broker({self})")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_password_is_never_shown() {
        let broker = Broker::parse("amqp://me:secret@example.org:5672/shop").unwrap();
        assert_eq!(broker.to_string(), "example.org:5672 (vhost `shop`)");
        assert!(!format!("{broker:?}").contains("secret"));
    }

    #[test]
    fn a_wrong_url_is_refused_without_repeating_it() {
        let error = Broker::parse("http://me:secret@example.org").unwrap_err();
        assert!(!error.contains("secret"), "{error}");
    }

    #[test]
    fn heartbeats_are_on_unless_the_url_says_otherwise() {
        let heartbeat = |url: &str| Broker::parse(url).unwrap().uri.query.heartbeat;
        assert_eq!(heartbeat("amqp://h/%2f"), Some(10));
        assert_eq!(heartbeat("amqp://h/%2f?heartbeat=3"), Some(3));
    }
}
