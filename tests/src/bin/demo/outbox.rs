//! Outbox: a service that charges orders and publishes by its outbox what is to be shipped, and one that ships it. The
//! first is killed again and again.

mod report;

use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, ensure};
use idem_amqp::{AnyStore, outbox::SharedOutbox};
use tokio::{
    sync::mpsc::{self, UnboundedReceiver, UnboundedSender},
    task::JoinHandle,
    time::timeout,
};

use self::report::{Report, Settled, Tally};
use crate::{
    program::{Output, Program},
    run::Run,
    servers::{Broker, Store, StoreKind},
};

/// How long nothing may be settled before the demonstration counts as stuck: longer than a worker that was killed keeps
/// what it has committed.
const PATIENCE: Duration = Duration::from_mins(1);
const LOOK_EVERY: Duration = Duration::from_millis(250);
/// How often each order is published.
const COPIES: u32 = 2;

/// What to demonstrate.
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct Options {
    /// How many orders
    #[arg(long, default_value_t = 1000, value_parser = clap::value_parser!(u32).range(1..=999_999))]
    orders: u32,
    /// How often the service that charges is killed
    #[arg(long, default_value_t = 4)]
    kills: u32,
    /// Where both services write: sqlite or postgres
    #[arg(long, value_enum, default_value_t = StoreKind::Sqlite)]
    store: StoreKind,
}

/// Prints what happened and, last, one line of figures.
pub(crate) async fn show(options: &Options) -> Result<()> {
    ensure!(
        options.store != StoreKind::Redis,
        "an outbox commits together with what its handler writes, which Redis cannot: choose `--store sqlite` or `--store postgres`"
    );
    let store = Store::open(options.store)?;
    let broker = Broker::open()?;
    let mut run = Run::new(store.url.clone())?;
    let [orders, shipping] = ["orders", "shipping"].map(|queue| format!("{queue}.{}", run.name()));
    // Queues of this run alone: the broker may be one with other things on it.
    run.tell("AMQP_URL", broker.url.clone());
    run.tell("ORDERS_QUEUE", orders.clone());
    run.tell("SHIPPING_QUEUE", shipping.clone());
    let (sender, events) = mpsc::unbounded_channel();
    let mut show = Show {
        run: &run,
        broker: &broker,
        queues: [orders, shipping],
        tally: Tally::default(),
        last: Instant::now(),
        sender,
        events,
    };
    let end = show.perform(options).await;
    if end.is_err() {
        println!("{}", run.last_words());
    }
    let tally = show.tally;
    let ledger = match run.ledger("outbox").await {
        Err(unreadable) => return end.and(Err(unreadable)),
        Ok(ledger) => ledger,
    };
    let report = Report::new(&run.names(options.orders), &tally, ledger);
    print!("{report}");
    end?;
    report.verdict()
}

#[derive(Debug)]
struct Show<'a> {
    run: &'a Run,
    broker: &'a Broker,
    queues: [String; 2],
    tally: Tally,
    /// When something was settled.
    last: Instant,
    sender: UnboundedSender<Settled>,
    events: UnboundedReceiver<Settled>,
}

impl Show<'_> {
    /// The whole of it, until every event is shipped, none is left, and the services have stopped.
    async fn perform(&mut self, options: &Options) -> Result<()> {
        let orders = u64::from(options.orders);
        let publisher = self.start_publisher(options)?;
        let ship = self.start("ship").await?;
        let mut charge = self.start("charge").await?;
        for kill in 1..=u64::from(options.kills) {
            let share = orders * kill / (u64::from(options.kills) + 1);
            while self.tally.charged() < share {
                self.hear().await?;
            }
            let charged = self.tally.charged();
            println!("kill -9 charge with {charged} orders charged; starting it again");
            charge.0.kill().await?;
            charge = self.start("charge").await?;
        }
        publisher.await??;
        println!("what a killed service had committed leaves within half a minute");
        self.until_nothing_is_left(orders).await?;
        for (service, listening) in [charge, ship] {
            service.ask_to_stop()?;
            service.until_ended().await?;
            listening.await?;
        }
        while let Ok(settled) = self.events.try_recv() {
            self.tally.count(&settled);
        }
        Ok(())
    }

    /// A service, and the task that listens to it.
    async fn start(&self, service: &str) -> Result<(Program, JoinHandle<()>)> {
        let mut guarded = self.run.guarded("outbox")?;
        guarded.arg(service);
        let (program, output) = Program::start(guarded, service).await?;
        Ok((program, tokio::spawn(listen(output, self.sender.clone()))))
    }

    fn start_publisher(&self, options: &Options) -> Result<JoinHandle<Result<()>>> {
        let mut publisher = self.run.command("publish-orders")?;
        publisher.args(["--orders", &options.orders.to_string()]);
        publisher.args(["--copies", &COPIES.to_string()]);
        publisher.args(["--seed", &fastrand::u32(..).to_string()]);
        publisher
            .args(["--run", self.run.name()])
            .kill_on_drop(true);
        Ok(tokio::spawn(async move {
            let end = publisher.output().await?;
            let complaint = String::from_utf8_lossy(&end.stderr);
            ensure!(end.status.success(), "`publish-orders` failed: {complaint}");
            Ok(())
        }))
    }

    async fn outbox(&self) -> Result<SharedOutbox> {
        let store = AnyStore::connect(self.run.store_url()).await?;
        store.outbox().context("the store has an outbox")
    }

    /// Every order is charged, every event shipped, and nobody will publish one again.
    async fn nothing_is_left(&self, orders: u64, outbox: &SharedOutbox) -> Result<bool> {
        if self.tally.charged() < orders || self.tally.shipped() < orders {
            return Ok(false);
        }
        let counts = outbox.counts().await?;
        if counts.waiting + counts.dead > 0 {
            return Ok(false);
        }
        for queue in &self.queues {
            if self.broker.ready(queue).await? > 0 {
                return Ok(false);
            }
        }
        Ok(true)
    }

    async fn until_nothing_is_left(&mut self, orders: u64) -> Result<()> {
        let outbox = self.outbox().await?;
        loop {
            let looked = Instant::now();
            while looked.elapsed() < LOOK_EVERY {
                self.hear().await?;
            }
            if self.nothing_is_left(orders, &outbox).await? {
                return Ok(());
            }
        }
    }

    /// Waits until something is settled, but not for long.
    async fn hear(&mut self) -> Result<()> {
        if let Ok(settled) = timeout(LOOK_EVERY, self.events.recv()).await {
            self.tally.count(&settled.expect("we hold a sender"));
            self.last = Instant::now();
        }
        let (charged, shipped) = (self.tally.charged(), self.tally.shipped());
        ensure!(
            self.last.elapsed() < PATIENCE,
            "stuck: {charged} orders are charged, {shipped} are shipped, and nothing was settled for {PATIENCE:?}"
        );
        Ok(())
    }
}

async fn listen(mut output: Output, sender: UnboundedSender<Settled>) {
    while let Ok(Some(line)) = output.next_line().await {
        if let Some(settled) = Settled::read(&line) {
            // Nobody listens any more when the demonstration is over.
            let _ = sender.send(settled);
        }
    }
}
