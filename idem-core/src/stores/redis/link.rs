//! One connection that all callers share, and the next one after it broke.

use std::{
    fmt,
    sync::{Mutex, PoisonError},
    time::Duration,
};

use futures_util::{
    FutureExt,
    future::{BoxFuture, Shared},
};
use redis::{
    AsyncConnectionConfig, Client, Cmd, ConnectionInfo, Pipeline, RedisResult, Value,
    aio::MultiplexedConnection,
};

use super::{fault, location, sentinel::Watched};

/// A connection to one server.
///
/// The client's own `ConnectionManager` keeps a connection that has stopped answering, and lets
/// callers wait while it tries to connect several times. Here a connection that let one caller
/// wait too long is replaced, a new one is tried once for all who wait, and if that fails they
/// are told at once.
pub(super) struct Link {
    route: Route,
    config: AsyncConnectionConfig,
    current: Mutex<Connecting>,
}

/// Where a link leads.
#[derive(Clone)]
enum Route {
    Server(Box<Client>),
    /// Wherever the sentinels say at the time.
    Watched(Box<Watched>),
}

type Connecting = Shared<BoxFuture<'static, RedisResult<MultiplexedConnection>>>;

/// How long a link waits.
#[derive(Debug, Clone, Copy)]
pub(super) struct Timeouts {
    pub(super) connect: Duration,
    pub(super) response: Duration,
}

impl Link {
    /// How many commands may wait to be written, before callers wait to hand theirs over.
    const BUFFER: usize = 1024;
    /// How often commands are sent again over a new connection after one that broke.
    const REPEATS: usize = 2;

    /// A link that connects when it is first asked.
    pub(super) fn new(node: ConnectionInfo, timeouts: Timeouts) -> RedisResult<Self> {
        let node = node.set_tcp_settings(location::settings(timeouts.response));
        Ok(Self::by(
            Route::Server(Box::new(Client::open(node)?)),
            timeouts,
        ))
    }

    /// The same, to the primary that the sentinels name each time.
    pub(super) fn watched(mut watched: Watched, timeouts: Timeouts) -> Self {
        let settings = location::settings(timeouts.response);
        watched.server = watched.server.set_tcp_settings(settings);
        Self::by(Route::Watched(Box::new(watched)), timeouts)
    }

    fn by(route: Route, timeouts: Timeouts) -> Self {
        let config = AsyncConnectionConfig::new()
            .set_connection_timeout(Some(timeouts.connect))
            .set_response_timeout(Some(timeouts.response))
            .set_pipeline_buffer_size(Self::BUFFER);
        let current = Mutex::new(connect(&route, &config));
        Self {
            route,
            config,
            current,
        }
    }

    /// Sends one command, which may be carried out twice.
    pub(super) async fn ask(&self, command: &Cmd) -> RedisResult<Value> {
        self.repeatedly(|mut connection| async move {
            fault::checked(connection.send_packed_command(command).await?)
        })
        .await
    }

    /// Sends commands together, which may be carried out twice; one that the server refuses is an
    /// answer like any other, unless the server is a replica.
    pub(super) async fn ask_all(&self, commands: &Pipeline) -> RedisResult<Vec<Value>> {
        let count = commands.len();
        self.repeatedly(|mut connection| async move {
            let answers = connection.send_packed_commands(commands, 0, count).await?;
            fault::unless_a_replica(answers)
        })
        .await
    }

    async fn repeatedly<T, Fut>(&self, ask: impl Fn(MultiplexedConnection) -> Fut) -> RedisResult<T>
    where
        Fut: Future<Output = RedisResult<T>>,
    {
        for _ in 0..Self::REPEATS {
            match self.once(&ask).await {
                Err(error) if fault::is_broken_connection(&error) => {}
                answer => return answer,
            }
        }
        self.once(&ask).await
    }

    async fn once<T, Fut>(&self, ask: &impl Fn(MultiplexedConnection) -> Fut) -> RedisResult<T>
    where
        Fut: Future<Output = RedisResult<T>>,
    {
        let connecting = self.current();
        let (answer, is_over) = match connecting.clone().await {
            Ok(connection) => {
                let answer = ask(connection).await;
                let is_over = answer.as_ref().is_err_and(fault::is_of_connection);
                (answer, is_over)
            }
            // Whatever was in the way, the next caller tries again.
            Err(error) => (Err(error), true),
        };
        if is_over {
            self.replace(&connecting);
        }
        answer
    }

    fn current(&self) -> Connecting {
        let current = self.current.lock().unwrap_or_else(PoisonError::into_inner);
        current.clone()
    }

    /// Leaves a connection, unless another caller has left it already.
    fn replace(&self, broken: &Connecting) {
        let mut current = self.current.lock().unwrap_or_else(PoisonError::into_inner);
        if current.ptr_eq(broken) {
            *current = connect(&self.route, &self.config);
        }
    }
}

impl fmt::Debug for Link {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Link").finish_non_exhaustive()
    }
}

/// Connects as soon as somebody waits for it.
fn connect(route: &Route, config: &AsyncConnectionConfig) -> Connecting {
    let (route, config) = (route.clone(), config.clone());
    async move {
        match route {
            Route::Server(client) => {
                client
                    .get_multiplexed_async_connection_with_config(&config)
                    .await
            }
            Route::Watched(watched) => watched.connect(&config).await,
        }
    }
    .boxed()
    .shared()
}
