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

#[tokio::test]
async fn a_connection_that_is_not_to_be_had_is_reported_with_the_cause() {
    let server = postgres::shared().unwrap();
    let role = "idem_lending_nobody";
    let create = format!("CREATE ROLE {role} LOGIN CONNECTION LIMIT 0");
    server.query("idem", &create).unwrap();
    let url = server.url().replacen("idem@", &format!("{role}@"), 1);
    let address = Address {
        options: location::parse(&url).unwrap(),
        response_timeout: Duration::from_millis(500),
    };
    let lending = Lending::new(address, 1, atomic::begin(None));
    let Err(fault) = lending.turn().await.begin().await else {
        panic!("the role may not connect")
    };
    assert!(
        fault.to_string().contains("too many connections"),
        "{fault}"
    );
}
