//! What the command line and the environment say.

use std::{env, net::SocketAddr, str::FromStr, time::Duration};

use crate::Error;

/// | variable | default | |
/// |---|---|---|
/// | `AMQP_URL` | `amqp://127.0.0.1:5672/%2f` | the broker; with commas, the nodes of a cluster |
/// | `STORE_URL` | `sqlite:orders.db` | `memory:`, `sqlite:FILE`, `postgres://…` or `redis://…` |
/// | `ORDERS_QUEUE` | `orders` | the queue, declared by the worker |
/// | `PREFETCH` | 64 | orders taken at once; on PostgreSQL 16 of them are handled, the others wait |
/// | `WORK_MS` | 0 | how long the payment gateway takes |
/// | `LEASE_MS` | 30000 | how long a worker that went silent keeps an order |
/// | `WORKER_NAME` | `worker-<process id>` | its name in the ledger |
/// | `ORDERS_LOG` | | `json` for one JSON object a line |
#[derive(Debug, Clone)]
pub(crate) struct Settings {
    pub(crate) command: Command,
    pub(crate) amqp_url: String,
    pub(crate) store_url: String,
    pub(crate) queue: String,
    pub(crate) prefetch: u16,
    pub(crate) work: Duration,
    pub(crate) lease: Option<Duration>,
    pub(crate) worker: String,
    pub(crate) log: Log,
}

/// What the worker is to do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Command {
    /// Charge orders until it is told to stop.
    Consume,
    /// Print what was charged.
    Ledger,
    /// Say what can go wrong.
    Doctor,
}

/// The command line.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Arguments {
    pub(crate) command: Command,
    /// Where metrics are served.
    pub(crate) metrics: Option<SocketAddr>,
}

impl Arguments {
    pub(crate) fn parse(mut words: impl Iterator<Item = String>) -> Result<Self, Error> {
        let mut arguments = Self {
            command: Command::Consume,
            metrics: None,
        };
        while let Some(word) = words.next() {
            match &*word {
                "ledger" => arguments.command = Command::Ledger,
                "doctor" => arguments.command = Command::Doctor,
                "--metrics" => arguments.metrics = Some(address(words.next())?),
                other => return Err(format!("unknown argument `{other}`: {USAGE}").into()),
            }
        }
        Ok(arguments)
    }
}

const USAGE: &str = "there are `ledger`, `doctor` and `--metrics 127.0.0.1:9464`";

fn address(word: Option<String>) -> Result<SocketAddr, Error> {
    let word = word.unwrap_or_default();
    let wrong = |_| format!("--metrics: `{word}` is no address and port: {USAGE}").into();
    word.parse().map_err(wrong)
}

/// How a settled message is reported on standard output.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Log {
    Text,
    Json,
}

impl Settings {
    pub(crate) fn from_env(command: Command) -> Result<Self, Error> {
        let log = match env::var("ORDERS_LOG").as_deref() {
            Ok("json") => Log::Json,
            _ => Log::Text,
        };
        Ok(Self {
            command,
            amqp_url: text("AMQP_URL", "amqp://127.0.0.1:5672/%2f"),
            store_url: text("STORE_URL", "sqlite:orders.db"),
            queue: text("ORDERS_QUEUE", "orders"),
            prefetch: number("PREFETCH")?.unwrap_or(Self::PREFETCH),
            work: Duration::from_millis(number("WORK_MS")?.unwrap_or_default()),
            lease: number("LEASE_MS")?.map(Duration::from_millis),
            worker: text("WORKER_NAME", &format!("worker-{}", std::process::id())),
            log,
        })
    }

    const PREFETCH: u16 = 64;
}

fn text(name: &str, default: &str) -> String {
    env::var(name).unwrap_or_else(|_| default.to_owned())
}

fn number<T: FromStr>(name: &str) -> Result<Option<T>, Error> {
    let Ok(text) = env::var(name) else {
        return Ok(None);
    };
    let wrong = |_| format!("{name}: `{text}` is not a number in range").into();
    text.parse().map(Some).map_err(wrong)
}
