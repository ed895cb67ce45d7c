//! A standby that takes over, and gives out again the numbers of transactions that it has not heard of.

use xtask::services::Postgres;

use super::*;
use crate::stores::postgres::atomic::tests::link::Link;

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
    work: impl FnOnce() -> xtask::Result<T> + Send + 'static,
) -> T {
    let done = tokio::task::spawn_blocking(work).await;
    done.expect("it does not panic").expect("the servers obey")
}

/// `a` is lost with the old server, though the new one calls a transaction of that number committed.
#[tokio::test]
async fn a_number_that_a_new_server_gives_out_again_completes_nobody() {
    let pair = Pair::start().await;
    let link = Arc::new(Link::to(pair.primary.port()).await);
    let url = pair.primary.url().replace(
        &format!(":{}/", pair.primary.port()),
        &format!(":{}/", link.port),
    );
    let shop = Shop::at(&url, |builder| builder.groups(1)).await;
    let (of_a, of_b) = (Once::new(), Once::new());
    let (servers, path) = (Arc::clone(&pair), Arc::clone(&link));
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
