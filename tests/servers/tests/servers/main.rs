//! The private servers, for real: started, killed, frozen, restarted, and gone without a trace.

mod pgbouncer;
mod postgres;
mod postgres_standby;
mod programs;
mod rabbitmq;
mod rabbitmq_cluster;
mod redis;
mod redis_cluster;
mod shared;
mod traces;

use std::{
    path::PathBuf,
    thread,
    time::{Duration, Instant},
};

use idem_servers::install;

fn psql() -> PathBuf {
    let installed = install::installed_postgres().expect("it can be installed");
    installed.program("psql")
}

fn eventually(what: &str, mut condition: impl FnMut() -> bool) {
    let deadline = Instant::now() + Duration::from_secs(20);
    while !condition() {
        assert!(Instant::now() < deadline, "not within 20 s: {what}");
        thread::sleep(Duration::from_millis(20));
    }
}
