//! The key that a client sends: `Idempotency-Key`, as a quoted string or as it is.
//!
//! The header's definition is draft-ietf-httpapi-idempotency-key-header-07: a string of RFC 8941, which is quoted. Most
//! clients send it without the quotes.

use http::{HeaderMap, HeaderName};

pub(crate) const IDEMPOTENCY_KEY: HeaderName = HeaderName::from_static("idempotency-key");

/// The longest key, in bytes, without its quotes.
const LONGEST: usize = 255;

/// Why a request has no key that can be used.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum KeyProblem {
    Missing,
    Empty,
    TooLong,
    Repeated,
    Characters,
    Unclosed,
}

impl KeyProblem {
    pub(crate) fn detail(self) -> &'static str {
        match self {
            Self::Missing => {
                "send `Idempotency-Key` with a value that names this one operation, a UUID say, and the same value when you send it again"
            }
            Self::Empty => "the key is empty",
            Self::TooLong => "the key is longer than 255 bytes",
            Self::Repeated => "send `Idempotency-Key` once",
            Self::Characters => {
                "the key has characters that cannot be sent: use letters, digits and punctuation of ASCII, and quote a key with spaces, commas or semicolons"
            }
            Self::Unclosed => "the key begins with a quotation mark and does not end with one",
        }
    }
}

/// The key that these headers carry.
pub(crate) fn key(headers: &HeaderMap) -> Result<String, KeyProblem> {
    let mut values = headers.get_all(IDEMPOTENCY_KEY).iter();
    let value = values.next().ok_or(KeyProblem::Missing)?;
    if values.next().is_some() {
        return Err(KeyProblem::Repeated);
    }
    let value = value.to_str().map_err(|_| KeyProblem::Characters)?.trim();
    let key = match value.strip_prefix('"') {
        Some(quoted) => unquoted(quoted)?,
        // A comma joins the values of a header that was sent twice, if a proxy has put them together.
        None if value.contains([',', ';', '"', ' ', '\t']) => return Err(KeyProblem::Characters),
        None => value.to_owned(),
    };
    checked(key)
}

/// The key, if its length is one's.
pub(crate) fn checked(key: String) -> Result<String, KeyProblem> {
    match key.len() {
        0 => Err(KeyProblem::Empty),
        1..=LONGEST => Ok(key),
        _ => Err(KeyProblem::TooLong),
    }
}

/// The string whose opening quotation mark is gone. Parameters after it are left out, as RFC 8941 says of those that
/// nobody knows.
fn unquoted(rest: &str) -> Result<String, KeyProblem> {
    let mut key = String::new();
    let mut rest = rest.chars();
    loop {
        match rest.next().ok_or(KeyProblem::Unclosed)? {
            '"' => break,
            '\\' => match rest.next().ok_or(KeyProblem::Unclosed)? {
                escaped @ ('"' | '\\') => key.push(escaped),
                _ => return Err(KeyProblem::Characters),
            },
            plain @ ' '..='~' => key.push(plain),
            _ => return Err(KeyProblem::Characters),
        }
    }
    match rest.as_str().trim_start().chars().next() {
        None | Some(';') => Ok(key),
        Some(',') => Err(KeyProblem::Repeated),
        Some(_) => Err(KeyProblem::Characters),
    }
}

#[cfg(test)]
mod tests {
    use http::HeaderValue;

    use super::*;

    fn of(values: &[&[u8]]) -> Result<String, KeyProblem> {
        let mut headers = HeaderMap::new();
        for value in values {
            headers.append(IDEMPOTENCY_KEY, HeaderValue::from_bytes(value).unwrap());
        }
        key(&headers)
    }

    #[test]
    fn a_key_is_a_quoted_string_or_as_it_is() {
        let longest = "k".repeat(255);
        let quoted = format!("\"{longest}\"");
        for (sent, key) in [
            (
                "8e03978e-40d5-43e8-bc93-6894a57f9324",
                "8e03978e-40d5-43e8-bc93-6894a57f9324",
            ),
            ("\"8e03978e-40d5\"", "8e03978e-40d5"),
            ("order:17/a+b=", "order:17/a+b="),
            ("  padded ", "padded"),
            (
                r#""with \"quotes\", a comma and \\""#,
                r#"with "quotes", a comma and \"#,
            ),
            ("\"a\";version=1", "a"),
            ("\"a\" ", "a"),
            (&*longest, &*longest),
            (&*quoted, &*longest),
        ] {
            assert_eq!(of(&[sent.as_bytes()]).as_deref(), Ok(key), "{sent}");
        }
    }

    #[test]
    fn whatever_else_is_sent_is_no_key() {
        let longer = "k".repeat(256);
        let quoted = format!("\"{longer}\"");
        for (sent, why) in [
            (&[][..], KeyProblem::Missing),
            (&[&b""[..]], KeyProblem::Empty),
            (&[&b"  "[..]], KeyProblem::Empty),
            (&[&b"\"\""[..]], KeyProblem::Empty),
            (&[longer.as_bytes()], KeyProblem::TooLong),
            (&[quoted.as_bytes()], KeyProblem::TooLong),
            (&[&b"a"[..], b"b"], KeyProblem::Repeated),
            (&[&b"a"[..], b"a"], KeyProblem::Repeated),
            (&[&b"\"a\", \"b\""[..]], KeyProblem::Repeated),
            (&[&b"a, b"[..]], KeyProblem::Characters),
            (&[&b"two words"[..]], KeyProblem::Characters),
            (&["schl\u{fc}ssel".as_bytes()], KeyProblem::Characters),
            (&[&b"\"a\xff\""[..]], KeyProblem::Characters),
            (&[&b"\"a\\n\""[..]], KeyProblem::Characters),
            (&[&b"\"a\"b"[..]], KeyProblem::Characters),
            (&[&b"\"a"[..]], KeyProblem::Unclosed),
            (&[&b"\"a\\"[..]], KeyProblem::Unclosed),
        ] {
            assert_eq!(of(sent), Err(why), "{sent:?}");
        }
    }
}
