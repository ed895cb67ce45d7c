//! What is said on standard output: one line per settled message, and a summary.

use std::{fmt, time::Duration};

use idem_amqp::{
    dead_letters::Reason,
    store::{Finding, Severity},
    worker::{Health, Settled, Settlement, WorkerStats},
};
use serde_json::{Map, json};

use crate::{Error, settings::Log};

pub(crate) fn ready(log: Log) {
    match log {
        Log::Json => println!("{}", json!({"ready": true})),
        Log::Text => println!("started; stop with ctrl-c or SIGTERM"),
    }
}

pub(crate) fn line(log: Log, settled: &Settled<'_>) {
    match log {
        Log::Json => println!("{}", as_json(settled)),
        Log::Text => println!("{}", Text(settled)),
    }
}

fn as_json(settled: &Settled<'_>) -> serde_json::Value {
    json!({
        "outcome": settled.kind.label(),
        "key": settled.key.map(ToString::to_string),
        "attempt": settled.attempt,
        "error": settled.error,
        "settlement": settlement(settled.settlement),
        "redelivered": settled.redelivered,
        "elapsed_ms": u64::try_from(settled.elapsed.as_millis()).unwrap_or(u64::MAX),
    })
}

/// `executed     orders.charge:o-17 attempt 1, 3 ms`
struct Text<'a>(&'a Settled<'a>);

impl fmt::Display for Text<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self(settled) = self;
        write!(f, "{:<12} ", settled.kind.label())?;
        match settled.key {
            Some(key) => write!(f, "{key}")?,
            None => f.write_str("(no key)")?,
        }
        if let Some(attempt) = settled.attempt {
            write!(f, " attempt {attempt},")?;
        }
        write!(f, " {} ms", settled.elapsed.as_millis())?;
        if settled.redelivered {
            f.write_str(", redelivered")?;
        }
        if settled.settlement != Settlement::Ack {
            write!(f, " -> {}", settlement(settled.settlement))?;
        }
        match settled.error {
            Some(error) => write!(f, ": {error}"),
            None => Ok(()),
        }
    }
}

fn settlement(settlement: Settlement) -> String {
    match settlement {
        Settlement::Ack => "ack".into(),
        Settlement::DeadLetter(reason) => format!("dead-letter ({})", Reason::as_str(reason)),
        Settlement::Drop(reason) => format!("drop ({})", Reason::as_str(reason)),
        Settlement::Requeue { .. } => "requeue".into(),
        _ => "left to the broker".into(),
    }
}

/// Says on standard error, every now and then, what keeps the worker from its job. A service would
/// answer its liveness probe from the same handle.
pub(crate) async fn complaints(health: Health) {
    const PATIENCE: Duration = Duration::from_secs(30);
    loop {
        tokio::time::sleep(PATIENCE).await;
        if health.failing_for() > Some(PATIENCE) {
            eprintln!("order-worker: {health}");
        }
    }
}

/// One line for each finding; an error if one of them is.
pub(crate) fn findings(log: Log, findings: &[Finding]) -> Result<(), Error> {
    for finding in findings {
        let Finding {
            severity,
            code,
            subject,
            text,
            ..
        } = finding;
        match log {
            Log::Text => println!("{severity} {code}: {text}"),
            Log::Json => println!(
                "{}",
                json!({
                    "finding": code,
                    "severity": severity.to_string(),
                    "subject": subject,
                    "text": text,
                })
            ),
        }
    }
    let errors = findings
        .iter()
        .filter(|finding| finding.severity == Severity::Error);
    match errors.count() {
        0 => Ok(()),
        errors => Err(format!("the doctor found errors: {errors}").into()),
    }
}

pub(crate) fn summary(log: Log, balance: &WorkerStats) {
    match log {
        Log::Text => println!("done: {balance}; connections: {}", balance.incidents()),
        Log::Json => {
            let mut summary = Map::new();
            summary.insert("deliveries".into(), balance.deliveries().into());
            for (kind, count) in balance.iter() {
                summary.insert(kind.label().into(), count.into());
            }
            println!("{}", json!({"summary": summary}));
        }
    }
}
