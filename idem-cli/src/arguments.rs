//! The command line.

use std::time::Duration;

use clap::{Args, Parser, Subcommand, ValueEnum};
use idem_amqp::{Key, dead_letters::Reason, operator::KeyState};

use crate::span;

mod marks;
mod outbox;

pub(crate) use marks::{MarksCommand, Place};
pub(crate) use outbox::{Address, OutboxCommand};

/// Looks into the stores of idempotent consumers and their outboxes, changes one key at a time, and sends
/// dead letters again or drops them
///
/// Exit status: 0 if it is done; 1 if it could not be done, or the doctor found an error; 2 if the command
/// line is wrong; 3 if there is no such key, letter, message or mark; 4 if it was not confirmed.
#[derive(Debug, Parser)]
#[command(name = "idem", version)]
pub(crate) struct Arguments {
    #[command(flatten)]
    pub(crate) store: StoreArguments,
    /// The broker; with commas, the nodes of a cluster
    #[arg(
        long,
        global = true,
        env = "AMQP_URL",
        default_value = "amqp://127.0.0.1:5672/%2f",
        hide_env_values = true,
        value_name = "URL"
    )]
    pub(crate) amqp: String,
    /// Prints JSON, one object on a line
    #[arg(long, global = true)]
    pub(crate) json: bool,
    #[command(subcommand)]
    pub(crate) command: Command,
}

/// Where the store is.
#[derive(Debug, Args)]
pub(crate) struct StoreArguments {
    #[arg(
        long = "store",
        help = "The store: sqlite:FILE, postgres://USER@HOST/DATABASE, redis://HOST, \
                redis+cluster://HOST,HOST or redis+sentinel://HOST,HOST/NAME",
        global = true,
        env = "IDEM_STORE_URL",
        hide_env_values = true,
        value_name = "URL"
    )]
    pub(crate) url: Option<String>,
    /// The table, if it is not `idem_records` (SQLite, PostgreSQL)
    #[arg(long, global = true, env = "IDEM_STORE_TABLE")]
    pub(crate) table: Option<String>,
    /// The schema of the table, if it is not the first of the role's `search_path` (PostgreSQL)
    #[arg(long, global = true, env = "IDEM_STORE_SCHEMA")]
    pub(crate) schema: Option<String>,
    /// What the names of all records begin with, if it is not `idem` (Redis)
    #[arg(long, global = true, env = "IDEM_STORE_PREFIX")]
    pub(crate) prefix: Option<String>,
    /// The Redis that workers ask before the store, if they share a cache
    #[arg(
        long,
        global = true,
        env = "IDEM_CACHE_URL",
        hide_env_values = true,
        value_name = "URL"
    )]
    pub(crate) cache: Option<String>,
    /// What the workers call their cache
    #[arg(long, global = true, env = "IDEM_CACHE_NAME", value_name = "NAME")]
    pub(crate) cache_name: Option<String>,
    /// How long the store may take for one answer; a large table takes its time
    #[arg(long, global = true, value_name = "TIME", value_parser = span::parse, default_value = "1m")]
    pub(crate) timeout: Duration,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Looks at keys, and changes one
    #[command(subcommand)]
    Keys(KeysCommand),
    /// Counts the keys of each scope, and the messages of the outbox
    Stats,
    /// Removes the records whose retention has ended
    Purge {
        /// How many are removed at once
        #[arg(long, default_value_t = 1000, value_parser = clap::value_parser!(u32).range(1..))]
        batch: u32,
    },
    /// Creates the tables, or what is missing of them
    Migrate {
        /// Prints the statements and leaves them to you
        #[arg(long)]
        print: bool,
    },
    /// Looks at dead letters, and sends chosen ones again or drops them
    #[command(subcommand)]
    Dead(DeadCommand),
    /// Looks at what was committed and is not yet published, changes it, and publishes it
    #[command(subcommand)]
    Outbox(OutboxCommand),
    /// Looks at how far handlers are in streams and partitions of Kafka, and has them go on elsewhere
    #[command(subcommand)]
    Marks(MarksCommand),
    /// Says what can go wrong at broker, queues and store, and what to change
    Doctor(DoctorArguments),
}

#[derive(Debug, Subcommand)]
pub(crate) enum KeysCommand {
    /// Lists keys
    List {
        /// Only keys in this state: in-progress, completed or failed
        #[arg(long)]
        state: Option<KeyState>,
        /// Only keys that were last written so long ago or longer: 30s, 5m, 1h, 2d
        #[arg(long, value_name = "AGE", value_parser = span::parse)]
        older_than: Option<Duration>,
        /// Only keys of this scope
        #[arg(long)]
        scope: Option<String>,
        /// Only keys that begin so
        #[arg(long, conflicts_with = "scope", value_name = "TEXT")]
        begins: Option<String>,
        /// At most so many
        #[arg(long, value_name = "KEYS")]
        limit: Option<usize>,
    },
    /// Shows everything that is known of a key, and what operators did to it
    Show {
        /// As it is listed: SCOPE:PART
        key: Key,
    },
    /// Frees a key for its next attempt; whoever holds it is fenced out
    Release(Change),
    /// Removes the record of a key: its message runs again if it comes again
    Forget(Change),
    /// Makes a key done, so that its message is a duplicate
    Complete {
        #[command(flatten)]
        change: Change,
        /// What the handler would have returned, as JSON
        #[arg(long, value_name = "JSON", default_value = "null")]
        outcome: String,
        /// How long it is remembered
        #[arg(long, value_name = "TIME", value_parser = span::parse, default_value = "72h")]
        retention: Duration,
    },
}

#[derive(Debug, Args)]
pub(crate) struct Change {
    /// As it is listed: SCOPE:PART
    pub(crate) key: Key,
    #[command(flatten)]
    pub(crate) sure: Sure,
}

#[derive(Debug, Args)]
pub(crate) struct Sure {
    /// Does not ask
    #[arg(long, short)]
    pub(crate) yes: bool,
}

#[derive(Debug, Subcommand)]
pub(crate) enum DeadCommand {
    /// Lists dead letters
    List(Letters),
    /// Shows everything that is known of dead letters, their bodies included
    Show(Letters),
    /// Sends dead letters again, to the queues that they came from
    Replay(Deal),
    /// Drops dead letters for good; what the store knows of their keys stays
    Discard(Deal),
}

#[derive(Debug, Args)]
pub(crate) struct Deal {
    #[command(flatten)]
    pub(crate) letters: Letters,
    #[command(flatten)]
    pub(crate) sure: Sure,
}

/// Which dead letters. Conditions add up; of one that is given several times, any value will do.
#[derive(Debug, Args)]
pub(crate) struct Letters {
    /// The dead-letter queue, such as orders.charge.dead
    pub(crate) queue: String,
    /// Only letters with this reason: rejected, exhausted, in-doubt, broker-expired, …
    #[arg(long, value_parser = reason)]
    pub(crate) reason: Vec<String>,
    /// Only the letters of this key
    #[arg(long)]
    pub(crate) key: Vec<String>,
    /// Only the letter of the message with this id
    #[arg(long, value_name = "ID")]
    pub(crate) message_id: Vec<String>,
    /// Only letters that failed so long ago or longer: 30s, 5m, 1h, 2d
    #[arg(long, value_name = "AGE", value_parser = span::parse)]
    pub(crate) older_than: Option<Duration>,
    /// At most so many, those in front
    #[arg(long, value_name = "LETTERS")]
    pub(crate) limit: Option<usize>,
    /// A dead-letter queue out of which the broker moved letters to this one. Without it, they are
    /// believed only if it is the one of the queue that they came from, with `.dead` behind its name
    #[arg(long, value_name = "QUEUE")]
    pub(crate) moved_from: Vec<String>,
}

/// One of idem's reasons; one of the broker's, behind `broker-`; or `unknown`, of letters that say none.
fn reason(written: &str) -> Result<String, String> {
    let ours = || Reason::ALL.iter().map(|reason| reason.as_str());
    let is_one = ours().any(|reason| reason == written);
    if is_one || written.starts_with("broker-") || written == "unknown" {
        return Ok(written.to_owned());
    }
    let ours = ours().collect::<Vec<_>>().join(", ");
    Err(format!(
        "there are {ours}, those of the broker such as broker-expired, and unknown"
    ))
}

/// As `Queue::quorum` and `Queue::classic` declare it.
#[derive(Debug, Clone, Copy, ValueEnum)]
pub(crate) enum DeclaredType {
    Quorum,
    Classic,
}

/// What the doctor looks at. It knows nothing of handlers: what theirs ask for is told here.
#[derive(Debug, Args)]
pub(crate) struct DoctorArguments {
    /// Queues that workers consume from; they must exist, unless workers declare them
    #[arg(required = true, value_name = "QUEUE")]
    pub(crate) queues: Vec<String>,
    /// The workers declare the queues themselves, of this type: whether those that are there are so
    #[arg(long, value_name = "TYPE")]
    pub(crate) declared: Option<DeclaredType>,
    /// Their dead-letter queue, if it is not QUEUE.dead
    #[arg(long, value_name = "QUEUE")]
    pub(crate) dead_letters: Option<String>,
    /// The longest lease of their handlers
    #[arg(long, value_name = "TIME", value_parser = span::parse, default_value = "30s")]
    pub(crate) lease: Duration,
    /// The shortest retention of their handlers
    #[arg(long, value_name = "TIME", value_parser = span::parse, default_value = "72h")]
    pub(crate) retention: Duration,
    /// How often their handlers try at most
    #[arg(long, value_name = "ATTEMPTS")]
    pub(crate) max_attempts: Option<u32>,
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The command lines of the guide, without what a shell would add.
    fn examples() -> Vec<Vec<&'static str>> {
        let guide = include_str!("../../docs/operator.md");
        let lines = guide.lines().map(|line| line.trim_start_matches("$ "));
        let commands = lines.filter(|line| line.starts_with("idem "));
        let words = |line: &'static str| line.split_whitespace().take_while(|word| *word != "#");
        commands.map(|line| words(line).collect()).collect()
    }

    #[test]
    fn every_example_of_the_guide_is_understood() {
        for example in examples() {
            let store = ["--store", "sqlite:x"];
            let parsed = Arguments::try_parse_from(example.iter().chain(&store));
            assert!(parsed.is_ok(), "{example:?}: {parsed:?}");
        }
    }

    #[test]
    fn a_reason_that_no_letter_has_is_refused_with_those_there_are() {
        let chosen = |reason| {
            let line = ["idem", "dead", "replay", "orders.dead", "--reason", reason];
            Arguments::try_parse_from(line).map(drop)
        };
        for reason in ["rejected", "key-reused", "broker-expired", "unknown"] {
            assert!(chosen(reason).is_ok(), "{reason}");
        }
        for reason in ["bogus", "in_doubt", "Rejected"] {
            let told = chosen(reason).unwrap_err().to_string();
            assert!(told.contains("rejected, exhausted"), "{told}");
        }
    }

    #[test]
    fn every_command_is_in_the_guide() {
        use clap::CommandFactory as _;

        let guide = include_str!("../../docs/operator.md");
        let command = Arguments::command();
        for first in command.get_subcommands() {
            let seconds: Vec<_> = first.get_subcommands().collect();
            let of_second =
                |second: &clap::Command| format!("{} {}", first.get_name(), second.get_name());
            let names = if seconds.is_empty() {
                vec![first.get_name().to_owned()]
            } else {
                seconds.into_iter().map(of_second).collect()
            };
            for name in names {
                assert!(guide.contains(&name), "`idem {name}` is not in the guide");
            }
        }
    }
}
