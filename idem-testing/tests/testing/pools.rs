//! Handlers with a pool of the application's own, from its state.

#[cfg(feature = "postgres")]
mod on_postgres {
    use idem_core::{
        FromRef,
        sqlx::{self, PgConnection, PgPool, postgres::PgPoolOptions},
    };
    use idem_servers::postgres;
    use idem_testing::{OnPostgres, assert_idempotent};
    use tokio::task::yield_now;

    use super::super::*;

    const SCHEMA: &str = "
        CREATE TABLE charges (order_id text, line int);
        CREATE TABLE prices (line int, cents int);
        INSERT INTO prices VALUES (1, 1250)";

    /// Looks first, in a transaction of its own.
    #[idempotent(key = "order_id")]
    async fn charge_unless_charged(
        order: OrderPlaced,
        State(pool): State<PgPool>,
    ) -> Result<(), Failed> {
        let mut transaction = pool.begin().await?;
        let charged = sqlx::query("SELECT FROM charges WHERE order_id = $1").bind(&order.order_id);
        if charged.fetch_optional(&mut *transaction).await?.is_none() {
            insert(&order, &mut transaction).await?;
        }
        yield_now().await;
        Ok(transaction.commit().await?)
    }

    /// Charges again whenever it runs.
    #[idempotent(key = "order_id")]
    async fn charge_again(order: OrderPlaced, State(pool): State<PgPool>) -> Result<(), Failed> {
        Ok(insert(&order, &mut *pool.acquire().await?).await?)
    }

    async fn insert(order: &OrderPlaced, db: &mut PgConnection) -> Result<(), sqlx::Error> {
        let statement = sqlx::query("INSERT INTO charges VALUES ($1, $2)")
            .bind(&order.order_id)
            .bind(i32::try_from(order.line).unwrap());
        statement.execute(db).await.map(drop)
    }

    async fn setup() -> Setup<PgPool, OnPostgres> {
        let url = postgres::shared().unwrap().url();
        let setup = Setup::new(|| ()).postgres(&url, SCHEMA).await;
        setup.state(OnPostgres::pool)
    }

    async fn charges<H, St>(run: &Harness<H, St, OnPostgres>) -> Vec<(String, i32)> {
        sqlx::query_as("SELECT order_id, line FROM charges ORDER BY order_id, line")
            .fetch_all(&mut *run.database().await)
            .await
            .unwrap()
    }

    #[tokio::test(start_paused = true)]
    async fn a_leased_handler_that_looks_first_passes_at_every_point() {
        let shop = setup().await.handler::<charge_unless_charged>();
        assert_idempotent(&shop, &order(), charges).await;
        // Each run had a database of its own.
        assert!(charges(&shop).await.is_empty());
    }

    #[tokio::test(start_paused = true)]
    async fn a_leased_handler_that_charges_again_is_found_out() {
        let shop = setup().await.handler::<charge_again>();
        let panic = panic_of(assert_idempotent(&shop, &order(), charges)).await;
        let told = "crash after the handler, before the completion: the effect is doubled";
        assert!(panic.contains(told), "{panic}");
    }

    /// With what a service has beside its pool.
    #[derive(Clone, FromRef)]
    struct Shop {
        pool: PgPool,
        journal: Journal,
    }

    #[idempotent(key = "order_id")]
    async fn charge_the_price(
        order: OrderPlaced,
        State(pool): State<PgPool>,
        State(journal): State<Journal>,
        db: &mut PgConnection,
    ) -> Result<(), Failed> {
        let price: i32 = sqlx::query_scalar("SELECT cents FROM prices WHERE line = 1")
            .fetch_one(&pool)
            .await?;
        journal.write(price.to_string());
        let line = u32::try_from(price).unwrap();
        Ok(insert(&OrderPlaced { line, ..order }, db).await?)
    }

    /// What goes by the pool is not rolled back with the transaction.
    #[idempotent(key = "order_id")]
    async fn charge_beside_the_transaction(
        order: OrderPlaced,
        State(pool): State<PgPool>,
        db: &mut PgConnection,
    ) -> Result<(), Failed> {
        sqlx::query("SELECT 1").execute(db).await?;
        Ok(insert(&order, &mut *pool.acquire().await?).await?)
    }

    async fn shop() -> Setup<Shop, OnPostgres> {
        let url = postgres::shared().unwrap().url();
        let setup = Setup::new(|| ()).postgres(&url, SCHEMA).await;
        setup.state(|database| {
            let options = PgPoolOptions::new().max_connections(2);
            Shop {
                pool: options.connect_lazy_with(database.connect_options()),
                journal: Journal::default(),
            }
        })
    }

    #[tokio::test(start_paused = true)]
    async fn an_atomic_handler_reads_by_its_pool_what_is_in_the_same_tables() {
        let shop = shop().await.handler::<charge_the_price>();
        assert_idempotent(&shop, &order(), charges).await;
        shop.deliver(&order()).await;
        assert_eq!(charges(&shop).await, [("o-17".to_owned(), 1250)]);
        assert_eq!(shop.state().journal.read(), ["1250"]);
    }

    #[tokio::test(start_paused = true)]
    async fn an_atomic_handler_that_writes_by_its_pool_is_found_out() {
        let shop = shop().await.handler::<charge_beside_the_transaction>();
        let panic = panic_of(assert_idempotent(&shop, &order(), charges)).await;
        let told = "crash after the handler, before the completion: the effect is doubled";
        assert!(panic.contains(told), "{panic}");
    }

    #[tokio::test(start_paused = true)]
    async fn what_a_harness_has_made_is_gone_with_it_though_its_pool_has_begun_something() {
        let shop = setup().await.handler::<charge_again>();
        let mut database = shop.database().await;
        let schema: String = sqlx::query_scalar("SELECT current_schema()")
            .fetch_one(&mut *database)
            .await
            .unwrap();
        let pool = shop.state().clone();
        let mut transaction = pool.begin().await.unwrap();
        let order = OrderPlaced {
            order_id: "o-17".into(),
            line: 1,
        };
        insert(&order, &mut transaction).await.unwrap();
        drop(shop);
        let left: i64 = sqlx::query_scalar("SELECT count(*) FROM pg_namespace WHERE nspname = $1")
            .bind(schema)
            .fetch_one(&mut *database)
            .await
            .unwrap();
        assert_eq!(left, 0);
    }
}

#[cfg(feature = "sqlite")]
mod on_sqlite {
    use idem_core::sqlx::{self, SqliteConnection, SqlitePool};
    use idem_testing::{OnSqlite, assert_idempotent};

    use super::super::*;

    const SCHEMA: &str = "
        CREATE TABLE charges (order_id TEXT, line INTEGER);
        CREATE TABLE known (order_id TEXT PRIMARY KEY);
        CREATE TABLE prices (cents INTEGER);
        INSERT INTO prices VALUES (1250)";

    #[idempotent(key = "order_id")]
    async fn note(order: OrderPlaced, State(pool): State<SqlitePool>) -> Result<(), Failed> {
        let statement = sqlx::query("INSERT OR IGNORE INTO known VALUES (?)");
        statement.bind(&order.order_id).execute(&pool).await?;
        Ok(())
    }

    /// Charges again whenever it runs.
    #[idempotent(key = "order_id")]
    async fn charge_again(
        order: OrderPlaced,
        State(pool): State<SqlitePool>,
    ) -> Result<(), Failed> {
        let statement = sqlx::query("INSERT INTO charges VALUES (?, 1)");
        statement.bind(&order.order_id).execute(&pool).await?;
        Ok(())
    }

    #[idempotent(key = "order_id")]
    async fn charge_the_price(
        order: OrderPlaced,
        State(pool): State<SqlitePool>,
        db: &mut SqliteConnection,
    ) -> Result<(), Failed> {
        let cents: i64 = sqlx::query_scalar("SELECT cents FROM prices")
            .fetch_one(&pool)
            .await?;
        let statement = sqlx::query("INSERT INTO charges VALUES (?, ?)");
        let statement = statement.bind(&order.order_id).bind(cents);
        statement.execute(db).await?;
        Ok(())
    }

    async fn setup() -> Setup<SqlitePool, OnSqlite> {
        let setup = Setup::new(|| ()).sqlite(SCHEMA).await;
        setup.state(OnSqlite::pool)
    }

    async fn charges<H>(run: &Harness<H, SqlitePool, OnSqlite>) -> Vec<(String, i64)> {
        sqlx::query_as("SELECT order_id, line FROM charges UNION ALL SELECT order_id, 0 FROM known")
            .fetch_all(&mut *run.database().await)
            .await
            .unwrap()
    }

    #[tokio::test(start_paused = true)]
    async fn a_leased_handler_that_knows_its_orders_passes_at_every_point() {
        let shop = setup().await.handler::<note>();
        assert_idempotent(&shop, &order(), charges).await;
    }

    #[tokio::test(start_paused = true)]
    async fn a_leased_handler_that_charges_again_is_found_out() {
        let shop = setup().await.handler::<charge_again>();
        let panic = panic_of(assert_idempotent(&shop, &order(), charges)).await;
        let told = "crash after the handler, before the completion: the effect is doubled";
        assert!(panic.contains(told), "{panic}");
    }

    #[tokio::test(start_paused = true)]
    async fn an_atomic_handler_reads_by_its_pool_what_is_in_the_same_file() {
        let shop = setup().await.handler::<charge_the_price>();
        assert_idempotent(&shop, &order(), charges).await;
        shop.deliver(&order()).await;
        assert_eq!(charges(&shop).await, [("o-17".to_owned(), 1250)]);
    }
}

#[tokio::test(start_paused = true)]
async fn a_state_that_is_made_later_is_made_once() {
    use super::*;
    let made = Arc::new(Mutex::new(0));
    let count = Arc::clone(&made);
    let setup = Setup::new(|| panic!("it is not asked")).state(move |_| {
        *count.lock().unwrap() += 1;
        Journal::default()
    });
    let harness = setup.handler::<charge>();
    harness.deliver(&order()).await;
    assert_eq!(harness.state().read(), ["o-17"]);
    assert_eq!(*made.lock().unwrap(), 1);
}
