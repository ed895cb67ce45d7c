//! A client and a worker: what one asks again, the other does not do again.

use std::{sync::Arc, time::Duration};

use idem_amqp::{
    Client, MemoryStore, Refused, Worker,
    client::{CallError, ClientBuilder},
    executor::ExecutionKind as Kind,
    handler::Refusal,
    prelude::*,
};
use idem_tests::{
    bed::Bed,
    journal::{Journal, LIMIT, eventually, within},
    leases::{CreateLease, Lease, LeaseError},
    proxy::Proxy,
    running::Running,
};
use tokio::sync::Semaphore;

/// Grants leases, as long as the gate lets it.
#[derive(Debug, Clone)]
pub(crate) struct Desk {
    pub(crate) asked: Journal<String>,
    pub(crate) gate: Arc<Semaphore>,
}

impl Desk {
    pub(crate) fn open() -> Self {
        Self::with(1000)
    }

    pub(crate) fn shut() -> Self {
        Self::with(0)
    }

    pub(crate) fn with(permits: usize) -> Self {
        Self {
            asked: Journal::default(),
            gate: Arc::new(Semaphore::new(permits)),
        }
    }

    pub(crate) fn start(&self, bed: &Bed) -> Running {
        let worker = Worker::builder(MemoryStore::new()).state(self.clone());
        bed.start(worker.consume::<grant>(bed.queue().prefetch(64)))
    }
}

#[idempotent(key = message_id(), scope = "leases.grant")]
pub(crate) async fn grant(
    request: CreateLease,
    State(desk): State<Desk>,
) -> Result<Lease, Refused<LeaseError>> {
    let number = desk.asked.entries().len() as u64;
    desk.asked.write(request.name.clone());
    desk.gate.acquire().await?.forget();
    if request.name == "taken" {
        let by = "somebody".into();
        return Err(Refused::with(LeaseError::Taken { by }));
    }
    let name = request.name;
    Ok(Lease { name, number })
}

pub(crate) fn patient(bed: &Bed) -> ClientBuilder {
    let client = Client::builder().queue(bed.name());
    client.timeout(5 * LIMIT).deadline(5 * LIMIT)
}

/// A worker answers, and is asked again under the same key.
///
/// - does: brings what the worker answered before, refusals too; other content under that key is refused
#[tokio::test]
async fn a_client_gets_what_the_handler_returned_and_gets_it_again_under_its_key() {
    let bed = Bed::new().await;
    let desk = Desk::open();
    let worker = desk.start(&bed);
    let client = patient(&bed).connect(bed.url()).await.unwrap();
    for replayed in [false, true] {
        let call = client.call(&CreateLease::of("printer")).key("1");
        let replied = call.await.unwrap();
        let expected = Lease {
            name: "printer".into(),
            number: 0,
        };
        assert_eq!((replied.reply, replied.replayed), (expected, replayed));
        match client.call(&CreateLease::of("taken")).key("2").await {
            Err(CallError::Refused(LeaseError::Taken { by })) => assert_eq!(by, "somebody"),
            other => panic!("{other:?}"),
        }
    }
    match client.call(&CreateLease::of("scanner")).key("1").await {
        Err(CallError::Failed { code, .. }) => assert_eq!(code, Refusal::KEY_REUSED),
        other => panic!("{other:?}"),
    }
    assert_eq!(desk.asked.entries(), ["printer", "taken"]);
    let counts = client.counts();
    assert_eq!((counts.replies, counts.replayed), (5, 2), "{counts}");
    assert_eq!(bed.dead_letter().await.reason(), "key-reused");
    worker.stop().await;
    bed.assert_nothing_stuck().await;
}

/// A request is asked several times while its handler runs.
///
/// - does: has it handled once; ignores the other replies
#[tokio::test]
async fn a_request_that_is_asked_again_while_its_handler_runs_is_handled_once() {
    let bed = Bed::new().await;
    let desk = Desk::shut();
    let worker = desk.start(&bed);
    let client = patient(&bed).timeout(Duration::from_millis(100));
    let client = client.connect(bed.url()).await.unwrap();
    let call = client.call(&CreateLease::of("printer"));
    let call = tokio::spawn(call.into_future());
    eventually("it is asked several times", async || {
        match client.counts() {
            counts if counts.tries > 3 => Ok(()),
            counts => Err(counts),
        }
    })
    .await;
    desk.gate.add_permits(1000);
    within("the reply", call).await.unwrap().unwrap();
    // Each copy is answered, and all answers but one are late.
    eventually("the other replies", async || {
        let counts = client.counts();
        match counts.tries - counts.late {
            1 => Ok(()),
            _ => Err(counts),
        }
    })
    .await;
    worker.ended(Kind::Executed, 1).await;
    assert_eq!(desk.asked.entries().len(), 1);
    worker.stop().await;
    bed.assert_nothing_stuck().await;
}

/// The client's link is cut while the handler runs.
///
/// - does: has it handled once; gets the reply from memory in the new reply queue
#[tokio::test]
async fn a_client_whose_link_is_cut_while_the_handler_runs_gets_the_remembered_reply() {
    let bed = Bed::new().await;
    let desk = Desk::shut();
    let worker = desk.start(&bed);
    let proxy = Proxy::open(bed.broker().port()).await;
    let client = patient(&bed).connect(bed.url_by(proxy.port(), ""));
    let client = client.await.unwrap();
    let call = client.call(&CreateLease::of("printer"));
    let call = tokio::spawn(call.into_future());
    desk.asked.count("the handler runs", 1).await;
    proxy.cut();
    eventually("it is asked again", async || match client.counts() {
        counts if counts.tries == 2 => Ok(()),
        counts => Err(counts),
    })
    .await;
    desk.gate.add_permits(1000);
    let replied = within("the reply", call).await.unwrap().unwrap();
    assert!(replied.replayed, "the first reply had no queue any more");
    assert_eq!(desk.asked.entries().len(), 1);
    worker.ended(Kind::Duplicate, 1).await;
    assert_eq!(worker.stop().await.replies().requester_gone, 1);
    bed.assert_nothing_stuck().await;
}

/// The client is gone when its request has been handled, and another client calls under the same key.
///
/// - does: gets the reply from memory
#[tokio::test]
async fn a_client_that_comes_back_with_the_key_of_a_lost_call_gets_its_reply() {
    let bed = Bed::new().await;
    let desk = Desk::shut();
    let worker = desk.start(&bed);
    let request = CreateLease::of("printer");
    let client = patient(&bed).connect(bed.url()).await.unwrap();
    let call = client.call(&request);
    let written_down = call.id().to_owned();
    let call = tokio::spawn(call.into_future());
    desk.asked.count("the handler runs", 1).await;
    call.abort();
    let _ = call.await;
    drop(client);
    desk.gate.add_permits(1000);
    worker.ended(Kind::Executed, 1).await;

    let client = patient(&bed).connect(bed.url()).await.unwrap();
    let replied = client.call(&request).key(written_down).await.unwrap();
    assert!(replied.replayed);
    assert_eq!(desk.asked.entries().len(), 1);
    worker.stop().await;
    bed.assert_nothing_stuck().await;
}
