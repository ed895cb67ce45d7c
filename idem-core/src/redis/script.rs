//! The one script, and many calls of it as one command.

use std::sync::LazyLock;

use redis::{Cmd, RedisResult, Value};

use super::{
    calls::Call,
    fault::{self, Fault},
};

/// All calls are carried out by one script, so that they can be mixed, in their order.
const TEXT: &str = concat!(
    include_str!("script/record.lua"),
    include_str!("script/claim.lua"),
    include_str!("script/extend.lua"),
    include_str!("script/complete.lua"),
    include_str!("script/release.lua"),
    include_str!("script/calls.lua"),
);

/// Under which the server keeps it.
static DIGEST: LazyLock<String> = LazyLock::new(|| redis::Script::new(TEXT).get_hash().to_owned());

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
    let by_digest = command("EVALSHA", &DIGEST, calls, skew);
    let answers = match ask(by_digest).await {
        // The server does not have the script, and does afterwards. In a cluster this goes to the
        // one server that is asked; loading a script would take all of them.
        Err(Fault::Redis(error)) if fault::is_no_script(&error) => {
            ask(command("EVAL", TEXT, calls, skew)).await
        }
        answers => answers,
    };
    match answers? {
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

fn command(name: &str, script: &str, calls: &[&Call], skew: i64) -> Cmd {
    let size: usize = calls.iter().map(|call| call.size()).sum();
    let mut command = Cmd::with_capacity(4 + 2 * calls.len(), script.len() + size + 64);
    command.arg(name).arg(script).arg(calls.len());
    for call in calls {
        command.arg(&call.record);
    }
    command.arg(skew);
    for call in calls {
        command.arg(&call.request);
    }
    command
}
