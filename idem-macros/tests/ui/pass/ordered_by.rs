//! What messages are ordered by, from each source.

use idem_core::{
    Batch, Envelope, Failed,
    handler::{Operation, OrderedBy},
    idempotent,
};
use serde::Deserialize;

#[derive(Deserialize)]
struct Posting {
    id: String,
    account: String,
    tenant: Option<String>,
}

#[idempotent(key = "id", scope = "books", ordered_by = ["tenant", account])]
async fn by_fields(posting: Posting) -> Result<(), Failed> {
    drop((posting.id, posting.account, posting.tenant));
    Ok(())
}

#[idempotent(key = "id", scope = "books", ordered_by = header("x-account"), overtake = "failed")]
async fn by_header(posting: Posting) -> Result<(), Failed> {
    drop(posting.id);
    Ok(())
}

#[idempotent(key = "id", scope = "books", ordered_by = "account", batch = 8)]
async fn in_batches(postings: Batch<Posting>) -> Result<(), Failed> {
    drop(postings);
    Ok(())
}

#[idempotent(key = "id", scope = "books")]
async fn unordered(posting: Posting) -> Result<(), Failed> {
    drop(posting.id);
    Ok(())
}

fn told<H: Operation>(body: &str, account: Option<&str>) -> Option<String> {
    let mut envelope = Envelope::builder(body.as_bytes().to_vec());
    if let Some(account) = account {
        envelope = envelope.header("x-account", account);
    }
    let ordered: OrderedBy<H> = H::ORDERED_BY?;
    let key = ordered.of(&envelope.build()).ok()??;
    Some(key.to_string())
}

fn main() {
    let body = r#"{"id":"1","account":"a","tenant":"t"}"#;
    assert_eq!(told::<by_fields>(body, None).as_deref(), Some("books:t:a"));
    assert_eq!(told::<in_batches>(body, None).as_deref(), Some("books:a"));
    let by_header = told::<by_header>("{", Some("b"));
    assert_eq!(by_header.as_deref(), Some("books:b"), "the body is not read");

    let without_tenant = r#"{"id":"1","account":"a"}"#;
    assert_eq!(told::<by_fields>(without_tenant, None), None);
    assert_eq!(told::<by_fields>("{", None), None);
    assert_eq!(told::<by_header>(body, None), None);
    assert_eq!(told::<unordered>(body, None), None);

    assert!(by_header::ORDERED_BY.is_some_and(|ordered| ordered.may_overtake_failed()));
    assert!(by_fields::ORDERED_BY.is_some_and(|ordered| !ordered.may_overtake_failed()));
}
