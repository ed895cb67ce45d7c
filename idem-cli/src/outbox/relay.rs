//! `idem outbox relay`

use idem_amqp::{
    outbox::{OutboxRelay, SharedOutbox},
    shutdown_signal,
};
use serde_json::json;

use crate::{error::Error, output::Output};

pub(super) async fn run(outbox: SharedOutbox, amqp: &str, output: Output) -> Result<(), Error> {
    let relay = OutboxRelay::new(outbox, amqp)?;
    output.line("publishing until Ctrl-C or SIGTERM")?;
    let stats = relay.run_until(shutdown_signal()).await;
    output.line(stats.to_string())?;
    output.object(&json!({
        "confirmed": stats.confirmed,
        "taken": stats.taken,
        "put_back": stats.put_back,
        "given_up": stats.given_up,
    }))?;
    Ok(())
}
