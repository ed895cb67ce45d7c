//! Each package without features, and with those of the first program, compiled by itself: a check of the whole
//! workspace unites the features of all its packages, and so hides what a crate's users will meet. All other sets are
//! the nightly job's.

/// Pairs of a published package and its features.
const USUAL: [(&str, &str); 8] = [
    ("idem-macros", ""),
    ("idem-core", ""),
    ("idem-amqp", ""),
    ("idem-amqp", "macros,sqlite"),
    ("idem-http", ""),
    ("idem-kafka", ""),
    ("idem-testing", ""),
    ("idem-cli", ""),
];

/// For cargo, one command each.
pub(crate) fn checks() -> impl Iterator<Item = String> {
    USUAL.iter().map(|(package, features)| {
        // What of a package users meet: `cargo rustc` takes one target.
        let target = if *package == "idem-cli" { "--bin idem" } else { "--lib" };
        format!(
            "rustc --profile check --package {package} {target} --no-default-features --features={features} -- -D warnings"
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cargo::Workspace;

    #[test]
    fn every_published_package_is_checked_without_features() {
        let workspace = Workspace::load().expect("cargo describes the workspace");
        for package in workspace.packages.iter().filter(|it| it.is_published()) {
            let alone = USUAL.contains(&(package.name.as_str(), ""));
            assert!(alone, "{}", package.name);
        }
        assert_eq!(checks().count(), USUAL.len());
    }
}
