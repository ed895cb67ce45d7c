//! A dead letter, in words and as JSON.

use std::time::{SystemTime, UNIX_EPOCH};

use idem_amqp::dead_letters::DeadLetter;
use serde_json::{Value, json};

use crate::{
    error::Error,
    output::{Output, printable, short},
    span::words,
};

/// How much of an error is listed.
const WIDEST: usize = 80;

pub(super) fn list(output: Output, letters: &[DeadLetter]) -> Result<(), Error> {
    for letter in letters {
        output.object(&as_json(letter, None))?;
    }
    let rows: Vec<_> = letters.iter().map(row).collect();
    output.table(["KEY", "REASON", "ATTEMPT", "AGE", "FROM", "ERROR"], &rows)?;
    output.line(match letters.len() {
        1 => "1 letter".to_owned(),
        letters => format!("{letters} letters"),
    })?;
    Ok(())
}

pub(super) fn show(output: Output, letters: &[DeadLetter]) -> Result<(), Error> {
    for letter in letters {
        let body = String::from_utf8_lossy(letter.body());
        output.object(&as_json(letter, Some(&body)))?;
        output.fields(&fields(letter, &body))?;
        output.line("")?;
    }
    Ok(())
}

/// `orders.charge:o-17 rejected: no such customer`
pub(super) fn line(letter: &DeadLetter) -> String {
    let error = letter.error().map(|error| format!(": {error}"));
    let error = error.unwrap_or_default();
    printable(&format!("{} {}{error}", name(letter), letter.reason()))
}

fn name(letter: &DeadLetter) -> &str {
    letter.key().or(letter.message_id()).unwrap_or("(no key)")
}

fn row(letter: &DeadLetter) -> [String; 6] {
    let attempt = letter.attempt().map(|attempt| attempt.to_string());
    [
        printable(name(letter)),
        printable(letter.reason()),
        attempt.unwrap_or_default(),
        age(letter).unwrap_or_default(),
        printable(letter.queue().unwrap_or_default()),
        short(letter.error().unwrap_or_default(), WIDEST),
    ]
}

fn fields(letter: &DeadLetter, body: &str) -> Vec<(&'static str, String)> {
    let text = |value: Option<&str>| value.map(str::to_owned);
    let known = [
        ("key", text(letter.key())),
        ("message id", text(letter.message_id())),
        ("reason", text(Some(letter.reason()))),
        ("error", text(letter.error())),
        (
            "attempt",
            letter.attempt().map(|attempt| attempt.to_string()),
        ),
        ("age", age(letter)),
        ("queue", text(letter.queue())),
        ("exchange", text(letter.exchange())),
        ("routing key", text(letter.routing_key())),
        ("content type", text(letter.content_type())),
        ("headers", Some(letter.header_names().join(", "))),
        (
            "body",
            Some(format!("{} bytes: {body}", letter.body().len())),
        ),
    ];
    let known = known.into_iter();
    known
        .filter_map(|(name, value)| Some((name, value?)))
        .collect()
}

fn age(letter: &DeadLetter) -> Option<String> {
    let age = SystemTime::now().duration_since(letter.last_failure()?);
    age.ok().map(words)
}

fn as_json(letter: &DeadLetter, body: Option<&str>) -> Value {
    let seconds = |time: Option<SystemTime>| {
        let since_1970 = time?.duration_since(UNIX_EPOCH).ok()?;
        Some(since_1970.as_secs())
    };
    let mut object = json!({
        "key": letter.key(),
        "message_id": letter.message_id(),
        "reason": letter.reason(),
        "error": letter.error(),
        "attempt": letter.attempt(),
        "first_failure": seconds(letter.first_failure()),
        "last_failure": seconds(letter.last_failure()),
        "queue": letter.queue(),
        "exchange": letter.exchange(),
        "routing_key": letter.routing_key(),
        "content_type": letter.content_type(),
        "body_bytes": letter.body().len(),
    });
    if let Some(body) = body {
        object["body"] = body.into();
    }
    object
}
