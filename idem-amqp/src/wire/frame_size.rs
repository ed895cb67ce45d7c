//! How many bytes headers take in a frame, and which of them are left behind if they are too many.

use lapin::types::{AMQPValue, FieldTable, ShortString};

use crate::wire::headers::{self, HEADERS_CUT};

/// Leaves the publisher's largest headers behind, one after the other, until there are so many bytes
/// less. Nothing if there is none that may be left.
pub(crate) fn cut(headers: &FieldTable, excess: usize) -> Option<FieldTable> {
    let mark = (HEADERS_CUT.into(), AMQPValue::Boolean(true));
    let marked = headers.contains_key(HEADERS_CUT);
    let mut left = excess + if marked { 0 } else { entry(&mark.0, &mark.1) };
    let mut kept = headers.inner().clone();
    let own = headers.inner().iter();
    let own = own
        .filter(|(name, _)| !headers::is_ours(name.as_str()) && !headers::is_place(name.as_str()));
    let mut own: Vec<_> = own
        .map(|(name, value)| (entry(name, value), name))
        .collect();
    own.sort_unstable_by(|one, other| other.cmp(one));
    if own.is_empty() {
        return None;
    }
    for (bytes, name) in own {
        if left == 0 {
            break;
        }
        kept.remove(name);
        left = left.saturating_sub(bytes);
    }
    kept.extend([mark]);
    Some(kept.into())
}

/// The bytes that a header takes in a frame, or a little more.
pub(crate) fn entry(name: &ShortString, value: &AMQPValue) -> usize {
    1 + name.as_str().len() + size_of(value)
}

/// The bytes that a value takes in a frame, or a little more.
pub(crate) fn size_of(value: &AMQPValue) -> usize {
    const LARGEST_NUMBER: usize = 9;
    match value {
        AMQPValue::ShortString(text) => 2 + text.as_str().len(),
        AMQPValue::LongString(text) => 5 + text.len(),
        AMQPValue::ByteArray(bytes) => 5 + bytes.len(),
        AMQPValue::FieldArray(values) => 5 + values.as_slice().iter().map(size_of).sum::<usize>(),
        AMQPValue::FieldTable(table) => {
            let entries = table.inner().iter();
            5 + entries
                .map(|(name, value)| entry(name, value))
                .sum::<usize>()
        }
        _ => LARGEST_NUMBER,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wire::headers::{REASON, SESSION};

    fn of(sizes: &[(&str, usize)]) -> FieldTable {
        let mut table = FieldTable::default();
        for (name, bytes) in sizes {
            table.insert(
                (*name).into(),
                AMQPValue::LongString("x".repeat(*bytes).into()),
            );
        }
        table
    }

    fn names(headers: &FieldTable) -> Vec<&str> {
        headers.inner().keys().map(ShortString::as_str).collect()
    }

    fn bytes(headers: &FieldTable) -> usize {
        headers
            .inner()
            .iter()
            .map(|(name, value)| entry(name, value))
            .sum()
    }

    #[test]
    fn the_largest_headers_of_the_publishers_are_cut_first_and_none_of_ours() {
        let sizes = [
            ("a", 10),
            ("b", 3000),
            ("c", 2000),
            (REASON, 4000),
            (SESSION, 4000),
        ];
        let whole = of(&sizes);
        for (excess, kept) in [
            (1, vec!["a", "c", HEADERS_CUT, REASON, SESSION]),
            (2900, vec!["a", "c", HEADERS_CUT, REASON, SESSION]),
            // A word of the cut needs its room, too.
            (3000, vec!["a", HEADERS_CUT, REASON, SESSION]),
            (9999, vec![HEADERS_CUT, REASON, SESSION]),
        ] {
            let shorter = cut(&whole, excess).unwrap();
            assert_eq!(names(&shorter), kept, "{excess}");
            assert!(
                excess == 9999 || bytes(&shorter) + excess <= bytes(&whole),
                "{excess}"
            );
        }
        assert_eq!(cut(&of(&sizes[3..]), 1), None);
    }
}
