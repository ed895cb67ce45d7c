use idem_core::{Failed, idempotent};

#[idempotent(key = message_id())]
async fn tick() -> Result<(), Failed> {
    Ok(())
}

fn main() {}
