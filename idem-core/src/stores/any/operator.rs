//! What operators ask of a store whose type is forgotten.

use std::fmt::Debug;

use super::AnyStore;
use crate::{
    futures::BoxFuture,
    message::Key,
    store::{
        Look, Looked, StoreError,
        operator::{
            AuditEntry, Intervened, Intervention, Listing, OperatorStore, Page, ScopeCounts,
        },
    },
};

type Answer<'a, T> = BoxFuture<'a, Result<T, StoreError>>;

/// [`OperatorStore`] with boxed futures.
pub(super) trait ErasedOperator: Debug + Send + Sync {
    fn boxed_list<'a>(&'a self, listing: &'a Listing) -> Answer<'a, Page>;
    fn boxed_look<'a>(&'a self, key: &'a Key) -> Answer<'a, Option<Looked>>;
    fn boxed_audit<'a>(&'a self, key: &'a Key) -> Answer<'a, Vec<AuditEntry>>;
    fn boxed_counts(&self) -> Answer<'_, Vec<ScopeCounts>>;
    fn boxed_intervene<'a>(&'a self, intervention: &'a Intervention) -> Answer<'a, Intervened>;
    fn boxed_prepare(&self) -> Answer<'_, ()>;
}

impl<S: OperatorStore> ErasedOperator for S {
    fn boxed_list<'a>(&'a self, listing: &'a Listing) -> Answer<'a, Page> {
        Box::pin(S::list(self, listing))
    }

    fn boxed_look<'a>(&'a self, key: &'a Key) -> Answer<'a, Option<Looked>> {
        Box::pin(S::look(self, key))
    }

    fn boxed_audit<'a>(&'a self, key: &'a Key) -> Answer<'a, Vec<AuditEntry>> {
        Box::pin(S::audit(self, key))
    }

    fn boxed_counts(&self) -> Answer<'_, Vec<ScopeCounts>> {
        Box::pin(S::counts(self))
    }

    fn boxed_intervene<'a>(&'a self, intervention: &'a Intervention) -> Answer<'a, Intervened> {
        Box::pin(S::intervene(self, intervention))
    }

    fn boxed_prepare(&self) -> Answer<'_, ()> {
        Box::pin(S::prepare(self))
    }
}

/// On a store that shows nothing to operators, this is [`StoreError::Refused`].
impl Look for AnyStore {
    async fn look(&self, key: &Key) -> Result<Option<Looked>, StoreError> {
        self.operator()?.boxed_look(key).await
    }
}

/// On a store that shows nothing to operators, all of these are [`StoreError::Refused`].
impl OperatorStore for AnyStore {
    async fn list(&self, listing: &Listing) -> Result<Page, StoreError> {
        self.operator()?.boxed_list(listing).await
    }

    async fn audit(&self, key: &Key) -> Result<Vec<AuditEntry>, StoreError> {
        self.operator()?.boxed_audit(key).await
    }

    async fn counts(&self) -> Result<Vec<ScopeCounts>, StoreError> {
        self.operator()?.boxed_counts().await
    }

    async fn intervene(&self, intervention: &Intervention) -> Result<Intervened, StoreError> {
        self.operator()?.boxed_intervene(intervention).await
    }

    async fn prepare(&self) -> Result<(), StoreError> {
        self.operator()?.boxed_prepare().await
    }
}

impl AnyStore {
    fn operator(&self) -> Result<&dyn ErasedOperator, StoreError> {
        let refused = "this store cannot show its keys: hide one that can by \
                       `AnyStore::and_operator`, or name it by its URL";
        self.operator
            .as_deref()
            .ok_or_else(|| StoreError::Refused(refused.into()))
    }
}
