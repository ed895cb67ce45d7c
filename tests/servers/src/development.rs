//! Private servers for development, which stay until they are taken down: `cargo xtask services`.

use std::{
    fs,
    path::{Path, PathBuf},
    process::Command,
};

use crate::{
    Broker, Error, Result, Server, detached, install,
    postgres::DatabaseServer,
    rabbitmq::ClusterMembership,
    redis::{Mode, Node},
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
    fs::create_dir_all(&folder).map_err(Error::io(format!("create {}", folder.display())))?;
    let running = Running {
        rabbitmq: running_or_started(&folder, |folder| {
            Broker::lay_out(
                folder,
                &install::installed_rabbitmq()?,
                &ClusterMembership::Alone,
            )
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
    let folder = folder()?;
    let stopped = [
        stop::<Broker>(&folder)?,
        stop::<DatabaseServer>(&folder)?,
        stop::<Node>(&folder)?,
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
    let folder = folder()?;
    let running = Running {
        rabbitmq: running(&folder)?,
        postgres: running(&folder)?,
        redis: running(&folder)?,
    };
    println!("export AMQP_URL='{}'", running.rabbitmq.amqp_url());
    println!("export POSTGRES_URL='{}'", running.postgres.url());
    println!("export REDIS_URL='{}'", running.redis.url());
    Ok(())
}

/// The broker that stays, if one has been started, whether it runs or not.
pub(crate) fn broker() -> Result<Broker> {
    Broker::attach(&folder_of::<Broker>(&folder()?))
}

/// Where they are: in the target folder of the workspace.
fn folder() -> Result<PathBuf> {
    #[derive(serde::Deserialize)]
    struct Workspace {
        target_directory: PathBuf,
    }
    let output = Command::new("cargo")
        .args(["metadata", "--format-version", "1", "--no-deps"])
        .current_dir(env!("CARGO_MANIFEST_DIR"))
        .output()
        .map_err(Error::io("run `cargo metadata`"))?;
    if !output.status.success() {
        return Err(Error::command("cargo metadata", &output));
    }
    let workspace: Workspace = serde_json::from_slice(&output.stdout)
        .map_err(|error| Error::io("understand `cargo metadata`")(error.into()))?;
    Ok(workspace.target_directory.join("services"))
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
