//! What a broker's Erlang machine is tuned for.

use serde::{Deserialize, Serialize};

use super::console;

/// What [`RUN_PRELOAD`] runs.
pub(super) const PRELOAD: &str = include_str!("preload.erl");

/// Small tables: RabbitMQ's own, for a million processes, slow a boot down. Schedulers that have nothing to do sleep:
/// on two processors, tests beside a broker that spins take an eighth longer.
const QUICK_BOOT: &str = "+P 65536 +t 1048576 +sbwt none +sbwtdcpu none +sbwtdio none";
/// Runs `preload.erl` from a broker's folder, its `HOME`, before RabbitMQ boots. The quotes are escaped because Erlang
/// splits this variable as a shell would.
const RUN_PRELOAD: &str = r#"-eval file:eval(filename:join(os:getenv(\"HOME\"),\"preload.erl\"))"#;
/// Else every Erlang machine, rabbitmqctl's too, starts a port mapper that stays for ever.
const NO_MAPPER: &str = "-start_epmd false";
const LOCAL: &str = "-kernel inet_dist_use_interface {127,0,0,1}";

/// What a broker is for.
#[derive(Clone, Copy, Debug, Deserialize, Serialize)]
pub(crate) enum Tuning {
    /// Tests: it is up soon.
    QuickBoot,
    /// Measurements: nothing of its own is changed, but that it answers questions at a port.
    Production,
}

impl Tuning {
    pub(super) fn environment(self) -> Vec<(&'static str, String)> {
        let console = (
            "RABBITMQ_SERVER_ADDITIONAL_ERL_ARGS",
            format!("{LOCAL} -idem_broker {}", console::OPEN),
        );
        match self {
            Self::QuickBoot => vec![
                console,
                ("RABBITMQ_SERVER_ERL_ARGS", QUICK_BOOT.to_owned()),
                ("ERL_AFLAGS", format!("{NO_MAPPER} {RUN_PRELOAD}")),
            ],
            Self::Production => vec![console, ("ERL_AFLAGS", NO_MAPPER.to_owned())],
        }
    }
}
