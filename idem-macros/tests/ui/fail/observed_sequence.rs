use idem_core::{Failed, idempotent};
use serde::Deserialize;

#[derive(Deserialize)]
struct Reading {
    device_id: String,
    seq: u64,
}

#[idempotent(
    key = sequence(producer = "device_id", number = "seq"),
    enforcement = "observe"
)]
async fn store(reading: Reading) -> Result<(), Failed> {
    let _ = (reading.device_id, reading.seq);
    Ok(())
}

fn main() {}
