use std::time::Duration;

use xtask::services::postgres;

use super::*;
use crate::postgres::{atomic, location};

/// The driver closes a connection past its lifetime without asking whether it is clean.
#[tokio::test]
async fn a_new_connection_is_not_clean_because_the_last_one_was() {
    let server = postgres::shared().unwrap();
    let address = Address {
        options: location::parse(&server.url()).unwrap(),
        response_timeout: Duration::from_secs(10),
    };
    let lending = Lending::new(address.clone(), 1, atomic::begin(None));
    let short_lived = Slot::lasting(&address, Duration::ZERO);
    lending.slots().push(short_lived);

    let mut turn = lending.turn().await;
    let transaction = turn.begin().await.unwrap();
    turn.is_clean();
    drop((transaction, turn));

    let mut turn = lending.turn().await;
    let _transaction = turn.begin().await.unwrap();
    assert!(!turn.slot.clean.load(Ordering::Acquire));
}
