//! What `docs/http-clients.md` shows.

use bytes::Bytes;
use http::Request;
use http_body_util::Full;
use hyper_util::{client::legacy::Client, rt::TokioExecutor};
use idem_http::client::ClientLayer;
use tower_layer::Layer as _;
use tower_service::Service as _;

#[cfg(feature = "reqwest")]
#[rustfmt::skip]
async fn charge_by_reqwest(order: String) -> Result<(), Box<dyn std::error::Error + Send + Sync>> {
use idem_http::client::Reqwest;
let client = reqwest::Client::new();
let once = Reqwest::new(client.clone());
let order = client.post("http://orders/charges").body(order).build()?;
let receipt = once.execute(order).await?;
drop(receipt);
Ok(())
}

#[rustfmt::skip]
async fn charge(order: String) -> Result<(), Box<dyn std::error::Error + Send + Sync>> {
let client: Client<_, Full<Bytes>> = Client::builder(TokioExecutor::new()).build_http();
let mut client = ClientLayer::new().layer(client);
let order = Request::post("http://orders/charges").body(Full::from(order))?;
let receipt = client.call(order).await?;
drop(receipt);
Ok(())
}
