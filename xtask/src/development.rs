//! Private servers for development, which stay until they are taken down: `cargo xtask services`.

use std::{
    fs,
    path::{Path, PathBuf},
};

use crate::{
    Error, Result,
    cargo::Workspace,
    install,
    services::{
        Broker, Server, detached,
        postgres::DatabaseServer,
        rabbitmq::Circle,
        redis::{Mode, Node},
    },
};

/// The servers that run.
struct Running {
    rabbitmq: Broker,
    postgres: DatabaseServer,
    redis: Node,
}

/// Starts the servers that do not run yet, and prints their URLs.
///
/// # Errors
///
/// A server is not there, or does not start.
pub fn up() -> Result<()> {
    install::all_for_development()?;
    let folder = folder()?;
    let running = Running {
        rabbitmq: running_or_started(&folder, |folder| {
            Broker::lay_out(folder, &install::installed_rabbitmq()?, &Circle::Alone)
        })?,
        postgres: running_or_started(&folder, |folder| {
            DatabaseServer::lay_out(folder, &install::installed_postgres()?, &[])
        })?,
        redis: running_or_started(&folder, |folder| {
            let settings = [("appendonly", "yes")];
            Node::lay_out(
                folder,
                &install::installed_redis()?,
                Mode::Single,
                &settings,
            )
        })?,
    };
    println!("RabbitMQ    {}", running.rabbitmq.amqp_url());
    println!("PostgreSQL  {}", running.postgres.url());
    println!("Redis       {}", running.redis.url());
    println!("            logs and data in {}", folder.display());
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
    let services = folder()?;
    let stopped = [
        stop::<Broker>(&services)?,
        stop::<DatabaseServer>(&services)?,
        stop::<Node>(&services)?,
    ];
    if !stopped.contains(&true) {
        println!("no servers run");
    }
    Ok(())
}

/// Prints the running servers' URLs as lines for a shell.
///
/// # Errors
///
/// A server does not run.
pub fn env() -> Result<()> {
    let services = folder()?;
    let running = Running {
        rabbitmq: running(&services)?,
        postgres: running(&services)?,
        redis: running(&services)?,
    };
    println!("export AMQP_URL='{}'", running.rabbitmq.amqp_url());
    println!("export POSTGRES_URL='{}'", running.postgres.url());
    println!("export REDIS_URL='{}'", running.redis.url());
    Ok(())
}

fn folder() -> Result<PathBuf> {
    let services = Workspace::load()?.target.join("services");
    fs::create_dir_all(&services).map_err(Error::io(format!("create {}", services.display())))?;
    Ok(services)
}

fn folder_of<S: Server>(services: &Path) -> PathBuf {
    services.join(S::PRODUCT.to_ascii_lowercase())
}

fn running<S: Server>(services: &Path) -> Result<S> {
    let server = S::attach(&folder_of::<S>(services));
    server.ok().filter(S::is_ready).ok_or_else(|| {
        Error::Missing(format!(
            "{} does not run: start it with `cargo xtask services up`",
            S::PRODUCT
        ))
    })
}

fn running_or_started<S: Server>(
    services: &Path,
    lay_out: impl FnOnce(&Path) -> Result<S>,
) -> Result<S> {
    running(services).or_else(|_| detached::start(&folder_of::<S>(services), lay_out))
}

/// Whether there was something to stop.
fn stop<S: Server>(services: &Path) -> Result<bool> {
    let folder = folder_of::<S>(services);
    let there = folder.exists();
    if there {
        detached::stop(&folder)?;
        println!("{} is stopped, its data removed", S::PRODUCT);
    }
    Ok(there)
}
