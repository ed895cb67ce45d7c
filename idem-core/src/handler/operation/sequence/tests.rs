//! What can number a message.

use super::*;

fn wrong(found: &str) -> Result<u64, KeyError> {
    Err(KeyError::Number {
        part: "seq".into(),
        found: found.into(),
    })
}

#[test]
fn integers_and_text_of_digits_are_numbers() {
    assert_eq!(number("seq", &7_u8), Ok(7));
    assert_eq!(number("seq", &7_i64), Ok(7));
    assert_eq!(number("seq", &Some(&7_u128)), Ok(7));
    assert_eq!(number("seq", "17"), Ok(17));
    assert_eq!(number("seq", &Some(Cow::Borrowed("0017"))), Ok(17));
    assert_eq!(
        number("seq", &SequencePlace::MAX_NUMBER),
        Ok(9_007_199_254_740_991)
    );
}

#[test]
fn anything_else_is_none_and_the_error_shows_it() {
    assert_eq!(number("seq", &-1), wrong("-1"));
    for text in ["+1", " 1", "1.0", "x", "18446744073709551616"] {
        assert_eq!(number("seq", text), wrong(text));
    }
    assert_eq!(
        number("seq", &(SequencePlace::MAX_NUMBER + 1)),
        wrong("9007199254740992")
    );
    assert_eq!(number("seq", &"x".repeat(1000)), wrong(&"x".repeat(40)));
    assert_eq!(
        number("seq", &None::<u64>),
        Err(KeyError::Missing { part: "seq".into() })
    );
    assert_eq!(
        number("seq", ""),
        Err(KeyError::Empty { part: "seq".into() })
    );
}
