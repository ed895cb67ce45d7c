//! Leases: a client that numbers its requests, a server that grants each once, and between them a proxy that drops
//! replies, some by cutting the client off. Either program is killed once.

mod report;

use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, bail, ensure};
use idem_tests::proxy::Proxy;
use lapin::uri::{AMQPScheme, AMQPUri};
use tokio::{
    sync::mpsc::{self, UnboundedReceiver, UnboundedSender},
    time::timeout,
};

use self::report::{Answer, Answers, Report};
use crate::{
    program::Program,
    run::Run,
    servers::{Broker, Store, StoreKind},
};

/// How long nothing may be answered before the demonstration counts as stuck.
const PATIENCE: Duration = Duration::from_mins(1);
/// Short, because many replies never come.
const TIMEOUT_MS: &str = "300";

/// What to demonstrate with leases.
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct Options {
    /// How many leases are asked for
    #[arg(long, default_value_t = 200, value_parser = clap::value_parser!(u32).range(1..=999_999))]
    requests: u32,
    /// Which share of the replies is dropped on its way to the client, 0 to 0.9
    #[arg(long, value_name = "SHARE", default_value_t = 0.3, value_parser = share)]
    drop_replies: f64,
    /// Where the server remembers what it has done: sqlite or postgres
    #[arg(long, value_enum, default_value_t = StoreKind::Sqlite)]
    store: StoreKind,
}

fn share(text: &str) -> Result<f64, String> {
    let share: f64 = text.parse().map_err(|_| "it is not a number".to_owned())?;
    if (0.0..=0.9).contains(&share) {
        Ok(share)
    } else {
        Err("a share is 0 to 0.9: 0.3 drops three replies of ten".to_owned())
    }
}

/// Prints what happened and, last, one line of figures.
pub(crate) async fn show(options: &Options) -> Result<()> {
    ensure!(
        options.store != StoreKind::Redis,
        "the lease server commits a lease together with its answer, which Redis cannot: choose `--store sqlite` or `--store postgres`"
    );
    let store = Store::open(options.store)?;
    let broker = Broker::open()?;
    let address = address(&broker.url)?;
    let proxy = Proxy::losing_deliveries(address.port, options.drop_replies).await;
    let proxied = format!("127.0.0.1:{}", proxy.port());
    let mut run = Run::new(store.url.clone())?;
    run.tell("LEASES_QUEUE", format!("leases.{}", run.name()));
    let (sender, events) = mpsc::unbounded_channel();
    let mut show = Show {
        run: &run,
        server_url: &broker.url,
        client_url: broker.url.replacen(&address.text, &proxied, 1),
        requests: options.requests,
        serving: false,
        answers: Answers::default(),
        sender,
        events,
    };
    let end = show.perform().await;
    if end.is_err() {
        println!("{}", run.last_words());
    }
    let answers = show.answers;
    let ledger = match run.ledger("lease-server").await {
        Err(unreadable) => return end.and(Err(unreadable)),
        Ok(ledger) => ledger,
    };
    let deliveries = proxy.deliveries().expect("it loses some").counts();
    let report = Report::new(&run.names(options.requests), &answers, ledger, deliveries);
    print!("{report}");
    end?;
    report.verdict()
}

/// Where a broker of this machine is, in its URL.
#[derive(Debug)]
struct Address {
    text: String,
    port: u16,
}

fn address(url: &str) -> Result<Address> {
    // Not a list of several.
    let one = Some(url).filter(|url| !url.contains(','));
    let uri: Option<AMQPUri> = one.and_then(|url| url.parse().ok());
    let here = uri.filter(|uri| uri.scheme == AMQPScheme::AMQP).map(|uri| {
        let port = uri.authority.port;
        let text = format!("{}:{port}", uri.authority.host);
        (uri.authority.host, Address { text, port })
    });
    match here {
        Some((host, address))
            if ["127.0.0.1", "localhost"].contains(&host.as_str())
                && url.contains(&address.text) =>
        {
            Ok(address)
        }
        _ => bail!(
            "AMQP_URL is `{url}`, and replies can be dropped on the way from `amqp://127.0.0.1:PORT/…` only: unset it for a private broker"
        ),
    }
}

/// What the programs tell us while they run.
#[derive(Debug)]
enum Event {
    /// The server serves.
    Ready,
    Answered(Answer),
}

#[derive(Debug)]
struct Show<'a> {
    run: &'a Run,
    server_url: &'a str,
    client_url: String,
    requests: u32,
    serving: bool,
    answers: Answers,
    sender: UnboundedSender<Event>,
    events: UnboundedReceiver<Event>,
}

impl Show<'_> {
    /// The whole of it, until every request was answered and the programs have ended.
    async fn perform(&mut self) -> Result<()> {
        let requests = self.requests as usize;
        let mut server = self.start_server().await?;
        let mut client = self.start_client().await?;
        self.until(|show| show.answers.done || show.answers.replies() >= requests / 3)
            .await?;
        if !self.answers.done {
            self.kill(client, "the client").await?;
            client = self.start_client().await?;
        }
        self.until(|show| show.answers.done || show.answers.replies() >= requests * 2 / 3)
            .await?;
        if !self.answers.done {
            self.kill(server, "the server").await?;
            server = self.start_server().await?;
        }
        self.until(|show| show.answers.done).await?;
        client.until_ended().await?;
        server.ask_to_stop()?;
        server.until_ended().await
    }

    async fn kill(&self, victim: Program, name: &str) -> Result<()> {
        let answered = self.answers.replies();
        println!("kill -9 {name} with {answered} requests answered; starting it again");
        victim.kill().await
    }

    async fn start_server(&mut self) -> Result<Program> {
        let mut guarded = self.run.guarded("lease-server")?;
        guarded.env("AMQP_URL", self.server_url);
        self.serving = false;
        let (server, mut output) = Program::start(guarded, "lease-server").await?;
        let events = self.sender.clone();
        tokio::spawn(async move {
            while let Ok(Some(_)) = output.next_line().await {
                // Nobody listens any more when the demonstration is over.
                let _ = events.send(Event::Ready);
            }
        });
        self.until(|show| show.serving).await?;
        Ok(server)
    }

    async fn start_client(&self) -> Result<Program> {
        let run = self.run.name();
        let mut guarded = self.run.guarded("lease-client")?;
        guarded
            .env("AMQP_URL", &self.client_url)
            .args(["--json", "--requests", &self.requests.to_string()])
            .args(["--run", run, "--holder", run, "--timeout", TIMEOUT_MS])
            .arg("--session")
            .arg(self.run.file("client.session"));
        let (client, mut output) = Program::start(guarded, "lease-client").await?;
        let events = self.sender.clone();
        tokio::spawn(async move {
            while let Ok(Some(line)) = output.next_line().await {
                if let Ok(answer) = serde_json::from_str(&line) {
                    let _ = events.send(Event::Answered(answer));
                }
            }
        });
        Ok(client)
    }

    async fn until(&mut self, done: impl Fn(&Self) -> bool) -> Result<()> {
        let mut last = Instant::now();
        while !done(self) {
            let (answered, requests) = (self.answers.replies(), self.requests);
            let stuck = || {
                format!(
                    "stuck: {answered} of {requests} requests are answered, and none was for {PATIENCE:?}"
                )
            };
            let left = PATIENCE.saturating_sub(last.elapsed());
            match timeout(left, self.events.recv())
                .await
                .with_context(stuck)?
            {
                Some(Event::Answered(answer)) => {
                    self.answers.note(answer);
                    last = Instant::now();
                }
                _ => self.serving = true,
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_share_that_would_drop_everything_is_refused() {
        assert_eq!(share("0.3"), Ok(0.3));
        for text in ["1", "-0.1", "NaN", "a third"] {
            assert!(share(text).is_err(), "{text}");
        }
    }

    #[test]
    fn a_broker_of_this_machine_is_found_by_its_url() {
        for (url, expected) in [
            ("amqp://guest:guest@127.0.0.1:5673/%2f", "127.0.0.1:5673"),
            ("amqp://localhost:5672/vhost?heartbeat=5", "localhost:5672"),
        ] {
            assert_eq!(address(url).expect("it is here").text, expected);
        }
        for url in [
            "amqp://localhost/vhost",
            "amqps://localhost:5671/vhost",
            "amqp://broker:5672",
            "amqp://127.0.0.1:5672/%2f,amqp://127.0.0.1:5673/%2f",
        ] {
            address(url).expect_err(url);
        }
    }
}
