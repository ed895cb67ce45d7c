//! The macros of idem: `#[idempotent]`, `#[derive(IdempotencyKey)]` and `#[derive(FromRef)]`.
//!
//! Use them through `idem-amqp` or `idem-core`, which re-export them under these names. Each
//! facade has entries of its own here, because an expansion must name the crate that its user
//! depends on.

use proc_macro::TokenStream;

use crate::facade::Facade;

mod facade;
mod from_ref;
mod idempotency_key;
mod idempotent;
mod mistakes;

#[doc = include_str!("../docs/idempotent.md")]
///
/// # Examples
///
/// ```
/// use idem_core::{Attempt, Failed, State, idempotent};
/// use serde::Deserialize;
///
/// #[derive(Deserialize)]
/// struct OrderPlaced {
///     order_id: String,
///     customer: String,
/// }
///
/// #[derive(Clone)]
/// struct Mailer;
///
/// # impl Mailer { async fn send(&self, _: &str, _: &str) -> std::io::Result<()> { Ok(()) } }
/// /// Tells the customer, once.
/// // The scope is durable: it stands in every key.
/// #[idempotent(key = ["customer", "order_id"], scope = "orders.notify", lease = "10s")]
/// async fn notify(
///     order: OrderPlaced,
///     State(mailer): State<Mailer>,
///     attempt: Attempt,
/// ) -> Result<(), Failed> {
///     if order.customer.is_empty() {
///         return Err(Failed::rejected("nobody to tell"));
///     }
///     let subject = format!("Your order {} (attempt {})", order.order_id, attempt.number());
///     mailer.send(&order.customer, &subject).await?;
///     Ok(())
/// }
/// ```
#[doc = include_str!("../docs/expansion.md")]
#[proc_macro_attribute]
pub fn idempotent_core(arguments: TokenStream, item: TokenStream) -> TokenStream {
    idempotent::expand(Facade::Core, arguments.into(), &item.into()).into()
}

#[doc = include_str!("../docs/idempotent.md")]
///
/// # Examples
///
/// ```
/// # extern crate idem_core as idem_amqp; // which depends on this crate, and re-exports that one
/// # mod sqlx {
/// #     pub struct SqliteConnection;
/// #     pub struct Query;
/// #     pub fn query(_: &str) -> Query { Query }
/// #     impl Query {
/// #         pub fn bind<T>(self, _: T) -> Self { self }
/// #         pub async fn execute(self, _: &mut SqliteConnection) -> std::io::Result<()> { Ok(()) }
/// #     }
/// # }
/// # use sqlx::SqliteConnection;
/// # #[derive(serde::Deserialize)] struct OrderPlaced { order_id: String, amount_cents: i64 }
/// use idem_amqp::{Failed, idempotent};
///
/// /// Atomic: the charge and the record of it commit together.
/// // The scope is durable: it stands in every key.
/// #[idempotent(key = "order_id", scope = "orders.charge")]
/// async fn charge(order: OrderPlaced, db: &mut SqliteConnection) -> Result<(), Failed> {
///     sqlx::query("INSERT INTO charges (order_id, amount_cents) VALUES (?, ?)")
///         .bind(order.order_id)
///         .bind(order.amount_cents)
///         .execute(db)
///         .await?;
///     Ok(())
/// }
/// ```
///
/// `Worker::builder(store).consume::<charge>("orders.charge")` consumes a queue with it.
#[doc = include_str!("../docs/expansion.md")]
#[proc_macro_attribute]
pub fn idempotent_amqp(arguments: TokenStream, item: TokenStream) -> TokenStream {
    idempotent::expand(Facade::Amqp, arguments.into(), &item.into()).into()
}

#[doc = include_str!("../docs/idempotency_key.md")]
///
/// # Examples
///
/// ```
/// use idem_core::{Failed, IdempotencyKey, idempotent};
/// use serde::Deserialize;
///
/// #[derive(Deserialize, IdempotencyKey)]
/// struct OrderPlaced {
///     #[key]
///     customer: u64,
///     #[key]
///     order_id: String,
///     amount_cents: i64,
/// }
///
/// // The scope is durable: it stands in every key.
/// #[idempotent(scope = "orders.charge")]
/// async fn charge(order: OrderPlaced) -> Result<(), Failed> {
///     let _ = order.amount_cents;
///     Ok(())
/// }
/// ```
#[proc_macro_derive(IdempotencyKeyCore, attributes(key))]
pub fn idempotency_key_core(item: TokenStream) -> TokenStream {
    idempotency_key::expand(Facade::Core, item.into()).into()
}

#[doc = include_str!("../docs/idempotency_key.md")]
///
/// # Examples
///
/// ```
/// # extern crate idem_core as idem_amqp; // which depends on this crate, and re-exports that one
/// use idem_amqp::{Failed, IdempotencyKey, idempotent};
/// use serde::Deserialize;
///
/// #[derive(Deserialize, IdempotencyKey)]
/// struct OrderPlaced {
///     #[key]
///     customer: u64,
///     #[key]
///     order_id: String,
///     amount_cents: i64,
/// }
///
/// // The scope is durable: it stands in every key.
/// #[idempotent(scope = "orders.charge")]
/// async fn charge(order: OrderPlaced) -> Result<(), Failed> {
///     let _ = order.amount_cents;
///     Ok(())
/// }
/// ```
#[proc_macro_derive(IdempotencyKeyAmqp, attributes(key))]
pub fn idempotency_key_amqp(item: TokenStream) -> TokenStream {
    idempotency_key::expand(Facade::Amqp, item.into()).into()
}

#[doc = include_str!("../docs/from_ref.md")]
///
/// # Examples
///
/// ```
/// use idem_core::{Failed, FromRef, State, idempotent};
///
/// #[derive(Clone)]
/// struct Mailer;
///
/// #[derive(Clone)]
/// struct Prices;
///
/// #[derive(FromRef)]
/// struct App {
///     mailer: Mailer,
///     prices: Prices,
///     #[from_ref(skip)]
///     started: std::time::Instant,
/// }
///
/// // The worker's state is an `App`: `.state(app)`.
/// #[idempotent(key = message_id(), scope = "mails.send")]
/// async fn send(text: String, State(mailer): State<Mailer>) -> Result<(), Failed> {
///     let _ = (text, mailer);
///     Ok(())
/// }
/// ```
#[proc_macro_derive(FromRefCore, attributes(from_ref))]
pub fn from_ref_core(item: TokenStream) -> TokenStream {
    from_ref::expand(Facade::Core, item.into()).into()
}

#[doc = include_str!("../docs/from_ref.md")]
///
/// # Examples
///
/// ```
/// # extern crate idem_core as idem_amqp; // which depends on this crate, and re-exports that one
/// use idem_amqp::{Failed, FromRef, State, idempotent};
///
/// #[derive(Clone)]
/// struct Mailer;
///
/// #[derive(Clone)]
/// struct Prices;
///
/// #[derive(FromRef)]
/// struct App {
///     mailer: Mailer,
///     prices: Prices,
///     #[from_ref(skip)]
///     started: std::time::Instant,
/// }
///
/// // The worker's state is an `App`: `.state(app)`.
/// #[idempotent(key = message_id(), scope = "mails.send")]
/// async fn send(text: String, State(mailer): State<Mailer>) -> Result<(), Failed> {
///     let _ = (text, mailer);
///     Ok(())
/// }
/// ```
#[proc_macro_derive(FromRefAmqp, attributes(from_ref))]
pub fn from_ref_amqp(item: TokenStream) -> TokenStream {
    from_ref::expand(Facade::Amqp, item.into()).into()
}
