//! What is said on standard output: one line per settled message, and a summary.

use idem_amqp::{Balance, ExecutionKind, Reason, Settled, Settlement};
use serde_json::{Map, json};

use crate::settings::Log;

pub(crate) fn ready(log: Log) {
    match log {
        Log::Json => println!("{}", json!({"ready": true})),
        Log::Text => println!("ready; stop with ctrl-c or SIGTERM"),
    }
}

pub(crate) fn line(log: Log, settled: &Settled<'_>) {
    match log {
        Log::Json => println!("{}", as_json(settled)),
        Log::Text => println!("{}", as_text(settled)),
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
fn as_text(settled: &Settled<'_>) -> String {
    let key = settled
        .key
        .map_or_else(|| "(no key)".to_owned(), ToString::to_string);
    let mut line = format!("{:<12} {key}", settled.kind.label());
    if let Some(attempt) = settled.attempt {
        line += &format!(" attempt {attempt},");
    }
    line += &format!(" {} ms", settled.elapsed.as_millis());
    if settled.redelivered {
        line += ", redelivered";
    }
    if settled.kind != ExecutionKind::Executed && settled.kind != ExecutionKind::Duplicate {
        line += &format!(" -> {}", settlement(settled.settlement));
    }
    if let Some(error) = settled.error {
        line += &format!(": {error}");
    }
    line
}

fn settlement(settlement: Settlement) -> String {
    match settlement {
        Settlement::Ack => "ack".into(),
        Settlement::DeadLetter(reason) => format!("dead-letter ({})", Reason::as_str(reason)),
        Settlement::Requeue { .. } => "requeue".into(),
        _ => "left to the broker".into(),
    }
}

pub(crate) fn summary(log: Log, balance: &Balance) {
    match log {
        Log::Text => println!("done: {balance}"),
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

/// An error and its causes, in one line.
pub(crate) fn chain(error: &(dyn std::error::Error + 'static)) -> String {
    let causes = std::iter::successors(error.source(), |error| error.source());
    causes.fold(error.to_string(), |text, cause| format!("{text}: {cause}"))
}
