//! Stream: postings, some of them repeated, some poisonous, that two services book from the partitions of a stream, or of
//! a topic of Kafka, into balances. One of them joins later, so that partitions move; both are killed by turns; and they
//! read all once more from offset 0.

mod log;
mod report;

use std::time::{Duration, Instant};

use anyhow::{Result, ensure};
use idem_amqp::{AnyStore, store::StreamStore as _};
use serde_json::{Value, json};
use tokio::{
    sync::mpsc::{self, UnboundedReceiver, UnboundedSender},
    task::JoinHandle,
    time::timeout,
};

use self::{
    log::{Log, PARTITIONS, Source},
    report::{Posting, Report, Settled, Tally},
};
use crate::{
    program::{Output, Program},
    run::Run,
    servers::{Store, StoreKind},
};

/// How long nothing may be settled before the demonstration counts as stuck: longer than a service waits for the stream
/// of one that was killed.
const PATIENCE: Duration = Duration::from_mins(1);
const LOOK_EVERY: Duration = Duration::from_millis(250);
/// One of so many postings is published twice.
const REPEATED: usize = 3;
/// Beside one of so many postings is one that nobody can read.
const POISON: usize = 100;

/// What to demonstrate.
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct Options {
    /// How many postings
    #[arg(long, default_value_t = 1000, value_parser = clap::value_parser!(u32).range(1..=999_999))]
    postings: u32,
    /// How often a service is killed
    #[arg(long, default_value_t = 2)]
    kills: u32,
    /// Where the services write: sqlite or postgres
    #[arg(long, value_enum, default_value_t = StoreKind::Sqlite)]
    store: StoreKind,
    /// Where the postings come from
    #[arg(long, value_enum, default_value_t = Source::Rabbitmq)]
    source: Source,
}

/// Prints what happened and, last, one line of figures.
pub(crate) async fn show(options: &Options) -> Result<()> {
    ensure!(
        options.store != StoreKind::Redis,
        "a posting commits together with its record, which Redis cannot: choose `--store sqlite` or `--store postgres`"
    );
    let store = Store::open(options.store)?;
    let mut run = Run::new(store.url.clone())?;
    let log = Log::open(options.source, &mut run).await?;
    let names = run.names(options.postings);
    let postings: Vec<_> = (1..)
        .zip(&names)
        .map(|(number, id)| Posting::new(run.name(), number, id))
        .collect();
    let (sender, events) = mpsc::unbounded_channel();
    let mut show = Show {
        run: &run,
        log,
        tally: Tally::default(),
        dead: 0,
        last: Instant::now(),
        sender,
        events,
    };
    let end = show.perform(options, &postings).await;
    if end.is_err() {
        println!("{}", run.last_words());
    }
    let Show { tally, dead, .. } = show;
    let ledger = match run.ledger("ledger").await {
        Err(unreadable) => return end.and(Err(unreadable)),
        Ok(ledger) => ledger,
    };
    let poison = postings.len() / POISON;
    let report = Report::new(&postings, (poison, dead), &tally, ledger);
    print!("{report}");
    end?;
    report.verdict()
}

struct Show<'a> {
    run: &'a Run,
    log: Log,
    tally: Tally,
    /// Dead letters.
    dead: u32,
    /// When something was settled.
    last: Instant,
    sender: UnboundedSender<(usize, Settled)>,
    /// With the place of the service that said it.
    events: UnboundedReceiver<(usize, Settled)>,
}

/// The service, and the task that listens to it.
type Service = (Program, JoinHandle<()>);

impl Show<'_> {
    /// The whole of it, until the stream was read twice and the service has stopped.
    async fn perform(&mut self, options: &Options, postings: &[Posting]) -> Result<()> {
        let first = self.start(0).await?;
        self.log.until_declared(PATIENCE).await?;
        let messages = messages(postings);
        let count = messages.len() as u64;
        let publishing = tokio::spawn(self.log.publish(messages));
        while self.tally.booked() == 0 {
            self.hear().await?;
        }
        println!("book-2 joins book-1: they share {PARTITIONS} partitions");
        let mut services = vec![first, self.start(1).await?];
        let kills = 1..=u64::from(options.kills);
        for (kill, place) in kills.zip([0, 1].into_iter().cycle()) {
            let share = postings.len() as u64 * kill / (u64::from(options.kills) + 1);
            while self.tally.booked() < share {
                self.hear().await?;
            }
            let (booked, name) = (self.tally.booked(), name(place));
            println!("kill -9 {name} with {booked} postings booked; starting it again");
            services.remove(place).0.kill().await?;
            services.insert(place, self.start(place).await?);
        }
        publishing.await??;
        self.until_read(count).await?;
        self.stop(services).await?;
        let [first, second] = self.tally.said();
        println!("{count} messages are read: {first} by book-1, {second} by book-2");
        println!("reading them again from offset 0");
        let store = self.store().await?;
        for mark in self.log.marks()? {
            store.set_mark(&mark, Some(0)).await?;
        }
        let book = self.start(0).await?;
        self.until_read(count).await?;
        self.stop([book]).await?;
        self.dead = self.log.dead().await?;
        ensure!(
            second > 0,
            "book-2 was given no partition before all was read"
        );
        Ok(())
    }

    async fn start(&self, place: usize) -> Result<Service> {
        let mut guarded = self.run.guarded("ledger")?;
        guarded.arg("book");
        let (program, output) = Program::start(guarded, name(place)).await?;
        let listening = listen(place, output, self.sender.clone());
        Ok((program, tokio::spawn(listening)))
    }

    async fn stop(&mut self, services: impl IntoIterator<Item = Service>) -> Result<()> {
        for (program, listening) in services {
            program.ask_to_stop()?;
            program.until_ended().await?;
            listening.await?;
        }
        while let Ok((place, settled)) = self.events.try_recv() {
            self.tally.count(place, settled);
        }
        Ok(())
    }

    async fn store(&self) -> Result<AnyStore> {
        Ok(AnyStore::connect(self.run.store_url()).await?)
    }

    /// The marks have passed so many messages: all are booked, dropped as duplicates, or dead letters.
    async fn until_read(&mut self, messages: u64) -> Result<()> {
        let (store, keys) = (self.store().await?, self.log.marks()?);
        loop {
            let looked = Instant::now();
            while looked.elapsed() < LOOK_EVERY {
                self.hear().await?;
            }
            let mut read = 0;
            for key in &keys {
                let state = store.look_at_stream(key).await?;
                read += state.and_then(|state| state.mark).unwrap_or(0);
            }
            if read >= messages {
                return Ok(());
            }
        }
    }

    /// Waits until something is settled, but not for long.
    async fn hear(&mut self) -> Result<()> {
        if let Ok(settled) = timeout(LOOK_EVERY, self.events.recv()).await {
            let (place, settled) = settled.expect("we hold a sender");
            self.tally.count(place, settled);
            self.last = Instant::now();
        }
        let booked = self.tally.booked();
        ensure!(
            self.last.elapsed() < PATIENCE,
            "stuck: {booked} postings are booked, and nothing was settled for {PATIENCE:?}"
        );
        Ok(())
    }
}

fn name(place: usize) -> &'static str {
    ["book-1", "book-2"][place]
}

/// Postings in their order, with repeated and poisonous ones between them, each with its partition: those of an account
/// are in the same.
fn messages(postings: &[Posting]) -> Vec<(usize, Value)> {
    let mut messages = Vec::new();
    for (number, posting) in (1..).zip(postings) {
        let (partition, message) = (posting.account_number() % PARTITIONS, json!(posting));
        if number % REPEATED == 0 {
            messages.push((partition, message.clone()));
        }
        messages.push((partition, message));
        if number % POISON == 0 {
            messages.push((partition, json!("no posting")));
        }
    }
    messages
}

async fn listen(place: usize, mut output: Output, sender: UnboundedSender<(usize, Settled)>) {
    while let Ok(Some(line)) = output.next_line().await {
        if let Some(settled) = Settled::read(&line) {
            // Nobody listens any more when the demonstration is over.
            let _ = sender.send((place, settled));
        }
    }
}
