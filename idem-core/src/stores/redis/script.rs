//! Scripts, and many calls of the one for keys as one command.

use std::sync::OnceLock;

use redis::{Cmd, RedisResult, Value};

use super::{
    calls::Call,
    fault::{self, Fault},
};
use crate::stores::batcher::Call as _;

/// All calls are carried out by one script, so that they can be mixed, in their order.
static SCRIPT: Source = Source::new(concat!(
    include_str!("script/record.lua"),
    include_str!("script/claim.lua"),
    include_str!("script/extend.lua"),
    include_str!("script/complete.lua"),
    include_str!("script/release.lua"),
    include_str!("script/calls.lua"),
));

/// A script's text, and the digest under which the server keeps it.
#[derive(Debug)]
pub(super) struct Source {
    text: &'static str,
    digest: OnceLock<String>,
}

/// How a command names a script.
pub(super) struct Script<'a> {
    pub(super) name: &'static str,
    pub(super) text: &'a str,
}

impl Source {
    pub(super) const fn new(text: &'static str) -> Self {
        Self {
            text,
            digest: OnceLock::new(),
        }
    }

    /// Sends a command that names the script by its digest, and if the server does not have it, one
    /// with its text.
    pub(super) async fn run<Fut>(
        &self,
        command: impl Fn(Script<'_>) -> Cmd,
        ask: impl Fn(Cmd) -> Fut,
    ) -> Result<Value, Fault>
    where
        Fut: Future<Output = Result<Value, Fault>>,
    {
        let digest = || redis::Script::new(self.text).get_hash().to_owned();
        let by_digest = command(Script {
            name: "EVALSHA",
            text: self.digest.get_or_init(digest),
        });
        match ask(by_digest).await {
            // The server does not have the script, and does afterwards. In a cluster this goes to
            // the one server that is asked; loading a script would take all of them.
            Err(Fault::Redis(error)) if fault::is_no_script(&error) => {
                ask(command(Script {
                    name: "EVAL",
                    text: self.text,
                }))
                .await
            }
            answer => answer,
        }
    }
}

/// Carries out calls in one atomic step; their records have to be on one server. Answers each of
/// them, or none.
pub(super) async fn run<Fut>(
    calls: &[&Call],
    skew: i64,
    ask: impl Fn(Cmd) -> Fut,
) -> Result<Vec<RedisResult<Value>>, Fault>
where
    Fut: Future<Output = Result<Value, Fault>>,
{
    let answers = SCRIPT.run(|script| command(&script, calls, skew), ask);
    match answers.await? {
        Value::Array(answers) if answers.len() == calls.len() => {
            Ok(answers.into_iter().map(fault::checked).collect())
        }
        _ => Err(Fault::Redis(fault::not_understood())),
    }
}

/// Carries out one call.
pub(super) async fn run_alone<Fut>(
    call: &Call,
    skew: i64,
    ask: impl Fn(Cmd) -> Fut,
) -> Result<Value, Fault>
where
    Fut: Future<Output = Result<Value, Fault>>,
{
    let mut answers = run(&[call], skew, ask).await?;
    let answer = answers
        .pop()
        .unwrap_or_else(|| Err(fault::not_understood()));
    Ok(answer?)
}

fn command(script: &Script<'_>, calls: &[&Call], skew: i64) -> Cmd {
    let size: usize = calls.iter().map(|call| call.bytes()).sum();
    let mut command = Cmd::with_capacity(4 + 2 * calls.len(), script.text.len() + size + 64);
    command.arg(script.name).arg(script.text).arg(calls.len());
    for call in calls {
        command.arg(&call.record);
    }
    command.arg(skew);
    for call in calls {
        command.arg(&call.request);
    }
    command
}
