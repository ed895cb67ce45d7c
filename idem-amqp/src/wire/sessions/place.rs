//! Where a request stands in its session: three headers, of its client's own.

use idem_core::message::{HeaderSource as _, SessionNumber};
use lapin::types::AMQPValue;

use crate::wire::{
    delivery::Delivery,
    headers::{AWAITED, NUMBER, SESSION},
};

/// The longest id of a session, in bytes.
pub(crate) const MAX_ID: usize = 64;

/// Where a request stands in its session, if it is one of a session.
///
/// # Errors
/// What is wrong with its headers, and what to send instead.
pub(crate) fn place(delivery: &Delivery) -> Result<Option<SessionNumber>, String> {
    let headers = [SESSION, NUMBER, AWAITED];
    let there = headers.map(|name| delivery.value(name).is_some());
    if there == [false; 3] {
        return Ok(None);
    }
    if let Some(missing) = there.iter().position(|there| !there) {
        let missing = headers[missing];
        return Err(format!(
            "the header `{missing}` is missing: a request of a session has `{SESSION}`, `{NUMBER}` \
             and `{AWAITED}`, any other message none of them"
        ));
    }
    let number = count(delivery, NUMBER)?;
    let awaited = count(delivery, AWAITED)?;
    if awaited > number {
        return Err(format!(
            "`{AWAITED}` is {awaited}, above `{NUMBER}`, which is {number}: a client awaits the \
             answer to its own request"
        ));
    }
    Ok(Some(SessionNumber {
        id: id(delivery)?,
        number,
        awaited,
    }))
}

fn id(delivery: &Delivery) -> Result<String, String> {
    let id = delivery.own_text(SESSION).unwrap_or_default();
    if id.is_empty() || id.len() > MAX_ID {
        return Err(format!(
            "`{SESSION}` is not the id of a session: send the text that opening it was answered with"
        ));
    }
    Ok(id.to_owned())
}

/// An integer of any width, or text of digits.
fn count(delivery: &Delivery, name: &str) -> Result<u64, String> {
    let value = delivery.value(name);
    let is_text = matches!(
        value,
        Some(AMQPValue::LongString(_) | AMQPValue::ShortString(_))
    );
    let is_number = matches!(
        value,
        Some(
            AMQPValue::ShortShortInt(_)
                | AMQPValue::ShortShortUInt(_)
                | AMQPValue::ShortInt(_)
                | AMQPValue::ShortUInt(_)
                | AMQPValue::LongInt(_)
                | AMQPValue::LongUInt(_)
                | AMQPValue::LongLongInt(_)
        )
    );
    let digits = delivery.get(name).filter(|_| is_text || is_number);
    // A sign is for no number that is counted.
    let digits = digits.filter(|digits| digits.bytes().all(|byte| byte.is_ascii_digit()));
    let count = digits.and_then(|digits| digits.parse().ok());
    let count = count.filter(|count| i64::try_from(*count).is_ok());
    count.ok_or_else(|| format!("`{name}` is not a number: send an integer of 0 or more"))
}

#[cfg(test)]
mod tests;
