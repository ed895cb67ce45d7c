//! Answers that are given only once replicas have what they rest on.

use std::{num::NonZeroUsize, time::Duration};

use redis::{Cmd, Pipeline, Value, from_redis_value};

use super::{
    fault::{self, Fault},
    link::Link,
    naming::Naming,
};

/// How many replicas, and how long they may take.
#[derive(Debug, Clone, Copy)]
pub(super) struct Quorum {
    pub(super) replicas: NonZeroUsize,
    pub(super) within: Duration,
}

/// Waits for replicas on a connection of its own, on which `WAIT` keeps nobody else waiting.
#[derive(Debug)]
pub(super) struct Replicas {
    quorum: Quorum,
    barrier: String,
}

impl Replicas {
    pub(super) fn new(quorum: Quorum, naming: &Naming) -> Self {
        let barrier = format!("{}:barrier", naming.prefix());
        Self { quorum, barrier }
    }

    /// Sends a command, and waits for the replicas.
    pub(super) async fn ask(&self, link: &Link, command: Cmd) -> Result<Value, Fault> {
        let mut pipeline = Pipeline::new();
        pipeline.add_command(command);
        self.add_wait(&mut pipeline);
        let answers = link.ask_all(&pipeline).await?;
        let [answer, barrier, confirmed] =
            <[Value; 3]>::try_from(answers).map_err(|_| Fault::Redis(fault::not_understood()))?;
        let answer = fault::checked(answer)?;
        fault::checked(barrier)?;
        let confirmed = fault::checked(confirmed)?;
        let confirmed: usize = from_redis_value(confirmed).map_err(redis::RedisError::from)?;
        let Quorum { replicas, within } = self.quorum;
        if confirmed < replicas.get() {
            return Err(Fault::TooFewReplicas {
                confirmed,
                replicas,
                within,
            });
        }
        Ok(answer)
    }

    /// From Redis 7.2 on, `WAIT` covers what its own connection wrote last. So that it covers what
    /// the answers rest on, whoever wrote that, something is written after them.
    fn add_wait(&self, pipeline: &mut Pipeline) {
        pipeline
            .cmd("SET")
            .arg(&self.barrier)
            .arg("")
            .arg("PX")
            .arg(1000);
        // Zero would wait for ever.
        let within = self.quorum.within.as_millis().clamp(1, 1 << 31);
        pipeline
            .cmd("WAIT")
            .arg(self.quorum.replicas.get())
            .arg(u64::try_from(within).unwrap_or(1 << 31));
    }
}
