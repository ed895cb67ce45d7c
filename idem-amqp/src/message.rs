//! What identifies a message: its key and the parts of it, and the fingerprint of its content.
//!
//! You need it to let a type of your own be a part of a key ([`KeyPart`]), to build keys in code
//! ([`KeyBuilder`]), or to look at a message before its handler does ([`Envelope`]).
//!
//! ```
//! use idem_amqp::{
//!     Key,
//!     message::{KeyError, KeyPart},
//! };
//! use std::borrow::Cow;
//!
//! struct OrderId(u64);
//!
//! impl KeyPart for OrderId {
//!     fn to_part(&self) -> Option<Cow<'_, str>> {
//!         Some(self.0.to_string().into())
//!     }
//! }
//!
//! let key = Key::builder("orders.charge").part("order_id", &OrderId(17)).build()?;
//! assert_eq!(key.as_str(), "orders.charge:17");
//! # Ok::<_, KeyError>(())
//! ```

#[doc(no_inline)]
pub use idem_core::Key;
#[doc(inline)]
pub use idem_core::message::{
    Envelope, EnvelopeBuilder, Fingerprint, FingerprintBuilder, HeaderSource, IdempotencyKey,
    KeyBuilder, KeyError, KeyPart, Position, PositionKind, SequenceKey, SequencePlace, SessionKey,
    SessionNumber, SessionPlace,
};
