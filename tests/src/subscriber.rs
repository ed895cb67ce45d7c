//! The only subscriber of the process: what is logged and traced, for all tests.
//!
//! A test that set a subscriber of its own for its thread could panic. sqlx runs `SQLite` on a thread of its own, which
//! may be the last to drop a span. The registry then closes the span's parent at the default subscriber of *that* thread,
//! which does not know it. So a test only marks its thread, by [`Log::capture`] or [`Traced::record`], and the layers
//! look for the mark.
//!
//! [`Log::capture`]: crate::log::Log::capture
//! [`Traced::record`]: crate::traced::Traced::record

use std::sync::Once;

use tracing_subscriber::{
    EnvFilter, Layer as _, filter::FilterExt as _, fmt, layer::SubscriberExt as _, registry,
    util::SubscriberInitExt as _,
};

use crate::{log, traced};

/// Sets it up, unless the process has one: programs have theirs.
pub(crate) fn install() {
    static INSTALLED: Once = Once::new();
    INSTALLED.call_once(|| {
        let filter = EnvFilter::try_from_default_env()
            .unwrap_or_else(|_| "idem_amqp=debug,idem_core=debug,warn".into());
        // What is written belongs to the test that is running on this thread.
        let output = fmt::layer().with_ansi(false).with_test_writer();
        let _ = registry()
            .with(output.with_filter(filter.and(log::is_captured().not())))
            .with(log::layer())
            .with(traced::layer())
            .try_init();
    });
}

#[cfg(test)]
mod tests {
    use futures_util::FutureExt as _;
    use idem_amqp::sqlx::{self, Connection as _, SqliteConnection};
    use tracing::{Instrument as _, Span, info_span};

    use crate::{journal::within, log::Log, traced::Traced};

    const SPANS: usize = 20;

    /// Keeps `SQLite`'s thread busy, so that all others are still to come.
    const SLOW: &str =
        "WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n LIMIT 1000000)
                        SELECT count(*) FROM n";

    #[tokio::test]
    async fn sqlites_thread_may_be_the_last_to_drop_a_span_of_a_test() {
        let (log, traced) = (Log::default(), Traced::default());
        let _marked = (log.capture(), traced.record());
        let db = SqliteConnection::connect("sqlite::memory:").await;
        let mut db = db.expect("a database in memory");
        let mut give_up = |sql, span| {
            // SQLite's thread has the statement then, and the span with it.
            let asked = sqlx::query(sql).execute(&mut db).instrument(span);
            if let Some(answer) = asked.now_or_never() {
                answer.expect("SQLite's thread is there");
            }
        };
        give_up(SLOW, Span::none());
        for _ in 0..SPANS {
            let parent = info_span!(target: "test", "parent");
            let child = info_span!(target: "test", parent: &parent, "child");
            give_up("SELECT 1", child);
        }
        let answer = within("SQLite's thread answers", db.ping()).await;
        answer.expect("it works");
        for name in ["parent", "child"] {
            assert_eq!(traced.named(name).len(), SPANS, "{name}");
        }
    }
}
