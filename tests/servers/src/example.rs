//! Programs that use a broker, as the tests of examples run them.

use std::{
    path::Path,
    process::{Command, Stdio},
    sync::atomic::{AtomicU32, Ordering::Relaxed},
};

use super::{Broker, rabbitmq};

/// How long a program may take, in seconds.
const PATIENCE: &str = "120";

/// How many vhosts this process has made.
static VHOSTS: AtomicU32 = AtomicU32::new(0);

/// A new vhost on the broker that tests share; `AMQP_URL` for it.
///
/// # Panics
/// If there is no broker: says how to get one.
pub fn vhost(program: &str) -> String {
    let broker: &Broker = rabbitmq::shared().expect("a private RabbitMQ");
    let name = Path::new(program).file_stem().unwrap_or_default();
    // Each call has its own: one that another call is still creating lets nobody in.
    let (process, call) = (std::process::id(), VHOSTS.fetch_add(1, Relaxed));
    let name = format!("{}-{process}-{call}", name.to_string_lossy());
    broker.add_vhost(&name).expect("a vhost of one's own")
}

/// Runs a program that ends by itself in a [new vhost](vhost), and returns what it printed.
///
/// # Panics
/// If it fails, or does not end.
pub fn run(program: &str) -> String {
    run_with(program, &[], &[("AMQP_URL", &vhost(program))])
}

/// Runs a program with these arguments and variables, and returns what it printed.
///
/// # Panics
/// If it fails, or does not end.
pub fn run_with(program: &str, arguments: &[&str], variables: &[(&str, &str)]) -> String {
    let output = Command::new("timeout")
        .args([PATIENCE, program])
        .args(arguments)
        .envs(variables.iter().copied())
        .stdin(Stdio::null())
        .output()
        .expect("`timeout` of the coreutils");
    let [said, complained] =
        [output.stdout, output.stderr].map(|bytes| String::from_utf8_lossy(&bytes).into_owned());
    assert!(
        output.status.success(),
        "{program}: {}\n{said}{complained}",
        output.status
    );
    said
}
