//! Servers that somebody else has started, named by `AMQP_URL`, `POSTGRES_URL` and `REDIS_URL`: those of compose.yaml
//! or of `cargo xtask services up`, for all tests but those that kill, freeze or configure one.

use crate::{Error, Result};

/// The port in a URL that is like `like`, with any port: `redis://127.0.0.1:6379/`.
pub(crate) fn port(variable: &str, url: &str, like: &str) -> Result<u16> {
    let (before, after) = like
        .split_once("PORT")
        .expect("the example says where the port is");
    let local = url.replacen("localhost", "127.0.0.1", 1);
    // RabbitMQ's own user, which may as well be left out.
    let local = local.replacen("guest:guest@", "", 1);
    let port = local
        .strip_prefix(before)
        .and_then(|rest| rest.strip_suffix(after))
        .and_then(|port| port.parse().ok());
    port.ok_or_else(|| {
        Error::Missing(format!(
            "tests use a server of this machine, `{like}`, as compose.yaml and `cargo xtask services up` start it: set \
             {variable} to such a URL, or not at all"
        ))
    })
}

#[cfg(test)]
mod tests {
    use super::port;

    #[test]
    fn a_url_that_tests_cannot_use_is_told_with_one_that_they_can() {
        let like = "postgres://idem@127.0.0.1:PORT/idem";
        let given = |url| port("POSTGRES_URL", url, like).ok();
        assert_eq!(given("postgres://idem@127.0.0.1:5432/idem"), Some(5432));
        assert_eq!(given("postgres://idem@localhost:5433/idem"), Some(5433));
        let broker = "amqp://127.0.0.1:PORT/%2f";
        for url in [
            "amqp://127.0.0.1:5672/%2f",
            "amqp://guest:guest@localhost:5672/%2f",
        ] {
            assert_eq!(port("AMQP_URL", url, broker).ok(), Some(5672), "{url}");
        }
        for other in [
            "postgres://idem@db.example:5432/idem",
            "postgres://me:secret@127.0.0.1:5432/idem",
            "postgres://idem@127.0.0.1/idem",
        ] {
            let error = port("POSTGRES_URL", other, like).expect_err(other);
            let text = error.to_string();
            assert!(
                text.contains("POSTGRES_URL") && text.contains(like),
                "{text}"
            );
            assert!(!text.contains("secret"), "{text}");
        }
    }
}
