//! The publisher as a process.

use std::{
    io::{BufRead, BufReader, Read},
    process::{Child, Stdio},
    sync::mpsc::Sender,
    thread,
};

use serde::Deserialize;

use super::{Programs, show::Event};
use idem_servers::{Error, Result};

#[derive(Deserialize)]
struct Report {
    published: u64,
}

/// Starts publishing; what it reports, and how it ends, become events.
pub(crate) fn start(
    programs: &Programs,
    orders: u32,
    copies: u32,
    events: Sender<Event>,
) -> Result<()> {
    let publisher = programs
        .publisher()
        .args([
            "--orders",
            &orders.to_string(),
            "--copies",
            &copies.to_string(),
        ])
        .args([
            "--seed",
            &fastrand::u32(..).to_string(),
            "--run",
            programs.run(),
        ])
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .map_err(Error::io("start the publisher"))?;
    thread::spawn(move || {
        let end = listen(publisher, &events);
        let _ = events.send(Event::PublisherEnded(end));
    });
    Ok(())
}

fn listen(mut publisher: Child, events: &Sender<Event>) -> Result<()> {
    let output = BufReader::new(publisher.stdout.take().expect("stdout is piped"));
    for line in output.lines().map_while(std::result::Result::ok) {
        if let Ok(report) = serde_json::from_str::<Report>(&line) {
            let _ = events.send(Event::Published(report.published));
        }
    }
    let mut complaint = String::new();
    let _ = publisher
        .stderr
        .take()
        .expect("stderr is piped")
        .read_to_string(&mut complaint);
    let status = publisher
        .wait()
        .map_err(Error::io("wait for the publisher"))?;
    if status.success() {
        return Ok(());
    }
    Err(Error::Command {
        command: "publish-orders".to_owned(),
        status: status.to_string(),
        output: format!("\n{}", complaint.trim()),
    })
}
