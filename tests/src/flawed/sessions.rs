//! Sessions, as they are: the bugs are elsewhere.

use idem_amqp::{
    StoreError,
    message::SessionKey,
    store::{OpenSession, Opened, SessionStore, Touched},
};

use super::Flawed;

impl<S: SessionStore + Clone> SessionStore for Flawed<S> {
    async fn open(&self, request: &OpenSession) -> Result<Opened, StoreError> {
        self.store.open(request).await
    }

    async fn touch(&self, session: &SessionKey) -> Result<Touched, StoreError> {
        self.store.touch(session).await
    }

    async fn close(&self, session: &SessionKey) -> Result<(), StoreError> {
        self.store.close(session).await
    }

    async fn expire(&self, batch: u32) -> Result<u32, StoreError> {
        self.store.expire(batch).await
    }
}
