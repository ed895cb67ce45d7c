//! `idem keys show`

use std::time::{SystemTime, UNIX_EPOCH};

use idem_amqp::{
    AnyStore, Key,
    operator::{AuditEntry, KeyRecord, OperatorStore as _, Shown},
};
use serde_json::{Value, json};

use super::record;
use crate::{error::Error, output::Output, span::words};

pub(super) async fn run(store: &AnyStore, output: &Output, key: &Key) -> Result<(), Error> {
    let shown = store.show(key).await?;
    output.object(&as_json(key, &shown))?;
    if let Some(record) = &shown.record {
        output.fields(&fields(record, &shown))?;
    }
    for entry in &shown.audit {
        output.line(in_words(entry))?;
    }
    match shown.record {
        Some(_) => Ok(()),
        None => Err(Error::NotFound(format!("the store has no key `{key}`"))),
    }
}

fn fields(record: &KeyRecord, shown: &Shown) -> Vec<(&'static str, String)> {
    let mut fields = vec![
        ("key", record.key.to_string()),
        (
            "state",
            format!("{}, {}", record.state(), record::rest(record)),
        ),
        ("attempts", record.attempts.to_string()),
        ("token", record.token.to_string()),
        ("age", words(record.age)),
        (
            "remembered",
            format!("for {}", words(record.remembered_for)),
        ),
    ];
    if let Some(owner) = record.owner {
        fields.push(("owner", record::hex(owner.as_bytes())));
    }
    if let Some(fingerprint) = record.fingerprint {
        fields.push(("fingerprint", record::hex(fingerprint.as_bytes())));
    }
    if let Some(outcome) = &shown.outcome {
        let bytes = outcome.as_bytes();
        let text = String::from_utf8_lossy(bytes);
        fields.push(("outcome", format!("{} bytes: {text}", bytes.len())));
    }
    fields
}

/// `release by operator@ops-1, 3m ago, was in_progress under token 17`
fn in_words(entry: &AuditEntry) -> String {
    let age = SystemTime::now().duration_since(entry.at);
    let before = match entry.before {
        Some(seen) => format!("{} under token {}", seen.state, seen.token),
        None => "unknown".into(),
    };
    format!(
        "{} by {}, {} ago, was {before}",
        entry.action,
        crate::output::printable(&entry.by),
        words(age.unwrap_or_default()),
    )
}

fn as_json(key: &Key, shown: &Shown) -> Value {
    let outcome = shown.outcome.as_ref().map(|outcome| {
        let bytes = outcome.as_bytes();
        match std::str::from_utf8(bytes) {
            Ok(text) => json!({"text": text}),
            Err(_) => json!({"hex": record::hex(bytes)}),
        }
    });
    let entries = shown.audit.iter().map(|entry| {
        let since_1970 = entry.at.duration_since(UNIX_EPOCH).unwrap_or_default();
        json!({
            "action": entry.action.as_str(),
            "by": entry.by,
            "at": since_1970.as_secs_f64(),
            "state_before": entry.before.map(|seen| seen.state.as_str()),
            "token_before": entry.before.map(|seen| seen.token.get()),
        })
    });
    json!({
        "key": key.as_str(),
        "record": shown.record.as_ref().map(record::json),
        "outcome": outcome,
        "audit": entries.collect::<Vec<_>>(),
    })
}
