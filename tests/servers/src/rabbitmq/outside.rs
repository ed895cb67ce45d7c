//! A broker that somebody else has started, and how it is administered.

use std::process::Command;

use super::{Broker, Program, Version, layout::Layout};
use crate::{Error, Result, client::RABBITMQCTL, development};

impl Broker {
    /// The broker at a port of this machine: of `cargo xtask services up`, which we know, or of somebody else.
    pub(super) fn at(port: u16) -> Result<Self> {
        if let Ok(broker) = development::broker()
            && broker.port() == port
        {
            return Ok(broker);
        }
        let printed = ctl().args(["--silent", "version"]).output();
        let printed = printed.ok().filter(|printed| printed.status.success());
        let version: Option<Version> = printed
            .and_then(|printed| String::from_utf8_lossy(&printed.stdout).trim().parse().ok());
        let version = version.ok_or_else(|| {
            Error::Missing(format!(
                "the broker at port {port} cannot be administered: its rabbitmqctl says no version. Start it with \
                 `docker compose up --detach --wait`, or set {} to the command that does what its rabbitmqctl does",
                RABBITMQCTL.variable
            ))
        })?;
        Ok(Self::of(Layout::of_port(port, Program::outside(version))))
    }
}

/// `rabbitmqctl`, wherever the broker is.
pub(super) fn ctl() -> Command {
    // One of this machine would not know the node.
    RABBITMQCTL.command(None)
}
