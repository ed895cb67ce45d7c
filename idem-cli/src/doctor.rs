//! `idem doctor`: what can go wrong at broker, queues and store.

use idem_amqp::{
    AnyStore, Failed, Policy, Queue, Worker,
    error::ErrorChain,
    idempotent, outbox,
    store::{Finding, Severity},
};
use serde_json::json;

use crate::{
    arguments::{DeclaredType, DoctorArguments, StoreArguments},
    error::Error,
    output::Output,
    store::{Tables, open},
};

/// Stands for the handlers, which are not known here. It never runs.
#[idempotent(key = content(), scope = "idem.doctor", crate = idem_amqp)]
async fn any_handler(_: serde_json::Value) -> Result<(), Failed> {
    Ok(())
}

pub(crate) async fn run(
    store: &StoreArguments,
    amqp: &str,
    output: &Output,
    arguments: DoctorArguments,
) -> Result<(), Error> {
    let findings = match open(store, Tables::MustExist).await {
        Ok(store) => look(store, amqp, &arguments).await?,
        Err(Error::Connect(error)) => vec![out_of_reach(&error)],
        Err(error) => return Err(error),
    };
    for finding in &findings {
        tell(*output, finding)?;
    }
    if findings.is_empty() {
        output.line("nothing to say")?;
    }
    let is_error = |finding: &Finding| finding.severity == Severity::Error;
    if findings.iter().any(is_error) {
        return Err(Error::Told);
    }
    Ok(())
}

/// Asks the doctor of a worker that is never started.
async fn look(
    store: AnyStore,
    amqp: &str,
    arguments: &DoctorArguments,
) -> Result<Vec<Finding>, Error> {
    let mut policy = Policy::builder()
        .lease(arguments.lease)
        .retention(arguments.retention);
    if let Some(attempts) = arguments.max_attempts {
        policy = policy.max_attempts(attempts);
    }
    let policy = policy.build()?;
    let outbox = store.outbox();
    let queues = arguments.queues.iter();
    let queues = queues.map(|name| {
        let queue = match arguments.declared {
            None => Queue::existing(name),
            Some(DeclaredType::Quorum) => Queue::quorum(name),
            Some(DeclaredType::Classic) => Queue::classic(name),
        };
        let queue = queue.policy(policy);
        match &arguments.dead_letters {
            Some(dead_letters) => queue.dead_letters(dead_letters),
            None => queue,
        }
    });
    let worker = queues.fold(Worker::builder(store), |worker, queue| {
        worker.consume::<any_handler>(queue)
    });
    let mut findings = worker.build(amqp)?.doctor().await;
    if let Some(outbox) = outbox {
        findings.extend(outbox::findings(&outbox, amqp).await?);
        findings.sort_by_key(|finding| std::cmp::Reverse(finding.severity));
    }
    if arguments.declared.is_none() {
        findings.push(taken_for_existing());
    }
    Ok(findings)
}

/// Else nobody would know what was not looked at.
fn taken_for_existing() -> Finding {
    let text = "queues are looked at as existing ones; if your workers declare them, say so with \
                `--declared quorum` or `--declared classic`: only then is it compared how they were declared";
    Finding::note("taken-for-existing", text)
}

fn out_of_reach(error: &(dyn std::error::Error + 'static)) -> Finding {
    let text = format!(
        "{}; broker and queues were not looked at",
        ErrorChain::of(error)
    );
    Finding::error("store-unusable", text)
}

fn tell(output: Output, finding: &Finding) -> Result<(), Error> {
    output.object(&json!({
        "finding": finding.code,
        "severity": finding.severity.to_string(),
        "subject": finding.subject,
        "text": finding.text,
    }))?;
    let about = finding.subject.as_ref();
    let about = about.map_or_else(String::new, |subject| format!(" ({subject})"));
    output.line(format!(
        "{} {}{about}: {}",
        finding.severity, finding.code, finding.text
    ))?;
    Ok(())
}
