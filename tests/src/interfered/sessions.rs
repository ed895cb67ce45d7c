//! The calls about sessions.

use idem_amqp::{
    StoreError,
    message::SessionKey,
    store::{OpenSession, Opened, SessionStore, Touched},
};

use super::{Call, Interfered};

impl<S: SessionStore> SessionStore for Interfered<S> {
    async fn open(&self, request: &OpenSession) -> Result<Opened, StoreError> {
        let done = self.store.open(request);
        self.interfere(Call::Session, done).await
    }

    async fn touch(&self, session: &SessionKey) -> Result<Touched, StoreError> {
        let done = self.store.touch(session);
        self.interfere(Call::Session, done).await
    }

    async fn close(&self, session: &SessionKey) -> Result<(), StoreError> {
        let done = self.store.close(session);
        self.interfere(Call::Session, done).await
    }

    async fn expire(&self, batch: u32) -> Result<u32, StoreError> {
        let done = self.store.expire(batch);
        self.interfere(Call::Expire, done).await
    }
}
