//! From parts to text: escaping that keeps keys apart, and a bound on their length.

use std::fmt::Write as _;

use sha2::{Digest, Sha256};

use super::Key;

/// Between scope and parts.
pub(super) const SEPARATOR: char = ':';
/// Between the head and the digest of a key that was too long.
pub(super) const DIGEST_MARK: char = '~';
/// Hexadecimal SHA-256.
const DIGEST_LEN: usize = 64;

/// Whether `scope` can be a scope. Letters outside ASCII are fine, as in a function's name.
pub(super) const fn is_scope(scope: &str) -> bool {
    let bytes = scope.as_bytes();
    if bytes.is_empty() || bytes.len() > Key::MAX_SCOPE_LEN {
        return false;
    }
    let mut i = 0;
    while i < bytes.len() {
        let fine = bytes[i].is_ascii_alphanumeric()
            || matches!(bytes[i], b'.' | b'_' | b'-' | b'/')
            || bytes[i] >= 0x80;
        if !fine {
            return false;
        }
        i += 1;
    }
    true
}

/// Appends `part` so that no two lists of parts give the same text.
pub(super) fn push_escaped(text: &mut String, part: &str) {
    if part.bytes().all(is_plain) {
        text.push_str(part);
        return;
    }
    for c in part.chars() {
        if is_escaped(c) {
            let mut utf8 = [0; 4];
            for byte in c.encode_utf8(&mut utf8).bytes() {
                write!(text, "%{byte:02X}").expect("writing to a string cannot fail");
            }
        } else {
            text.push(c);
        }
    }
}

fn is_escaped(c: char) -> bool {
    matches!(c, '%' | SEPARATOR | DIGEST_MARK) || c.is_control()
}

/// Whether a byte of UTF-8 is a whole character, and stands for itself.
fn is_plain(byte: u8) -> bool {
    byte.is_ascii() && !is_escaped(char::from(byte))
}

/// Shortens a text that is longer than it may be to a readable head and a digest of it all.
pub(super) fn bound(mut text: String, longest: usize) -> String {
    if text.len() <= longest {
        return text;
    }
    let digest = Sha256::digest(text.as_bytes());
    let head = text.floor_char_boundary(longest - DIGEST_LEN - DIGEST_MARK.len_utf8());
    text.truncate(head);
    text.push(DIGEST_MARK);
    for byte in digest {
        write!(text, "{byte:02x}").expect("writing to a string cannot fail");
    }
    text
}
