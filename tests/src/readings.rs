//! Messages that their devices number, and handlers that do what a script says.

use futures_util::{StreamExt, stream};
use idem_amqp::prelude::*;
use lapin::{
    BasicProperties,
    types::{AMQPValue, FieldTable},
};
use serde::{Deserialize, Serialize};

use crate::{
    bed::{Bed, persistent},
    script::{Order, Script},
};

/// How many messages are sent before the first of them is confirmed.
const UNCONFIRMED: usize = 64;

/// What a device sends.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Reading {
    /// Who numbers.
    pub device: String,
    /// How often the device has begun.
    pub boot: u32,
    /// The number.
    pub seq: u64,
}

impl Reading {
    /// Of the device `d-7`, which has begun once.
    pub fn new(seq: u64) -> Self {
        Self {
            device: "d-7".into(),
            boot: 1,
            seq,
        }
    }

    /// What the script calls it.
    pub fn id(&self) -> String {
        format!("{}/{}/{}", self.device, self.boot, self.seq)
    }

    fn order(&self) -> Order {
        Order::new(&self.id())
    }
}

/// Publishes these numbers of one device, in this order.
pub async fn send(bed: &Bed, numbers: impl IntoIterator<Item = u64>) {
    let sent = stream::iter(numbers).map(async |number| bed.json(&Reading::new(number)).await);
    sent.buffered(UNCONFIRMED).collect::<()>().await;
}

/// What the script calls these numbers of one device.
pub fn ids(numbers: impl IntoIterator<Item = u64>) -> Vec<String> {
    let readings = numbers.into_iter().map(Reading::new);
    readings.map(|reading| reading.id()).collect()
}

/// In a window of 50, waiting for every number.
///
/// # Errors
/// If the script says so.
#[idempotent(
    key = sequence(producer = "device", epoch = "boot", number = "seq", window = 50),
    scope = "readings.store"
)]
pub async fn store(
    reading: Reading,
    State(script): State<Script>,
    attempt: Attempt,
    delivery: Delivery,
) -> Result<(), Failed> {
    script.play(reading.order(), attempt, delivery).await
}

/// In a window that is wide for what two workers have at once.
///
/// # Errors
/// If the script says so.
#[idempotent(
    key = sequence(producer = "device", epoch = "boot", number = "seq", window = 200),
    scope = "readings.store"
)]
pub async fn store_many(
    reading: Reading,
    State(script): State<Script>,
    attempt: Attempt,
    delivery: Delivery,
) -> Result<(), Failed> {
    script.play(reading.order(), attempt, delivery).await
}

/// In a window of 50, waiting for a number that never came for a second.
///
/// # Errors
/// If the script says so.
#[idempotent(
    key = sequence(
        producer = "device",
        epoch = "boot",
        number = "seq",
        window = 50,
        skip_gaps_after = "1s"
    ),
    scope = "readings.store"
)]
pub async fn store_soon(
    reading: Reading,
    State(script): State<Script>,
    attempt: Attempt,
    delivery: Delivery,
) -> Result<(), Failed> {
    script.play(reading.order(), attempt, delivery).await
}

/// As a publisher has numbered them.
///
/// # Errors
/// If the script says so.
#[idempotent(key = sequence(), scope = "readings.store")]
pub async fn store_stamped(
    order: Order,
    State(script): State<Script>,
    attempt: Attempt,
    delivery: Delivery,
) -> Result<(), Failed> {
    script.play(order, attempt, delivery).await
}

/// As a publisher has numbered them, in a window of 8.
///
/// # Errors
/// If the script says so.
#[idempotent(key = sequence(window = 8), scope = "readings.store")]
pub async fn store_narrowly(
    order: Order,
    State(script): State<Script>,
    attempt: Attempt,
    delivery: Delivery,
) -> Result<(), Failed> {
    script.play(order, attempt, delivery).await
}

/// What a publisher stamps a message with: of the producer `till-4`, in its epoch `e-1`.
pub fn stamps(number: u64) -> BasicProperties {
    let text = |text: &str| AMQPValue::LongString(text.into());
    let number = i64::try_from(number).expect("tests use small numbers");
    let mut headers = FieldTable::default();
    headers.insert("idem-producer".into(), text("till-4"));
    headers.insert("idem-epoch".into(), text("e-1"));
    headers.insert("idem-sequence".into(), AMQPValue::LongLongInt(number));
    persistent().with_headers(headers)
}

/// Publishes orders under these numbers of the producer `till-4`; each has its number as its id.
pub async fn send_stamped(bed: &Bed, numbers: impl IntoIterator<Item = u64>) {
    for number in numbers {
        let body = serde_json::to_vec(&Order::new(&number.to_string()));
        let body = body.expect("JSON expresses orders");
        bed.send(bed.name(), &body, stamps(number)).await;
    }
}
