use idem_core::{Failed, idempotent};
use serde::Deserialize;

#[derive(Deserialize)]
struct Reading {
    device_id: String,
    temperature: f64,
}

#[idempotent(key = sequence(producer = "device_id", number = "temperature"))]
async fn store(reading: Reading) -> Result<(), Failed> {
    let _ = (reading.device_id, reading.temperature);
    Ok(())
}

fn main() {}
