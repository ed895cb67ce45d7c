use idem_amqp::{Publication, prelude::*, sqlx::{self, PgConnection}};
use serde::{Deserialize, Serialize};

use super::Error;

#[derive(Serialize, Deserialize)]
struct Reading { device_id: String, boot: u32, seq: u64, celsius: f32 }

// The scope is durable: it stands in every key.
#[idempotent(key = sequence(producer = "device_id", epoch = "boot", number = "seq"), scope = "readings.store")]
async fn store(reading: Reading, db: &mut PgConnection) -> Result<(), Failed> {
    sqlx::query("INSERT INTO readings (device_id, celsius) VALUES ($1, $2)")
        .bind(reading.device_id).bind(reading.celsius).execute(db).await?;
    Ok(())
}

async fn publish(url: &str, reading: Reading) -> Result<(), Error> {
    let publisher = Publisher::connect(url).await?;
    let readings = publisher.sequence("till-4")?;
    readings.publish(&Publication::json("readings", &reading)).await?;
    Ok(())
}
