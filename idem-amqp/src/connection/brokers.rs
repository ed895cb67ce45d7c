//! The nodes of a broker, tried in turn.
// docs/decisions/0012

use std::{error::Error as StdError, fmt, sync::Arc};

use lapin::{
    Connection, Error, ErrorKind,
    protocol::{AMQPErrorKind, AMQPHardError, AMQPSoftError},
};

use super::{AmqpUrls, Broker, Watch};
use crate::{
    connection::health::HealthState,
    error::{BrokerError, said},
    telemetry::Links,
    wire::incident::Incident,
};

/// The nodes of a broker, and whose turn it is. Clones take turns of their own.
#[derive(Debug, Clone)]
pub(crate) struct Brokers {
    nodes: Arc<[Broker]>,
    next: usize,
    /// Where it is recorded what happens to the connections.
    health: Arc<HealthState>,
}

/// An open connection.
pub(crate) struct Link {
    pub(crate) connection: Connection,
    /// The broker that it is connected to.
    pub(crate) broker: Broker,
    pub(crate) watch: Watch,
}

impl Brokers {
    /// Reads URLs; the error does not repeat any. The first turn is anybody's.
    pub(crate) fn parse(urls: &AmqpUrls) -> Result<Self, BrokerError> {
        let count = urls.iter().len();
        let tls = Arc::new(urls.tls().clone());
        let nodes = urls.iter().enumerate().map(|(at, url)| {
            Broker::parse(url, &tls).map_err(|reason| BrokerError::InvalidUrl {
                reason: match count {
                    1 => reason,
                    _ => format!("number {} of {count}: {reason}", at + 1),
                },
            })
        });
        let nodes: Arc<[Broker]> = nodes.collect::<Result<_, _>>()?;
        if nodes.is_empty() {
            let reason = "none is given".into();
            return Err(BrokerError::InvalidUrl { reason });
        }
        let next = fastrand::usize(..nodes.len());
        Ok(Self {
            nodes,
            next,
            health: Arc::default(),
        })
    }

    /// Records in this state what happens to the connections.
    pub(crate) fn watched_by(mut self, health: Arc<HealthState>) -> Self {
        self.health = health;
        self
    }

    /// What is measured of the connections.
    pub(crate) fn links(&self) -> &Links {
        self.health.links()
    }

    /// Tries each node once, beginning with the one after the last that was connected to.
    ///
    /// # Cancel safety
    /// The node that was being tried is tried again.
    pub(crate) async fn connect(&mut self, name: &str) -> Result<Link, BrokerError> {
        let mut failures = Vec::new();
        for _ in 0..self.nodes.len() {
            let node = &self.nodes[self.next % self.nodes.len()];
            let tried = node.connect(name).await;
            self.next += 1;
            match tried {
                Ok(connection) => return Ok(self.link(connection, node.clone(), name)),
                Err(error) => {
                    let incident = if is_refusal(&error) {
                        Incident::Refused
                    } else {
                        Incident::Unreachable
                    };
                    let on = node.to_string();
                    self.health.record_incident(incident, &on, Some(&error));
                    failures.push((node.clone(), error));
                }
            }
        }
        Err(self.unreachable(failures))
    }

    fn link(&self, connection: Connection, broker: Broker, name: &str) -> Link {
        let on = format!("{name}, {broker}");
        Link {
            watch: Watch::new(&connection, Arc::clone(&self.health), on),
            connection,
            broker,
        }
    }

    /// What became of all nodes. It is a refusal only if each of them answered with one.
    fn unreachable(&self, mut failures: Vec<(Broker, Error)>) -> BrokerError {
        let broker = self.to_string();
        let refused = failures.iter().all(|(_, error)| is_refusal(error));
        let source: Box<dyn StdError + Send + Sync> = match failures.len() {
            1 => said(failures.remove(0).1),
            _ => Box::new(Each(failures)),
        };
        if refused {
            BrokerError::Refused { broker, source }
        } else {
            BrokerError::Unavailable { broker, source }
        }
    }
}

/// `one:5672 (vhost `shop`), two:5672 (vhost `shop`)`
impl fmt::Display for Brokers {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (at, node) in self.nodes.iter().enumerate() {
            let separator = if at == 0 { "" } else { ", " };
            write!(f, "{separator}{node}")?;
        }
        Ok(())
    }
}

/// What went wrong with each of several nodes.
#[derive(Debug)]
struct Each(Vec<(Broker, Error)>);

impl fmt::Display for Each {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (at, (node, error)) in self.0.iter().enumerate() {
            let separator = if at == 0 { "" } else { "; " };
            write!(f, "{separator}{node}: {error}")?;
        }
        Ok(())
    }
}

impl StdError for Each {}

/// Whether the broker answered, and the answer was no.
fn is_refusal(error: &Error) -> bool {
    let ErrorKind::ProtocolError(error) = error.kind() else {
        return false;
    };
    matches!(
        error.kind(),
        AMQPErrorKind::Soft(AMQPSoftError::ACCESSREFUSED)
            | AMQPErrorKind::Hard(AMQPHardError::NOTALLOWED)
    )
}

#[cfg(test)]
mod tests {
    use std::net::TcpListener;

    use super::*;

    fn parse(urls: impl Into<AmqpUrls>) -> Result<Brokers, String> {
        Brokers::parse(&urls.into()).map_err(|error| error.to_string())
    }

    #[test]
    fn a_wrong_url_among_several_is_told_by_its_number() {
        let error = parse("amqp://me:secret@a,amqp://me:secret@b:port").unwrap_err();
        assert_eq!(
            error,
            "the AMQP URL is not valid: number 2 of 2: invalid port number"
        );
    }

    #[test]
    fn certificates_without_tls_are_refused() {
        let urls = AmqpUrls::from("amqp://a").client_certificate("", "");
        assert!(parse(urls).unwrap_err().contains("write `amqps://`"));
        let urls = AmqpUrls::from("amqp://a").authority("");
        assert!(parse(urls).unwrap_err().contains("write `amqps://`"));
    }

    #[test]
    fn no_url_at_all_is_refused() {
        let none: [&str; 0] = [];
        assert_eq!(
            parse(none).unwrap_err(),
            "the AMQP URL is not valid: none is given"
        );
    }

    #[test]
    fn any_node_may_be_the_first() {
        let first = || parse(["amqp://a", "amqp://b", "amqp://c"]).unwrap().next;
        let seen: std::collections::BTreeSet<_> = (0..200).map(|_| first()).collect();
        assert_eq!(seen.into_iter().collect::<Vec<_>>(), [0, 1, 2]);
    }

    #[tokio::test]
    async fn each_node_is_tried_once_and_each_is_named() {
        let closed = || {
            let listener = TcpListener::bind("127.0.0.1:0").unwrap();
            listener.local_addr().unwrap().port()
        };
        let ports = [closed(), closed()];
        let urls = ports.map(|port| format!("amqp://me:secret@127.0.0.1:{port}/shop"));
        let mut brokers = parse(urls).unwrap();
        let first = brokers.next;
        let error = brokers.connect("test").await.err().unwrap();
        assert_eq!(brokers.next, first + 2);
        let BrokerError::Unavailable { broker, source } = &error else {
            panic!("{error}");
        };
        let text = source.to_string();
        for port in ports {
            let node = format!("127.0.0.1:{port} (vhost `shop`)");
            assert!(broker.contains(&node), "{broker}");
            assert!(text.contains(&format!("{node}: IO error")), "{text}");
        }
        assert!(!format!("{error:?}").contains("secret"));
    }

    #[tokio::test]
    async fn why_a_node_cannot_be_reached_is_told_once() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        drop(listener);
        let mut brokers = parse([format!("amqp://127.0.0.1:{port}")]).unwrap();
        let error = brokers.connect("test").await.err().unwrap();
        crate::error::tests::assert_tells_each_thing_once(&error);
    }
}
