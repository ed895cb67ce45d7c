//! What `main` shows of an error that it returns: the error and its causes, in words.

use std::{error::Error, io, time::Duration};

use idem_core::{ErrorChain, session_storage::SessionStorageError, settlement::LadderError};

use lapin::{
    ErrorKind,
    protocol::{AMQPError, AMQPSoftError},
};

use super::*;
use crate::{
    client::{CallError, ClientError, SessionError},
    dead_letters::{LetterError, ReplayError},
};

#[derive(Debug, thiserror::Error)]
#[error("the connection broke")]
struct Broke(#[source] std::io::Error);

fn source() -> Source {
    Broke(std::io::Error::other("reset by peer")).into()
}

fn refused() -> TopologyError {
    let refusal = Refusal {
        object: TopologyObject::Queue,
        name: "orders".into(),
        problem: TopologyProblem::Missing,
        cure: "declare it".into(),
        lasting: true,
    };
    TopologyError::new(refusal, source())
}

/// Each is shown as its chain, and with its causes if it has any.
fn assert_shows(error: &(dyn Error + 'static)) {
    let shown = format!("{error:?}");
    assert_eq!(shown, ErrorChain::of(error).to_string());
    assert!(shown.starts_with(&error.to_string()), "{shown}");
    let mut cause = error.source();
    while let Some(because) = cause {
        assert!(shown.contains(&because.to_string()), "{shown}");
        cause = because.source();
    }
}

/// The same, where there are causes to be told.
fn assert_shows_causes(error: &(dyn Error + 'static)) {
    assert_shows(error);
    let shown = format!("{error:?}");
    assert!(
        shown.ends_with("the connection broke: reset by peer"),
        "{shown}"
    );
}

#[test]
fn the_debug_of_every_public_error_is_the_error_and_its_causes() {
    let (broker, queue) = (|| "127.0.0.1:5672".to_owned(), || "orders".to_owned());
    assert_shows_causes(&refused());
    assert_shows_causes(&BrokerError::Refused {
        broker: broker(),
        source: source(),
    });
    assert_shows_causes(&RunError::from(refused()));
    assert_shows_causes(&PublishError::Unconfirmed(source()));
    assert_shows_causes(&PublishError::from(refused()));
    let unavailable = || BrokerError::unavailable(&broker(), source());
    assert_shows_causes(&RunError::from(unavailable()));
    assert_shows_causes(&ClientError::from(unavailable()));
    assert_shows_causes(&ReplayError::from(unavailable()));
    assert_shows_causes(&CallError::<String>::Unsent(source()));
    assert_shows_causes(&SessionError::Unanswered(source()));
    assert_shows_causes(&SessionError::Storage(SessionStorageError::failed(
        "a.json",
        source(),
    )));
    assert_shows_causes(&ReplayError::Queue {
        queue: queue(),
        source: source(),
    });
    // These have no causes.
    assert_shows(&BuildError::NothingToConsume);
    assert_shows(&CallError::Refused("no such customer".to_owned()));
    assert_shows(&LetterError::OriginGone { queue: queue() });
    let rung = Duration::from_nanos(1);
    assert_shows(&LadderError::Fraction { rung });
}

/// As whoever prints all causes does, anyhow for example.
pub(crate) fn assert_tells_each_thing_once(error: &(dyn Error + 'static)) {
    let causes = std::iter::successors(Some(error), |&cause| cause.source());
    let texts: Vec<_> = causes.map(ToString::to_string).collect();
    assert!(texts.len() > 1, "{texts:?}");
    for (at, text) in texts.iter().enumerate() {
        let again = texts[at + 1..].iter().find(|below| text.contains(*below));
        assert_eq!(again, None, "{texts:?}");
    }
}

#[test]
fn what_the_client_library_says_is_told_once_in_a_chain_of_causes() {
    let io = io::Error::from(io::ErrorKind::ConnectionRefused);
    let closed = AMQPError::new(AMQPSoftError::NOTFOUND.into(), "no queue".into());
    for (kind, text) in [
        (ErrorKind::ProtocolError(closed), "no queue"),
        (ErrorKind::IOError(io.into()), "connection refused"),
    ] {
        let library = || lapin::Error::from(kind.clone());
        let told = library_error(&*said(library())).map(ToString::to_string);
        assert!(told.unwrap().contains(text));
        let queue = crate::Queue::quorum("orders");
        let step = crate::topology::Step::Consume("orders");
        let unavailable = || BrokerError::unavailable(&"127.0.0.1:5672", said(library()));
        let errors: [Box<dyn Error>; 4] = [
            Box::new(unavailable()),
            Box::new(PublishError::from(unavailable())),
            Box::new(PublishError::Unconfirmed(said(library()))),
            Box::new(crate::topology::explain(step, &queue, library())),
        ];
        for error in errors {
            assert_tells_each_thing_once(&*error);
        }
    }
}
