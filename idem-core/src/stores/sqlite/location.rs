//! Where the file is: a path, or a URL as sqlx reads it.

use std::path::Path;

use sqlx::sqlite::SqliteConnectOptions;

use crate::store::ConnectError;

/// Options that open this file, creating it unless the URL says `mode=rw`.
pub(super) fn parse(location: &Path) -> Result<SqliteConnectOptions, ConnectError> {
    let url = location.to_str().filter(|text| text.starts_with("sqlite:"));
    let Some(url) = url else {
        return from_path(location);
    };
    let invalid = |reason: String| ConnectError::InvalidUrl { reason };
    let (address, query) = url.split_once('?').unwrap_or((url, ""));
    let create = match query {
        "" | "mode=rwc" => true,
        "mode=rw" => false,
        _ => {
            return Err(invalid(format!(
                "`?{query}` is not understood; only `mode=rwc` (the default) and `mode=rw` are"
            )));
        }
    };
    let read: SqliteConnectOptions = address
        .parse()
        .map_err(|error: sqlx::Error| invalid(error.to_string()))?;
    let path = address
        .trim_start_matches("sqlite:")
        .trim_start_matches("//");
    if path == ":memory:" {
        return from_path(Path::new(path));
    }
    Ok(from_path(read.get_filename())?.create_if_missing(create))
}

fn from_path(path: &Path) -> Result<SqliteConnectOptions, ConnectError> {
    let reason = match path.to_str() {
        Some("") => "it names no file",
        Some(":memory:") => {
            "a SQLite database in memory dies with its connection; use `memory:` instead"
        }
        // SQLite takes these for URIs with options of their own.
        Some(text) if text.starts_with("file:") => "write the path without `file:`",
        _ => {
            return Ok(SqliteConnectOptions::new()
                .filename(path)
                .create_if_missing(true));
        }
    };
    Err(ConnectError::InvalidUrl {
        reason: reason.into(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_and_its_urls_name_the_same_file() {
        let table = [
            ("orders.db", "orders.db"),
            ("sqlite:orders.db", "orders.db"),
            ("sqlite://orders.db", "orders.db"),
            ("sqlite://orders.db?mode=rwc", "orders.db"),
            ("sqlite:/var/lib/orders.db", "/var/lib/orders.db"),
            ("sqlite:///var/lib/orders.db?mode=rw", "/var/lib/orders.db"),
            ("sqlite:my%20orders.db", "my orders.db"),
            ("my%20orders.db", "my%20orders.db"),
        ];
        for (location, expected) in table {
            let options = parse(Path::new(location)).unwrap();
            assert_eq!(options.get_filename(), Path::new(expected), "{location}");
        }
    }

    #[test]
    fn a_database_in_memory_is_refused_with_what_to_use_instead() {
        for location in ["sqlite::memory:", "sqlite://:memory:", ":memory:"] {
            let error = parse(Path::new(location)).unwrap_err().to_string();
            assert!(error.ends_with("use `memory:` instead"), "{error}");
        }
        for location in [
            "",
            "sqlite:",
            "file::memory:",
            "sqlite:file:x",
            "sqlite:x?mode=memory",
        ] {
            assert!(parse(Path::new(location)).is_err(), "{location}");
        }
    }
}
