//! Whether the server lets this user run all that the store needs. It is asked before the first message: a script that
//! is refused a command in its middle has done what came before.
//!
//! The builder asks when it has connected. What must stay true:
//!
//! - Every server that takes writes is asked, because each server of a cluster has its own users.
//! - What cannot be found out is no reason to refuse.

use std::collections::BTreeSet;

use futures_util::future::join_all;
use redis::{cmd, from_redis_value};

use super::{
    RedisStore,
    fault::{self, Fault},
    primaries::Primary,
    script::Source,
    script_call::ScriptCall,
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
    "redis{} does not let this user run `{}` on the keys of the store: `ACL SETUSER USER +{} ~{prefix}:*`",
    at(servers),
    commands.join("`, `"),
    commands.join(" +").to_lowercase()
)]
pub(super) struct Lacking {
    commands: Vec<String>,
    prefix: String,
    /// In a cluster, the addresses of those that refuse something.
    servers: Vec<String>,
}

fn at(servers: &[String]) -> String {
    match servers {
        [] => String::new(),
        servers => format!(" at {}", servers.join(", ")),
    }
}

/// What the user lacks; nothing as far as it cannot be found out.
pub(super) async fn lacking(store: &RedisStore) -> Option<Lacking> {
    let naming = &store.calls.naming;
    let primaries = Primary::all(&store.server, naming, "permissions").await;
    let asked = primaries.iter().map(|primary| refused_by(store, primary));
    let mut refused = BTreeSet::new();
    let mut servers = Vec::new();
    for (primary, commands) in primaries.iter().zip(join_all(asked).await) {
        if !commands.is_empty() {
            servers.extend(primary.address.clone());
        }
        refused.extend(commands);
    }
    if store.demands.replicas.is_some() {
        // Of no replica: that is answered at once.
        let wait = store.server.ask(cmd("WAIT").arg(0).arg(0)).await;
        if wait.is_err_and(|error| fault::is_not_permitted(&error)) {
            refused.insert("WAIT".to_owned());
        }
    }
    // In the order in which they are listed, whichever server said so first.
    let mut commands: Vec<_> = refused.into_iter().collect();
    let place = |command: &String| COMMANDS.iter().position(|listed| listed == command);
    commands.sort_by_key(|command| place(command).unwrap_or(COMMANDS.len()));
    (!commands.is_empty()).then(|| Lacking {
        commands,
        prefix: naming.prefix().to_owned(),
        servers,
    })
}

/// What this server does not let a script run on keys that it keeps.
async fn refused_by(store: &RedisStore, primary: &Primary) -> Vec<String> {
    let name = |what: &[u8]| [&*primary.beside, what].concat();
    let call = ScriptCall {
        script: &SCRIPT,
        names: vec![name(b"string"), name(b"set")],
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
