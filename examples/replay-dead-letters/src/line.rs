//! A letter in one line.

use std::{fmt, time::SystemTime};

use idem_amqp::dead_letters::DeadLetter;

/// `orders.charge:o-17 rejected, attempt 1, 3 min ago, from orders: no such customer`
pub(crate) struct Line<'a>(pub(crate) &'a DeadLetter);

impl fmt::Display for Line<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self(letter) = self;
        let name = letter.key().or(letter.message_id());
        write!(f, "{} {}", name.unwrap_or("(no key)"), letter.reason())?;
        if let Some(attempt) = letter.attempt() {
            write!(f, ", attempt {attempt}")?;
        }
        if let Some(minutes) = minutes_since(letter.last_failure()) {
            write!(f, ", {minutes} min ago")?;
        }
        if let Some(queue) = letter.queue() {
            write!(f, ", from {queue}")?;
        }
        match letter.error() {
            Some(error) => write!(f, ": {error}"),
            None => Ok(()),
        }
    }
}

fn minutes_since(time: Option<SystemTime>) -> Option<u64> {
    let age = SystemTime::now().duration_since(time?).ok()?;
    Some(age.as_secs() / 60)
}
