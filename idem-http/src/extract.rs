//! The transaction, as handlers take it.

use std::{any::type_name, fmt};

use http::Extensions;
use idem_core::handler::OwnedTransaction;

use crate::endpoint::TxSlot;

/// The transaction in which the response will be recorded, of a layer that is
/// [atomic](crate::IdempotencyLayer::atomic): what is written through it commits with the response, or not at all.
///
/// A handler of axum takes it apart, and writes through [`as_mut`](OwnedTransaction::as_mut): `Tx(mut db):
/// Tx<PgConnection>`, `query.execute(db.as_mut())`; a method of tonic has it [from the request's
/// extensions](Self::from_extensions). Drop it before the handler returns; if a task that the handler has started keeps
/// it, the response waits for that, and nothing is committed if it takes longer than the lease.
#[derive(Debug)]
pub struct Tx<Connection>(pub OwnedTransaction<Connection>);

impl<Connection: Send + 'static> Tx<Connection> {
    /// Takes it out of a request: `let Tx(mut db) = Tx::<PgConnection>::from_extensions(request.extensions())?`.
    ///
    /// # Errors
    /// If there is none: the request has not come through a layer that is atomic with this type of connection, or it
    /// was taken before.
    pub fn from_extensions(extensions: &Extensions) -> Result<Self, NoTransaction> {
        let slot = extensions.get::<TxSlot<Connection>>();
        slot.and_then(TxSlot::take).map(Self).ok_or_else(|| {
            let connection = type_name::<Connection>();
            tracing::error!(
                connection,
                "there is no transaction for the handler: lay the route in `IdempotencyLayer::new(…).….atomic::<Connection>()` with this type of connection, take `Tx` once, and use it for methods that the layer is for"
            );
            NoTransaction(())
        })
    }
}

/// The layer lends no such transaction. What is missing stands in the log.
pub struct NoTransaction(());

idem_core::debug_as_chain!(NoTransaction);

impl fmt::Display for NoTransaction {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the service has no transaction for it")
    }
}

impl std::error::Error for NoTransaction {}

#[cfg(feature = "tonic")]
impl From<NoTransaction> for tonic::Status {
    fn from(error: NoTransaction) -> Self {
        Self::internal(error.to_string())
    }
}

#[cfg(feature = "axum")]
mod axum {
    use axum::{
        body::Body,
        extract::FromRequestParts,
        response::{IntoResponse, Response},
    };
    use http::request::Parts;

    use super::{NoTransaction, Tx};
    use crate::problem::{Problem, ProblemKind};

    impl IntoResponse for NoTransaction {
        fn into_response(self) -> Response {
            let problem = Problem::new(ProblemKind::HandlerFailed, self.to_string());
            problem.into_response().map(Body::from)
        }
    }

    impl<Connection, State> FromRequestParts<State> for Tx<Connection>
    where
        Connection: Send + 'static,
        State: Sync,
    {
        type Rejection = NoTransaction;

        async fn from_request_parts(parts: &mut Parts, _: &State) -> Result<Self, NoTransaction> {
            Self::from_extensions(&parts.extensions)
        }
    }
}
