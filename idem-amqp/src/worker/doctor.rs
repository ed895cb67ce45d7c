//! What the doctor looks at: before the first message, and whenever it is asked to.

use std::sync::{
    Arc,
    atomic::{AtomicBool, Ordering::Relaxed},
};

use idem_core::{
    ErrorChain,
    store::{Finding, Severity},
};
use lapin::Connection;

use super::{
    Subscription, Worker,
    consumer::{Consumer, ToldLimit},
    fitness, stream,
};
use crate::{
    connection::{Broker, Link},
    doctor::{self, Bars, Declaration, Diagnosis, Doctor, Examination, outbox::Asker},
    error::{BrokerError, RunError},
    outbox::SharedOutbox,
};

/// The examination at the start, on the first connection that lasts for it.
#[derive(Debug)]
pub(super) struct StartCheck {
    doctor: Arc<Doctor>,
    /// The outbox that its handlers publish by, if they have one.
    outbox: Option<SharedOutbox>,
    done: AtomicBool,
}

impl StartCheck {
    pub(super) fn new(doctor: Arc<Doctor>, outbox: Option<SharedOutbox>) -> Self {
        Self {
            doctor,
            outbox,
            done: AtomicBool::new(false),
        }
    }

    /// Logs what is found, and lets the consumers know how their queues are declared.
    ///
    /// # Errors
    /// If the worker could not work or would lose messages for certain.
    pub(super) async fn once(
        &self,
        connection: &Connection,
        broker: &Broker,
        consumers: &[Arc<Consumer>],
    ) -> Result<(), RunError> {
        if self.done.load(Relaxed) {
            return Ok(());
        }
        let Examination {
            diagnoses,
            declarations,
        } = self.doctor.examine_at_start(connection, broker).await;
        let in_outbox = match &self.outbox {
            Some(outbox) => doctor::outbox::look(outbox, Some(connection), Asker::Starting).await,
            None => Vec::new(),
        };
        // Otherwise what was found is that the connection has gone.
        if !connection.status().connected() {
            return Ok(());
        }
        self.done.store(true, Relaxed);
        for (consumer, declaration) in consumers.iter().zip(declarations) {
            heed(&consumer.told_limit, &declaration);
        }
        for Diagnosis { finding, .. } in &diagnoses {
            finding.log("worker");
        }
        for finding in in_outbox {
            finding.log("worker");
        }
        let barring = diagnoses.into_iter().filter(|one| one.bars != Bars::No);
        let findings: Vec<_> = barring.map(|one| one.finding).collect();
        if findings.is_empty() {
            return Ok(());
        }
        Err(RunError::Unfit { findings })
    }
}

fn heed(limit: &ToldLimit, declaration: &Declaration) {
    if let Some(returns) = declaration.delivery_limit() {
        limit.get_or_init(|| returns);
    }
}

impl Worker {
    /// Looks at what can be known about the broker, the queues, their handlers and the store, and
    /// says what can go wrong by it and what to change; the most severe first.
    ///
    /// What keeps a worker from starting, or loses messages, is an error; the table of all names
    /// ([`Finding::code`]) is in `docs/rabbitmq.md`. A worker looks at most of it by itself when it
    /// starts, and logs it.
    ///
    /// How an existing queue was declared is looked up by declaring it otherwise, which the broker
    /// refuses, saying what is so: nothing is created or changed, but the broker's log notes each
    /// refusal, and the user needs the configure permission. What policies say cannot be seen.
    ///
    /// ```no_run
    /// # async fn example(worker: idem_amqp::Worker) {
    /// use idem_amqp::store::Severity;
    ///
    /// let findings = worker.doctor().await;
    /// for finding in findings.iter().filter(|finding| finding.severity == Severity::Error) {
    ///     eprintln!("{finding}");
    /// }
    /// # }
    /// ```
    ///
    /// # Cancel safety
    /// Safe to drop.
    pub async fn doctor(&self) -> Vec<Finding> {
        let mut findings = self.engine.store_findings().await;
        findings.extend(fitness::look(&self.subscriptions).await);
        match self.brokers.clone().connect("idem doctor").await {
            Err(unreachable) => {
                findings.push(out_of_reach(&unreachable));
                findings.extend(findings_of(self.doctor.examine_without_broker()));
            }
            Ok(Link {
                connection, broker, ..
            }) => {
                let examination = self.doctor.examine(&connection, &broker).await;
                if let Some(outbox) = &self.outbox {
                    let table = outbox.table();
                    let asker = Asker::Anybody;
                    findings.extend(doctor::outbox::look(&table, Some(&connection), asker).await);
                }
                for Subscription { queue, source, .. } in &self.subscriptions {
                    let Some(source) = source else { continue };
                    let found = stream::look::look(&connection, queue, &source.marks).await;
                    findings.extend(found.map(|finding| finding.about(queue.name())));
                }
                let _ = connection.close(200, "done".into()).await;
                findings.extend(findings_of(examination.diagnoses));
            }
        }
        findings.sort_by_key(|finding| std::cmp::Reverse::<Severity>(finding.severity));
        findings
    }
}

fn findings_of(diagnoses: Vec<Diagnosis>) -> impl Iterator<Item = Finding> {
    diagnoses.into_iter().map(|one| one.finding)
}

fn out_of_reach(error: &BrokerError) -> Finding {
    let error = ErrorChain::of(error);
    Finding::error(
        "broker-unreachable",
        format!(
            "{error}: nothing is consumed, and nothing is known about its queues; see to the address, user, \
             password and vhost"
        ),
    )
}
