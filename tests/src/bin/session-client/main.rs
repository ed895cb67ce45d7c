//! A client that keeps its session in a file and makes one call after the other, to be killed:
//! `session-client URL QUEUE FILE`.

use std::{env::args, error::Error};

use idem_amqp::{Client, session::FileSessionStorage};
use idem_tests::{journal::LIMIT, leases::CreateLease};

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn Error>> {
    let arguments: Vec<_> = args().skip(1).collect();
    let [url, queue, file] = arguments.as_slice() else {
        return Err("usage: session-client URL QUEUE FILE".into());
    };
    let client = Client::builder().queue(queue).timeout(LIMIT);
    let client = client.deadline(10 * LIMIT).connect(url.as_str()).await?;
    let storage = FileSessionStorage::open(file).await?;
    let session = client.session().resume_from(storage).await?;
    for number in 0_u64.. {
        let request = CreateLease::of(&format!("lease-{number}"));
        session.call(&request).await?;
    }
    Ok(())
}
