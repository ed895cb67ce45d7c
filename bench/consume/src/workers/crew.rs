//! The processes: begin together, and are told to end when all messages are settled.

use std::{env, process::Stdio};

use bench_orders::Options;
use tokio::{
    io::{AsyncBufReadExt as _, AsyncWriteExt as _, BufReader, Lines},
    process::{Child, ChildStdin, ChildStdout, Command},
    sync::mpsc,
    task::JoinSet,
};

use crate::{
    Result,
    work::{Share, Told},
};

#[derive(Debug)]
pub(super) struct Crew(Vec<Worker>);

#[derive(Debug)]
struct Worker {
    process: Child,
    orders: ChildStdin,
    told: Lines<BufReader<ChildStdout>>,
}

impl Crew {
    pub(super) fn hire(options: &Options, workers: usize) -> Result<Self> {
        let hire = |_| Worker::start(options);
        (0..workers).map(hire).collect::<Result<_>>().map(Self)
    }

    /// Works until so many messages are settled, and says what each process has done.
    pub(super) async fn work(mut self, messages: usize) -> Result<Vec<Share>> {
        for worker in &mut self.0 {
            let told = worker.next().await?;
            let Told::Ready = told else {
                return Err(unexpected(&told));
            };
        }
        for worker in &mut self.0 {
            worker.orders.write_all(b"begin\n").await?;
        }
        for worker in &mut self.0 {
            let told = worker.next().await?;
            let Told::Consuming = told else {
                return Err(unexpected(&told));
            };
        }
        let (progress, mut settled) = mpsc::unbounded_channel();
        let mut orders = Vec::new();
        let mut ends = JoinSet::new();
        for worker in self.0 {
            orders.push(worker.orders);
            ends.spawn(last_words(worker.process, worker.told, progress.clone()));
        }
        drop(progress);
        let mut done = 0;
        while done < messages {
            // None of them is left if one could not be understood, or has gone.
            let Some(more) = settled.recv().await else {
                break;
            };
            done += more;
        }
        drop(orders);
        let mut shares = Vec::new();
        while let Some(share) = ends.join_next().await {
            shares.push(share??);
        }
        Ok(shares)
    }
}

impl Worker {
    fn start(options: &Options) -> Result<Self> {
        let mut process = Command::new(env::current_exe()?)
            .arg("work")
            .args(arguments(options))
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .kill_on_drop(true)
            .spawn()?;
        let orders = process.stdin.take().expect("stdin is piped");
        let told = process.stdout.take().expect("stdout is piped");
        Ok(Self {
            process,
            orders,
            told: BufReader::new(told).lines(),
        })
    }

    async fn next(&mut self) -> Result<Told> {
        next(&mut self.told).await
    }
}

/// Passes on how many more messages are settled, until the process has ended.
async fn last_words(
    mut process: Child,
    mut told: Lines<BufReader<ChildStdout>>,
    progress: mpsc::UnboundedSender<usize>,
) -> Result<Share> {
    let mut before = 0;
    let share = loop {
        match next(&mut told).await? {
            Told::Settled(settled) => {
                let _ = progress.send(settled - before);
                before = settled;
            }
            Told::Share(share) => break share,
            other => return Err(unexpected(&other)),
        }
    };
    let status = process.wait().await?;
    if !status.success() {
        return Err(format!("a worker ended with {status}").into());
    }
    Ok(share)
}

async fn next(told: &mut Lines<BufReader<ChildStdout>>) -> Result<Told> {
    let line = told.next_line().await?;
    let line = line.ok_or("a worker ended before it was told to")?;
    Ok(serde_json::from_str(&line)?)
}

fn unexpected(told: &Told) -> crate::Error {
    format!("a worker told {told:?}, which is not its turn").into()
}

/// The options as they are written on a command line.
fn arguments(options: &Options) -> Vec<String> {
    let place = &options.place;
    let mut arguments = vec![
        format!("--amqp-url={}", place.amqp_url),
        format!("--queue={}", place.queue),
        format!("--messages={}", place.messages),
        format!("--duplicates={}", place.duplicates),
        format!("--prefetch={}", options.prefetch),
        format!("--contestant={}", options.contestant.name()),
    ];
    let url = options.store_url.iter();
    arguments.extend(url.map(|url| format!("--store-url={url}")));
    arguments
}
