//! Groups in each other's way.

use tokio::sync::Barrier;

use super::*;

/// The one sells `x` and then `y`, the other `y` and then `x`, each in a group of its own.
#[tokio::test]
async fn a_deadlock_between_groups_is_nobodys_attempt() {
    let shop = Shop::with(|builder| builder.groups(2)).await;
    let stock = "INSERT INTO stock VALUES ('x'), ('y')";
    run(&mut shop.bystander().await, stock).await.unwrap();
    let (both, firsts) = (Arc::new(Barrier::new(2)), [Once::new(), Once::new()]);
    let firsts = Arc::new(firsts);
    let selling = act(move |db, order, attempt| {
        let (both, is_x) = (Arc::clone(&both), order == "xy");
        let beside_others = firsts[usize::from(is_x)].is_now();
        Box::pin(async move {
            let items = if is_x { ["x", "y"] } else { ["y", "x"] };
            for item in items {
                let sold = sqlx::query("UPDATE stock SET sold = sold + 1 WHERE item = $1");
                sold.bind(item).execute(&mut *db).await?;
                if beside_others && item == items[0] {
                    both.wait().await;
                }
            }
            Ok(attempt.number())
        })
    });
    let _others = shop.others().await;
    let (one, other) = tokio::join!(shop.handle("xy", &selling), shop.handle("yx", &selling));
    all_executed(&[one, other]);
    let sold: Vec<i32> = sqlx::query_scalar("SELECT sold FROM stock")
        .fetch_all(&mut shop.bystander().await)
        .await
        .unwrap();
    assert_eq!(sold, [2, 2]);
}

/// Groups that wait for each other's rows all the time, and a worker that does not ask why.
#[tokio::test]
async fn many_messages_of_several_groups_that_lock_the_same_rows_are_each_done_once() {
    let shop = Shop::with(|builder| builder.groups(3)).await;
    let stock = "INSERT INTO stock SELECT g::text FROM generate_series(0, 4) g";
    run(&mut shop.bystander().await, stock).await.unwrap();
    let selling = charge_and(|db, order| {
        Box::pin(async move {
            let number: usize = order.parse()?;
            for item in [number % 5, number / 5 % 5] {
                let sold = sqlx::query("UPDATE stock SET sold = sold + 1 WHERE item = $1");
                sold.bind(item.to_string()).execute(&mut *db).await?;
            }
            Ok(())
        })
    });
    let all = (0..50).map(|number: usize| {
        let (shop, selling) = (&shop, &selling);
        async move {
            // An attempt that a deadlock has ended is made again, as a worker would.
            loop {
                match shop.handle(&number.to_string(), selling).await {
                    Execution::Executed { .. } => return,
                    Execution::Failed { .. } => shop.store.advance(MINUTE / 6),
                    Execution::Conflict { .. } => {
                        tokio::time::sleep(Duration::from_millis(20)).await;
                    }
                    other => panic!("{other:?}"),
                }
            }
        }
    });
    futures_util::future::join_all(all).await;
    assert_eq!(shop.charges().await.len(), 50);
    let sold: i64 = sqlx::query_scalar("SELECT sum(sold) FROM stock")
        .fetch_one(&mut shop.bystander().await)
        .await
        .unwrap();
    assert_eq!(sold, 100);
    assert!(shop.transactions().await < 50);
}
