use idem_core::{Failed, idempotent};
use serde::Deserialize;

#[derive(Deserialize)]
struct Reading {
    device_id: String,
    boot: u32,
    seq: u64,
}

#[idempotent(key = sequence(producer = "device_id"))]
async fn without_number(reading: Reading) -> Result<(), Failed> {
    let _ = (reading.device_id, reading.boot, reading.seq);
    Ok(())
}

#[idempotent(key = sequence(number = "seq"))]
async fn without_producer(reading: Reading) -> Result<(), Failed> {
    let _ = (reading.device_id, reading.boot, reading.seq);
    Ok(())
}

#[idempotent(key = sequence(epoch = "boot"))]
async fn epoch_alone(reading: Reading) -> Result<(), Failed> {
    let _ = (reading.device_id, reading.boot, reading.seq);
    Ok(())
}

#[idempotent(key = sequence("device_id", "seq"))]
async fn by_position(reading: Reading) -> Result<(), Failed> {
    let _ = (reading.device_id, reading.boot, reading.seq);
    Ok(())
}

#[idempotent(key = sequence(produser = "device_id", number = "seq"))]
async fn misspelt(reading: Reading) -> Result<(), Failed> {
    let _ = (reading.device_id, reading.boot, reading.seq);
    Ok(())
}

#[idempotent(key = sequence(producer = "device_id", number = "seq", number = "seq"))]
async fn twice(reading: Reading) -> Result<(), Failed> {
    let _ = (reading.device_id, reading.boot, reading.seq);
    Ok(())
}

#[idempotent(key = sequence(producer = "device_id", number = ["seq", "boot"]))]
async fn several_numbers(reading: Reading) -> Result<(), Failed> {
    let _ = (reading.device_id, reading.boot, reading.seq);
    Ok(())
}

#[idempotent(key = sequence(producer = "device_id", number = message_id()))]
async fn number_from_nowhere(reading: Reading) -> Result<(), Failed> {
    let _ = (reading.device_id, reading.boot, reading.seq);
    Ok(())
}

#[idempotent(key = sequence(producer = "seq", number = "seq"))]
async fn one_field_for_both(reading: Reading) -> Result<(), Failed> {
    let _ = (reading.device_id, reading.boot, reading.seq);
    Ok(())
}

#[idempotent(key = sequence(producer = "device_id", number = "seq", window = 0))]
async fn no_window(reading: Reading) -> Result<(), Failed> {
    let _ = (reading.device_id, reading.boot, reading.seq);
    Ok(())
}

#[idempotent(key = sequence(producer = "device_id", number = "seq", window = 1_000_000))]
async fn too_wide(reading: Reading) -> Result<(), Failed> {
    let _ = (reading.device_id, reading.boot, reading.seq);
    Ok(())
}

#[idempotent(key = sequence(producer = "device_id", number = "seq", frist = 7))]
async fn unknown_argument(reading: Reading) -> Result<(), Failed> {
    let _ = (reading.device_id, reading.boot, reading.seq);
    Ok(())
}

#[idempotent(key = sequence(producer = "device_id", number = "seq", skip_gaps_after = 600))]
async fn wait_without_unit(reading: Reading) -> Result<(), Failed> {
    let _ = (reading.device_id, reading.boot, reading.seq);
    Ok(())
}

#[idempotent(key = sequence(producer = "device_id", number = "seq", skip_gaps_after = "50ms"))]
async fn short_wait(reading: Reading) -> Result<(), Failed> {
    let _ = (reading.device_id, reading.boot, reading.seq);
    Ok(())
}

#[idempotent(key = ["device_id", sequence()])]
async fn one_of_several(reading: Reading) -> Result<(), Failed> {
    let _ = (reading.device_id, reading.boot, reading.seq);
    Ok(())
}

#[idempotent(key = first(message_id(), sequence()))]
async fn in_first(reading: Reading) -> Result<(), Failed> {
    let _ = (reading.device_id, reading.boot, reading.seq);
    Ok(())
}

fn main() {}
