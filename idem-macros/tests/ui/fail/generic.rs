use idem_core::{Failed, idempotent};

#[idempotent(key = message_id())]
async fn forward<'a, T, const N: usize>(_message: T) -> Result<(), Failed>
where
    T: Clone,
{
    Ok(())
}

fn main() {}
