//! What can be installed, and what to say where it cannot.

use super::debian;
use crate::{Error, Installed, Result};

/// A program that private servers need.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Product {
    pub(crate) name: &'static str,
    /// Its package on Debian and Ubuntu.
    pub(crate) package: &'static str,
    pub(crate) find: fn() -> Result<Installed>,
}

impl Product {
    /// Where it is; it is installed if need be.
    pub(crate) fn installed(self) -> Result<Installed> {
        ensure(&[self])?;
        (self.find)()
    }
}

/// Installs those of the products that are missing, all at once.
pub(crate) fn ensure(products: &[Product]) -> Result<()> {
    let missing: Vec<_> = products
        .iter()
        .filter(|product| (product.find)().is_err())
        .collect();
    if missing.is_empty() {
        return Ok(());
    }
    let names: Vec<_> = missing.iter().map(|product| product.name).collect();
    let packages: Vec<_> = missing.iter().map(|product| product.package).collect();
    debian::install(&names, &packages).map_err(|reason| explained(&names, &packages, reason))?;
    // What was installed may still not be what is looked for.
    missing
        .iter()
        .try_for_each(|product| (product.find)().map(drop))
}

fn explained(names: &[&str], packages: &[&str], reason: Error) -> Error {
    let Error::Missing(reason) = reason else {
        return reason;
    };
    let install = packages.join(" ");
    Error::Missing(format!(
        "not here: {}; and {reason}. Either\n\
         - install: `sudo apt-get install {install}` on Debian and Ubuntu, the packages of these or similar names \
         elsewhere on Linux; their services need not run, private servers are started from them; or\n\
         - for `cargo xtask demo` and the examples, name running servers: `export \
         AMQP_URL=amqp://user:password@host:5672/%2f`; or\n\
         - with Docker: `docker compose up --detach --wait`, and the variables that compose.yaml names",
        names.join(", ")
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_cannot_be_installed_is_named_with_its_package() {
        let reason = Error::Missing("this is an island".to_owned());
        let text = explained(
            &["PostgreSQL", "Redis"],
            &["postgresql", "redis-server"],
            reason,
        )
        .to_string();
        assert!(
            text.starts_with("not here: PostgreSQL, Redis; and this is an island."),
            "{text}"
        );
        assert!(
            text.contains("`sudo apt-get install postgresql redis-server`"),
            "{text}"
        );
    }
}
