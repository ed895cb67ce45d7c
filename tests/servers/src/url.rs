//! Names in URLs.

use std::fmt::Write;

/// Encodes all but what RFC 3986 calls unreserved.
pub(crate) fn percent_encoded(text: &str) -> String {
    text.bytes().fold(String::new(), |mut encoded, byte| {
        if byte.is_ascii_alphanumeric() || b"-._~".contains(&byte) {
            encoded.push(char::from(byte));
        } else {
            let _ = write!(encoded, "%{byte:02x}");
        }
        encoded
    })
}

#[cfg(test)]
mod tests {
    use super::percent_encoded;

    #[test]
    fn what_has_a_meaning_in_urls_is_encoded() {
        assert_eq!(percent_encoded("/"), "%2f");
        assert_eq!(percent_encoded("test-1.a_b"), "test-1.a_b");
    }
}
