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
        FingerprintBuilder(Sha256::new())
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

impl fmt::Display for Fingerprint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
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
pub struct FingerprintBuilder(Sha256);

impl FingerprintBuilder {
    /// Adds a field: its name and its value as JSON. A value that JSON cannot express (a map
    /// whose keys are no strings) counts by its error, so it never equals a proper value.
    pub fn field(mut self, name: &str, value: &(impl Serialize + ?Sized)) -> Self {
        let json = serde_json::to_vec(value).unwrap_or_else(|error| error.to_string().into());
        for bytes in [name.as_bytes(), &json] {
            self.0.update((bytes.len() as u64).to_be_bytes());
            self.0.update(bytes);
        }
        self
    }

    /// Ends the fingerprint.
    pub fn build(self) -> Fingerprint {
        Fingerprint::first_half(&self.0.finalize())
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

    #[test]
    fn fields_do_not_run_into_each_other() {
        let of = |a: &str, b: &str| Fingerprint::builder().field("a", a).field("b", b).build();
        assert_ne!(of("x", "yz"), of("xy", "z"));
        assert_eq!(of("x", "yz"), of("x", "yz"));
    }
}
