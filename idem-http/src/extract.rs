//! What axum's handlers take from the layer.

use axum::{
    extract::FromRequestParts,
    response::{IntoResponse, Response},
};
use http::request::Parts;
use idem_core::handler::OwnedTransaction;

use crate::{
    endpoint::TxSlot,
    problem::{Problem, ProblemKind},
};

/// The transaction in which the response will be recorded, of a layer that is
/// [atomic](crate::IdempotencyLayer::atomic): what is written through it commits with the response, or not at all.
///
/// Take it apart and write through [`as_mut`](OwnedTransaction::as_mut): `Tx(mut db): Tx<PgConnection>`,
/// `query.execute(db.as_mut())`. Drop it before the handler returns; if a task that the handler has started keeps it,
/// the response waits for that, and nothing is committed if it takes longer than the lease.
#[derive(Debug)]
pub struct Tx<Connection>(pub OwnedTransaction<Connection>);

impl<Connection, State> FromRequestParts<State> for Tx<Connection>
where
    Connection: Send + 'static,
    State: Sync,
{
    type Rejection = Response;

    async fn from_request_parts(parts: &mut Parts, _: &State) -> Result<Self, Response> {
        let slot = parts.extensions.get::<TxSlot<Connection>>();
        slot.and_then(TxSlot::take).map(Self).ok_or_else(|| {
            let connection = std::any::type_name::<Connection>();
            tracing::error!(
                path = parts.uri.path(),
                connection,
                "there is no transaction for the handler: lay the route in `IdempotencyLayer::new(…).….atomic::<Connection>()` with this type of connection, take `Tx` once, and use it for methods that the layer is for"
            );
            let detail = "the service has no transaction for it";
            let response = Problem::new(ProblemKind::HandlerFailed, detail).into_response();
            response.map(axum::body::Body::from).into_response()
        })
    }
}
