//! The mark on a message whose properties the AMQP client could not have read.
//!
//! It is a header, and so anybody can write one: only a value that begins with this process's own
//! secret is believed. The secret is in no message that leaves the process.

use std::{fmt, sync::LazyLock};

use lapin::{
    BasicProperties,
    types::{AMQPValue, FieldTable},
};
use uuid::Uuid;

/// How deep tables and arrays may be in one another. The client calls itself for each level, on a thread
/// whose stack holds some hundreds of them; and whoever passes values on does the same.
pub(crate) const DEEPEST: usize = 64;

/// The header's name.
pub(crate) const NAME: &str = "idem-unreadable";

static SECRET: LazyLock<String> = LazyLock::new(|| Uuid::new_v4().simple().to_string());

/// What the client cannot read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Flaw {
    NotUtf8,
    Depth,
    Type,
    Length,
    Size { bytes: usize, most: usize },
    Route,
}

impl fmt::Display for Flaw {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NotUtf8 => f.write_str(
                "a property or the name of a header is not UTF-8: correct its publisher",
            ),
            Self::Depth => write!(
                f,
                "its headers are nested more than {DEEPEST} deep: correct its publisher"
            ),
            Self::Type => f.write_str(
                "a header has a type that the AMQP client does not know: correct its publisher",
            ),
            Self::Length => f.write_str(
                "the properties have other lengths than they say: correct its publisher",
            ),
            Self::Size { bytes, most } => write!(
                f,
                "its properties need a frame of {bytes} bytes, and this connection takes {most}: \
                 set `frame_max` of the worker's URL and of the broker higher, or send shorter headers"
            ),
            Self::Route => {
                f.write_str("its exchange or its routing key is not UTF-8: correct its publisher")
            }
        }
    }
}

/// The header's value.
pub(crate) fn mark(flaw: Flaw) -> String {
    format!("{}{flaw}", *SECRET)
}

/// Takes the mark off, and what it says: what is wrong with the properties that the message had.
pub(crate) fn unmark(properties: &mut BasicProperties) -> Option<String> {
    let headers = properties.headers().as_ref()?;
    let AMQPValue::LongString(told) = headers.inner().get(NAME)? else {
        return None;
    };
    let told = std::str::from_utf8(told.as_bytes()).ok()?;
    let flaw = told.strip_prefix(SECRET.as_str())?.to_owned();
    *properties = std::mem::take(properties).with_headers(FieldTable::default());
    Some(flaw)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn with(value: &str) -> BasicProperties {
        let mut headers = FieldTable::default();
        headers.insert(NAME.into(), AMQPValue::LongString(value.into()));
        BasicProperties::default().with_headers(headers)
    }

    #[test]
    fn a_mark_is_believed_and_taken_off() {
        let mut properties = with(&mark(Flaw::NotUtf8));
        let flaw = unmark(&mut properties).unwrap();
        assert_eq!(flaw, Flaw::NotUtf8.to_string());
        assert_eq!(properties.headers(), &Some(FieldTable::default()));
    }

    #[test]
    fn what_a_publisher_writes_is_no_mark() {
        for forged in ["", "x", &Uuid::new_v4().simple().to_string()] {
            let mut properties = with(forged);
            assert_eq!(unmark(&mut properties), None);
            assert_eq!(properties, with(forged), "it stays the publisher's");
        }
    }
}
