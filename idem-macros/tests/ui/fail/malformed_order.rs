use idem_core::{Failed, idempotent};
use serde::Deserialize;

#[derive(Deserialize)]
struct Posting {
    id: String,
    account: String,
    seq: u64,
}

#[idempotent(key = "id", ordered_by = message_id())]
async fn by_what_each_has_for_itself(posting: Posting) -> Result<(), Failed> {
    drop(posting);
    Ok(())
}

#[idempotent(key = "id", ordered_by = "acount")]
async fn by_a_field_that_is_not_there(posting: Posting) -> Result<(), Failed> {
    drop(posting);
    Ok(())
}

#[idempotent(
    key = sequence(producer = "account", number = "seq"),
    ordered_by = "account"
)]
async fn twice(posting: Posting) -> Result<(), Failed> {
    drop(posting);
    Ok(())
}

#[idempotent(key = "id", ordered_by = "account", overtake = "all")]
async fn overtaking_anything(posting: Posting) -> Result<(), Failed> {
    drop(posting);
    Ok(())
}

#[idempotent(key = "id", overtake = "failed")]
async fn without_an_order(posting: Posting) -> Result<(), Failed> {
    drop((posting.id, posting.account, posting.seq));
    Ok(())
}

fn main() {}
