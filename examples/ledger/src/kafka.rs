//! From a topic of Kafka.

use std::time::Duration;

use idem_amqp::{
    executor::RunsOn,
    handler::Handler,
    shutdown_signal,
    store::{Purge, StreamStore},
};
use idem_kafka::{Cluster, KafkaWorker, Settled, Topic};

use crate::{Error, line, variable};

/// The handler is that of the stream.
pub(crate) async fn serve<H, S>(store: S, servers: String) -> Result<(), Error>
where
    H: Handler<()>,
    H::Mode: RunsOn<S>,
    S: StreamStore + Purge + Clone,
{
    let name = variable("STREAM", "ledger");
    // Whoever is started again after `kill -9` waits so long for the one that was killed.
    let topic = Topic::new(name.as_str())
        .dead_letters(format!("{name}.dead"))
        .takeover_after(Duration::from_secs(5));
    let cluster = Cluster::new(servers).set("session.timeout.ms", "6000");
    let stats = KafkaWorker::builder(store)
        .consume::<H>(topic)
        .on_settled(|settled: &Settled<'_>| line(settled.kind, settled.key))
        .run_until(cluster, shutdown_signal())
        .await?;
    println!("done: {stats}");
    Ok(())
}
