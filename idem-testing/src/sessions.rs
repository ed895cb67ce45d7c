//! Sessions of clients: the store keeps them, the way to it is the link.

use idem_core::{
    message::SessionKey,
    store::{OpenSession, Opened, SessionStore, StoreError, Touched},
};

use crate::{Call, FaultyStore};

// Not what somebody is looking for whose store keeps no sessions.
#[diagnostic::do_not_recommend]
impl<S: SessionStore> SessionStore for FaultyStore<S> {
    async fn open(&self, request: &OpenSession) -> Result<Opened, StoreError> {
        self.call(Call::Session, self.store.open(request)).await
    }

    async fn touch(&self, session: &SessionKey) -> Result<Touched, StoreError> {
        self.call(Call::Session, self.store.touch(session)).await
    }

    async fn close(&self, session: &SessionKey) -> Result<(), StoreError> {
        self.call(Call::Session, self.store.close(session)).await
    }

    async fn expire(&self, batch: u32) -> Result<u32, StoreError> {
        self.call(Call::Session, self.store.expire(batch)).await
    }
}
