//! What requesters would be told.

use idem_testing::amqp::Reply;

use super::*;

#[derive(Serialize, Deserialize)]
struct CreateLease {
    name: String,
}

impl Request for CreateLease {
    type Reply = u64;
    type Error = String;
}

#[idempotent(key = "name")]
async fn grant(
    request: CreateLease,
    State(journal): State<Journal>,
) -> Result<u64, Refused<String>> {
    if request.name == "taken" {
        return Err(Refused::with("by somebody else".to_owned()));
    }
    journal.write(request.name);
    Ok(7)
}

fn granting() -> Harness<grant, Journal> {
    Setup::new(Journal::default).consume::<grant>("leases")
}

fn request(name: &str) -> Message {
    Message::json(&CreateLease { name: name.into() }).reply_to("replies")
}

#[tokio::test(start_paused = true)]
async fn a_request_is_answered_and_its_copy_from_memory() {
    let harness = granting();
    let [first, copy] = [
        harness.deliver(&request("l-1")).await,
        harness.deliver(&request("l-1")).await,
    ];
    let replies = [first.reply().unwrap(), copy.reply().unwrap()];
    assert_eq!(replies.map(Reply::output::<u64>), [7, 7]);
    assert_eq!(replies.map(Reply::is_replayed), [false, true]);
    assert_eq!(harness.state().read(), ["l-1"]);
}

#[tokio::test(start_paused = true)]
async fn a_refusal_is_the_reply_and_the_request_is_acknowledged() {
    let refused = granting().deliver(&request("taken")).await;
    assert_eq!(
        (refused.kind(), refused.settlement()),
        (Kind::Refused, Settlement::Ack)
    );
    let refusal = refused.reply().unwrap().refusal().unwrap();
    assert_eq!(refusal.error(), Some(&"by somebody else".into()));
    let panic = panic_of(async { refused.reply().unwrap().output::<u64>() }).await;
    assert!(
        panic.starts_with("the reply is a refusal, `rejected`"),
        "{panic}"
    );
    let panic = panic_of(async { refused.output::<u64>() }).await;
    assert!(
        panic.starts_with("there is no output, but `rejected`"),
        "{panic}"
    );
}

#[tokio::test(start_paused = true)]
async fn what_nobody_waits_for_has_no_reply() {
    let message = Message::json(&CreateLease { name: "l-1".into() });
    assert!(granting().deliver(&message).await.reply().is_none());
}

#[tokio::test(start_paused = true)]
async fn who_may_not_be_replied_to_is_handled_as_nobody() {
    let harness = |queue: Queue| Setup::new(Journal::default).consume::<grant>(queue);
    let open = Queue::quorum("leases");
    for queue in [
        open.clone().no_replies(),
        open.reply_to_prefixes(["amq.gen-"]),
    ] {
        let done = harness(queue.clone()).deliver(&request("l-1")).await;
        assert!(done.reply().is_none());
        let rejected = harness(queue).deliver(&request("taken")).await;
        let ended = (rejected.kind(), rejected.settlement());
        assert_eq!(
            ended,
            (Kind::Rejected, Settlement::DeadLetter(Reason::Rejected))
        );
    }
}
