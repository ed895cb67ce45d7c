//! What cases on PostgreSQL use one after the other: a runtime, and in it two stores of one schema. To create the
//! tables, and to open stores, costs ten times what a case does with them.
//!
//! A case never meets another one: nobody else has the schema, and it is emptied before the next case begins.

use std::{
    cell::RefCell,
    pin::Pin,
    sync::{Mutex, MutexGuard, PoisonError},
    thread,
    time::{Duration, Instant},
};

use idem_core::{
    Key, Outcome, Policy, PostgresStore, Store,
    sqlx::{AssertSqlSafe, Connection as _, Executor as _, PgConnection, query_scalar},
    store::{Claim, ClaimRequest},
};
use tokio::runtime::{Builder, Runtime};

use super::{
    postgres_level::{Level, unique},
    twice::Twice,
};

/// Two stores, as of two processes, and a connection beside them.
pub(crate) struct Opened {
    pub(crate) stores: Twice<PostgresStore>,
    pub(crate) bystander: tokio::sync::Mutex<PgConnection>,
    database: &'static str,
    schema: String,
}

struct Kept {
    database: &'static str,
    opened: Option<Box<Opened>>,
    runtime: Runtime,
}

/// What no case uses at the moment.
static IDLE: Mutex<Vec<Kept>> = Mutex::new(Vec::new());

/// What the case on this thread is given, and gives back.
#[derive(Default)]
enum Given {
    /// It is not run by [`block_on`].
    #[default]
    Nothing,
    Place(Option<Box<Opened>>),
}

thread_local! {
    static GIVEN: RefCell<Given> = const { RefCell::new(Given::Nothing) };
}

/// How long what an earlier case has given up may still be under way.
const SOON: Duration = Duration::from_secs(5);

/// Runs a case to its end.
pub(crate) fn block_on<L: Level>(case: Pin<Box<dyn Future<Output = ()> + '_>>) {
    let mut kept = Kept::take(L::database());
    GIVEN.set(Given::Place(kept.opened.take()));
    // A case that fails takes with it what it has used.
    kept.runtime.block_on(case);
    if let Given::Place(opened) = GIVEN.take() {
        kept.opened = opened;
    }
    idle().push(kept);
}

fn idle() -> MutexGuard<'static, Vec<Kept>> {
    IDLE.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Kept {
    /// One of this database, in the place of one of another: there are never more than tests that run at a time.
    fn take(database: &'static str) -> Self {
        let mut idle = idle();
        let same = idle.iter().rposition(|kept| kept.database == database);
        let last = same.map(|place| idle.remove(place)).or_else(|| idle.pop());
        drop(idle);
        if let Some(last) = last {
            if last.database == database {
                return last;
            }
            let _within = last.runtime.enter();
            drop(last.opened);
        }
        let runtime = Builder::new_current_thread().enable_all().build();
        Self {
            database,
            opened: None,
            runtime: runtime.expect("a runtime can be built"),
        }
    }
}

/// [`Opened`] while a case has it.
pub(crate) struct Own(Option<Box<Opened>>);

impl Own {
    /// What the case before has left, emptied, or something new.
    pub(crate) async fn take<L: Level>() -> Self {
        let given = GIVEN.with_borrow_mut(|given| match given {
            Given::Nothing => None,
            Given::Place(opened) => opened.take(),
        });
        if let Some(opened) = given
            && opened.is_at_rest().await
        {
            opened.empty().await;
            opened.stores.restart(PostgresStore::reset_clock);
            return Self(Some(opened));
        }
        Self(Some(Box::new(Opened::new(L::database()).await)))
    }

    pub(crate) fn get(&self) -> &Opened {
        self.0.as_ref().expect("it is given back in the end")
    }
}

impl Drop for Own {
    fn drop(&mut self) {
        if !thread::panicking() {
            GIVEN.with_borrow_mut(|given| {
                if let Given::Place(opened) = given {
                    *opened = self.0.take();
                }
            });
        }
    }
}

impl Opened {
    async fn new(database: &'static str) -> Self {
        let schema = unique("case");
        let stores = Twice::of([open(database, &schema).await, open(database, &schema).await]);
        let connection = PgConnection::connect(&url(database, &schema)).await;
        let mut bystander = connection.expect("it is up");
        // The handlers' own tables lie beside the store's.
        let tables = bystander.execute(
            "CREATE TABLE effects (name text NOT NULL);
             CREATE TABLE entities (name text CONSTRAINT entities_name_key UNIQUE)",
        );
        tables.await.expect("the schema is new");
        Self {
            stores,
            bystander: tokio::sync::Mutex::new(bystander),
            database,
            schema,
        }
    }

    /// Opens both anew.
    pub(crate) async fn reopen(&self) {
        let open = async || open(self.database, &self.schema).await;
        self.stores
            .reopen([open().await, open().await], PostgresStore::advance);
    }

    /// Whether nothing is under way that the case before has asked for, and has not waited for.
    async fn is_at_rest(&self) -> bool {
        for _ in 0..2 {
            // It is behind all that waits for the same connections.
            let store = self.stores.next();
            let key = Key::new("rest", unique("key")).expect("a short name");
            let claim = store.claim(&ClaimRequest::new(key, &Policy::DEFAULT)).await;
            let Ok(Claim::Acquired(lease)) = claim else {
                return false;
            };
            let outcome = Outcome::new("rest");
            let completed = store.complete(&lease, &outcome, SOON).await;
            if completed.is_err() {
                return false;
            }
        }
        let begun = Instant::now();
        let busy = format!(
            "SELECT count(*) FROM pg_stat_activity
             WHERE application_name = '{}' AND pid <> pg_backend_pid() AND state <> 'idle'",
            self.schema
        );
        let mut bystander = self.bystander.lock().await;
        while begun.elapsed() < SOON {
            let busy = query_scalar::<_, i64>(AssertSqlSafe(busy.as_str()));
            match busy.fetch_one(&mut *bystander).await {
                Ok(0) => return true,
                Ok(_) => tokio::time::sleep(Duration::from_millis(1)).await,
                Err(_) => return false,
            }
        }
        false
    }

    /// Deletes all rows.
    async fn empty(&self) {
        let delete = format!(
            "DO $$
             DECLARE
                 name text;
             BEGIN
                 FOR name IN SELECT oid::regclass FROM pg_class
                     WHERE relnamespace = '{}'::regnamespace AND relkind = 'r' AND relname <> 'idem_records_meta'
                 LOOP
                     EXECUTE 'DELETE FROM ' || name;
                 END LOOP;
             END
             $$",
            self.schema
        );
        let mut bystander = self.bystander.lock().await;
        let deleted = bystander.execute(AssertSqlSafe(delete)).await;
        deleted.expect("nobody else uses the tables");
    }
}

async fn open(database: &str, schema: &str) -> PostgresStore {
    let store = PostgresStore::builder(&url(database, schema)).schema(schema);
    // One group at a time, so that two messages are in the same.
    let store = store.groups(1).build().await;
    store.expect("the server can be reached")
}

fn url(database: &str, schema: &str) -> String {
    format!("{database}?application_name={schema}&options[search_path]={schema}")
}
