//! `idem keys list`

use idem_amqp::{
    AnyStore,
    operator::{KeyRecord, Listing, OperatorStore as _},
};
use serde_json::json;

use super::record;
use crate::{
    error::Error,
    output::{Output, complain, short},
    span::words,
};

/// How many keys are asked for at once; people see a table of each.
const PAGE: usize = 1000;
/// How much of a last column is shown.
const WIDEST: usize = 80;

/// Page by page, as the store tells them.
pub(super) async fn run(
    store: &AnyStore,
    output: &Output,
    mut listing: Listing,
    limit: Option<usize>,
) -> Result<(), Error> {
    let mut left = limit.unwrap_or(usize::MAX);
    let mut found = 0_usize;
    while left > 0 {
        listing.limit = u32::try_from(left.min(PAGE)).unwrap_or(u32::MAX);
        let page = store.list(&listing).await?;
        let shown = &page.records[..page.records.len().min(left)];
        print(*output, shown)?;
        for name in &page.unreadable {
            complain(format_args!("the record of `{name}` cannot be read"));
            output.object(&json!({"unreadable": name}))?;
        }
        left -= shown.len();
        found += shown.len();
        match page.next {
            Some(next) => listing = listing.after(next),
            None => break,
        }
    }
    output.line(match found {
        1 => "1 key".to_owned(),
        keys => format!("{keys} keys"),
    })?;
    Ok(())
}

fn print(output: Output, records: &[KeyRecord]) -> Result<(), Error> {
    for record in records {
        output.object(&record::json(record))?;
    }
    if records.is_empty() {
        return Ok(());
    }
    let rows: Vec<_> = records.iter().map(row).collect();
    output.table(["KEY", "STATE", "ATTEMPTS", "AGE", ""], &rows)?;
    Ok(())
}

fn row(record: &KeyRecord) -> [String; 5] {
    [
        record.key.to_string(),
        record.state().to_string(),
        record.attempts.to_string(),
        words(record.age),
        short(&record::rest(record), WIDEST),
    ]
}
