//! From the text that a store keeps back to the key.

use std::str::FromStr;

use super::{
    Key, KeyError,
    encoding::{self, DIGEST_MARK, SEPARATOR},
};

/// Reads the text that [`Key::as_str`] gives, and a store shows. It need not be the key of any
/// message.
impl FromStr for Key {
    type Err = KeyError;

    fn from_str(text: &str) -> Result<Self, KeyError> {
        let parts = text.split_once(SEPARATOR);
        let is_key = parts.is_some_and(|(scope, parts)| {
            encoding::is_scope(scope) && parts.split(SEPARATOR).all(is_part)
        });
        if is_key && text.len() <= Self::MAX_LEN {
            Ok(Self(text.into()))
        } else {
            Err(KeyError::Text { text: text.into() })
        }
    }
}

/// Whether this can stand for a part: escaped, or with a digest or a number at its end.
fn is_part(text: &str) -> bool {
    let escapes = || {
        let behind = text.split('%').skip(1);
        behind.map(|rest| rest.get(..2).unwrap_or_default())
    };
    let is_escape = |digits: &str| {
        let upper = |byte: u8| byte.is_ascii_digit() || (b'A'..=b'F').contains(&byte);
        digits.len() == 2 && digits.bytes().all(upper)
    };
    // A digest, and a number behind it.
    let marks = text.matches(DIGEST_MARK).count();
    !text.is_empty()
        && !text.chars().any(char::is_control)
        && marks <= 2
        && escapes().all(is_escape)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_key_is_read_back_from_its_text() {
        let long = "x".repeat(400);
        for part in ["o-17", "ü 🦀", "a:b%~", "\n", "{x}", &long] {
            let key = Key::new("orders.charge", part).unwrap();
            assert_eq!(key.as_str().parse(), Ok(key.clone()), "{part}");
            let numbered = key.with_room().numbered(u64::MAX);
            assert_eq!(numbered.as_str().parse(), Ok(numbered.clone()), "{part}");
        }
        let several = Key::builder("a").part("x", &1).part("y", &2).build();
        assert_eq!("a:1:2".parse(), several);
    }

    #[test]
    fn what_is_no_key_is_refused() {
        let long = format!("a:{}", "x".repeat(300));
        for text in [
            "",
            "orders",
            "orders:",
            ":o-1",
            "or ders:1",
            "a:x::y",
            "a:5%",
            "a:%zz",
            "a:%2f",
            "a:x\n",
            "a:x~y~z~1",
            &long,
        ] {
            let error = text.parse::<Key>().unwrap_err().to_string();
            assert!(error.contains("is no key: write `SCOPE:PART`"), "{error}");
        }
    }
}
