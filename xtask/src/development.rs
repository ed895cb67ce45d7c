//! Private servers for development, which stay until they are taken down: `cargo xtask services`.

use std::{
    fs,
    path::{Path, PathBuf},
};

use crate::{
    Error, Result,
    cargo::Workspace,
    install,
    services::{Broker, Server, detached},
};

/// Starts the servers that do not run yet, and prints their URLs.
///
/// # Errors
///
/// A server is not there, or does not start.
pub fn up() -> Result<()> {
    let folder = folder()?;
    let broker = if let Some(broker) = running(&folder) {
        broker
    } else {
        let installed = install::installed_rabbitmq()?;
        detached::start(&folder, |folder| Broker::lay_out(folder, &installed))?
    };
    println!("RabbitMQ  {}", broker.amqp_url());
    println!("          log and data in {}", broker.folder().display());
    println!(
        "eval \"$(cargo xtask services env)\" sets the variables, `cargo xtask services down` stops the servers"
    );
    Ok(())
}

/// Stops the servers and removes their data.
///
/// # Errors
///
/// A server does not stop.
pub fn down() -> Result<()> {
    let folder = folder()?;
    if folder.exists() {
        detached::stop(&folder)?;
        println!("RabbitMQ is stopped, its data removed");
    } else {
        println!("no servers run");
    }
    Ok(())
}

/// Prints the running servers' URLs as lines for a shell.
///
/// # Errors
///
/// No servers run.
pub fn env() -> Result<()> {
    let broker = running(&folder()?).ok_or_else(|| {
        Error::Missing("no servers run: start them with `cargo xtask services up`".to_owned())
    })?;
    println!("export AMQP_URL='{}'", broker.amqp_url());
    Ok(())
}

fn folder() -> Result<PathBuf> {
    let services = Workspace::load()?.target.join("services");
    fs::create_dir_all(&services).map_err(Error::io(format!("create {}", services.display())))?;
    Ok(services.join("rabbitmq"))
}

fn running(folder: &Path) -> Option<Broker> {
    Broker::attach(folder).ok().filter(Broker::is_ready)
}
