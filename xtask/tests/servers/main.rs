//! The private servers, for real: started, killed, frozen, restarted, and gone without a trace.

mod pgbouncer;
mod postgres;
mod rabbitmq;
mod redis;
mod redis_cluster;
mod traces;

use std::{
    thread,
    time::{Duration, Instant},
};

fn eventually(what: &str, mut condition: impl FnMut() -> bool) {
    let deadline = Instant::now() + Duration::from_secs(20);
    while !condition() {
        assert!(Instant::now() < deadline, "not within 20 s: {what}");
        thread::sleep(Duration::from_millis(20));
    }
}
