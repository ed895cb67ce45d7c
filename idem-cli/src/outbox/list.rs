//! `idem outbox list`

use idem_amqp::outbox::{OutboxEntry, OutboxListing, SharedOutbox};

use super::message::{age, as_json, due};
use crate::{
    error::Error,
    output::{Output, printable, short},
};

/// How many messages are asked for at once; people see a table of each.
const PAGE: usize = 1000;
/// How much of an error is listed.
const WIDEST: usize = 80;

/// Page by page, as the store tells them.
pub(super) async fn run(
    outbox: &SharedOutbox,
    output: Output,
    mut listing: OutboxListing,
    limit: Option<usize>,
) -> Result<(), Error> {
    let mut left = limit.unwrap_or(usize::MAX);
    let mut found = 0_usize;
    while left > 0 {
        let most = left.min(PAGE);
        listing.limit = u32::try_from(most).unwrap_or(u32::MAX);
        let page = outbox.list(&listing).await?;
        print(output, &page)?;
        left -= page.len();
        found += page.len();
        if page.len() < most {
            break;
        }
        listing.after = page.last().map(|entry| entry.id);
    }
    output.line(match found {
        1 => "1 message".to_owned(),
        messages => format!("{messages} messages"),
    })?;
    Ok(())
}

fn print(output: Output, entries: &[OutboxEntry]) -> Result<(), Error> {
    for entry in entries {
        output.object(&as_json(entry))?;
    }
    if entries.is_empty() {
        return Ok(());
    }
    let rows: Vec<_> = entries.iter().map(row).collect();
    let headings = [
        "ID",
        "STATE",
        "DUE",
        "AGE",
        "ATTEMPTS",
        "TARGET",
        "MESSAGE ID",
        "ERROR",
    ];
    output.table(headings, &rows)?;
    Ok(())
}

fn row(entry: &OutboxEntry) -> [String; 8] {
    [
        entry.id.to_string(),
        entry.state.as_str().to_owned(),
        due(entry).unwrap_or_default(),
        age(entry),
        entry.attempts.to_string(),
        printable(&entry.target),
        printable(&entry.message_id),
        short(entry.error.as_deref().unwrap_or_default(), WIDEST),
    ]
}
