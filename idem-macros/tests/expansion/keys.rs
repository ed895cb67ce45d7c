//! Sources of keys, one by one and together.

use idem_core::{
    Envelope, Failed, IdempotencyKey, Key,
    handler::Operation,
    idempotent,
    message::{KeyBuilder, KeyError},
};
use serde::Deserialize;

use crate::{OrderPlaced, key, order};

macro_rules! handlers {
    ($($name:ident: $key:tt;)*) => {$(
        #[idempotent(key = $key)]
        async fn $name(order: OrderPlaced) -> Result<(), Failed> {
            drop(order);
            Ok(())
        }
    )*};
}

handlers! {
    field: "order_id";
    nested: [customer.id];
    several: ["order_id", customer.id, "lines.0", lines.1];
    optional: [order_id, voucher];
    tenant: [header("x-tenant"), order_id];
    id: [message_id()];
    content: [content()];
    fallback: [first(message_id(), voucher, header("x-message-id"), content())];
    fallback_in_list: [order_id, first(voucher, header("x-message-id"))];
}

fn text<H: Operation>(envelope: &Envelope) -> String {
    let key = key::<H>(envelope);
    key.expect("the order has a key").to_string()
}

fn error<H: Operation>(envelope: &Envelope) -> KeyError {
    key::<H>(envelope).expect_err("the order has no key")
}

fn missing(part: &str) -> KeyError {
    KeyError::Missing { part: part.into() }
}

#[test]
fn fields_are_the_key_under_the_names_of_package_and_function() {
    let envelope = order().build();
    assert_eq!(text::<field>(&envelope), "idem-macros.field:o-17");
    assert_eq!(text::<nested>(&envelope), "idem-macros.nested:7");
    assert_eq!(
        text::<several>(&envelope),
        "idem-macros.several:o-17:7:3:true"
    );
}

#[test]
fn a_null_field_makes_no_key() {
    assert_eq!(error::<optional>(&order().build()), missing("voucher"));
}

#[test]
fn headers_and_properties_are_parts_too() {
    let envelope = order().header("x-tenant", "acme").id("m-1").build();
    assert_eq!(text::<tenant>(&envelope), "idem-macros.tenant:acme:o-17");
    assert_eq!(text::<id>(&envelope), "idem-macros.id:m-1");
    assert_eq!(
        text::<content>(&envelope),
        format!("idem-macros.content:{}", envelope.content())
    );
}

#[test]
fn an_error_names_the_source_that_is_missing() {
    let envelope = order().build();
    assert_eq!(error::<tenant>(&envelope), missing("header(x-tenant)"));
    assert_eq!(error::<id>(&envelope), missing("message_id()"));
    assert_eq!(
        error::<fallback_in_list>(&envelope),
        missing("first of voucher, header(x-message-id)")
    );
}

#[test]
fn the_first_source_that_is_present_is_taken_and_named() {
    let envelope = order().header("x-message-id", "h-1").id("m-1").build();
    assert_eq!(
        text::<fallback>(&envelope),
        "idem-macros.fallback:message_id()=m-1"
    );

    let envelope = order().header("x-message-id", "h-1").build();
    assert_eq!(
        text::<fallback>(&envelope),
        "idem-macros.fallback:header(x-message-id)=h-1"
    );

    let envelope = order().build();
    assert_eq!(
        text::<fallback>(&envelope),
        format!("idem-macros.fallback:content()={}", envelope.content())
    );
}

fn by_tenant(order: &OrderPlaced, envelope: &Envelope, key: KeyBuilder) -> Result<Key, KeyError> {
    let tenant = envelope.header("x-tenant");
    let tenant = tenant.ok_or_else(|| KeyError::custom("send x-tenant"))?;
    key.part("tenant", &tenant)
        .part("order_id", &order.order_id)
        .build()
}

#[idempotent(key_with = by_tenant, scope = "orders.charge")]
async fn charge(order: OrderPlaced) -> Result<(), Failed> {
    drop(order);
    Ok(())
}

#[test]
fn a_key_function_gets_the_handlers_scope() {
    let envelope = order().header("x-tenant", "acme").build();
    assert_eq!(text::<charge>(&envelope), "orders.charge:acme:o-17");
    assert_eq!(
        error::<charge>(&order().build()),
        KeyError::custom("send x-tenant")
    );
}

#[derive(Deserialize, IdempotencyKey)]
struct Refund {
    #[key]
    voucher: Option<String>,
    lines: (u8, bool),
    #[key]
    #[serde(rename = "order_id")]
    r#type: String,
}

#[idempotent]
async fn refund(refund: Refund) -> Result<(), Failed> {
    let _ = refund.lines;
    Ok(())
}

#[test]
fn a_derived_key_has_the_marked_fields_in_their_order() {
    let envelope = Envelope::new(r#"{"voucher": "v-1", "lines": [1, false], "order_id": "o-17"}"#);
    assert_eq!(text::<refund>(&envelope), "idem-macros.refund:v-1:o-17");
    assert_eq!(error::<refund>(&order().build()), missing("voucher"));
}

#[idempotent(key = order_id)]
async fn r#move(order: OrderPlaced) -> Result<(), Failed> {
    drop(order);
    Ok(())
}

#[test]
fn a_raw_name_is_a_scope_without_its_prefix() {
    assert_eq!(text::<r#move>(&order().build()), "idem-macros.move:o-17");
}
