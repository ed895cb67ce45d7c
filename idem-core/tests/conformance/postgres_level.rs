//! A database of each isolation level: what its default is must not matter to a store.

use std::sync::OnceLock;

use idem_core::store::Owner;
use idem_servers::postgres;

/// What a transaction begins as in a database, unless the handler says otherwise.
pub(crate) trait Level: Send + Sync + 'static {
    const NAME: &'static str;

    /// A database of this level, for all cases of this process.
    fn database() -> &'static str;
}

macro_rules! levels {
    ($($level:ident: $name:literal)+) => { $(
        #[allow(dead_code, reason = "not every test asks for every level")]
        pub(crate) struct $level;

        impl Level for $level {
            const NAME: &'static str = $name;

            fn database() -> &'static str {
                static URL: OnceLock<String> = OnceLock::new();
                URL.get_or_init(|| create_database(Self::NAME))
            }
        }
    )+ };
}

levels! {
    ReadCommitted: "read committed"
    RepeatableRead: "repeatable read"
    Serializable: "serializable"
}

fn create_database(level: &str) -> String {
    let server = postgres::shared().expect("PostgreSQL can be started");
    let name = unique("level");
    let url = server.create_database(&name).expect("the name is new");
    let set = format!("ALTER DATABASE {name} SET default_transaction_isolation = '{level}'");
    server.query(&name, &set).expect("the level is one");
    url
}

/// A name that no other schema or database has.
pub(crate) fn unique(prefix: &str) -> String {
    format!(
        "{prefix}_{:x}",
        u128::from_be_bytes(*Owner::new().as_bytes())
    )
}
