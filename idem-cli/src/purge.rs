//! `idem purge`: removes what the retention has ended for.

use idem_amqp::store::Purge as _;
use serde_json::json;

use crate::{
    arguments::StoreArguments,
    error::Error,
    output::Output,
    store::{Tables, open},
};

pub(crate) async fn run(store: &StoreArguments, output: &Output, batch: u32) -> Result<(), Error> {
    let store = open(store, Tables::MustExist).await?;
    if !store.is_purged() {
        output.line("this store forgets by itself: there is nothing to purge")?;
        output.object(&json!({"purged": 0}))?;
        return Ok(());
    }
    let mut purged = 0_u64;
    loop {
        let removed = store.purge(batch).await?;
        purged += u64::from(removed);
        if removed < batch {
            break;
        }
        output.line(format!("{purged} records removed so far"))?;
    }
    output.line(format!("{purged} records removed"))?;
    output.object(&json!({"purged": purged}))?;
    Ok(())
}
