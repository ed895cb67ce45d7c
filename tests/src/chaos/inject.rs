//! What is done to links, broker and store; workers see to themselves.

use std::time::Duration;

use futures_util::future::{join_all, join4};
use idem_servers::RabbitMq;

use super::{Fault, Injection, Place, Schedule, chronicle::Chronicle, site::Site};
use crate::{
    proxy::Proxy,
    servers::{crash, hang, off_thread},
};

/// Carries out all that is planned, and is done when the last of it is healed.
pub(super) async fn all(schedule: &Schedule, site: &Site, chronicle: &Chronicle) {
    let on_link = async |place: Place, link: &Proxy| {
        each(schedule.at(place), chronicle, async |what| {
            on_link(link, what);
        })
        .await;
    };
    let links = site.links.iter().enumerate();
    let links = links.map(|(number, link)| on_link(Place::Link(number), link));
    let store_links = (1..).zip(&site.store_links);
    let store_links = store_links.map(|(number, link)| on_link(Place::StoreLink(number), link));
    let broker = each(schedule.at(Place::Broker), chronicle, async |what| {
        on_broker(site, what).await;
    });
    let store = each(schedule.at(Place::Store), chronicle, async |what| {
        on_store(site, what).await;
    });
    join4(join_all(links), join_all(store_links), broker, store).await;
}

/// One after the other: what takes longer than planned delays the next.
async fn each(injections: Vec<Injection>, chronicle: &Chronicle, act: impl AsyncFn(Injection)) {
    for injection in injections {
        chronicle.until(injection.at).await;
        chronicle.tell(injection.deed());
        act(injection).await;
    }
}

fn on_link(link: &Proxy, injection: Injection) {
    match injection.fault {
        Fault::CutLink | Fault::CutStoreLink => link.cut(),
        Fault::FreezeLink | Fault::FreezeStoreLink => link.freeze(),
        other => unreachable!("{other:?} is nothing that befalls a link"),
    }
}

async fn on_broker(site: &Site, injection: Injection) {
    let lasting = Duration::from_millis(injection.lasting);
    let broker = site.broker.clone();
    let broker = broker.expect("it is this run's own if something is done to it");
    match injection.fault {
        Fault::BlockPublishers => off_thread(move || block_publishers(&broker, lasting)).await,
        Fault::CloseConnections => off_thread(move || broker.close_all_connections()).await,
        Fault::CrashBroker => crash(&broker, lasting).await,
        Fault::RestartBroker => off_thread(move || broker.restart()).await,
        Fault::HangBroker => hang(&broker, lasting).await,
        other => unreachable!("{other:?} is nothing that befalls a broker"),
    }
}

/// By a memory alarm: the broker is told that it may have next to none, and then the usual again.
fn block_publishers(broker: &RabbitMq, lasting: Duration) -> idem_servers::Result<()> {
    let may_have = |part| {
        broker
            .rabbitmqctl(["set_vm_memory_high_watermark", part])
            .map(drop)
    };
    may_have("0.0001")?;
    std::thread::sleep(lasting);
    may_have("0.4")
}

async fn on_store(site: &Site, injection: Injection) {
    let lasting = Duration::from_millis(injection.lasting);
    match injection.fault {
        Fault::CrashStore => site.store.crash(lasting).await,
        Fault::HangStore => site.store.hang(lasting).await,
        Fault::FailOver => site.store.fail_over(lasting).await,
        other => unreachable!("{other:?} is nothing that befalls a store"),
    }
}
