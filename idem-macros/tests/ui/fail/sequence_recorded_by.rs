use idem_core::{Failed, idempotent};
use serde::Deserialize;

#[derive(Deserialize)]
struct Reading {
    device_id: String,
    seq: u64,
}

struct Connection;

#[idempotent(
    key = sequence(producer = "device_id", number = "seq"),
    recorded_by = "readings_device_id_seq_key"
)]
async fn store(reading: Reading, _db: &mut Connection) -> Result<(), Failed> {
    let _ = (reading.device_id, reading.seq);
    Ok(())
}

fn main() {}
