//! What handlers publish, while workers, brokers and stores fail: what was committed is confirmed, waiting or dead.

use std::{
    collections::BTreeSet,
    net::Ipv4Addr,
    sync::Arc,
    time::{Duration, SystemTime},
};

use idem_amqp::{
    Publication, Queue,
    executor::ExecutionKind as Kind,
    outbox::{Outbox, OutboxChange},
    sqlx::{self, Connection as _, PgConnection},
};
use idem_servers::RabbitMq;
use idem_tests::{
    bed::{Bed, persistent},
    journal::eventually,
    ledger::Ledger,
    postgres_pair::PostgresPair,
    process::{Crash, Event, Gate, Process, Settings},
    proxy::Proxy,
    servers::off_thread,
    store_at::Product,
};
use lapin::types::{AMQPValue, FieldTable};
use nix::sys::signal::Signal;
use tokio::{net::TcpListener, sync::Mutex};

use crate::outbox::shop::{
    Relaying, Sale, Shop, all, commit_alone, ids, law_of, on_postgres_and_sqlite, pass_time_here,
};

const LEDGER_WORKER: &str = env!("CARGO_BIN_EXE_ledger-worker");

/// The event of the order `a`.
const EVENT: &str = "orders.charge:a#0";

/// Nobody else takes for so long what a worker has committed.
const LEASE: Duration = Duration::from_secs(31);

/// A relay that runs already reads on from where it was: what it is to find is not made due long ago.
const NEARLY_A_LEASE: Duration = Duration::from_secs(29);

/// PostgreSQL's table is looked at from its start once a minute: by then everything that is due is found.
const A_MINUTE_AND_A_LOOK: Duration = Duration::from_secs(61);

/// A worker that is a process of its own, and publishes that an order is charged.
fn settings(shop: &Shop) -> Settings {
    Settings::new(shop.bed.url(), shop.bed.name(), &shop.ledger)
        .with(|settings| settings.events = Some(shop.events.clone()))
}

/// Another worker gets the order `a` again, and publishes its event now.
async fn another_publishes(shop: Shop, ends_as: &str) {
    let another = Process::start(LEDGER_WORKER, &settings(&shop));
    another.ended(ends_as, 1).await;
    assert_eq!(ids(&shop.events(1).await), [EVENT]);
    shop.until_empty().await;
    another.stop().await;
    Shop::assert_law(shop.counts().await, 1, 1);
    assert_eq!(shop.ledger.count().await, 1);
    shop.bed.assert_nothing_stuck().await;
}

/// A relay publishes the event of the order `a` when its lease has run out.
async fn a_relay_publishes(shop: Shop, charges: &[(&str, usize)]) {
    shop.pass_time(LEASE).await;
    let relay = Relaying::start(shop.outbox().await, shop.bed.url());
    assert_eq!(ids(&shop.events(1).await), [EVENT]);
    shop.until_empty().await;
    assert_eq!(relay.stop().await.confirmed, 1);
    let committed = charges.len() as u64;
    Shop::assert_law(shop.counts().await, committed, committed);
    let expected = charges.iter().map(|(id, times)| ((*id).to_owned(), *times));
    assert_eq!(shop.ledger.charges_per_order().await, expected.collect());
}

/// A worker is killed before its commit.
///
/// - does: publishes nothing of it; the next attempt publishes
/// - effect: once
async fn a_worker_killed_before_its_commit_publishes_nothing(product: Product) {
    let shop = Shop::open(product).await;
    let crash = Some(Crash::BeforeCompletion(1));
    let dying = settings(&shop).with(|settings| settings.crash = crash);
    let worker = Process::start(LEDGER_WORKER, &dying);
    shop.bed.order("a").await;
    worker.died().await;
    Shop::assert_law(shop.counts().await, 0, 0);
    assert!(shop.bed.drain(&shop.events).await.is_empty());
    another_publishes(shop, "executed").await;
}

/// A worker is killed between its commit and its publish.
///
/// - does: another one publishes it when the lease has run out
/// - effect: once
async fn a_worker_killed_before_its_publish_leaves_it_to_others(product: Product) {
    let shop = Shop::open(product).await;
    let crash = Some(Crash::AfterCompletion(1));
    let dying = settings(&shop).with(|settings| settings.crash = crash);
    let worker = Process::start(LEDGER_WORKER, &dying);
    shop.bed.order("a").await;
    worker.died().await;
    Shop::assert_law(shop.counts().await, 1, 0);
    assert!(shop.bed.drain(&shop.events).await.is_empty());
    shop.pass_time(LEASE).await;
    another_publishes(shop, "duplicate").await;
}

/// A worker is killed between its publish and the broker's confirm.
///
/// - does: another one publishes it again when the lease has run out
/// - effect: at least once, under one id
async fn a_worker_killed_before_the_confirm_has_it_published_again(product: Product) {
    let shop = Shop::open(product).await;
    let mut link = Proxy::open(shop.bed.broker().port()).await;
    let gate = shop.ledger.file("gate");
    let worker = settings(&shop).with(|settings| {
        settings.amqp_url = shop.bed.url_by(link.port(), "");
        settings.gate = Some(Gate {
            file: gate.clone(),
            blocking: false,
        });
    });
    let mut worker = Process::start(LEDGER_WORKER, &worker);
    // The connection that publishes is made for the first event.
    std::fs::write(&gate, []).unwrap();
    shop.bed.order("b").await;
    assert_eq!(ids(&shop.events(1).await), ["orders.charge:b#0"]);
    shop.until_empty().await;
    std::fs::remove_file(&gate).unwrap();
    shop.bed.order("a").await;
    let a_started =
        |event: &Event| matches!(event, Event::Started { order_id, .. } if order_id == "a");
    worker.said("the handler starts", a_started).await;
    // The next thing that the broker says is its confirm. It is lost with the connection, and there is no other one.
    link.close().await;
    link.lose_next_answer();
    std::fs::write(gate, []).unwrap();
    eventually("the confirm is lost", async || {
        if link.lost_answers() == 1 {
            Ok(())
        } else {
            Err(0)
        }
    })
    .await;
    assert_eq!(ids(&shop.events(1).await), [EVENT]);
    worker.signal(Signal::SIGKILL);
    worker.exit().await;
    Shop::assert_law(shop.counts().await, 2, 1);
    a_relay_publishes(shop, &[("a", 1), ("b", 1)]).await;
}

/// A worker is killed between the broker's confirm and the removal.
///
/// - does: another one publishes it again when the lease has run out
/// - effect: at least once, under one id
async fn a_worker_killed_before_the_removal_has_it_published_again(product: Product) {
    let shop = Shop::open(product).await;
    // The table is there.
    shop.counts().await;
    shop.sql(
        "CREATE FUNCTION refuse() RETURNS trigger LANGUAGE plpgsql
             AS 'BEGIN RAISE EXCEPTION ''refused by the test''; END';
         CREATE TRIGGER refuse BEFORE DELETE ON idem_records_outbox
             FOR EACH ROW EXECUTE FUNCTION refuse()",
        "CREATE TRIGGER refuse BEFORE DELETE ON idem_records_outbox
             BEGIN SELECT RAISE(ABORT, 'refused by the test'); END",
    )
    .await;
    let mut worker = Process::start(LEDGER_WORKER, &settings(&shop));
    shop.bed.order("a").await;
    // It waits with the removal, and with nothing else.
    let refused = |lines: &[String]| {
        lines
            .iter()
            .any(|line| line.contains("refused by the test"))
    };
    worker.log.until("a removal is refused", refused).await;
    assert_eq!(ids(&shop.events(1).await), [EVENT]);
    worker.signal(Signal::SIGKILL);
    worker.exit().await;
    // It was confirmed, and nobody who is left knows that.
    Shop::assert_law(shop.counts().await, 1, 0);
    shop.sql(
        "DROP TRIGGER refuse ON idem_records_outbox",
        "DROP TRIGGER refuse",
    )
    .await;
    a_relay_publishes(shop, &[("a", 1)]).await;
}

/// Several relays share a table, and one of them vanishes.
///
/// - does: the others publish what it had, when its lease has run out; each order is kept
/// - effect: at least once, under one id
async fn a_relay_that_vanishes_among_others_loses_nothing_and_no_order(product: Product) {
    const EACH: usize = 40;
    let shop = Shop::open(product).await;
    let lanes = ["c-1", "c-2", "none"];
    let mut committed = lanes.map(|_| Vec::new());
    for i in 0..EACH {
        for (lane, committed) in lanes.iter().zip(&mut committed) {
            let sale = Sale::new(&format!("{lane}-{i:02}"), &shop.events);
            let ordered = (*lane != "none").then(|| (*lane).into());
            let after = ordered.is_none().then_some(0);
            let sale = Sale {
                lane: ordered,
                after,
                ..sale
            };
            committed.push(commit_alone(&shop, &sale).await);
        }
    }
    // It takes what there is, and its broker does not answer.
    let silent = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.unwrap();
    let url = shop.bed.url_by(silent.local_addr().unwrap().port(), "");
    let vanishing = Relaying::start(shop.outbox().await, &url);
    let outbox = shop.outbox().await;
    eventually(
        "one has taken the first of each order, and all others",
        async || {
            let listed = outbox.list(&all()).await.unwrap();
            match listed.iter().filter(|it| it.attempts > 0).count() {
                taken if taken == EACH + 2 => Ok(()),
                taken => Err(taken),
            }
        },
    )
    .await;
    let start = async || Relaying::start(shop.outbox().await, shop.bed.url());
    let (one, other) = (start().await, start().await);
    vanishing.vanish().await;
    shop.pass_time(NEARLY_A_LEASE).await;
    shop.until_empty().await;
    let (one, other) = (one.stop().await, other.stop().await);
    let events = ids(&shop.bed.drain(&shop.events).await);
    let total = (lanes.len() * EACH) as u64;
    let distinct: BTreeSet<_> = events.iter().collect();
    Shop::assert_law(shop.counts().await, total, distinct.len() as u64);
    for (lane, committed) in lanes.iter().zip(&committed) {
        let mut of_lane: Vec<_> = events.iter().filter(|id| id.contains(lane)).collect();
        if *lane == "none" {
            of_lane.sort();
        }
        // What is published again comes right after what it repeats.
        of_lane.dedup();
        assert_eq!(of_lane, committed.iter().collect::<Vec<_>>());
    }
    assert!(one.confirmed + other.confirmed >= total, "{one} {other}");
    shop.bed.assert_nothing_stuck().await;
}

/// The broker is away for an hour.
///
/// - does: keeps it in the store, also what a worker has committed that is gone; tries again at least every half minute,
///   and publishes it when the broker is back
/// - effect: once
async fn a_broker_that_is_away_for_an_hour_gets_it_when_it_is_back(product: Product) {
    const FIVE_MINUTES: Duration = Duration::from_mins(5);
    let broker = Arc::new(off_thread(RabbitMq::start).await);
    let shop = Shop::on(Bed::on(&broker), product).await;
    shop.bed.declare(&shop.bed.queue()).await;
    shop.declare_events().await;
    let worker = shop.sell().await;
    shop.bed.json(&Sale::new("before", &shop.events)).await;
    worker.ended(Kind::Executed, 1).await;
    shop.until_empty().await;
    let stopped = Arc::clone(&broker);
    off_thread(move || stopped.kill()).await;
    for i in 0..20 {
        // Every other one is left to who has committed it, and that one never publishes it.
        let sale = Sale {
            after: (i % 2 == 0).then_some(0),
            ..Sale::new(&format!("sale-{i:02}"), &shop.events)
        };
        commit_alone(&shop, &sale).await;
    }
    let outbox = shop.outbox().await;
    for five_minutes in 1..=12 {
        let untold = "UPDATE idem_records_outbox SET error = NULL";
        shop.sql(untold, untold).await;
        shop.pass_time(FIVE_MINUTES).await;
        pass_time_here(FIVE_MINUTES).await;
        let tried = eventually("all were tried in vain again", async || {
            let entries = outbox.list(&all()).await.unwrap();
            if entries.iter().all(|it| it.error.is_some()) {
                Ok(entries)
            } else {
                Err(entries)
            }
        })
        .await;
        for entry in tried {
            let wait = entry.due.duration_since(SystemTime::now());
            let longest = Duration::from_secs(30);
            let is_soon = wait.unwrap_or_default() <= longest;
            assert!(is_soon, "{five_minutes}: {entry:?}");
        }
        Shop::assert_law(shop.counts().await, 21, 1);
    }
    let restarted = Arc::clone(&broker);
    off_thread(move || restarted.restart()).await;
    shop.pass_time(FIVE_MINUTES).await;
    pass_time_here(FIVE_MINUTES).await;
    shop.until_empty().await;
    let mut events = ids(&shop.events(21).await);
    events.sort();
    let sales = (0..20).map(|i| format!("sales.sell:sale-{i:02}#0"));
    let before = ["sales.sell:before#0".to_owned()];
    assert_eq!(events, before.into_iter().chain(sales).collect::<Vec<_>>());
    let stats = worker.stop().await.outbox();
    assert_eq!((stats.committed, stats.confirmed), (1, 21), "{stats}");
    Shop::assert_law(shop.counts().await, 21, stats.confirmed);
}

/// The connection is lost before the broker's confirm, after many tries in vain.
///
/// - does: publishes it again as soon as the broker is reached
/// - effect: at least once, under one id
async fn what_a_lost_connection_leaves_unconfirmed_is_soon_published_again(product: Product) {
    let shop = Shop::open(product).await;
    let link = Proxy::open(shop.bed.broker().port()).await;
    let outbox = shop.outbox().await;
    let relay = Relaying::start(outbox, &shop.bed.url_by(link.port(), ""));
    let sale = |id, after| Sale {
        after: Some(after),
        ..Sale::new(id, &shop.events)
    };
    // It was tried often, and is due.
    let is_due = async || {
        shop.sql(
            "UPDATE idem_records_outbox SET attempts = 500, due = clock_timestamp()",
            "UPDATE idem_records_outbox SET attempts = 500,
                 due = CAST(unixepoch('subsec') * 1000000 AS INTEGER)",
        )
        .await;
    };
    // For this one it connects.
    commit_alone(&shop, &sale("first", 3600)).await;
    is_due().await;
    shop.events(1).await;
    shop.until_empty().await;
    let id = commit_alone(&shop, &sale("second", 3600)).await;
    link.lose_next_answer();
    is_due().await;
    shop.until_empty().await;
    assert_eq!(link.lost_answers(), 1);
    let mut events = ids(&shop.bed.drain(&shop.events).await);
    assert!(events.len() > 1, "{events:?}");
    events.dedup();
    assert_eq!(events, [id]);
    Shop::assert_law(shop.counts().await, 2, relay.stop().await.confirmed);
    shop.bed.assert_nothing_stuck().await;
}

/// A standby takes the place of PostgreSQL while events are committed and published.
///
/// - does: publishes what was committed, when the new server answers
/// - effect: at least once, under one id
#[tokio::test]
async fn a_fail_over_of_postgres_loses_no_event_that_was_committed() {
    const SALES: usize = 60;
    let pair = PostgresPair::start().await;
    pair.commit_on_both().await;
    let ledger = Ledger::of(&pair.store().await).await;
    let shop = Shop::with(Bed::new().await, ledger);
    shop.declare_events().await;
    let worker = shop.sell().await;
    for i in 0..SALES {
        if i == SALES / 2 {
            worker.ended(Kind::Executed, 1).await;
            // The answers to commits are lost.
            pair.catch_up().await;
            pair.fall_behind().await;
        }
        let sale = Sale::new(&format!("s-{i:02}"), &shop.events);
        shop.bed.json(&sale).await;
    }
    eventually("commits wait for the standby", async || {
        let url = &shop.ledger.store().url;
        let mut db = PgConnection::connect(url).await.unwrap();
        let waiting = "SELECT count(*) FROM pg_stat_activity WHERE wait_event = 'SyncRep'";
        let waiting = sqlx::query_scalar(waiting).fetch_one(&mut db).await;
        let waiting: i64 = waiting.unwrap();
        if waiting > 0 { Ok(()) } else { Err(waiting) }
    })
    .await;
    pair.fail_over().await;
    eventually("all is charged", async || {
        let charged = shop.ledger.charges_per_order().await.len();
        if charged == SALES {
            Ok(())
        } else {
            Err(charged)
        }
    })
    .await;
    shop.pass_time(NEARLY_A_LEASE).await;
    shop.until_empty().await;
    let stats = worker.stop().await;
    let mut events = ids(&shop.bed.drain(&shop.events).await);
    let confirmed = events.len() as u64;
    assert_eq!(stats.outbox().confirmed, confirmed, "{stats}");
    events.sort();
    events.dedup();
    assert_eq!(events.len(), SALES);
    Shop::assert_law(shop.counts().await, SALES as u64, SALES as u64);
    let charges = shop.ledger.charges_per_order().await;
    assert!(charges.len() == SALES && charges.values().all(|it| *it == 1));
    shop.bed.assert_nothing_stuck().await;
}

/// Arguments of a queue that refuses what is published when it has so many messages.
fn refusing_more_than(messages: i32) -> FieldTable {
    let mut arguments = FieldTable::default();
    arguments.insert("x-max-length".into(), AMQPValue::LongInt(messages));
    let overflow = AMQPValue::LongString("reject-publish".into());
    arguments.insert("x-overflow".into(), overflow);
    arguments
}

/// The queue is full, and refuses what is published.
///
/// - does: tries again, and publishes it when there is room
/// - effect: at least once, under one id
async fn what_a_full_queue_refuses_leaves_when_it_has_room(product: Product) {
    let shop = Shop::on(Bed::new().await, product).await;
    shop.bed
        .declare_foreign(&shop.events, refusing_more_than(2))
        .await;
    let worker = shop.sell().await;
    for id in ["a", "b", "c", "d", "e"] {
        shop.bed.json(&Sale::new(id, &shop.events)).await;
    }
    worker.ended(Kind::Executed, 5).await;
    let outbox = shop.outbox().await;
    eventually("three are refused", async || {
        let left = outbox.list(&all()).await.unwrap();
        let refused = left.iter().filter(|it| it.error.is_some()).count();
        if left.len() == 3 && refused == 3 {
            Ok(())
        } else {
            Err(left)
        }
    })
    .await;
    // Before there is room: from then on they leave.
    let counts = outbox.counts().await.unwrap();
    let found = ids(&shop.bed.drain(&shop.events).await);
    Shop::assert_law(counts, 5, 2);
    let found = Mutex::new(found);
    eventually("the others leave", async || {
        let mut found = found.lock().await;
        found.extend(ids(&shop.bed.drain(&shop.events).await));
        if found.len() == 5 {
            Ok(())
        } else {
            Err(found.len())
        }
    })
    .await;
    let mut found = found.into_inner();
    found.sort();
    let expected = ["a", "b", "c", "d", "e"].map(|id| format!("sales.sell:{id}#0"));
    assert_eq!(found, expected);
    shop.until_empty().await;
    let stats = law_of(worker.stop().await.outbox(), shop.counts().await);
    assert!(stats.put_back >= 3, "{stats}");
    shop.bed.assert_nothing_stuck().await;
}

/// Of one order the first event goes to a queue that is full, of another one to a queue that is missing.
///
/// - does: keeps what comes behind these two; publishes other orders, and what has none, meanwhile. What was kept leaves
///   in its order when the queue has room, and when somebody has the first tried again
/// - effect: in order
async fn an_order_that_stands_stops_no_other(product: Product) {
    const EACH: usize = 10;
    let shop = Shop::open(product).await;
    let (full, missing) = (shop.bed.another("full"), shop.bed.another("missing"));
    shop.bed.declare_foreign(&full, refusing_more_than(1)).await;
    shop.bed.send(&full, b"in the way", persistent()).await;
    let worker = shop.sell().await;
    let sell = async |id: &str, to: &str, lane: Option<&str>| {
        let lane = lane.map(Into::into);
        shop.bed
            .json(&Sale {
                lane,
                ..Sale::new(id, to)
            })
            .await;
    };
    sell("full-0", &full, Some("full")).await;
    sell("missing-0", &missing, Some("missing")).await;
    worker.ended(Kind::Executed, 2).await;
    let outbox = shop.outbox().await;
    eventually("the first of both orders were tried", async || {
        let left = outbox.list(&all()).await.unwrap();
        match &left[..] {
            [full, missing] if full.error.is_some() && missing.error.is_some() => Ok(()),
            _ => Err(left),
        }
    })
    .await;
    // One after the other, so that it is known in which order they commit.
    let mut executed = 2;
    for i in 1..=EACH {
        for lane in ["full", "missing", "open", "none"] {
            let name = (lane != "none").then_some(lane);
            sell(&format!("{lane}-{i:02}"), &shop.events, name).await;
            executed += 1;
            worker.ended(Kind::Executed, executed).await;
        }
    }
    let of_lane = |lane: &str, events: &[String]| {
        let of_lane = events.iter().filter(|id| id.contains(lane)).cloned();
        of_lane.collect::<Vec<_>>()
    };
    let expected = |lane: &str| {
        let all = (1..=EACH).map(|i| format!("sales.sell:{lane}-{i:02}#0"));
        all.collect::<Vec<_>>()
    };
    let events = ids(&shop.events(2 * EACH).await);
    assert_eq!(of_lane("open", &events), expected("open"));
    let mut without = of_lane("none", &events);
    without.sort();
    assert_eq!(without, expected("none"));
    eventually("these are gone", async || {
        let counts = outbox.counts().await.unwrap();
        let left = 2 * EACH as u64 + 1;
        if (counts.waiting, counts.dead) == (left, 1) {
            Ok(())
        } else {
            Err(counts)
        }
    })
    .await;
    Shop::assert_law(shop.counts().await, executed as u64, 2 * EACH as u64);

    let in_the_way = shop.bed.drain(&full).await;
    assert_eq!(in_the_way.len(), 1);
    assert_eq!(in_the_way[0].body, b"in the way");
    assert_eq!(ids(&shop.events(EACH).await), expected("full"));
    shop.bed.declare(&Queue::classic(&missing)).await;
    assert_eq!(outbox.change(&OutboxChange::Retry(None)).await.unwrap(), 1);
    assert_eq!(ids(&shop.events(EACH).await), expected("missing"));
    shop.until_empty().await;
    for queue in [&full, &missing] {
        assert_eq!(shop.bed.drain(queue).await.len(), 1, "{queue}");
    }
    let stats = law_of(worker.stop().await.outbox(), shop.counts().await);
    assert_eq!(stats.given_up, 1, "{stats}");
    shop.bed.assert_nothing_stuck().await;
}

/// The queue is deleted, and declared again.
///
/// - does: gives up what is published meanwhile, and publishes it when somebody has it tried again
/// - effect: once
async fn what_a_deleted_queue_does_not_take_leaves_when_it_is_retried(product: Product) {
    let shop = Shop::open(product).await;
    let worker = shop.sell().await;
    shop.bed.json(&Sale::new("before", &shop.events)).await;
    assert_eq!(ids(&shop.events(1).await), ["sales.sell:before#0"]);
    shop.bed.delete(&shop.events).await;
    shop.bed.json(&Sale::new("meanwhile", &shop.events)).await;
    let outbox = shop.outbox().await;
    eventually("it is given up", async || {
        let counts = outbox.counts().await.unwrap();
        if (counts.waiting, counts.dead) == (0, 1) {
            Ok(())
        } else {
            Err(counts)
        }
    })
    .await;
    Shop::assert_law(outbox.counts().await.unwrap(), 2, 1);
    shop.declare_events().await;
    let retry = outbox.change(&OutboxChange::Retry(None)).await;
    assert_eq!(retry.unwrap(), 1);
    assert_eq!(ids(&shop.events(1).await), ["sales.sell:meanwhile#0"]);
    shop.until_empty().await;
    let stats = law_of(worker.stop().await.outbox(), shop.counts().await);
    assert_eq!((stats.confirmed, stats.given_up), (2, 1), "{stats}");
    shop.bed.assert_nothing_stuck().await;
}

/// A transaction commits long after it has published, while a relay runs, on PostgreSQL.
///
/// - does: publishes it within a minute of the commit; what others commit meanwhile leaves at once
/// - effect: once
#[tokio::test]
async fn what_is_committed_long_after_it_was_published_leaves_within_a_minute() {
    let shop = Shop::open(Product::Postgres).await;
    let relay = Relaying::start(shop.outbox().await, shop.bed.url());
    let store = shop.ledger.store().open_postgres().await;
    let mut db = PgConnection::connect(&shop.ledger.store().url)
        .await
        .unwrap();
    let mut slow = db.begin().await.unwrap();
    let outbox = Outbox::outside();
    let event = Publication::json(&shop.events, "slow").message_id("slow");
    outbox.publish(event).unwrap();
    store.publish(&mut slow, outbox).await.unwrap();
    // Longer ago than the relay looks back, also when a minute has passed here only.
    let long_ago = "UPDATE idem_records_outbox SET due = due - interval '10 minutes'";
    sqlx::query(long_ago).execute(&mut *slow).await.unwrap();
    let sale = Sale {
        after: Some(0),
        ..Sale::new("meanwhile", &shop.events)
    };
    let meanwhile = commit_alone(&shop, &sale).await;
    assert_eq!(ids(&shop.events(1).await), [meanwhile]);
    shop.until_empty().await;
    slow.commit().await.unwrap();
    pass_time_here(A_MINUTE_AND_A_LOOK).await;
    assert_eq!(ids(&shop.events(1).await), ["slow"]);
    shop.until_empty().await;
    Shop::assert_law(shop.counts().await, 2, relay.stop().await.confirmed);
    shop.bed.assert_nothing_stuck().await;
}

/// The clock of the store is set an hour forward, or back, while a worker and a relay run.
///
/// - does: forward: others take what a worker has committed and not published, and what has become due: on SQLite at
///   once, on PostgreSQL within a minute. Back: what is in the table leaves so much later; what is committed then leaves
///   at once
/// - effect: once
async fn a_clock_of_the_store_that_is_set_loses_nothing(product: Product) {
    let hour = Duration::from_hours(1);
    let shop = Shop::open(product).await;
    let worker = shop.sell().await;
    let relay = Relaying::start(shop.outbox().await, shop.bed.url());
    let outbox = shop.outbox().await;
    let sale = |id: &str, after| Sale {
        after,
        ..Sale::new(id, &shop.events)
    };
    // One leaves from memory, one by the table: both are there, and so are those who look.
    let both_leave = async |left: u64, ids_of: [&str; 2]| {
        shop.bed.json(&sale(ids_of[0], None)).await;
        commit_alone(&shop, &sale(ids_of[1], Some(0))).await;
        let mut events = ids(&shop.events(2).await);
        events.sort();
        assert_eq!(events, ids_of.map(|id| format!("sales.sell:{id}#0")));
        eventually("both are gone", async || {
            let counts = outbox.counts().await.unwrap();
            let found = counts.waiting + counts.later;
            if found == left { Ok(()) } else { Err(counts) }
        })
        .await;
    };
    both_leave(0, ["first-1", "first-2"]).await;
    commit_alone(&shop, &sale("left", None)).await;
    commit_alone(&shop, &sale("soon", Some(60))).await;
    shop.set_back(hour).await;
    both_leave(2, ["new-1", "new-2"]).await;
    Shop::assert_law(shop.counts().await, 6, 4);

    // The lease of the one has run out, and the other is due: both an hour ago.
    shop.pass_time(2 * hour).await;
    if product == Product::Postgres {
        pass_time_here(A_MINUTE_AND_A_LOOK).await;
    }
    let mut events = ids(&shop.events(2).await);
    events.sort();
    assert_eq!(events, ["sales.sell:left#0", "sales.sell:soon#0"]);
    shop.until_empty().await;
    let (sold, relayed) = (worker.stop().await.outbox(), relay.stop().await);
    let confirmed = sold.confirmed + relayed.confirmed;
    Shop::assert_law(shop.counts().await, 6, confirmed);
    shop.bed.assert_nothing_stuck().await;
}

on_postgres_and_sqlite! {
    a_worker_killed_before_its_commit_publishes_nothing,
    a_worker_killed_before_its_publish_leaves_it_to_others,
    a_worker_killed_before_the_confirm_has_it_published_again,
    a_worker_killed_before_the_removal_has_it_published_again,
    a_relay_that_vanishes_among_others_loses_nothing_and_no_order,
    a_broker_that_is_away_for_an_hour_gets_it_when_it_is_back,
    what_a_lost_connection_leaves_unconfirmed_is_soon_published_again,
    what_a_full_queue_refuses_leaves_when_it_has_room,
    an_order_that_stands_stops_no_other,
    what_a_deleted_queue_does_not_take_leaves_when_it_is_retried,
    a_clock_of_the_store_that_is_set_loses_nothing,
}
