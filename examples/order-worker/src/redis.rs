//! On Redis: the charge is an entry of the list `charges`, made by a leased handler.

use idem_amqp::{AnyStore, FromRef, prelude::*};
use redis::{AsyncCommands as _, aio::ConnectionManager};
use serde::{Deserialize, Serialize};

use crate::{
    Error,
    order::{OrderPlaced, Shop},
    settings::Settings,
};

const CHARGES: &str = "charges";

#[derive(Serialize, Deserialize)]
struct Charge {
    order_id: String,
    customer: String,
    amount_cents: i64,
    attempt: u32,
    worker: String,
}

/// The list of charges: another system, as far as the store is concerned.
#[derive(Clone)]
struct Ledger(ConnectionManager);

/// What this handler needs of the application.
#[derive(Clone, FromRef)]
struct Till {
    shop: Shop,
    ledger: Ledger,
}

/// Leased: no transaction holds the charge and the record of it together. If an earlier attempt
/// ended without a word, between the one and the other perhaps, the handler looks before it
/// charges.
// The scope is durable: it stands in every key.
#[idempotent(key = "order_id", scope = "orders.charge")]
async fn charge(
    order: OrderPlaced,
    State(shop): State<Shop>,
    State(mut ledger): State<Ledger>,
    attempt: Attempt,
) -> Result<(), Failed> {
    if attempt.is_in_doubt() && ledger.has(&order.order_id).await? {
        return Ok(());
    }
    shop.pay(&order).await?;
    let charge = Charge {
        order_id: order.order_id,
        customer: order.customer,
        amount_cents: order.amount_cents,
        attempt: attempt.number(),
        worker: shop.worker.to_string(),
    };
    ledger.add(&charge).await?;
    Ok(())
}

impl Ledger {
    async fn open(url: &str) -> Result<Self, Error> {
        let client = redis::Client::open(url)?;
        Ok(Self(client.get_connection_manager().await?))
    }

    async fn add(&mut self, charge: &Charge) -> Result<(), Failed> {
        let line = serde_json::to_string(charge)?;
        self.0.rpush::<_, _, ()>(CHARGES, line).await?;
        Ok(())
    }

    async fn has(&mut self, order_id: &str) -> Result<bool, Failed> {
        for line in self.lines().await? {
            if serde_json::from_str::<Charge>(&line)?.order_id == order_id {
                return Ok(true);
            }
        }
        Ok(false)
    }

    async fn lines(&mut self) -> redis::RedisResult<Vec<String>> {
        self.0.lrange(CHARGES, 0, -1).await
    }
}

pub(crate) async fn consume(settings: Settings) -> Result<(), Error> {
    let store = AnyStore::connect(&settings.store_url).await?;
    let till = Till {
        shop: Shop::new(&settings),
        ledger: Ledger::open(&settings.store_url).await?,
    };
    crate::consume::<charge, _, _>(settings, store, till).await
}

pub(crate) async fn print_ledger(store_url: &str) -> Result<(), Error> {
    for line in Ledger::open(store_url).await?.lines().await? {
        println!("{line}");
    }
    Ok(())
}
