//! A [`Link`]: one connection, replaced when it breaks, and what is sent over it repeated where that helps.
//!
//! The tasks of claims and writes, the sessions of clients, heartbeats, purges and operators each have one. What must
//! stay true:
//!
//! - Whatever is sent may be carried out more than once, so it does no harm when repeated.
//! - A connection is used again only after its answer was read to the end.
//! - A server that does not answer is not asked more and more.

use std::time::Duration;

use sqlx::{
    AssertSqlSafe, ConnectOptions, Connection, PgConnection, Postgres,
    postgres::{PgArguments, PgConnectOptions, PgRow},
    query::Query,
};
use tokio::time::{self, Instant};

use super::fault::{Fault, Remedy};
use crate::{futures::FutureExt as _, handler::Backoff};

/// How often a statement is sent again because a transaction of others was in its way.
const REPEATS: u32 = 12;
/// How often a statement is sent on a new connection after one that worked before broke.
const RECONNECTS: u32 = 5;

/// The wait before a statement is sent again on the same connection.
const BETWEEN_REPEATS: Backoff = Backoff::new(Duration::from_millis(2), Duration::from_millis(100));
/// The wait before the next try to connect, after tries that failed.
const BETWEEN_CONNECTS: Backoff = Backoff::new(Duration::from_millis(50), Duration::from_secs(1));

/// The longest time for which no connection is opened to a server that leaves statement after
/// statement unanswered.
const LONGEST_REST: Duration = Duration::from_mins(5);

/// How long a plan is kept. One that was made while the table was small reads all of it, and the
/// server does not notice that it has grown before its next `ANALYZE`, perhaps minutes later.
const PLANS_LAST: Duration = Duration::from_secs(10);

/// With these settings the server ends a connection whose other end has been gone for 25 s; by default after two
/// hours, and until then it counts towards `max_connections`. Over a Unix socket they do nothing.
pub(super) const KEEPALIVES: [(&str, &str); 4] = [
    ("tcp_keepalives_idle", "10"),
    ("tcp_keepalives_interval", "5"),
    ("tcp_keepalives_count", "3"),
    ("tcp_user_timeout", "25000"),
];

/// A statement ready to be sent.
pub(super) type Statement = Query<'static, Postgres, PgArguments>;

/// Where to connect to, and how long to wait for an answer. Clones are cheap.
#[derive(Clone)]
pub(super) struct Address {
    pub(super) options: PgConnectOptions,
    /// How long each statement, each piece of work and each connection that is opened may take.
    pub(super) response_timeout: Duration,
}

/// What is done on a connection. It may be done more than once, so it must do no harm when
/// repeated. Whatever transaction it begins, it ends; one that it drops is rolled back before the
/// connection's next use.
pub(super) trait Work {
    /// What it comes to.
    type Done;

    /// Does it. The caller limits how long that may take, and drops it when the time is over.
    fn on(
        &self,
        connection: &mut PgConnection,
    ) -> impl Future<Output = Result<Self::Done, sqlx::Error>> + Send;
}

/// A connection that is opened when it is needed. The statements of one link follow each other.
pub(super) struct Link {
    address: Address,
    /// Taken out while something is sent. So if the sender is dropped half way, the connection goes
    /// with it, and nobody reads the rest of a stranger's answer.
    connection: Option<PgConnection>,
    /// When its prepared statements were last forgotten.
    planned: Instant,
    /// How often connecting has failed since it last worked.
    failures: u32,
    /// How many statements were left unanswered since one was carried out, also those that forget
    /// prepared ones. Each may still be running at the server.
    unanswered: u32,
    /// No connection is opened before this time.
    rests_until: Instant,
}

/// How often one statement, or one piece of work, was done over. Each begins anew.
#[derive(Default)]
struct Tries {
    /// How often it was done over on the same connection.
    repeats: u32,
    /// How often it was done over on a new one.
    reconnects: u32,
}

impl Address {
    /// Opens a connection and sets its keepalives. One that is ended before it is open is tried again a few times: a
    /// proxy does that while it is led to another server, and so does a server that is just shutting down.
    pub(super) async fn connect(&self) -> Result<PgConnection, Fault> {
        let mut reconnects = 0;
        loop {
            match self.try_connect().await {
                Err(fault) if fault.was_cut() && reconnects < RECONNECTS => reconnects += 1,
                connected => return connected,
            }
        }
    }

    async fn try_connect(&self) -> Result<PgConnection, Fault> {
        // Boxed: a handshake of TLS takes room, and whoever waits for a transaction has this in it.
        let connecting = Box::pin(self.options.connect());
        let mut connection = self.within_timeout(connecting).await?;
        let keepalives = KEEPALIVES.map(|(name, value)| format!("SET {name} = {value}"));
        let keepalives = AssertSqlSafe(keepalives.join("; "));
        let set = sqlx::raw_sql(keepalives).execute(&mut connection);
        self.within_timeout(set).await?;
        Ok(connection)
    }

    /// The same, for connections that have their keepalives from the start, so that no `RESET` takes
    /// them; `None` if the server does not take settings from the start, or a pooler in between.
    pub(super) async fn with_keepalives(&self) -> Option<Self> {
        let options = self.options.clone().options(KEEPALIVES);
        let asked = async {
            let mut connection = options.connect().await?;
            let (name, _) = KEEPALIVES[0];
            let setting = AssertSqlSafe(format!("SHOW {name}"));
            let value: String = sqlx::query_scalar(setting)
                .fetch_one(&mut connection)
                .await?;
            connection.close().await?;
            Ok(value)
        };
        let keepalive = self.within_timeout(asked).await;
        let has_them = keepalive.is_ok_and(|idle| idle == KEEPALIVES[0].1);
        has_them.then_some(Self {
            options,
            response_timeout: self.response_timeout,
        })
    }

    /// The answer, or `Silent` if there is none within the response time-out. The statement may be
    /// carried out all the same.
    ///
    /// Not an `async fn`: that would have room for the answer's future twice.
    pub(super) fn within_timeout<T>(
        &self,
        answer: impl Future<Output = Result<T, sqlx::Error>>,
    ) -> impl Future<Output = Result<T, Fault>> {
        let timeout = self.response_timeout;
        time::timeout(timeout, answer).map(move |answer| match answer {
            Ok(answer) => Ok(answer?),
            Err(_) => Err(Fault::Silent(timeout)),
        })
    }
}

impl Link {
    /// Connects when something is first sent.
    pub(super) fn new(address: Address) -> Self {
        Self {
            address,
            connection: None,
            planned: Instant::now(),
            failures: 0,
            unanswered: 0,
            rests_until: Instant::now(),
        }
    }

    /// Begins with a connection that is open already.
    pub(super) fn on(connection: PgConnection, address: Address) -> Self {
        Self {
            connection: Some(connection),
            ..Self::new(address)
        }
    }

    /// Sends a statement and waits for its rows. It may be carried out more than once, so it must
    /// be one that does no harm when repeated.
    ///
    /// # Cancel safety
    /// The statement may be carried out. A connection whose answer nobody waited for is closed.
    pub(super) async fn fetch(
        &mut self,
        statement: impl Fn() -> Statement,
    ) -> Result<Vec<PgRow>, Fault> {
        let mut tries = Tries::default();
        loop {
            let mut connection = self.take().await?;
            let answer = statement().fetch_all(&mut connection);
            let answer = self.address.within_timeout(answer).await;
            if let Some(answer) = self.done_or_again(connection, answer, &mut tries).await {
                return answer;
            }
        }
    }

    /// Does some work, all of it within the response time-out.
    ///
    /// # Cancel safety
    /// The work may be done, or a part of it that is rolled back. A connection whose answer nobody
    /// waited for is closed.
    pub(super) async fn carry_out<W: Work>(&mut self, work: &W) -> Result<W::Done, Fault> {
        let mut tries = Tries::default();
        loop {
            let mut connection = self.take().await?;
            let answer = work.on(&mut connection);
            let answer = self.address.within_timeout(answer).await;
            if let Some(answer) = self.done_or_again(connection, answer, &mut tries).await {
                return answer;
            }
        }
    }

    /// What comes of an answer, and of the connection that it came over; `None` if it is to be
    /// asked for once more.
    async fn done_or_again<T>(
        &mut self,
        connection: PgConnection,
        answer: Result<T, Fault>,
        tries: &mut Tries,
    ) -> Option<Result<T, Fault>> {
        let fault = match answer {
            Ok(done) => {
                self.unanswered = 0;
                self.connection = Some(connection);
                return Some(Ok(done));
            }
            Err(fault) => fault,
        };
        self.note(&fault);
        // Unless a new connection is the remedy, this one is as good as before, and kept. After a
        // broken link or silence nobody knows what is still to come over it: it is dropped, which
        // closes it.
        let remedy = fault.remedy();
        if remedy != Remedy::Reconnect {
            self.connection = Some(connection);
        }
        match (remedy, &fault) {
            // Nothing has happened: the server has rolled the statement back to let another one
            // through.
            (Remedy::Repeat, _) if tries.repeats < REPEATS => {
                tries.repeats += 1;
                time::sleep(BETWEEN_REPEATS.wait(tries.repeats)).await;
            }
            // Not after silence: whoever has waited in vain for the whole time-out has waited long
            // enough.
            (Remedy::Reconnect, Fault::Said(_)) if tries.reconnects < RECONNECTS => {
                tries.reconnects += 1;
            }
            _ => return Some(Err(fault)),
        }
        None
    }

    /// Counts a statement that was not answered. From the second on, no connection is opened for a
    /// while.
    ///
    /// The server goes on with a statement that nobody waits for any more, and its process stays
    /// that long. To ask again at once is worth one try; from then on processes would pile up.
    fn note(&mut self, fault: &Fault) {
        // Nothing else is counted, and only an answer sets the count back. An error of the server
        // is no sign that statements end: it may only say that a row is locked, by a statement that
        // hangs in its commit.
        if !matches!(fault, Fault::Silent(_)) {
            return;
        }
        self.unanswered = self.unanswered.saturating_add(1);
        if let Some(rest @ 1..) = self.unanswered.checked_sub(1) {
            let rests = Backoff::new(self.address.response_timeout, LONGEST_REST);
            self.rests_until = Instant::now() + rests.wait(rest);
        }
    }

    /// Says goodbye to the server, and waits no longer for that than for any answer.
    pub(super) async fn close(self) {
        if let Some(connection) = self.connection {
            // Nobody is left to hear of a failure.
            let _ = time::timeout(self.address.response_timeout, connection.close()).await;
        }
    }

    /// The connection, or a new one; `Resting` while none is to be opened.
    async fn take(&mut self) -> Result<PgConnection, Fault> {
        if let Some(mut connection) = self.connection.take() {
            match self.plan_anew(&mut connection).await {
                Ok(()) => return Ok(connection),
                // A connection on which not even this works is dropped, and the next one tried. If it was not
                // answered, that counts: a server that is frozen leaves what follows unanswered as well.
                Err(fault) => self.note(&fault),
            }
        }
        let rest = self.rests_until.saturating_duration_since(Instant::now());
        if !rest.is_zero() {
            return Err(Fault::Resting(rest));
        }
        if self.failures > 0 {
            time::sleep(BETWEEN_CONNECTS.wait(self.failures)).await;
        }
        self.planned = Instant::now();
        let connected = self.address.connect().await;
        self.failures = match connected {
            Ok(_) => 0,
            Err(_) => self.failures.saturating_add(1),
        };
        connected
    }

    /// Forgets the prepared statements from time to time, so that the server plans them anew.
    async fn plan_anew(&mut self, connection: &mut PgConnection) -> Result<(), Fault> {
        if self.planned.elapsed() < PLANS_LAST {
            return Ok(());
        }
        self.planned = Instant::now();
        let forgotten = connection.clear_cached_statements();
        self.address.within_timeout(forgotten).await
    }
}

#[cfg(test)]
mod tests {
    use idem_servers::postgres;

    use super::*;
    use crate::stores::postgres::atomic::tests::proxy::{Proxy, Weather};

    /// The connection falls silent while nobody uses it, so the first that notices is what forgets the plans.
    #[tokio::test]
    async fn silence_to_what_forgets_the_plans_counts_as_a_statement_that_was_not_answered() {
        let server = postgres::shared().expect("PostgreSQL can be started");
        let proxy = Proxy::to(server.port()).await;
        let direct = format!(":{}/", server.port());
        let url = server.url().replace(&direct, &format!(":{}/", proxy.port));
        let mut link = Link::new(Address {
            options: url.parse().expect("it is a URL"),
            response_timeout: Duration::from_millis(300),
        });
        let one = || sqlx::query("SELECT 1");
        link.fetch(one).await.expect("the proxy forwards");
        link.planned = Instant::now() - PLANS_LAST;
        proxy.set(Weather::Frozen);
        link.fetch(one).await.expect_err("nothing arrives");
        assert_eq!(link.unanswered, 1);

        proxy.set(Weather::Fine);
        link.fetch(one).await.expect("one is worth another try");
        assert_eq!(link.unanswered, 0);
    }
}
