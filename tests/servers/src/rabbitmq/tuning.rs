//! What a broker's Erlang machine is tuned for.

use serde::{Deserialize, Serialize};

/// RabbitMQ's own arguments halve the speed of a boot on a small machine: tables for a million
/// processes, and schedulers that sleep the moment they have nothing to do.
const QUICK_BOOT: &str = "+P 65536 +t 1048576";
const LOCAL: &str = "-kernel inet_dist_use_interface {127,0,0,1}";

/// What a broker is for.
#[derive(Clone, Copy, Debug, Deserialize, Serialize)]
pub(crate) enum Tuning {
    /// Tests: it is up soon.
    QuickBoot,
    /// Measurements: nothing of its own is changed. Schedulers that spin while they wait, as those
    /// of a quick boot do, take the processor from the clients on the same machine.
    Production,
}

impl Tuning {
    pub(super) fn environment(self) -> Vec<(&'static str, String)> {
        let mut environment = vec![("RABBITMQ_SERVER_ADDITIONAL_ERL_ARGS", LOCAL.to_owned())];
        if let Self::QuickBoot = self {
            environment.push(("RABBITMQ_SERVER_ERL_ARGS", QUICK_BOOT.to_owned()));
        }
        environment
    }
}
