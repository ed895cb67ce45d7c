//! Whether the server lets this user run all that the store needs. It is asked before the first message: a script that
//! is refused a command in its middle has done what came before.

use redis::{cmd, from_redis_value};

use super::{
    RedisStore,
    alone::Alone,
    fault::{self, Fault},
    script::Source,
};

static SCRIPT: Source = Source::new(include_str!("script/permissions.lua"));

/// All that workers run. The scripts run what follows the first two.
const COMMANDS: [&str; 12] = [
    "EVAL",
    "EVALSHA",
    "TIME",
    "GET",
    "SET",
    "GETRANGE",
    "SETRANGE",
    "DEL",
    "PEXPIREAT",
    "SADD",
    "SCARD",
    "SISMEMBER",
];

/// What this user lacks, as far as it is known.
#[derive(Debug, thiserror::Error)]
#[error(
    "redis does not let this user run `{}` on the keys of the store: `ACL SETUSER USER +{} ~{prefix}:*`",
    commands.join("`, `"),
    commands.join(" +").to_lowercase()
)]
pub(super) struct Lacking {
    commands: Vec<String>,
    prefix: String,
}

/// What the user lacks; nothing as far as it cannot be found out.
pub(super) async fn lacking(store: &RedisStore) -> Option<Lacking> {
    let mut commands = refused_in_scripts(store).await;
    if store.demands.replicas.is_some() {
        // Of no replica: that is answered at once.
        let wait = store.server.ask(cmd("WAIT").arg(0).arg(0)).await;
        if wait.is_err_and(|error| fault::is_not_permitted(&error)) {
            commands.push("WAIT".to_owned());
        }
    }
    let prefix = store.calls.naming.prefix().to_owned();
    (!commands.is_empty()).then_some(Lacking { commands, prefix })
}

async fn refused_in_scripts(store: &RedisStore) -> Vec<String> {
    let beside = |what: &[u8]| [&*store.calls.naming.beside("permissions"), what].concat();
    let call = Alone {
        script: &SCRIPT,
        names: vec![beside(b"string"), beside(b"set")],
        arguments: Vec::new(),
    };
    let ask = |command| async move { Ok(store.server.ask(&command).await?) };
    match call.run(0, ask).await {
        Ok(refused) => from_redis_value(refused).unwrap_or_default(),
        // No script, or not on these keys: then it is not known what one could not run.
        Err(Fault::Redis(error)) if fault::is_not_permitted(&error) => {
            COMMANDS.map(str::to_owned).into()
        }
        // It is away, say, or loads its data.
        Err(_) => Vec::new(),
    }
}
