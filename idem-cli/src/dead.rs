//! `idem dead`: looks at dead letters, and sends chosen ones again or drops them.

use std::{
    sync::atomic::{AtomicU64, Ordering::Relaxed},
    time::SystemTime,
};

use idem_amqp::{
    dead_letters::{DeadLetter, DeadLetterStats, LetterOutcome, LetterResult, Replayer, Selection},
    error::ErrorChain,
};
use serde_json::json;

use crate::{
    arguments::{DeadCommand, Deal, Letters},
    confirm::confirm,
    error::Error,
    output::{Output, complain},
};

mod letter;

pub(crate) async fn run(amqp: &str, output: &Output, command: DeadCommand) -> Result<(), Error> {
    match command {
        DeadCommand::List(letters) => {
            let found = find(amqp, &letters).await?;
            letter::list(*output, &found)
        }
        DeadCommand::Show(letters) => {
            let found = find(amqp, &letters).await?;
            if found.is_empty() {
                let text = format!("`{}` has no such letter", letters.queue);
                return Err(Error::NotFound(text));
            }
            letter::show(*output, &found)
        }
        DeadCommand::Replay(deal) => replay(amqp, output.optional(), &deal).await,
        DeadCommand::Discard(deal) => discard(amqp, output.optional(), &deal).await,
    }
}

async fn find(amqp: &str, letters: &Letters) -> Result<Vec<DeadLetter>, Error> {
    let replayer = replayer(amqp, letters)?;
    Ok(replayer.look(&selection(letters)).await?)
}

async fn replay(amqp: &str, output: Output, deal: &Deal) -> Result<(), Error> {
    let queue = &deal.letters.queue;
    let question = format!("Send the chosen letters of `{queue}` again? They execute again.");
    confirm(&question, &deal.sure)?;
    let replayer = reporting(amqp, output, &deal.letters)?;
    tell(output, replayer.replay(&selection(&deal.letters)).await?)
}

async fn discard(amqp: &str, output: Output, deal: &Deal) -> Result<(), Error> {
    let queue = &deal.letters.queue;
    let question = format!("Drop the chosen letters of `{queue}`? They are gone for good.");
    confirm(&question, &deal.sure)?;
    let replayer = reporting(amqp, output, &deal.letters)?;
    tell(output, replayer.discard(&selection(&deal.letters)).await?)
}

fn replayer(amqp: &str, letters: &Letters) -> Result<Replayer, Error> {
    let replayer = Replayer::new(amqp, &letters.queue)?;
    Ok(letters
        .moved_from
        .iter()
        .fold(replayer, Replayer::moved_from))
}

fn reporting(amqp: &str, output: Output, letters: &Letters) -> Result<Replayer, Error> {
    let so_far = AtomicU64::new(0);
    let replayer = replayer(amqp, letters)?;
    Ok(replayer.on_letter(move |dealt| report(output, dealt, so_far.fetch_add(1, Relaxed) + 1)))
}

fn tell(output: Output, tally: DeadLetterStats) -> Result<(), Error> {
    output.line(tally.to_string())?;
    output.object(&as_json(tally))?;
    match tally.failed {
        0 => Ok(()),
        _ => Err(Error::Told),
    }
}

/// How far it has come, for people only; what stays is said in any case.
fn report(output: Output, dealt: &LetterResult<'_>, number: u64) {
    let line = letter::line(dealt.letter);
    match dealt.outcome {
        LetterOutcome::Failed(error) => {
            complain(format_args!("left {line}: {}", ErrorChain::of(error)));
        }
        LetterOutcome::Discarded => drop(output.line(format!("{number} discarded {line}"))),
        _ => drop(output.line(format!("{number} sent {line}"))),
    }
}

fn as_json(tally: DeadLetterStats) -> serde_json::Value {
    json!({
        "seen": tally.seen,
        "replayed": tally.replayed,
        "discarded": tally.discarded,
        "failed": tally.failed,
        "left": tally.left,
    })
}

fn selection(letters: &Letters) -> Selection {
    let mut chosen = Selection::all();
    for reason in &letters.reason {
        chosen = chosen.reason(reason);
    }
    for key in &letters.key {
        chosen = chosen.key(key);
    }
    for id in &letters.message_id {
        chosen = chosen.message_id(id);
    }
    if let Some(age) = letters.older_than {
        let latest = SystemTime::now().checked_sub(age);
        chosen = chosen.failed_before(latest.unwrap_or(SystemTime::UNIX_EPOCH));
    }
    match letters.limit {
        Some(limit) => chosen.limit(limit),
        None => chosen,
    }
}
