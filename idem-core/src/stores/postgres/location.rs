//! Where the server is: a URL as sqlx reads it, or sqlx's own options.

use sqlx::{ConnectOptions, postgres::PgConnectOptions};

use crate::store::ConnectError;

/// What the builder is given.
#[derive(Clone)]
pub(super) enum Location {
    /// It may hold a password.
    Url(String),
    Options(Box<PgConnectOptions>),
}

impl Location {
    /// The options that the store connects with.
    pub(super) fn into_options(self) -> Result<PgConnectOptions, ConnectError> {
        match self {
            Self::Url(url) => parse(&url),
            Self::Options(options) => Ok(as_the_store_needs(*options)),
        }
    }
}

/// Options that connect to the URL's server. What goes wrong is told without the URL, which may
/// hold a password.
pub(super) fn parse(url: &str) -> Result<PgConnectOptions, ConnectError> {
    let invalid = |reason: String| ConnectError::InvalidUrl { reason };
    if !(url.starts_with("postgres:") || url.starts_with("postgresql:")) {
        return Err(invalid("write `postgres://USER@HOST/DATABASE`".into()));
    }
    let options: PgConnectOptions = url
        .parse()
        .map_err(|error: sqlx::Error| invalid(error.to_string()))?;
    Ok(as_the_store_needs(options))
}

fn as_the_store_needs(options: PgConnectOptions) -> PgConnectOptions {
    let name = match options.get_application_name() {
        Some(name) => name.to_owned(),
        None => "idem".to_owned(),
    };
    options
        .application_name(&name)
        // Poolers do not know the parameter, and the store reads no floats. Since PostgreSQL 12 the server's default
        // shows a handler's floats exactly, too.
        .extra_float_digits(None)
        .disable_statement_logging()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_url_names_server_and_database() {
        for url in [
            "postgres://shop@db.example:5433/orders",
            "postgresql://shop@db.example:5433/orders",
        ] {
            let options = parse(url).unwrap();
            assert_eq!(
                (options.get_host(), options.get_port()),
                ("db.example", 5433)
            );
            assert_eq!(options.get_database(), Some("orders"));
            assert_eq!(options.get_application_name(), Some("idem"));
        }
        let named = parse("postgres://db.example/orders?application_name=shop").unwrap();
        assert_eq!(named.get_application_name(), Some("shop"));
    }

    #[test]
    fn options_are_changed_only_where_the_store_needs_it() {
        let given = PgConnectOptions::new_without_pgpass()
            .host("db.example")
            .username("shop")
            .options([("search_path", "orders")]);
        let used = Location::Options(Box::new(given)).into_options().unwrap();
        assert_eq!(used.get_host(), "db.example");
        assert_eq!(used.get_options(), Some("-c search_path=orders"));
        assert_eq!(used.get_application_name(), Some("idem"));
    }

    #[test]
    fn an_error_does_not_show_the_password() {
        for url in [
            "postgres://shop:hunter2@db.example:port/orders",
            "postgres://shop:hunter2@db.example/orders?sslmode=sometimes",
            "postgres://shop:hunter2/x@db.example/orders",
            "mysql://shop:hunter2@db.example/orders",
        ] {
            let error = parse(url).unwrap_err();
            assert!(!error.to_string().contains("hunter2"), "{error}");
        }
    }
}
