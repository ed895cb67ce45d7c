//! What is remembered of a handler that has succeeded.

use std::error::Error;

use bytes::Bytes;

/// The remembered result of a handler, as bytes.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash)]
pub struct Outcome(Bytes);

impl Outcome {
    /// Remembers these bytes.
    pub fn new(bytes: impl Into<Bytes>) -> Self {
        Self(bytes.into())
    }

    /// Remembers a value as JSON.
    ///
    /// # Errors
    /// If JSON cannot express it.
    pub fn json(value: &impl serde::Serialize) -> Result<Self, Box<dyn Error + Send + Sync>> {
        Ok(Self::new(serde_json::to_vec(value)?))
    }

    /// The bytes.
    pub fn as_bytes(&self) -> &[u8] {
        &self.0
    }
}
