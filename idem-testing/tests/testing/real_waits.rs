//! Handlers that wait for something real.

use std::{
    collections::BTreeSet,
    io::{Read as _, Write as _},
    net::{Ipv4Addr, SocketAddr, TcpListener},
    sync::{Arc, Mutex},
    thread,
    time::Duration,
};

use idem_core::{Failed, State, executor::ExecutionKind, idempotent};
use idem_testing::{Message, Setup, assert_idempotent};
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::TcpStream,
};

/// Far more than an answer takes on a busy machine, and less than a timeout.
const LONGEST: Duration = Duration::from_secs(20);

/// A gateway on a thread of its own, which answers after a while, and does the same for an order that it knows.
#[derive(Clone)]
struct Gateway {
    at: SocketAddr,
    told: Arc<Mutex<BTreeSet<u8>>>,
}

impl Gateway {
    fn start() -> Self {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let gateway = Self {
            at: listener.local_addr().unwrap(),
            told: Arc::default(),
        };
        let told = Arc::clone(&gateway.told);
        thread::spawn(move || {
            for link in listener.incoming() {
                let (Ok(mut link), mut order) = (link, [0]) else {
                    return;
                };
                // Whoever asked may have been dropped.
                if link.read_exact(&mut order).is_ok() {
                    told.lock().unwrap().insert(order[0]);
                    thread::sleep(Duration::from_millis(50));
                    let _ = link.write_all(&order);
                }
            }
        });
        gateway
    }
}

#[idempotent(key = "0", scope = "orders.notify", timeout = "5s")]
async fn notify((order,): (u8,), State(gateway): State<Gateway>) -> Result<u8, Failed> {
    let mut link = TcpStream::connect(gateway.at).await?;
    link.write_all(&[order]).await?;
    Ok(link.read_u8().await?)
}

#[tokio::test(start_paused = true)]
async fn the_clock_waits_for_a_handler_that_waits_for_something_real() {
    let message = Message::json(&(7,));
    let impatient = Setup::new(Gateway::start).handler::<notify>();
    let ended = impatient.deliver(&message).await;
    assert_eq!(ended.kind(), ExecutionKind::Failed);
    assert_eq!(ended.error().as_deref(), Some("timed out after 5s"));

    let harness = Setup::new(Gateway::start)
        .real_waits(LONGEST)
        .handler::<notify>();
    let ended = harness.deliver(&message).await;
    assert_eq!(ended.kind(), ExecutionKind::Executed);
    assert_idempotent(&harness, &message, async |run| {
        run.state().told.lock().unwrap().clone()
    })
    .await;
}
