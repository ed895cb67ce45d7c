use idem_core::{Failed, FromContext, idempotent};
use serde::{Serialize, de::DeserializeOwned};

#[idempotent(key = message_id())]
async fn forward(
    _message: impl DeserializeOwned,
    _extractor: impl FromContext<()>,
    _db: &mut impl Send,
) -> Result<impl Serialize, Failed> {
    Ok(17)
}

fn main() {}
