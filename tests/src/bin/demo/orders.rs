//! Orders: two workers, a publisher, the murder of a worker, and the wait for the end.

mod progress;
mod report;
mod tally;

use std::{
    process::Stdio,
    time::{Duration, Instant},
};

use anyhow::{Context as _, Result, anyhow, bail, ensure};
use serde::Deserialize;
use tokio::{
    io::{AsyncBufReadExt as _, BufReader},
    sync::mpsc::{self, UnboundedReceiver, UnboundedSender},
    task::block_in_place,
    time::timeout,
};

use self::{
    progress::Progress,
    report::Report,
    tally::{Settled, Tally},
};
use crate::{
    program::Program,
    run::Run,
    servers::{Broker, Store, StoreKind},
};

/// How long nothing may come to an end before the demonstration counts as stuck.
const PATIENCE: Duration = Duration::from_mins(1);
const LOOK_EVERY: Duration = Duration::from_millis(250);
/// How often workers are started once more for messages that were still in the queue.
const ENCORES: usize = 3;
/// Short, so that what a killed worker held is free again soon.
const LEASE: Duration = Duration::from_secs(3);
/// Long enough for a worker to be killed with work in its hands.
const WORK_MS: u64 = 10;

/// What to demonstrate.
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct Options {
    /// How many orders
    #[arg(long, default_value_t = 1000, value_parser = clap::value_parser!(u32).range(1..))]
    orders: u32,
    /// How often each is published
    #[arg(long, default_value_t = 4, value_parser = clap::value_parser!(u32).range(1..))]
    copies: u32,
    /// Where the workers remember what they have done
    #[arg(long, value_enum, default_value_t = StoreKind::Sqlite)]
    store: StoreKind,
}

/// Prints what happened and, last, one line of figures.
pub(crate) async fn show(options: &Options) -> Result<()> {
    let store = Store::open(options.store)?;
    let broker = Broker::open()?;
    let mut run = Run::new(store.url.clone())?;
    // A queue of this run alone: the broker may be one with other things on it.
    run.tell("AMQP_URL", broker.url.clone());
    run.tell("ORDERS_QUEUE", queue(&run));
    run.tell("ORDERS_LOG", "json".to_owned());
    run.tell("WORK_MS", WORK_MS.to_string());
    run.tell("LEASE_MS", LEASE.as_millis().to_string());
    let published = u64::from(options.orders) * u64::from(options.copies);
    let mut show = Show::new(&run, &broker, published);
    let end = show.perform(options).await;
    show.workers.clear();
    show.progress.clear();
    if end.is_err() {
        println!("{}", run.last_words());
    }
    let ledger = match run.ledger("order-worker").await {
        Err(unreadable) => return end.and(Err(unreadable)),
        Ok(ledger) => ledger,
    };
    let orders = run.names(options.orders);
    let delivered = if end.is_ok() { published } else { 0 };
    let report = Report::new(&orders, options.copies, delivered, &show.tally, ledger);
    print!("{report}");
    end?;
    report.verdict()
}

fn queue(run: &Run) -> String {
    format!("orders.{}", run.name())
}

/// What the programs tell us while they run.
#[derive(Debug)]
enum Event {
    Settled(Settled),
    WorkerEnded(i32),
    Published(u64),
    PublisherEnded(Result<()>),
}

#[derive(Clone, Copy, Debug)]
enum Goal {
    HalfIsSettled,
    NothingIsLeft,
}

#[derive(Debug)]
struct Show<'a> {
    run: &'a Run,
    broker: &'a Broker,
    to_publish: u64,
    published: u64,
    everything_published: bool,
    workers: Vec<Program>,
    /// How many workers print.
    talking: usize,
    tally: Tally,
    progress: Progress,
    last_end: Instant,
    sender: UnboundedSender<Event>,
    events: UnboundedReceiver<Event>,
}

impl<'a> Show<'a> {
    fn new(run: &'a Run, broker: &'a Broker, to_publish: u64) -> Self {
        let (sender, events) = mpsc::unbounded_channel();
        Self {
            run,
            broker,
            to_publish,
            published: 0,
            everything_published: false,
            workers: Vec::new(),
            talking: 0,
            tally: Tally::default(),
            progress: Progress::new(to_publish),
            last_end: Instant::now(),
            sender,
            events,
        }
    }

    /// The whole of it, until nothing is left to do and the workers have stopped.
    async fn perform(&mut self, options: &Options) -> Result<()> {
        self.start_workers().await?;
        self.start_publisher(options)?;
        self.until(Goal::HalfIsSettled).await?;
        self.kill_one_and_start_it_again().await?;
        self.until(Goal::NothingIsLeft).await?;
        self.stop_workers().await?;
        self.play_encores().await
    }

    async fn start_workers(&mut self) -> Result<()> {
        self.start_worker("worker-1").await?;
        self.start_worker("worker-2").await
    }

    async fn start_worker(&mut self, name: &str) -> Result<()> {
        let mut guarded = self.run.guarded("order-worker")?;
        guarded.env("WORKER_NAME", name);
        let (worker, mut output) = Program::start(guarded, name).await?;
        let (pid, events) = (worker.pid(), self.sender.clone());
        tokio::spawn(async move {
            while let Ok(Some(line)) = output.next_line().await {
                if let Ok(settled) = serde_json::from_str(&line) {
                    // Nobody listens any more when the demonstration is over.
                    let _ = events.send(Event::Settled(settled));
                }
            }
            let _ = events.send(Event::WorkerEnded(pid));
        });
        self.talking += 1;
        self.workers.push(worker);
        Ok(())
    }

    fn start_publisher(&self, options: &Options) -> Result<()> {
        let mut publisher = self.run.command("publish-orders")?;
        publisher.args(["--orders", &options.orders.to_string()]);
        publisher.args(["--copies", &options.copies.to_string()]);
        publisher.args(["--seed", &fastrand::u32(..).to_string()]);
        publisher.args(["--run", self.run.name()]);
        publisher
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .kill_on_drop(true);
        let mut publisher = publisher.spawn().context("cannot start publish-orders")?;
        let events = self.sender.clone();
        tokio::spawn(async move {
            #[derive(Deserialize)]
            struct Said {
                published: u64,
            }
            let output = publisher.stdout.take().expect("it is piped");
            let mut lines = BufReader::new(output).lines();
            while let Ok(Some(line)) = lines.next_line().await {
                if let Ok(Said { published }) = serde_json::from_str(&line) {
                    let _ = events.send(Event::Published(published));
                }
            }
            let end = match publisher.wait_with_output().await {
                Ok(end) if end.status.success() => Ok(()),
                Ok(end) => Err(anyhow!(
                    "`publish-orders` failed ({})\n{}",
                    end.status,
                    String::from_utf8_lossy(&end.stderr).trim()
                )),
                Err(error) => Err(error.into()),
            };
            let _ = events.send(Event::PublisherEnded(end));
        });
        Ok(())
    }

    async fn kill_one_and_start_it_again(&mut self) -> Result<()> {
        let victim = self.workers.remove(0);
        let (name, pid) = (victim.name().to_owned(), victim.pid());
        victim.kill().await?;
        let ended = self.tally.ended();
        self.progress.say(&format!(
            "kill -9 {name} (process {pid}) with {ended} messages settled; starting it again"
        ));
        self.start_worker(&name).await
    }

    /// Stops the workers; each must end well. What they still print is counted.
    async fn stop_workers(&mut self) -> Result<()> {
        let workers = std::mem::take(&mut self.workers);
        workers.iter().try_for_each(Program::ask_to_stop)?;
        for worker in workers {
            worker.until_ended().await?;
        }
        while self.talking > 0 {
            let event = timeout(PATIENCE, self.events.recv()).await?;
            self.note(event.expect("we hold a sender"))?;
        }
        Ok(())
    }

    /// What the workers gave back when they stopped is done by the next ones.
    async fn play_encores(&mut self) -> Result<()> {
        for _ in 0..ENCORES {
            let ready = self.ready().await?;
            if ready == 0 {
                return Ok(());
            }
            self.progress.say(&format!(
                "{ready} messages are still in the queue: starting the workers once more"
            ));
            self.last_end = Instant::now();
            self.start_workers().await?;
            self.until(Goal::NothingIsLeft).await?;
            self.stop_workers().await?;
        }
        let ready = self.ready().await?;
        ensure!(ready == 0, "stuck: {ready} messages stay in the queue");
        Ok(())
    }

    async fn until(&mut self, goal: Goal) -> Result<()> {
        let mut last_look = Instant::now();
        loop {
            if let Ok(event) = timeout(LOOK_EVERY, self.events.recv()).await {
                self.note(event.expect("we hold a sender"))?;
            }
            self.progress.show(self.published, &self.tally);
            if last_look.elapsed() >= LOOK_EVERY {
                last_look = Instant::now();
                if self.has_reached(goal).await? {
                    return Ok(());
                }
            }
            if self.last_end.elapsed() > PATIENCE {
                bail!(
                    "stuck: {} of {} messages are settled, and none was for {PATIENCE:?} ({goal:?} is awaited)",
                    self.tally.ended(),
                    self.to_publish
                );
            }
        }
    }

    async fn has_reached(&self, goal: Goal) -> Result<bool> {
        match goal {
            Goal::HalfIsSettled => Ok(self.tally.ended() >= self.to_publish / 2),
            Goal::NothingIsLeft => Ok(self.everything_published && self.nothing_is_left().await?),
        }
    }

    async fn nothing_is_left(&self) -> Result<bool> {
        if let Some(server) = &self.broker.private {
            let queues = block_in_place(|| server.list_queues("/"))?;
            let queue = queue(self.run);
            let mut states = queues
                .iter()
                .filter(|state| state.name == queue || state.name.starts_with("idem.retry."));
            let are_empty = states.all(|state| state.ready == 0 && state.unacked == 0);
            // Counts are a little old: a message that goes to the ladder, or comes back, may be in none of them.
            return Ok(are_empty && self.last_end.elapsed() >= Duration::from_millis(500));
        }
        // It is not known what the workers still hold: that takes silence, for longer than a lease if some messages are
        // missing, because what the killed worker held is done after that.
        let all_are_accounted_for = self.tally.ended() >= self.to_publish;
        let silence = if all_are_accounted_for {
            Duration::from_secs(1)
        } else {
            2 * LEASE
        };
        Ok(self.last_end.elapsed() >= silence && self.ready().await? == 0)
    }

    fn note(&mut self, event: Event) -> Result<()> {
        match event {
            Event::Settled(settled) => {
                let before = self.tally.ended();
                self.tally.count(&settled);
                if self.tally.ended() > before {
                    self.last_end = Instant::now();
                }
            }
            Event::WorkerEnded(pid) => {
                self.talking -= 1;
                if let Some(worker) = self.workers.iter().find(|worker| worker.pid() == pid) {
                    bail!("{} ended by itself", worker.name());
                }
            }
            Event::Published(published) => self.published = published,
            Event::PublisherEnded(end) => {
                end?;
                self.everything_published = true;
            }
        }
        Ok(())
    }

    async fn ready(&self) -> Result<u32> {
        self.broker.ready(&queue(self.run)).await
    }
}
