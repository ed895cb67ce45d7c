//! Why a worker cannot be built, or does not run any more.

use std::error::Error;

use idem_core::debug_as_chain;

mod library;

type Source = Box<dyn Error + Send + Sync>;

/// What went wrong with the Kafka client. If the client or the cluster gave a cause, that is its source.
#[derive(thiserror::Error)]
#[error("{what}")]
pub struct KafkaError {
    what: String,
    #[source]
    source: Option<Source>,
}

debug_as_chain!(KafkaError);

impl KafkaError {
    /// An error without a source.
    pub(crate) fn new(what: impl Into<String>) -> Self {
        Self {
            what: what.into(),
            source: None,
        }
    }

    /// What could not be done, with what the client library said.
    pub(crate) fn of(what: &str, said: rdkafka::error::KafkaError) -> Self {
        Self {
            what: what.to_owned(),
            source: Some(library::said(said)),
        }
    }
}

/// Why a worker cannot be built: what it was given cannot work together.
#[derive(thiserror::Error)]
#[non_exhaustive]
pub enum BuildError {
    /// The worker was given nothing to consume.
    #[error("the worker has no handler: add one with `.consume::<handler>(\"topic\")`")]
    NothingToConsume,
    /// No server is named.
    #[error("no Kafka server is named: give the cluster bootstrap servers, as `localhost:9092`")]
    NoServers,
    /// The worker sets this setting itself.
    #[error("the setting `{name}` is the worker's own: leave it out of the cluster's settings")]
    OwnSetting {
        /// Its name.
        name: String,
    },
    /// The topic's name is none.
    #[error("`{topic}` cannot be a topic's name: use 1 to 249 letters, digits, `.`, `_` and `-`")]
    TopicName {
        /// The name as it was given.
        topic: String,
    },
    /// One handler would consume a topic twice, or a topic would be consumed and get what fails.
    #[error(
        "the topic `{topic}` has two uses: name other topics with `.dead_letters(…)` and `.retries(…)`, and consume it once with a handler"
    )]
    TopicTwice {
        /// Its name.
        topic: String,
    },
    /// Two handlers would share the partitions of a topic, and each would miss what the other gets.
    #[error(
        "two handlers read the topic `{topic}` in the consumer group `{group}`, so each would get some of its partitions only: leave `.group(…)` out, or name two groups"
    )]
    GroupTwice {
        /// The topic's name.
        topic: String,
        /// The group's.
        group: String,
    },
    /// Two different handlers record by one constraint: what one of them has done would be a duplicate to the other.
    #[error(
        "the handlers `{one}` and `{other}` are both recorded by `{constraint}`, so a message that one of them has done \
         would be taken for a duplicate by the other, and lost: give each a table of its own"
    )]
    ConstraintTwice {
        /// The constraint.
        constraint: String,
        /// The one handler's type.
        one: String,
        /// The other's.
        other: String,
    },
    /// Two different handlers have one scope: what one of them has done would be a duplicate to the other.
    #[error(
        "the handlers `{one}` and `{other}` have the scope `{scope}` in common, so a record that one of them has done would be \
         taken for a duplicate by the other, and lost: give each a scope of its own with `scope = \"…\"`"
    )]
    ScopeTwice {
        /// The scope.
        scope: String,
        /// The one handler's type.
        one: String,
        /// The other's.
        other: String,
    },
    /// The handler takes messages that their producers number, which a topic does not have.
    #[error(
        "the handler of the topic `{topic}` has a `sequence(…)` for its key: records have offsets, use a key of fields"
    )]
    Numbered {
        /// The topic's name.
        topic: String,
    },
    /// A partition is to stop at what cannot be handled, and to put it aside.
    #[error(
        "the topic `{topic}` stops at what cannot be handled, so nothing waits elsewhere: leave `.retries(…)` out, or `OnFailure::Stop`"
    )]
    StopsAndRetries {
        /// The topic's name.
        topic: String,
    },
    /// Scope and topic cannot name a mark in the store.
    #[error(
        "scope and name of the topic `{topic}` are too long together for a key of the store: choose a shorter scope"
    )]
    MarkName {
        /// The topic's name.
        topic: String,
    },
}

debug_as_chain!(BuildError);

/// Why a worker has stopped, or did not start.
#[derive(thiserror::Error)]
#[non_exhaustive]
pub enum RunError {
    /// What it was given cannot work together.
    #[error("the worker cannot be built")]
    Build(#[from] BuildError),
    /// The client's settings are wrong.
    #[error("the settings of the cluster are not valid")]
    Settings(#[source] KafkaError),
    /// A topic does not exist.
    #[error("the topic `{topic}` does not exist: create it first{hint}")]
    NoTopic {
        /// Its name.
        topic: String,
        /// What else can be done.
        hint: &'static str,
    },
    /// The store cannot do what a handler needs.
    #[error("the handler `{scope}` cannot run on this store: {reason}")]
    Unfit {
        /// The handler's scope.
        scope: String,
        /// What is missing.
        reason: String,
    },
    /// The client cannot go on.
    #[error("the Kafka client has failed for good")]
    Fatal(#[source] KafkaError),
}

debug_as_chain!(RunError);

#[cfg(test)]
mod tests {
    use idem_core::ErrorChain;
    use rdkafka::{error::KafkaError as ClientError, types::RDKafkaErrorCode};

    use super::*;

    #[test]
    fn a_chain_of_causes_tells_once_what_the_client_said() {
        let said = ClientError::MetadataFetch(RDKafkaErrorCode::BrokerTransportFailure);
        let error = RunError::Fatal(KafkaError::of("Kafka does not tell of the topic", said));
        assert_eq!(
            ErrorChain::of(&error).to_string(),
            "the Kafka client has failed for good: Kafka does not tell of the topic: \
             Meta data fetch error: BrokerTransportFailure (Local: Broker transport failure)"
        );
    }
}
