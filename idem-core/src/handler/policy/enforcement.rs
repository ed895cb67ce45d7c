//! Whether a policy is carried out, or only watched.

/// Whether what is not to run is kept from running, or only counted.
///
/// ```
/// use idem_core::{Failed, idempotent};
/// # #[derive(serde::Deserialize)] struct Order { id: String }
///
/// #[idempotent(key = "id", scope = "orders.charge", enforcement = "observe")]
/// async fn charge(order: Order) -> Result<(), Failed> {
///     println!("{}", order.id); // copies run as before, and are counted
///     Ok(())
/// }
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Enforcement {
    /// A message runs if its claim says so.
    Enforce,
    /// Every message runs, whatever its claim says (leased handlers only: the writes of an atomic one
    /// commit with its claim). For the first days on a system that already exists: what would have
    /// been suppressed is counted and logged, and nothing is.
    ///
    /// Claims are made, kept and completed as ever, so that the next copy is known for one. The store
    /// is asked and told, but not waited for beyond a second, and what it says stops nothing: see
    /// [`Execution::Observed`](crate::Execution::Observed). A message without a usable key runs as
    /// well, under a [`Key`](crate::Key) that no other message has.
    ///
    /// What the handler itself says is heeded as ever: an attempt that fails is made again after the
    /// backoff, up to the maximum, and what it rejects is dead-lettered. So is what cannot be decoded,
    /// because there is nothing to call the handler with.
    ///
    /// An attempt without a claim is [not protected](crate::Attempt::is_protected): its fencing token
    /// is 0. Messages of a session or a sequence have their place among others, and are enforced.
    /// Not together with [`StoreOutage::FailOpen`](crate::handler::StoreOutage::FailOpen).
    Observe,
    /// Every message runs, and nothing is claimed or remembered (leased handlers only): for handlers that are
    /// idempotent by nature, such as one that writes what it is told under an id that the message has. Copies run
    /// again, also at the same time; no store is asked, and no key is needed.
    ///
    /// Failures, timeouts, dead letters and metrics are as ever. The transport counts the attempts:
    /// what comes back says how often it was attempted. A message that ran to its end is
    /// [`Execution::Unclaimed`](crate::Execution::Unclaimed). An output is the reply, and is not
    /// remembered.
    ///
    /// Messages of a session or a sequence have their place among others, and are enforced.
    /// Not together with [`StoreOutage::FailOpen`](crate::handler::StoreOutage::FailOpen).
    Plain,
}
