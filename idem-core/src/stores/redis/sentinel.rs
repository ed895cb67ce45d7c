//! A primary that Sentinel names: it is asked anew for each connection, so after a fail-over the next one leads to the
//! server that has taken its place.
//!
//! `link` asks when it connects. What must stay true: a connection is handed out only if its server says that it is a
//! primary, because a sentinel may not know yet what the others have decided.

use redis::{
    AsyncConnectionConfig, Client, ConnectionAddr, ConnectionInfo, ErrorKind, RedisError,
    RedisResult, aio::MultiplexedConnection, cmd, from_redis_value,
};

use super::fault;

/// Who is asked, for whom, and how that server is talked to.
#[derive(Clone)]
pub(super) struct Watched {
    pub(super) sentinels: Vec<ConnectionInfo>,
    /// What the sentinels call the primary.
    pub(super) name: String,
    /// User, password and database of the servers, whose address is another one each time.
    pub(super) server: ConnectionInfo,
}

impl Watched {
    /// Connects to the server that the sentinels name.
    pub(super) async fn connect(
        &self,
        config: &AsyncConnectionConfig,
    ) -> RedisResult<MultiplexedConnection> {
        let primary = self.primary(config).await?;
        let client = Client::open(self.server.clone().set_addr(primary))?;
        let mut connection = client
            .get_multiplexed_async_connection_with_config(config)
            .await?;
        match cmd("ROLE")
            .query_async::<Vec<redis::Value>>(&mut connection)
            .await
        {
            Ok(role) if !is_primary(&role) => Err(not_yet(
                "the server that the sentinels name is no primary yet",
            )),
            // It cannot be found out; a replica refuses writes.
            Err(error) if fault::is_not_permitted(&error) => Ok(connection),
            Err(error) => Err(error),
            Ok(_) => Ok(connection),
        }
    }

    /// The address that the first sentinel gives which answers.
    async fn primary(&self, config: &AsyncConnectionConfig) -> RedisResult<ConnectionAddr> {
        let mut last = None;
        for sentinel in &self.sentinels {
            match self.ask(sentinel, config).await {
                Ok(Some((host, port))) => return Ok(self.at(host, port)),
                Ok(None) => last = Some(self.not_known()),
                Err(error) => {
                    let error = of_a_sentinel(error);
                    tracing::debug!(sentinel = %sentinel.addr(), %error, "a sentinel does not answer");
                    last = last.or(Some(error));
                }
            }
        }
        Err(last.unwrap_or_else(|| self.not_known()))
    }

    async fn ask(
        &self,
        sentinel: &ConnectionInfo,
        config: &AsyncConnectionConfig,
    ) -> RedisResult<Option<(String, u16)>> {
        let client = Client::open(sentinel.clone())?;
        let connected = client.get_multiplexed_async_connection_with_config(config);
        let mut question = cmd("SENTINEL");
        question.arg("GET-MASTER-ADDR-BY-NAME").arg(&self.name);
        question.query_async(&mut connected.await?).await
    }

    /// The address of a server. It is reached as the sentinels are: with or without TLS.
    fn at(&self, host: String, port: u16) -> ConnectionAddr {
        match self.server.addr() {
            ConnectionAddr::TcpTls {
                insecure,
                tls_params,
                ..
            } => ConnectionAddr::TcpTls {
                host,
                port,
                insecure: *insecure,
                tls_params: tls_params.clone(),
            },
            _ => ConnectionAddr::Tcp(host, port),
        }
    }

    fn not_known(&self) -> RedisError {
        let text = "the sentinels know no primary of this name";
        (
            ErrorKind::MasterNameNotFoundBySentinel,
            text,
            self.name.clone(),
        )
            .into()
    }
}

/// The servers may refuse a user, too, and theirs stands elsewhere in the URL.
fn of_a_sentinel(error: RedisError) -> RedisError {
    if !fault::is_refusal(&error) && error.kind() != ErrorKind::AuthenticationFailed {
        return error;
    }
    let said = format!("{}: {error}", fault::SENTINELS_REFUSE);
    (ErrorKind::AuthenticationFailed, "Sentinel", said).into()
}

fn is_primary(role: &[redis::Value]) -> bool {
    let role = role.first().cloned().map(from_redis_value::<String>);
    role.is_some_and(|role| role.is_ok_and(|role| role == "master"))
}

fn not_yet(text: &'static str) -> RedisError {
    (ErrorKind::Io, text).into()
}
