//! One record, in words and as JSON.

use std::time::{SystemTime, UNIX_EPOCH};

use idem_amqp::operator::{Condition, FailedReason, KeyRecord};
use serde_json::{Value, json};

use crate::span::words;

/// What is to be said beside the state.
pub(crate) fn rest(record: &KeyRecord) -> String {
    let mut text = match &record.condition {
        Condition::InProgress { lease_remaining } if lease_remaining.is_zero() => {
            "lease has run out".into()
        }
        Condition::InProgress { lease_remaining } => {
            format!("lease ends in {}", words(*lease_remaining))
        }
        Condition::Failed {
            reason,
            error,
            retry_in,
        } => failed(
            *reason,
            error.as_deref(),
            &words(*retry_in),
            retry_in.is_zero(),
        ),
        _ => format!("remembered for {}", words(record.remembered_for)),
    };
    if record.in_doubt {
        text.push_str(", in doubt");
    }
    if record.remembered_for.is_zero() {
        text.push_str(", to be purged");
    }
    text
}

fn failed(reason: FailedReason, error: Option<&str>, retry_in: &str, is_due: bool) -> String {
    let mut text = match reason {
        FailedReason::Quarantined => "quarantined".to_owned(),
        FailedReason::GaveUp => "dead-lettered".to_owned(),
        _ if is_due => "free".to_owned(),
        _ => format!("retry in {retry_in}"),
    };
    if let Some(error) = error {
        text = format!("{text}: {error}");
    }
    text
}

/// Every field, times in seconds: those with `_at` since 1970.
pub(crate) fn json(record: &KeyRecord) -> Value {
    let mut object = json!({
        "key": record.key.as_str(),
        "scope": record.key.scope(),
        "state": record.state().as_str(),
        "token": record.token.get(),
        "attempts": record.attempts,
        "in_doubt": record.in_doubt,
        "owner": record.owner.map(|owner| hex(owner.as_bytes())),
        "fingerprint": record.fingerprint.map(|digest| hex(digest.as_bytes())),
        "created_at": record.created_at.map(since_1970),
        "completed_at": record.completed_at.map(since_1970),
        "age": record.age.as_secs_f64(),
        "remembered_for": record.remembered_for.as_secs_f64(),
    });
    let more = match &record.condition {
        Condition::InProgress { lease_remaining } => {
            json!({"lease_remaining": lease_remaining.as_secs_f64()})
        }
        Condition::Completed { outcome_bytes } => json!({"outcome_bytes": outcome_bytes}),
        Condition::Failed {
            reason,
            error,
            retry_in,
        } => json!({
            "reason": reason.as_str(),
            "error": error,
            "retry_in": retry_in.as_secs_f64(),
        }),
        _ => Value::Null,
    };
    if let (Value::Object(object), Value::Object(more)) = (&mut object, more) {
        object.extend(more);
    }
    object
}

/// In seconds.
pub(crate) fn since_1970(at: SystemTime) -> f64 {
    at.duration_since(UNIX_EPOCH)
        .unwrap_or_default()
        .as_secs_f64()
}

pub(crate) fn hex(bytes: &[u8]) -> String {
    use std::fmt::Write as _;

    let mut text = String::with_capacity(2 * bytes.len());
    for byte in bytes {
        write!(text, "{byte:02x}").expect("writing to a string cannot fail");
    }
    text
}
