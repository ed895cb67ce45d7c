//! What handlers publish: committed with their writes, published until a queue has it.

use std::time::{Duration, SystemTime};

use idem_amqp::{
    MemoryStore, Publication, Queue, Worker,
    executor::ExecutionKind as Kind,
    outbox::{Outbox, OutboxChange, OutboxListing, OutboxState},
    prelude::*,
    sqlx::{Connection as _, PgConnection, SqliteConnection},
};
use idem_tests::{
    journal::{Journal, eventually},
    proxy::Proxy,
    running::assert_balance,
    store_at::Product,
};
use lapin::types::{AMQPValue, FieldTable};
use serde::Deserialize;
use serde_json::json;

use self::shop::{Relaying, Sale, Shop, all, ids, law_of, on_postgres_and_sqlite};
use crate::topology::{rabbitmqctl, stranger};

pub(crate) mod shop;

/// What a sale publishes.
#[derive(Debug, Deserialize)]
struct Sold {
    sale: String,
}

#[idempotent(key = message_id(), scope = "sales.ship")]
async fn ship(sold: Sold, State(shipped): State<Journal<String>>) -> Result<(), Failed> {
    shipped.write(sold.sale);
    Ok(())
}

/// A handler publishes what it has done.
///
/// - does: publishes it when its writes are committed, under an id of the key's own, and forgets it when a queue has it
/// - effect: once
async fn what_a_handler_publishes_leaves_with_its_commit(product: Product) {
    let shop = Shop::open(product).await;
    let worker = shop.sell().await;
    shop.bed.json(&Sale::new("a", &shop.events)).await;
    shop.bed.json(&Sale::new("b", &shop.events)).await;
    // A copy publishes nothing.
    shop.bed.json(&Sale::new("a", &shop.events)).await;
    worker.ended(Kind::Duplicate, 1).await;
    let events = shop.events(2).await;
    let mut names = ids(&events);
    names.sort();
    assert_eq!(names, ["sales.sell:a#0", "sales.sell:b#0"]);
    let event = events
        .iter()
        .find(|it| it.header("x-sale").as_deref() == Some("a"));
    assert_eq!(*event.unwrap().properties.delivery_mode(), Some(2));
    shop.until_empty().await;
    let stats = worker.stop().await;
    let outbox = law_of(stats.outbox(), shop.counts().await);
    assert_eq!((outbox.committed, outbox.confirmed), (2, 2), "{stats}");
    assert!(
        stats
            .to_string()
            .contains("outbox: committed=2 confirmed=2"),
        "{stats}"
    );
    assert_eq!(shop.ledger.count().await, 2);
    shop.bed.assert_nothing_stuck().await;
}

/// An attempt publishes, and fails.
///
/// - does: publishes nothing of it; what the next attempt publishes has the same ids
/// - effect: once
async fn a_failed_attempt_publishes_nothing(product: Product) {
    let shop = Shop::open(product).await;
    let worker = shop.sell().await;
    let sale = Sale::new("a", &shop.events);
    shop.bed.json(&Sale { fails: 2, ..sale }).await;
    worker.ended(Kind::Executed, 1).await;
    assert_eq!(ids(&shop.events(1).await), ["sales.sell:a#0"]);
    shop.until_empty().await;
    let stats = law_of(worker.stop().await.outbox(), shop.counts().await);
    assert_eq!(stats.committed, 1, "{stats}");
    shop.bed.assert_nothing_stuck().await;
}

/// Handlers of batches publish for each message.
///
/// - does: publishes what the messages of the batch have published that it has not failed
/// - effect: once
async fn each_message_of_a_batch_publishes_its_own(product: Product) {
    let shop = Shop::open(product).await;
    for id in ["a", "b", "bad", "c", "d"] {
        shop.bed.json(&Sale::new(id, &shop.events)).await;
    }
    let worker = shop.sell_all().await;
    worker.ended(Kind::Executed, 4).await;
    let mut names = ids(&shop.events(4).await);
    names.sort();
    let expected = ["a", "b", "c", "d"].map(|id| format!("sales.sell_all:{id}#0"));
    assert_eq!(names, expected);
    shop.until_empty().await;
    let stats = law_of(worker.stop().await.outbox(), shop.counts().await);
    assert_eq!(stats.committed, 4, "{stats}");
    shop.bed.dead_letter().await;
    shop.bed.assert_nothing_stuck().await;
}

/// Handlers with `group` publish, on PostgreSQL.
///
/// - does: publishes what the members of the group have published that have succeeded
/// - effect: once
#[tokio::test]
async fn each_member_of_a_group_publishes_its_own() {
    let shop = Shop::open(Product::Postgres).await;
    let names: Vec<_> = (b'a'..=b'x').map(|it| char::from(it).to_string()).collect();
    for (place, id) in names.iter().enumerate() {
        let sale = Sale::new(id, &shop.events);
        let fails = u32::from(place % 6 == 5);
        shop.bed.json(&Sale { fails, ..sale }).await;
    }
    let worker = shop.sell_together().await;
    worker.ended(Kind::Executed, names.len()).await;
    let mut events = ids(&shop.events(names.len()).await);
    events.sort();
    let expected: Vec<_> = names
        .iter()
        .map(|id| format!("sales.sell_together:{id}#0"))
        .collect();
    assert_eq!(events, expected);
    shop.until_empty().await;
    let stats = law_of(worker.stop().await.outbox(), shop.counts().await);
    assert_eq!(stats.committed, 24, "{stats}");
    assert_eq!(shop.ledger.count().await, 24);
    shop.bed.assert_nothing_stuck().await;
}

/// What is published goes to a stream.
///
/// - does: publishes it when the stream has it; a stream keeps an event twice that was published twice
/// - effect: at least once, under one id
#[tokio::test]
async fn a_stream_takes_what_is_published() {
    let shop = Shop::open(Product::Sqlite).await;
    let stream = shop.bed.another("stream");
    let mut arguments = FieldTable::default();
    arguments.insert(
        "x-queue-type".into(),
        AMQPValue::LongString("stream".into()),
    );
    shop.bed.declare_foreign(&stream, arguments).await;
    let worker = shop.sell().await;
    shop.bed.json(&Sale::new("a", &stream)).await;
    worker.ended(Kind::Executed, 1).await;
    shop.until_empty().await;
    eventually("the stream has it", async || {
        let (messages, _) = shop.bed.waiting(&stream).await.unwrap();
        if messages == 1 { Ok(()) } else { Err(messages) }
    })
    .await;
    let stats = law_of(worker.stop().await.outbox(), shop.counts().await);
    assert_eq!(stats.confirmed, 1, "{stats}");
    // It keeps what it has.
    shop.bed.delete(&stream).await;
    shop.bed.assert_nothing_stuck().await;
}

/// No queue takes what a handler publishes, or there is no such exchange.
///
/// - does: gives it up, with the broker's word, and shows it; other messages leave. It leaves when somebody has
///   declared what it needs and tries it again, or has sent it elsewhere
/// - effect: at least once, under one id
async fn what_no_queue_takes_is_given_up_and_can_be_tried_again(product: Product) {
    let shop = Shop::open(product).await;
    let worker = shop.sell().await;
    let missing = shop.bed.another("missing");
    shop.bed.json(&Sale::new("a", &missing)).await;
    let exchange = Some(format!("{missing}.exchange"));
    let sale = Sale::new("b", &shop.events);
    shop.bed.json(&Sale { exchange, ..sale }).await;
    shop.bed.json(&Sale::new("c", &shop.events)).await;
    let outbox = shop.outbox().await;
    let dead = eventually("two messages are dead", async || {
        let dead = OutboxListing {
            state: Some(OutboxState::Dead),
            ..all()
        };
        let dead = outbox.list(&dead).await.unwrap();
        if dead.len() == 2 { Ok(dead) } else { Err(dead) }
    })
    .await;
    // The broker has closed the channel because of the exchange, and perhaps before it had confirmed this one.
    shop.until_event("sales.sell:c#0").await;
    let of = |id: &str| dead.iter().find(|it| it.message_id == id).unwrap();
    let unroutable = of("sales.sell:a#0");
    assert!(
        unroutable
            .error
            .as_ref()
            .unwrap()
            .contains("no queue is bound"),
        "{unroutable:?}"
    );
    assert_eq!(unroutable.target, missing);
    let no_exchange = of("sales.sell:b#0");
    assert!(
        no_exchange.error.as_ref().unwrap().contains("NOT_FOUND"),
        "{no_exchange:?}"
    );

    shop.bed.declare(&Queue::classic(&missing)).await;
    let retry = OutboxChange::Retry(Some(unroutable.id));
    assert_eq!(outbox.change(&retry).await.unwrap(), 1);
    eventually("it has left", async || {
        let found = shop.bed.drain(&missing).await;
        if found.len() == 1 { Ok(()) } else { Err(found) }
    })
    .await;
    let (_, content) = outbox.show(no_exchange.id).await.unwrap().unwrap();
    let elsewhere = idem_amqp::outbox::redirected(no_exchange.id, content, "", &shop.events);
    assert_eq!(outbox.change(&elsewhere.unwrap()).await.unwrap(), 1);
    shop.until_event("sales.sell:b#0").await;
    shop.until_empty().await;
    shop.bed.drain(&shop.events).await;
    let stats = law_of(worker.stop().await.outbox(), shop.counts().await);
    assert_eq!((stats.confirmed, stats.given_up), (3, 2), "{stats}");
    shop.bed.assert_nothing_stuck().await;
}

/// The relay's user may not write to an exchange.
///
/// - does: gives up what goes there, with the broker's word; other messages leave. It leaves when the user may write
///   there and somebody tries it again
/// - effect: at least once, under one id
async fn what_may_not_be_published_to_its_exchange_is_given_up_alone(product: Product) {
    let shop = Shop::open(product).await;
    let (url, user) = (stranger(&shop.bed).await, shop.bed.name());
    let permit = async |write: &str| {
        let ctl = [
            "set_permissions",
            "-p",
            shop.bed.vhost(),
            user,
            "^$",
            write,
            "^$",
        ];
        rabbitmqctl(&shop.bed, ctl).await;
    };
    // The exchange that leads to queues by their names is called so.
    permit("^amq\\.default$").await;
    let shut = format!("{}-shut", shop.bed.name());
    shop.bed.declare_foreign_exchange(&shut).await;
    shop.bed.bind(&shop.events, &shut, &shop.events).await;
    for (id, exchange) in [("a", None), ("b", Some(shut.clone())), ("c", None)] {
        let sale = Sale::new(id, &shop.events);
        let after = Some(0);
        shop::commit_alone(
            &shop,
            &Sale {
                after,
                exchange,
                ..sale
            },
        )
        .await;
    }
    let relay = Relaying::start(shop.outbox().await, &url);
    let outbox = shop.outbox().await;
    let left = eventually("one is given up, and the others leave", async || {
        let left = outbox.list(&all()).await.unwrap();
        match &left[..] {
            [only] if only.state == OutboxState::Dead => Ok(left),
            _ => Err(left),
        }
    })
    .await;
    assert_eq!(left[0].message_id, "sales.sell:b#0");
    let error = left[0].error.as_deref().unwrap_or_default();
    assert!(error.contains("ACCESS_REFUSED"), "{error}");
    assert!(error.contains(&shut), "{error}");
    // The broker has closed the channel because of it, and perhaps before it had confirmed the others.
    let mut events = ids(&shop.bed.drain(&shop.events).await);
    events.sort();
    events.dedup();
    assert_eq!(events, ["sales.sell:a#0", "sales.sell:c#0"]);
    Shop::assert_law(shop.counts().await, 3, 2);

    permit(".*").await;
    let retry = outbox.change(&OutboxChange::Retry(Some(left[0].id))).await;
    assert_eq!(retry.unwrap(), 1);
    assert_eq!(ids(&shop.events(1).await), ["sales.sell:b#0"]);
    shop.until_empty().await;
    let relayed = relay.stop().await;
    assert_eq!((relayed.confirmed, relayed.given_up), (3, 1), "{relayed}");
    shop.bed.delete_exchange(&shut).await;
    shop.bed.assert_nothing_stuck().await;
}

/// A worker vanishes between its commit and the broker's confirm.
///
/// - does: leaves what it has committed to others, who publish it when its lease has run out
/// - effect: at least once, under one id
async fn what_a_vanished_worker_has_committed_others_publish(product: Product) {
    let shop = Shop::open(product).await;
    let id = shop::commit_alone(&shop, &Sale::new("a", &shop.events)).await;
    // Most of its lease of 30 s is left: more than a busy machine may stall a process for.
    shop.pass_time(Duration::from_secs(10)).await;
    let relay = Relaying::start(shop.outbox().await, shop.bed.url());
    tokio::time::sleep(Duration::from_secs(1)).await;
    let early = relay.stop().await;
    assert_eq!(
        early.confirmed, 0,
        "it is left to who has committed it: {early}"
    );
    shop.pass_time(Duration::from_secs(21)).await;
    let (one, other) = (
        Relaying::start(shop.outbox().await, shop.bed.url()),
        Relaying::start(shop.outbox().await, shop.bed.url()),
    );
    assert_eq!(ids(&shop.events(1).await), [id]);
    shop.until_empty().await;
    let (one, other) = (one.stop().await, other.stop().await);
    assert_eq!(one.confirmed + other.confirmed, 1, "{one} {other}");
    Shop::assert_law(shop.counts().await, 1, 1);
    shop.bed.assert_nothing_stuck().await;
}

/// The broker's confirm of an event is lost. The key of its consumer is `message_id()`.
///
/// - does: publishes it again under the same id, which the consumer takes for a duplicate
/// - effect: once
async fn a_consumer_knows_a_repeat_by_its_message_id(product: Product) {
    let shop = Shop::open(product).await;
    let link = Proxy::open(shop.bed.broker().port()).await;
    let url = shop.bed.url_by(link.port(), "");
    let relay = Relaying::start(shop.outbox().await, &url);
    let sale = |id| Sale {
        after: Some(0),
        ..Sale::new(id, &shop.events)
    };
    // For this one it connects.
    shop::commit_alone(&shop, &sale("first")).await;
    shop.until_empty().await;
    link.lose_next_answer();
    shop::commit_alone(&shop, &sale("second")).await;
    shop.until_empty().await;
    assert_eq!(link.lost_answers(), 1);
    let relayed = relay.stop().await;
    assert_eq!((relayed.confirmed, relayed.put_back), (2, 1), "{relayed}");
    Shop::assert_law(shop.counts().await, 2, relayed.confirmed);

    let shipped = Journal::default();
    let worker = Worker::builder(MemoryStore::new()).state(shipped.clone());
    let worker = worker.consume::<ship>(Queue::classic(&shop.events));
    let worker = shop.bed.start(worker);
    worker.ended(Kind::Executed, 2).await;
    worker.ended(Kind::Duplicate, 1).await;
    let expected = [(Kind::Executed, 2), (Kind::Duplicate, 1)];
    assert_balance(&worker.stop().await, expected);
    let mut shipped = shipped.entries();
    shipped.sort();
    assert_eq!(shipped, ["first", "second"]);
    shop.bed.assert_nothing_stuck().await;
}

/// What is published is to leave later.
///
/// - does: keeps it in the store until then, where it can be cancelled
/// - effect: once
async fn what_is_to_leave_later_waits_in_the_store(product: Product) {
    let shop = Shop::open(product).await;
    let worker = shop.sell().await;
    let sale = |id: &str, after| Sale {
        after: Some(after),
        ..Sale::new(id, &shop.events)
    };
    let began = SystemTime::now();
    shop.bed.json(&sale("soon", 2)).await;
    shop.bed.json(&sale("tomorrow", 86_400)).await;
    shop.bed.json(&sale("never", 86_400)).await;
    worker.ended(Kind::Executed, 3).await;
    let outbox = shop.outbox().await;
    let cancelled = outbox
        .change(&OutboxChange::Cancel("sales.sell:never".into()))
        .await;
    assert_eq!(cancelled.unwrap(), 1);
    assert_eq!(ids(&shop.events(1).await), ["sales.sell:soon#0"]);
    assert!(began.elapsed().unwrap() >= Duration::from_millis(1900));
    // An event is there before its row is gone.
    let left = eventually("one is left", async || {
        let left = outbox.list(&all()).await.unwrap();
        if left.len() == 1 { Ok(left) } else { Err(left) }
    })
    .await;
    assert_eq!(left[0].state, OutboxState::Later);
    let sold = worker.stop().await.outbox();
    // What was cancelled is no more.
    let committed = sold.committed - 1;
    Shop::assert_law(shop.counts().await, committed, sold.confirmed);

    shop.pass_time(Duration::from_hours(24)).await;
    let relay = Relaying::start(shop.outbox().await, shop.bed.url());
    assert_eq!(ids(&shop.events(1).await), ["sales.sell:tomorrow#0"]);
    shop.until_empty().await;
    let confirmed = sold.confirmed + relay.stop().await.confirmed;
    Shop::assert_law(shop.counts().await, committed, confirmed);
    shop.bed.assert_nothing_stuck().await;
}

/// What is published is to leave in the order of its commits.
///
/// - does: publishes the next one of an order when a queue has the one before it, whoever publishes it
/// - effect: in order
async fn what_is_ordered_leaves_in_the_order_of_its_commits(product: Product) {
    const EACH: usize = 20;
    let shop = Shop::open(product).await;
    let lanes = ["c-1", "c-2"];
    let mut committed = lanes.map(|_| Vec::new());
    for i in 0..EACH {
        for (lane, committed) in lanes.iter().zip(&mut committed) {
            let sale = Sale {
                lane: Some((*lane).into()),
                ..Sale::new(&format!("{lane}-{i}"), &shop.events)
            };
            committed.push(shop::commit_alone(&shop, &sale).await);
        }
    }
    let (one, other) = (
        Relaying::start(shop.outbox().await, shop.bed.url()),
        Relaying::start(shop.outbox().await, shop.bed.url()),
    );
    let events = ids(&shop.events(2 * EACH).await);
    shop.until_empty().await;
    for (lane, committed) in lanes.iter().zip(&committed) {
        let of_lane = events.iter().filter(|id| id.contains(lane));
        assert_eq!(&of_lane.cloned().collect::<Vec<_>>(), committed);
    }
    let (one, other) = (one.stop().await, other.stop().await);
    assert_eq!(
        one.confirmed + other.confirmed,
        2 * EACH as u64,
        "{one} {other}"
    );
    Shop::assert_law(shop.counts().await, 2 * EACH as u64, 2 * EACH as u64);
    shop.bed.assert_nothing_stuck().await;
}

/// An application publishes with a transaction of its own, outside of a handler.
///
/// - does: publishes it when that transaction is committed, and not when it is rolled back
/// - effect: once
async fn a_transaction_of_the_applications_own_publishes(product: Product) {
    let shop = Shop::open(product).await;
    let url = &shop.ledger.store().url;
    for (text, commits) in [("kept", true), ("undone", false)] {
        let outbox = Outbox::outside();
        let event = Publication::json(&shop.events, &json!({"text": text})).message_id(text);
        outbox.publish(event).unwrap();
        if product == Product::Postgres {
            let store = shop.ledger.store().open_postgres().await;
            let mut db = PgConnection::connect(url).await.unwrap();
            let mut transaction = db.begin().await.unwrap();
            store
                .publish(&mut transaction, outbox.clone())
                .await
                .unwrap();
            if commits {
                transaction.commit().await.unwrap();
            }
        } else {
            let store = shop.ledger.store().open_sqlite().await;
            let mut db = SqliteConnection::connect(url).await.unwrap();
            let mut transaction = db.begin().await.unwrap();
            store
                .publish(&mut transaction, outbox.clone())
                .await
                .unwrap();
            if commits {
                transaction.commit().await.unwrap();
            }
        }
    }
    let relay = Relaying::start(shop.outbox().await, shop.bed.url());
    assert_eq!(ids(&shop.events(1).await), ["kept"]);
    shop.until_empty().await;
    assert_eq!(relay.stop().await.confirmed, 1);
    Shop::assert_law(shop.counts().await, 1, 1);
    shop.bed.assert_nothing_stuck().await;
}

/// The store's tables are those of a version without an outbox, and are migrated.
///
/// - does: keeps what is recorded; then publishes what handlers commit, and what another process has left
/// - effect: once
async fn tables_of_a_version_without_an_outbox_get_it_by_migrating(product: Product) {
    let shop = Shop::open(product).await;
    // It publishes nothing.
    let earlier = Sale {
        to: Vec::new(),
        ..Sale::new("earlier", "")
    };
    shop::commit_alone(&shop, &earlier).await;
    shop.sql(
        "DROP TABLE idem_records_outbox; DROP SEQUENCE idem_records_outbox_number; DROP FUNCTION idem_records_send",
        "DROP TABLE idem_records_outbox",
    )
    .await;
    // A store that is opened does what `idem migrate` does.
    let left = shop::commit_alone(&shop, &Sale::new("left", &shop.events)).await;
    let worker = shop.sell().await;
    shop.bed.json(&earlier).await;
    shop.bed.json(&Sale::new("a", &shop.events)).await;
    worker.ended(Kind::Duplicate, 1).await;
    assert_eq!(ids(&shop.events(1).await), ["sales.sell:a#0"]);
    let sold = worker.stop().await.outbox();
    Shop::assert_law(shop.counts().await, 2, sold.confirmed);
    shop.pass_time(Duration::from_secs(31)).await;
    let relay = Relaying::start(shop.outbox().await, shop.bed.url());
    assert_eq!(ids(&shop.events(1).await), [left]);
    shop.until_empty().await;
    assert_eq!(relay.stop().await.confirmed, 1);
    shop.bed.assert_nothing_stuck().await;
}

on_postgres_and_sqlite! {
    what_a_handler_publishes_leaves_with_its_commit,
    a_failed_attempt_publishes_nothing,
    each_message_of_a_batch_publishes_its_own,
    what_no_queue_takes_is_given_up_and_can_be_tried_again,
    what_may_not_be_published_to_its_exchange_is_given_up_alone,
    what_a_vanished_worker_has_committed_others_publish,
    a_consumer_knows_a_repeat_by_its_message_id,
    what_is_to_leave_later_waits_in_the_store,
    what_is_ordered_leaves_in_the_order_of_its_commits,
    a_transaction_of_the_applications_own_publishes,
    tables_of_a_version_without_an_outbox_get_it_by_migrating,
}
