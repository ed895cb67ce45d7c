//! A digest of the payload, to notice the same key with other content.

use std::fmt;

use serde::Serialize;
use sha2::{Digest, Sha256};

/// The first 128 bits of the SHA-256 of what a message says.
///
/// It notices accidents (an id used twice), it does not defend against a forger.
///
/// ```
/// use idem_core::message::Fingerprint;
///
/// let sent = Fingerprint::of(br#"{"order_id":"o-17","amount_cents":500}"#);
/// let again = Fingerprint::of(br#"{"order_id":"o-17","amount_cents":900}"#);
/// assert_ne!(sent, again);
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct Fingerprint([u8; 16]);

impl Fingerprint {
    /// The fingerprint of a whole body.
    pub fn of(body: &[u8]) -> Self {
        Self::first_half(&Sha256::digest(body))
    }

    /// Starts a fingerprint of some fields only, for messages whose body changes from one
    /// publisher's retry to the next (a time stamp, say).
    pub fn builder() -> FingerprintBuilder {
        FingerprintBuilder {
            digest: Sha256::new(),
            json: Vec::new(),
        }
    }

    /// A fingerprint as a store has kept it.
    pub const fn from_bytes(bytes: [u8; 16]) -> Self {
        Self(bytes)
    }

    /// The bytes to keep in a store.
    pub const fn as_bytes(&self) -> &[u8; 16] {
        &self.0
    }

    fn first_half(digest: &[u8]) -> Self {
        let mut half = [0; 16];
        half.copy_from_slice(&digest[..16]);
        Self(half)
    }
}

const HEX: &[u8; 16] = b"0123456789abcdef";

impl fmt::Display for Fingerprint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut text = [0; 32];
        for (digits, byte) in text.chunks_exact_mut(2).zip(self.0) {
            digits[0] = HEX[usize::from(byte >> 4)];
            digits[1] = HEX[usize::from(byte & 15)];
        }
        f.write_str(str::from_utf8(&text).expect("digits are ASCII"))
    }
}

impl fmt::Debug for Fingerprint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Fingerprint({self})")
    }
}

/// A fingerprint of named fields in the making.
///
/// ```
/// use idem_core::message::Fingerprint;
///
/// let of = |cents: u32| Fingerprint::builder().field("amount_cents", &cents).field("to", "ann").build();
/// assert_eq!(of(500), of(500));
/// assert_ne!(of(500), of(900));
/// ```
#[derive(Debug, Clone)]
#[must_use]
pub struct FingerprintBuilder {
    digest: Sha256,
    /// Room for the next field's value.
    json: Vec<u8>,
}

impl FingerprintBuilder {
    /// Adds a field: its name and its value as JSON. A value that JSON cannot express (a map
    /// whose keys are no strings) counts by its error, so it never equals a proper value.
    pub fn field(mut self, name: &str, value: &(impl Serialize + ?Sized)) -> Self {
        self.json.clear();
        if let Err(error) = serde_json::to_writer(&mut self.json, value) {
            self.json = error.to_string().into();
        }
        for bytes in [name.as_bytes(), &self.json] {
            self.digest.update((bytes.len() as u64).to_be_bytes());
            self.digest.update(bytes);
        }
        self
    }

    /// Ends the fingerprint.
    pub fn build(self) -> Fingerprint {
        Fingerprint::first_half(&self.digest.finalize())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_fingerprint_is_the_head_of_the_sha_256() {
        assert_eq!(
            Fingerprint::of(b"abc").to_string(),
            "ba7816bf8f01cfea414140de5dae2223"
        );
    }

    /// Stores keep them: a copy that comes after an update must not be taken for another message.
    #[test]
    fn a_fingerprint_of_fields_is_frozen() {
        let of = Fingerprint::builder()
            .field("path", "/charges")
            .field("query", &None::<&str>)
            .field("content-type", &[b"text/plain"])
            .build();
        assert_eq!(of.to_string(), "d90b1d5ee422b14ae1253d2f5c0c773c");
    }

    #[test]
    fn fields_do_not_run_into_each_other() {
        let of = |a: &str, b: &str| Fingerprint::builder().field("a", a).field("b", b).build();
        assert_ne!(of("x", "yz"), of("xy", "z"));
        assert_eq!(of("x", "yz"), of("x", "yz"));
    }
}
