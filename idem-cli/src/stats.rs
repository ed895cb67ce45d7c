//! `idem stats`: how many keys there are, and how many messages of the outbox.

use idem_amqp::{
    operator::{OperatorStore as _, ScopeCounts},
    outbox::OutboxCounts,
};
use serde_json::json;

use crate::{
    arguments::StoreArguments,
    error::Error,
    output::Output,
    span::words,
    store::{Tables, open},
};

pub(crate) async fn run(store: &StoreArguments, output: &Output) -> Result<(), Error> {
    let store = open(store, Tables::MustExist).await?;
    let counts = store.counts().await?;
    for scope in &counts {
        output.object(&json!({
            "scope": scope.scope,
            "in_progress": scope.in_progress,
            "overdue": scope.overdue,
            "completed": scope.completed,
            "failed": scope.failed,
            "quarantined": scope.quarantined,
            "forgotten": scope.forgotten,
        }))?;
    }
    let rows: Vec<_> = counts.iter().map(row).collect();
    let headings = [
        "SCOPE",
        "IN PROGRESS",
        "OVERDUE",
        "COMPLETED",
        "FAILED",
        "QUARANTINED",
        "TO BE PURGED",
    ];
    output.table(headings, &rows)?;
    if let Some(outbox) = store.outbox() {
        tell(*output, &outbox.counts().await?)?;
    }
    Ok(())
}

fn tell(output: Output, outbox: &OutboxCounts) -> Result<(), Error> {
    output.object(&json!({"outbox": {
        "waiting": outbox.waiting,
        "later": outbox.later,
        "dead": outbox.dead,
        "oldest": outbox.oldest.as_secs_f64(),
    }}))?;
    output.line("")?;
    let row = [
        outbox.waiting.to_string(),
        outbox.later.to_string(),
        outbox.dead.to_string(),
        words(outbox.oldest),
    ];
    output.table(
        ["OUTBOX: WAITING", "LATER", "DEAD", "OLDEST DUE FOR"],
        &[row],
    )?;
    Ok(())
}

fn row(counts: &ScopeCounts) -> [String; 7] {
    [
        counts.scope.clone(),
        counts.in_progress.to_string(),
        counts.overdue.to_string(),
        counts.completed.to_string(),
        counts.failed.to_string(),
        counts.quarantined.to_string(),
        counts.forgotten.to_string(),
    ]
}
