//! `idem keys show`

use std::time::SystemTime;

use idem_amqp::{
    AnyStore, Key,
    operator::{AuditEntry, OperatorStore as _},
    store::{Look as _, Looked},
    stores::SharedCache,
};
use serde_json::{Value, json};

use super::record;
use crate::{error::Error, output::Output, span::words};

pub(super) async fn run(
    store: &AnyStore,
    cache: Option<&SharedCache>,
    output: &Output,
    key: &Key,
) -> Result<(), Error> {
    let known = store.look(key).await?;
    let audit = store.audit(key).await?;
    let cached = match cache {
        Some(cache) => Some(cache.knows(key).await?),
        None => None,
    };
    output.object(&as_json(key, known.as_ref(), cached, &audit))?;
    let mut all = known.as_ref().map(fields).unwrap_or_default();
    all.extend(cached.map(|cached| ("cache", in_the_cache(cached).to_owned())));
    if !all.is_empty() {
        output.fields(&all)?;
    }
    for entry in &audit {
        output.line(in_words(entry))?;
    }
    match known {
        Some(_) => Ok(()),
        None => Err(Error::NotFound(format!("the store has no key `{key}`"))),
    }
}

fn in_the_cache(known: bool) -> &'static str {
    if known {
        "knows it as completed"
    } else {
        "does not know it"
    }
}

fn fields(known: &Looked) -> Vec<(&'static str, String)> {
    let record = &known.record;
    let mut fields = vec![
        ("key", record.key.to_string()),
        (
            "state",
            format!("{}, {}", record.state(), record::rest(record)),
        ),
        ("attempts", record.attempts.to_string()),
        ("token", record.token.to_string()),
        ("created", ago(record.created_at)),
        ("completed", ago(record.completed_at)),
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
    if let Some(outcome) = &known.outcome {
        let bytes = outcome.as_bytes();
        let text = String::from_utf8_lossy(bytes);
        fields.push(("outcome", format!("{} bytes: {text}", bytes.len())));
    }
    fields
}

/// `3m ago`, or nothing.
fn ago(at: Option<SystemTime>) -> String {
    let Some(at) = at else { return "-".into() };
    let age = SystemTime::now().duration_since(at).unwrap_or_default();
    format!("{} ago", words(age))
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

/// `cached` is there if there is a cache.
fn as_json(key: &Key, known: Option<&Looked>, cached: Option<bool>, audit: &[AuditEntry]) -> Value {
    let outcome = known
        .and_then(|known| known.outcome.as_ref())
        .map(|outcome| {
            let bytes = outcome.as_bytes();
            match (
                serde_json::from_slice::<Value>(bytes),
                std::str::from_utf8(bytes),
            ) {
                (Ok(value), _) => json!({"json": value}),
                (_, Ok(text)) => json!({"text": text}),
                _ => json!({"hex": record::hex(bytes)}),
            }
        });
    let entries = audit.iter().map(|entry| {
        json!({
            "action": entry.action.as_str(),
            "by": entry.by,
            "at": record::since_1970(entry.at),
            "state_before": entry.before.map(|seen| seen.state.as_str()),
            "token_before": entry.before.map(|seen| seen.token.get()),
        })
    });
    let mut shown = json!({
        "key": key.as_str(),
        "record": known.map(|known| record::json(&known.record)),
        "outcome": outcome,
        "audit": entries.collect::<Vec<_>>(),
    });
    if let Some(cached) = cached {
        shown["cached"] = cached.into();
    }
    shown
}
