//! A standby that takes over, and gives out again the numbers and the tokens that it has not heard of.

use idem_servers::Postgres;

use super::*;
use crate::{store::Completion, stores::postgres::atomic::tests::proxy::Proxy};

/// A server and its standby.
struct Pair {
    primary: Postgres,
    standby: Postgres,
}

impl Pair {
    async fn start() -> Arc<Self> {
        off_thread(|| {
            let primary = Postgres::start()?;
            let standby = Postgres::standby_of(&primary)?;
            standby.receive_from(&primary)?;
            Ok(Arc::new(Self { primary, standby }))
        })
        .await
    }

    /// The standby has all that is there, and nothing of what comes.
    async fn fall_behind(self: Arc<Self>) {
        off_thread(move || {
            self.primary.wait_until_received()?;
            self.standby.stop_receiving()
        })
        .await;
    }

    /// A shop on this pair, behind a proxy that leads to the primary.
    async fn shop(&self) -> (Shop, Arc<Proxy>) {
        let port = self.primary.port();
        let proxy = Arc::new(Proxy::to(port).await);
        let url = self.primary.url();
        let url = url.replace(&format!(":{port}/"), &format!(":{}/", proxy.port));
        let mut shop = Shop::at(&url, |builder| builder.groups(1)).await;
        // While a standby takes over, a store may be away: that is no end of a message.
        shop.asks_again = true;
        (shop, proxy)
    }

    /// The standby is in charge, and lacks what it has not received.
    async fn take_over(self: Arc<Self>, proxy: &Proxy) {
        let standby = self.standby.port();
        off_thread(move || self.standby.promote()).await;
        proxy.lead_to(standby);
    }

    /// The standby is in charge, and has committed a transaction under this number.
    async fn give_out_again(self: Arc<Self>, number: i64) {
        off_thread(move || {
            self.standby.promote()?;
            let next = || {
                self.standby
                    .query("postgres", "SELECT pg_current_xact_id()")
            };
            let mut given: i64 = 0;
            while given < number {
                given = next()?.trim().parse().expect("a number");
            }
            assert_eq!(given, number, "the standby had heard of it");
            Ok(())
        })
        .await;
    }
}

async fn off_thread<T: Send + 'static>(
    work: impl FnOnce() -> idem_servers::Result<T> + Send + 'static,
) -> T {
    let done = tokio::task::spawn_blocking(work).await;
    done.expect("it does not panic").expect("the servers obey")
}

/// `a` is lost with the old server, though the new one calls a transaction of that number committed.
#[tokio::test]
async fn a_number_that_a_new_server_gives_out_again_completes_nobody() {
    let pair = Pair::start().await;
    let (shop, proxy) = pair.shop().await;
    let (of_a, of_b) = (Once::new(), Once::new());
    let (servers, path) = (Arc::clone(&pair), Arc::clone(&proxy));
    let charging = act(move |db, order, attempt| {
        let falls_behind = order == "a" && of_a.is_now();
        let fails_over = order == "b" && of_b.is_now();
        let (servers, path) = (Arc::clone(&servers), Arc::clone(&path));
        Box::pin(async move {
            if falls_behind {
                Arc::clone(&servers).fall_behind().await;
            }
            charge(db, &order).await?;
            if fails_over {
                let number = "SELECT pg_current_xact_id()::text::bigint";
                let number = sqlx::query_scalar(number).fetch_one(&mut *db).await?;
                Arc::clone(&servers).give_out_again(number).await;
                path.lead_to(servers.standby.port());
            }
            Ok(attempt.number())
        })
    });
    let all = shop.handle_together(&["a", "b", "c"], &charging).await;
    all_executed(&all);
    assert_eq!(shop.charges().await, ["a", "b", "c"]);
}

/// Of `b` the new server has the claim, and nothing that was written. It has not heard of the claim of `a`: another
/// worker gets the same token there, and completes `a`.
#[tokio::test]
async fn a_token_that_a_new_server_gives_out_again_completes_nobody_else() {
    let pair = Pair::start().await;
    let (shop, proxy) = pair.shop().await;
    let (a, b) = (request("a"), request("b"));
    let of_b = acquired(&shop, &b).await;
    Arc::clone(&pair).fall_behind().await;
    // The server writes down where its sequence stands once for 32 numbers. The standby hears of none of these.
    let mut bystander = shop.bystander().await;
    run(
        &mut bystander,
        "SELECT nextval('idem_records_token') FROM generate_series(1, 33)",
    )
    .await
    .unwrap();
    let of_a = acquired(&shop, &a).await;

    let mut ends = Vec::new();
    for lease in [&of_a, &of_b] {
        let mut slot = slot(&shop).await;
        charge(slot.transaction(), lease.key.as_str())
            .await
            .unwrap();
        ends.push(leave(slot, lease));
    }
    let last = slot(&shop).await;
    Arc::clone(&pair).take_over(&proxy).await;
    let mut bystander = shop.bystander().await;
    let next = "SELECT nextval('idem_records_token')";
    while sqlx::query_scalar::<_, i64>(next)
        .fetch_one(&mut bystander)
        .await
        .unwrap()
        + 1
        < of_a.token.get()
    {}
    let of_another = acquired(&shop, &request("a")).await;
    assert_eq!(of_another.token, of_a.token);
    let done = shop
        .store
        .complete(&of_another, &Outcome::new("done"), MINUTE)
        .await;
    assert_eq!(done.unwrap(), Write::Applied);
    drop(last);

    for (order, end) in ["a", "b"].iter().zip(ends) {
        let end = end.await;
        assert!(matches!(end, Ok(Finished::RolledBack)), "{order}: {end:?}");
    }
    assert!(shop.is_completed("a").await, "by the other worker");
    acquired(&shop, &b).await;
    assert_eq!(shop.charges().await, Vec::<String>::new());
}

async fn acquired(shop: &Shop, request: &ClaimRequest) -> Lease {
    match GroupStore::<PgConnection>::claim_for_group(&shop.store, request).await {
        Ok(Claim::Acquired(lease)) => lease,
        other => panic!("{other:?}"),
    }
}

async fn slot(shop: &Shop) -> Slot {
    let slot = shop.store.take_slot(Charge::SCOPE, 8);
    slot.await.expect("there is a transaction")
}

fn leave(
    slot: Slot,
    lease: &Lease,
) -> impl Future<Output = Result<Finished, StoreError>> + Send + use<> {
    slot.leave(Completion::new(lease, &Outcome::new("charged"), MINUTE))
}
