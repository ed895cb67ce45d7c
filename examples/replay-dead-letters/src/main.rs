//! Shows dead letters, and sends chosen ones again.
//!
//! ```sh
//! cargo run -p replay-dead-letters -- --queue orders.dead --dry-run
//! cargo run -p replay-dead-letters -- --queue orders.dead --reason rejected --limit 100
//! cargo run -p replay-dead-letters -- --queue orders.dead --key orders.charge:order-000017
//! ```
//!
//! Conditions add up; of one that is given several times, any value will do. Without any, all
//! letters are sent again. It ends with 1 if there are chosen ones that could not be.

use std::{
    process::ExitCode,
    time::{Duration, SystemTime},
};

use clap::Parser;
use idem_amqp::{
    dead_letters::{LetterOutcome, LetterResult, ReplayError, Replayer, Selection},
    error::ErrorChain,
};

mod line;

use line::Line;

/// Shows dead letters, and sends chosen ones again
#[derive(Debug, Parser)]
struct Settings {
    /// The dead-letter queue
    #[arg(long)]
    queue: String,
    /// Only letters with this reason: rejected, exhausted, in-doubt, broker-expired, …
    #[arg(long)]
    reason: Vec<String>,
    /// Only the letters of this key
    #[arg(long)]
    key: Vec<String>,
    /// Only the letter of the message with this id
    #[arg(long, value_name = "ID")]
    message_id: Vec<String>,
    /// Only letters that failed so long ago or longer
    #[arg(long, value_name = "MINUTES")]
    older_than: Option<u64>,
    /// At most so many
    #[arg(long)]
    limit: Option<usize>,
    /// Shows the letters, and leaves them where they are
    #[arg(long)]
    dry_run: bool,
    /// The broker
    #[arg(
        long,
        env = "AMQP_URL",
        default_value = "amqp://127.0.0.1:5672/%2f",
        hide_env_values = true
    )]
    amqp_url: String,
}

#[tokio::main]
async fn main() -> ExitCode {
    let settings = Settings::parse();
    match run(&settings).await {
        Ok(code) => code,
        Err(error) => {
            eprintln!("replay-dead-letters: {}", ErrorChain::of(&error));
            ExitCode::FAILURE
        }
    }
}

async fn run(settings: &Settings) -> Result<ExitCode, ReplayError> {
    let replayer = Replayer::new(&settings.amqp_url, &settings.queue)?;
    let chosen = selection(settings);
    if settings.dry_run {
        let letters = replayer.look(&chosen).await?;
        for letter in &letters {
            println!("found {}", Line(letter));
        }
        println!("{} letters would be sent again", letters.len());
        return Ok(ExitCode::SUCCESS);
    }
    let tally = replayer.on_letter(report).replay(&chosen).await?;
    println!("{tally}");
    Ok(match tally.failed {
        0 => ExitCode::SUCCESS,
        _ => ExitCode::FAILURE,
    })
}

fn selection(settings: &Settings) -> Selection {
    let mut chosen = Selection::all();
    for reason in &settings.reason {
        chosen = chosen.reason(reason);
    }
    for key in &settings.key {
        chosen = chosen.key(key);
    }
    for id in &settings.message_id {
        chosen = chosen.message_id(id);
    }
    if let Some(minutes) = settings.older_than {
        let age = Duration::from_mins(minutes);
        let latest = SystemTime::now().checked_sub(age);
        chosen = chosen.failed_before(latest.unwrap_or(SystemTime::UNIX_EPOCH));
    }
    match settings.limit {
        Some(limit) => chosen.limit(limit),
        None => chosen,
    }
}

fn report(dealt: &LetterResult<'_>) {
    match dealt.outcome {
        LetterOutcome::Failed(error) => println!("left  {} ({error})", Line(dealt.letter)),
        _ => println!("sent  {}", Line(dealt.letter)),
    }
}
