//! What is traced of a call, from its caller to the handler.

use std::time::Duration;

use idem_amqp::{
    MemoryStore, client::CallError, executor::ExecutionKind as Kind, session::Sessions,
};
use idem_tests::{
    bed::Bed,
    leases::CreateLease,
    responder::{Asked, Responder},
    traced::Traced,
};
use lapin::types::AMQPValue;
use tracing::{Instrument as _, info_span};

use crate::{
    client_session_workers::serve,
    client_workers::{Desk, patient},
    sessions::bed,
};

fn context(asked: &Asked) -> String {
    let headers = asked.properties.headers().as_ref().unwrap();
    match headers.inner().get("traceparent") {
        Some(AMQPValue::LongString(context)) => context.to_string(),
        other => panic!("no context, but {other:?}"),
    }
}

/// A client calls.
///
/// - told: its caller, the call, the handler and the reply are one trace
#[tokio::test]
async fn a_call_is_one_trace_from_its_caller_to_the_handler_and_the_reply() {
    let (bed, traced) = (Bed::new().await, Traced::default());
    let _recorded = traced.record();
    let worker = Desk::open().start(&bed);
    let client = patient(&bed).connect(bed.url()).await.unwrap();
    let checkout = info_span!(target: "test", "checkout");
    let call = client.call(&CreateLease::of("printer")).key("printer-1");
    call.into_future().instrument(checkout).await.unwrap();
    worker.ended(Kind::Executed, 1).await;
    worker.stop().await;

    let call = traced.only(&format!("call {}", bed.name()));
    let process = traced.only(&format!("process {}", bed.name()));
    assert_eq!(call.parent(), traced.only("checkout").id());
    assert_eq!(process.parent(), call.id());
    assert_eq!(process.trace(), call.trace());
    for (name, value) in [
        ("messaging.system", "rabbitmq"),
        ("messaging.operation.name", "call"),
        ("messaging.operation.type", "send"),
        ("messaging.destination.name", bed.name()),
        ("messaging.message.id", "printer-1"),
        ("idem.tries", "1"),
    ] {
        assert_eq!(call.attribute(name), value, "{name}");
    }
    assert_eq!(
        call.attribute("messaging.message.conversation_id"),
        process.attribute("messaging.message.conversation_id")
    );
    assert_eq!(call.kind(), "Client");
    assert!(!call.is_error());
}

/// A call is tried again.
///
/// - told: the context of the call, carried by each try
#[tokio::test]
async fn every_try_of_a_call_carries_the_context_of_the_call() {
    let (bed, traced) = (Bed::new().await, Traced::default());
    let _recorded = traced.record();
    let responder = Responder::start(&bed, bed.name(), async |asked: Asked| {
        let answered = asked.number > 0;
        answered.then(|| asked.granted()).into_iter().collect()
    });
    let client = patient(&bed).connect(bed.url()).await.unwrap();
    let call = client.call(&CreateLease::of("printer"));
    call.timeout(Duration::from_millis(50)).await.unwrap();

    let call = traced.only(&format!("call {}", bed.name()));
    let tries = responder.asked.entries();
    assert!(tries.len() > 1, "{tries:?}");
    let expected = format!("00-{}-{}-01", call.trace(), call.id());
    for asked in tries {
        assert_eq!(context(&asked), expected);
    }
}

/// A call brings a context.
///
/// - told: the call's own context, which it keeps
#[tokio::test]
async fn a_call_keeps_the_context_that_its_caller_gives_it() {
    let (bed, traced) = (Bed::new().await, Traced::default());
    let _recorded = traced.record();
    let responder = Responder::granting(&bed);
    let client = patient(&bed).connect(bed.url()).await.unwrap();
    let given = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";
    let call = client.call(&CreateLease::of("printer"));
    call.header("traceparent", given).await.unwrap();
    assert_eq!(context(&responder.asked.entries()[0]), given);
}

/// A session's client calls.
///
/// - told: the call is traced; what the session itself asks is not
#[tokio::test]
async fn a_call_of_a_session_is_traced_and_what_the_session_itself_asks_is_not() {
    let (bed, traced) = (bed().await, Traced::default());
    let _recorded = traced.record();
    let worker = serve(
        &Desk::open(),
        &bed,
        &MemoryStore::new(),
        Sessions::default(),
    )
    .await;
    let client = patient(&bed).connect(bed.url()).await.unwrap();
    let session = client.session().open().await.unwrap();
    session.call(&CreateLease::of("printer")).await.unwrap();
    worker.ended(Kind::Executed, 1).await;
    session.close().await.unwrap();
    worker.stop().await;

    let call = traced.only(&format!("call {}", bed.name()));
    let process = traced.only(&format!("process {}", bed.name()));
    assert_eq!(process.parent(), call.id());
    let asked = traced.named(&format!("call {}.sessions", bed.name()));
    assert!(asked.is_empty(), "{asked:?}");
}

/// A call ends without a reply.
///
/// - told: an error in the call's trace
#[tokio::test]
async fn a_call_without_a_reply_is_an_error_in_its_trace() {
    let (bed, traced) = (Bed::new().await, Traced::default());
    let _recorded = traced.record();
    let client = patient(&bed).connect(bed.url()).await.unwrap();
    let nowhere = client.to("no-such-queue");
    let called = nowhere.call(&CreateLease::of("printer")).await;
    assert!(matches!(called, Err(CallError::Unroutable { .. })));
    let call = traced.only("call no-such-queue");
    assert!(call.is_error());
    assert_eq!(call.attribute("error.type"), "unroutable");
}
