//! What becomes of a message that is given up.

/// What becomes of a message that its handler rejects, or whose attempts are used up.
///
/// ```
/// use idem_core::{Failed, idempotent};
/// # #[derive(serde::Deserialize)] struct Reading { id: String, celsius: f64 }
///
/// #[idempotent(key = "id", scope = "readings.store", on_rejected = "ack", on_exhausted = "dead-letter")]
/// async fn store(reading: Reading) -> Result<(), Failed> {
///     if reading.celsius < -273.15 {
///         return Err(Failed::rejected("a broken sensor")); // nobody is going to look at it
///     }
///     Ok(())
/// }
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum GivenUp {
    /// It is dead-lettered, for a person to look at, and perhaps to send again.
    DeadLetter,
    /// It is acknowledged, and **kept nowhere**. It is logged at `WARN` and counted as dropped.
    Ack,
}
