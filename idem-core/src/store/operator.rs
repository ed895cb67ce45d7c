//! The contract of stores that an operator can look into, and change by hand.
//!
//! You need it for a service's own page for operators, for a job that repairs keys, or to implement
//! [`OperatorStore`] in a store of your own. For what a person does now and then there is the command `idem`
//! (`docs/operator.md`).
//!
//! Keys come in pages ([`Listing`], [`Page`]). A change ([`Intervention`]) says what was seen of its key, and is made only
//! if that is still so. It fences the key's holder out, and is noted down ([`AuditEntry`]).
//!
//! ```
//! use idem_core::{
//!     StoreError,
//!     operator::{Intervened, Intervention, KeyState, Listing, OperatorStore},
//! };
//! use std::time::Duration;
//!
//! /// Frees the keys of a handler that were claimed, and of which nothing has been heard for an hour.
//! async fn free_silent(store: &impl OperatorStore, scope: &str) -> Result<u32, StoreError> {
//!     let silent = Listing::all().prefix(format!("{scope}:")).state(KeyState::InProgress);
//!     let mut silent = silent.older_than(Duration::from_hours(1));
//!     let mut freed = 0;
//!     loop {
//!         let page = store.list(&silent).await?;
//!         for record in page.records {
//!             let seen = Some(record.seen());
//!             let release = Intervention::release(record.key, seen, "the nightly job");
//!             // Otherwise a worker was faster.
//!             if store.intervene(&release).await? == Intervened::Applied {
//!                 freed += 1;
//!             }
//!         }
//!         let Some(next) = page.next else {
//!             return Ok(freed);
//!         };
//!         silent = silent.after(next);
//!     }
//! }
//! # tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(async {
//! # assert_eq!(free_silent(&idem_core::MemoryStore::new(), "orders.charge").await?, 0);
//! # Ok::<_, StoreError>(()) }).unwrap();
//! ```

use crate::{
    message::Key,
    store::{Look, StoreError},
};

mod audit;
mod counts;
mod intervention;
mod listing;

pub(crate) use audit::AUDIT_LASTS;
pub use audit::AuditEntry;
pub use counts::ScopeCounts;
pub use intervention::{Action, Intervened, Intervention, Seen};
pub use listing::{Cursor, Listing, Page};

#[doc(no_inline)]
pub use super::look::{Condition, FailedReason, KeyRecord, KeyState};

/// A store that lists its keys for the person who runs it, and lets that person release, forget or
/// complete one.
///
/// The command `idem` is made of it. Workers never use it.
///
/// An implementation keeps these rules beside those of [`Look`]; the conformance suite (list
/// `OperatorStore`) holds it to them.
///
/// 1. [`list`](Self::list), followed from page to page, tells of every key that is there all the
///    while and is chosen all the while, at least once. Keys that come, go or change meanwhile may be
///    told of or not.
/// 2. [`intervene`](Self::intervene) takes effect if and only if the record is still in the state
///    and under the token in which it was [seen](Intervention::seen); otherwise it is
///    [`Intervened::Changed`]. Looking, changing and noting it down are one atomic step.
/// 3. Whoever held the key is fenced out: no later write under its lease takes effect. After a release
///    its owner acquires no more. Fencing tokens grow over an intervention as over a takeover or a purge;
///    over a forgotten key of a store that takes them from a clock (Redis, memory), as long as that clock does.
/// 4. What comes of it depends on the state:
///
/// | | [`Release`](Action::Release) | [`Forget`](Action::Forget) | [`Complete`](Action::Complete) |
/// |---|---|---|---|
/// | no record | unfit | unfit | completed, as if it had run |
/// | in progress | failed, and in doubt as after a takeover | no record | completed |
/// | failed, waiting for its retry | free at once, attempts are kept | no record | completed |
/// | quarantined | free at once and not in doubt: the next copy runs | no record | completed |
/// | completed | unfit | no record: the next copy runs | unfit |
///
/// 5. The same intervention repeated, by its [owner](Intervention::owner), changes nothing and answers
///    [`Intervened::Applied`] again.
/// 6. What was changed is told by [`audit`](Self::audit), also after the record is gone; for 90 days at least.
///
/// # Cancel safety
/// A dropped future leaves an intervention unknown, as an `Err` does.
pub trait OperatorStore: Look {
    /// One page of keys.
    ///
    /// # Errors
    /// If the store cannot tell.
    fn list(&self, listing: &Listing) -> impl Future<Output = Result<Page, StoreError>> + Send;

    /// What operators did to a key, the latest last.
    ///
    /// # Errors
    /// If the store cannot tell.
    fn audit(&self, key: &Key) -> impl Future<Output = Result<Vec<AuditEntry>, StoreError>> + Send;

    /// How many keys there are of each scope, by the scope's name. The store reads all of its
    /// records for this.
    ///
    /// # Errors
    /// If the store cannot tell.
    fn counts(&self) -> impl Future<Output = Result<Vec<ScopeCounts>, StoreError>> + Send;

    /// Changes one key by hand.
    ///
    /// # Errors
    /// If the store cannot tell; the change may have been made.
    fn intervene(
        &self,
        intervention: &Intervention,
    ) -> impl Future<Output = Result<Intervened, StoreError>> + Send;

    /// Creates that in which interventions are noted down, where it is a table that older tables
    /// lack. Interventions do it by themselves, but need the right to create tables for it.
    ///
    /// # Errors
    /// If it cannot be created.
    fn prepare(&self) -> impl Future<Output = Result<(), StoreError>> + Send;
}
