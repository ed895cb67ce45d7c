//! Publishes records that go elsewhere: dead letters, and what comes again later.
//!
//! What must stay true: it says that a record is published when all replicas in sync have it, and not before.

use std::time::Duration;

use idem_core::handler::Backoff;
use rdkafka::{
    ClientContext,
    client::DefaultClientContext,
    config::RDKafkaLogLevel,
    error::{KafkaError as ClientError, RDKafkaErrorCode},
    producer::{FutureProducer, FutureRecord, Producer as _},
    util::Timeout,
};
use tokio::time::sleep;
use tokio_util::sync::CancellationToken;

use crate::{Cluster, KafkaError, group, record::Outgoing};

const CANNOT_BE_MADE: &str = "the Kafka client that publishes cannot be made";

/// Between two tries.
const AGAIN: Backoff = Backoff::new(Duration::from_millis(200), Duration::from_secs(5));

#[derive(Clone)]
pub(crate) struct Publisher(FutureProducer<Quiet>);

struct Quiet(DefaultClientContext);

impl ClientContext for Quiet {
    fn log(&self, level: RDKafkaLogLevel, facility: &str, message: &str) {
        group::log(level, facility, message);
    }

    fn error(&self, error: ClientError, reason: &str) {
        tracing::debug!(%error, reason, "the Kafka client reports an error");
    }
}

impl Publisher {
    pub(crate) fn new(cluster: &Cluster) -> Result<Self, KafkaError> {
        let producer = cluster
            .producer()
            .create_with_context(Quiet(DefaultClientContext))
            .map_err(|error| KafkaError::of(CANNOT_BE_MADE, error))?;
        Ok(Self(producer))
    }

    /// Publishes a record until Kafka has confirmed it. `false` if it was stopped before.
    pub(crate) async fn publish(
        &self,
        topic: &str,
        mut out: Outgoing,
        stopped: &CancellationToken,
    ) -> bool {
        let mut tries = 0;
        loop {
            let sent = tokio::select! {
                sent = self.send(topic, &out) => sent,
                () = stopped.cancelled() => return false,
            };
            let Err(error) = sent else { return true };
            if error.rdkafka_error_code() == Some(RDKafkaErrorCode::MessageSizeTooLarge) {
                // What idem adds may be what is too much.
                out = out.shortened();
            }
            tries += 1;
            let wait = AGAIN.wait(tries);
            tracing::warn!(
                topic, %error, tries, ?wait,
                "a record could not be published, it is tried again: the mark of its partition waits for it"
            );
            tokio::select! {
                () = sleep(wait) => {}
                () = stopped.cancelled() => return false,
            }
        }
    }

    async fn send(&self, topic: &str, out: &Outgoing) -> Result<(), ClientError> {
        let mut record = FutureRecord::<[u8], [u8]>::to(topic).headers(out.headers.clone());
        if let Some(key) = &out.key {
            record = record.key(key);
        }
        if let Some(payload) = &out.payload {
            record = record.payload(payload);
        }
        let sent = self
            .0
            .send(record, Timeout::After(Duration::from_secs(10)))
            .await;
        sent.map(|_| ()).map_err(|(error, _)| error)
    }

    /// Ends it, when nobody else has it any more.
    pub(crate) async fn close(self) {
        let flush = move || self.0.flush(Duration::from_secs(1));
        let _ = tokio::task::spawn_blocking(flush).await;
    }
}
