//! Runs work on a store of one's own.
//!
//! ```sh
//! cargo run -p custom-store
//! ```

use custom_store::MapStore;
use idem_core::{Execution, Executor, Failed, Key, Policy};

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let executor = Executor::new(MapStore::new());
    for order in ["o-1", "o-2", "o-1"] {
        let key = Key::new("orders.charge", order)?;
        let charge = async |_| {
            println!("charging {order}");
            Ok::<_, Failed>(())
        };
        let ended: Execution<(), Failed> = executor.execute(key, &Policy::DEFAULT, charge).await;
        println!("{order}: {}", ended.kind());
    }
    Ok(())
}
