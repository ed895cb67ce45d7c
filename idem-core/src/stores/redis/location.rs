//! Where Redis is: URLs of one server, of the nodes of a cluster, or of the sentinels of a primary.

use std::time::Duration;

use redis::{ConnectionInfo, IntoConnectionInfo, io::tcp::TcpSettings};

use super::sentinel::Watched;
use crate::store::ConnectError;

/// One server, or a cluster by some of its nodes.
#[derive(Clone)]
pub(super) enum Location {
    Server(Box<ConnectionInfo>),
    Cluster(Vec<ConnectionInfo>),
    Watched(Box<Watched>),
}

impl Location {
    /// Reads a URL.
    ///
    /// | URL | |
    /// |---|---|
    /// | `redis://[USER[:PASSWORD]@]HOST[:PORT][/DATABASE]` | one server |
    /// | `redis+cluster://[USER[:PASSWORD]@]HOST[:PORT],HOST[:PORT]…` | a cluster |
    /// | `redis+sentinel://[USER[:PASSWORD]@]HOST[:PORT],HOST[:PORT]…/NAME[/DATABASE]` | the primary that these sentinels call `NAME`; `?sentinel_user=…&sentinel_password=…` is theirs |
    /// | `rediss://…`, `rediss+cluster://…`, `rediss+sentinel://…` | the same through TLS |
    pub(super) fn parse(url: &str) -> Result<Self, ConnectError> {
        if let Some((scheme, rest)) = url.split_once("+sentinel://") {
            return watched(scheme, rest);
        }
        let Some((scheme, rest)) = url.split_once("+cluster://") else {
            return Ok(Self::Server(Box::new(node(url)?)));
        };
        let rest = rest.trim_end_matches('/');
        let (user, nodes) = match rest.rsplit_once('@') {
            Some((user, nodes)) => (format!("{user}@"), nodes),
            None => (String::new(), rest),
        };
        if nodes.contains('/') {
            return Err(invalid("a cluster has no databases to choose from"));
        }
        Self::cluster(
            nodes
                .split(',')
                .map(|node| format!("{scheme}://{user}{node}")),
        )
    }

    /// A cluster by the URLs of some of its nodes.
    pub(super) fn cluster(
        urls: impl IntoIterator<Item = impl AsRef<str>>,
    ) -> Result<Self, ConnectError> {
        let nodes = urls.into_iter().map(|url| node(url.as_ref()));
        let nodes = nodes.collect::<Result<Vec<_>, _>>()?;
        if nodes.is_empty() {
            return Err(invalid("a cluster needs at least one node"));
        }
        Ok(Self::Cluster(nodes))
    }

    /// The addresses, without user and password.
    pub(super) fn addresses(&self) -> String {
        let nodes = match self {
            Self::Server(node) => std::slice::from_ref(&**node),
            Self::Cluster(nodes) => nodes,
            Self::Watched(watched) => &watched.sentinels,
        };
        let addresses: Vec<_> = nodes.iter().map(|node| node.addr().to_string()).collect();
        addresses.join(", ")
    }
}

/// What stands behind `+sentinel://`.
fn watched(scheme: &str, rest: &str) -> Result<Location, ConnectError> {
    const MISSING: &str = "it names no primary: write `redis+sentinel://HOST,HOST,HOST/NAME`";
    let (rest, query) = rest.split_once('?').unwrap_or((rest, ""));
    let (user, rest) = match rest.rsplit_once('@') {
        Some((user, rest)) => (format!("{user}@"), rest),
        None => (String::new(), rest),
    };
    let (nodes, path) = rest.split_once('/').ok_or_else(|| invalid(MISSING))?;
    let (name, database) = path.split_once('/').unwrap_or((path, ""));
    if name.is_empty() {
        return Err(invalid(MISSING));
    }
    let sentinels_user = of_sentinels(query)?;
    let sentinels = nodes.split(',').map(|host| {
        let is_digits = |text: &str| !text.is_empty() && text.bytes().all(|it| it.is_ascii_digit());
        let has_port = host
            .rsplit_once(':')
            .is_some_and(|(_, port)| is_digits(port));
        let port = if has_port { "" } else { ":26379" };
        node(&format!("{scheme}://{sentinels_user}{host}{port}"))
    });
    Ok(Location::Watched(Box::new(Watched {
        sentinels: sentinels.collect::<Result<_, _>>()?,
        name: name.to_owned(),
        // Its address is what a sentinel says.
        server: node(&format!("{scheme}://{user}primary/{database}"))?,
    })))
}

/// User and password of the sentinels, as they stand in front of an address.
fn of_sentinels(query: &str) -> Result<String, ConnectError> {
    let (mut user, mut password) = ("", None);
    for pair in query.split('&').filter(|pair| !pair.is_empty()) {
        match pair.split_once('=') {
            Some(("sentinel_user", value)) => user = value,
            Some(("sentinel_password", value)) => password = Some(value),
            _ => {
                return Err(invalid(
                    "of sentinels only `sentinel_user` and `sentinel_password` can be said",
                ));
            }
        }
    }
    Ok(password.map_or_else(String::new, |password| format!("{user}:{password}@")))
}

/// TCP settings for many small commands.
pub(super) fn settings(response_timeout: Duration) -> TcpSettings {
    let settings = TcpSettings::default().set_nodelay(true);
    // A link that swallows what is sent is given up as soon as a caller has given up; without
    // this the kernel tries for a quarter of an hour.
    #[cfg(any(target_os = "android", target_os = "linux"))]
    let settings = settings.set_user_timeout(response_timeout);
    #[cfg(not(any(target_os = "android", target_os = "linux")))]
    let _ = response_timeout;
    settings
}

fn node(url: &str) -> Result<ConnectionInfo, ConnectError> {
    let encrypted = url.starts_with("rediss:");
    if encrypted && cfg!(not(feature = "rustls")) {
        return Err(ConnectError::NotCompiledIn {
            scheme: "rediss".into(),
            feature: "rustls",
        });
    }
    // The client's errors name what is wrong, never the URL.
    url.into_connection_info()
        .map_err(|error| invalid(&error.to_string()))
}

fn invalid(reason: &str) -> ConnectError {
    ConnectError::InvalidUrl {
        reason: reason.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn addresses(url: &str) -> String {
        Location::parse(url).unwrap().addresses()
    }

    #[test]
    fn one_server_has_one_address() {
        assert_eq!(addresses("redis://10.0.0.1"), "10.0.0.1:6379");
        assert_eq!(
            addresses("redis://u:p@cache.local:7000/2"),
            "cache.local:7000"
        );
        assert_eq!(addresses("redis+unix:///run/redis.sock"), "/run/redis.sock");
    }

    #[test]
    fn a_cluster_is_named_by_some_of_its_nodes() {
        assert_eq!(addresses("redis+cluster://a:1,b,c:3/"), "a:1, b:6379, c:3");
        let Ok(Location::Cluster(nodes)) = Location::parse("redis+cluster://u:p%40@a:1,b:2") else {
            panic!("it is a cluster")
        };
        for node in nodes {
            let settings = node.redis_settings();
            assert_eq!(settings.username(), Some("u"));
            assert_eq!(settings.password(), Some("p@"));
        }
    }

    #[test]
    fn a_primary_is_named_by_its_sentinels() {
        let url = "redis+sentinel://u:p%40@a:1,b,[::1]/orders/2?sentinel_password=s";
        let Ok(Location::Watched(watched)) = Location::parse(url) else {
            panic!("sentinels watch it")
        };
        let addresses: Vec<_> = watched
            .sentinels
            .iter()
            .map(|it| it.addr().to_string())
            .collect();
        assert_eq!(addresses, ["a:1", "b:26379", "::1:26379"]);
        for sentinel in &watched.sentinels {
            assert_eq!(sentinel.redis_settings().password(), Some("s"));
        }
        assert_eq!(watched.name, "orders");
        let settings = watched.server.redis_settings();
        assert_eq!(
            (settings.username(), settings.password(), settings.db()),
            (Some("u"), Some("p@"), 2)
        );
    }

    #[test]
    fn a_url_that_makes_no_sense_is_refused_without_its_password() {
        for url in [
            "redis://",
            "redis://:secret@host/orders",
            "redis+cluster://:secret@a:1/2",
            "redis+cluster://",
            "redis+cluster://:secret@a,,b",
            "redis+sentinel://:secret@a,b",
            "redis+sentinel://:secret@a,b/",
            "redis+sentinel://:secret@a,,b/orders",
            "redis+sentinel://:secret@a/orders/main",
            "redis+sentinel://a/orders?password=secret",
            "http://:secret@host",
        ] {
            let error = Location::parse(url).err().expect(url);
            assert!(matches!(error, ConnectError::InvalidUrl { .. }), "{error}");
            assert!(!error.to_string().contains("secret"), "{error}");
        }
    }

    #[cfg(not(feature = "rustls"))]
    #[test]
    fn encryption_names_its_feature() {
        for url in ["rediss://host", "rediss+cluster://a,b"] {
            let error = Location::parse(url).err().expect(url).to_string();
            assert!(error.contains("`rustls`"), "{error}");
        }
    }
}
