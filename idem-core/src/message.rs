//! A message as every layer above sees it: its key, its content, and its position among others.
//!
//! The lowest layer: it knows no handler and no store.

pub(crate) mod envelope;
pub(crate) mod fingerprint;
pub(crate) mod key;
mod position;
mod time;

pub use envelope::{Envelope, EnvelopeBuilder, HeaderSource, SessionNumber};
pub use fingerprint::{Fingerprint, FingerprintBuilder};
pub use key::{IdempotencyKey, Key, KeyBuilder, KeyError, KeyPart};
pub use position::{Position, PositionKind, SequenceKey, SequencePlace, SessionKey, SessionPlace};
