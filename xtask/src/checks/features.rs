//! Which sets of features to check each published crate with: a check of the whole workspace
//! unites the features of all its packages, and so hides what a crate's users will meet.

use std::collections::BTreeSet;

use idem_servers::Result;

use crate::cargo::Workspace;

pub(super) const CRATES: [&str; 5] = [
    "idem-core",
    "idem-macros",
    "idem-amqp",
    "idem-testing",
    "idem-cli",
];

/// Pairs of a package and cargo's option for a set of its features; the option may be empty.
pub(crate) fn to_check(workspace: &Workspace) -> Result<Vec<(&'static str, String)>> {
    let mut checks = Vec::new();
    for name in CRATES {
        let features = workspace.package(name)?.features.keys().map(String::as_str);
        checks.extend(sets(features).into_iter().map(|set| (name, option(&set))));
    }
    Ok(checks)
}

/// What of a package users meet: `cargo rustc` takes one target.
pub(crate) fn target(package: &str) -> &'static str {
    if package == "idem-cli" {
        "--bin idem"
    } else {
        "--lib"
    }
}

/// None, each alone, and all; `default` is only a choice among them.
fn sets<'a>(features: impl Iterator<Item = &'a str>) -> BTreeSet<Vec<&'a str>> {
    let all: Vec<_> = features.filter(|feature| *feature != "default").collect();
    let alone = all.iter().map(|feature| vec![*feature]);
    [Vec::new(), all.clone()].into_iter().chain(alone).collect()
}

fn option(set: &[&str]) -> String {
    if set.is_empty() {
        String::new()
    } else {
        format!("--features {}", set.join(","))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn options(features: &[&str]) -> Vec<String> {
        sets(features.iter().copied())
            .iter()
            .map(|set| option(set))
            .collect()
    }

    #[test]
    fn none_each_alone_and_all_are_checked() {
        let expected = [
            "",
            "--features macros",
            "--features macros,sqlite",
            "--features sqlite",
        ];
        assert_eq!(options(&["default", "macros", "sqlite"]), expected);
    }

    #[test]
    fn no_set_is_checked_twice() {
        assert_eq!(options(&[]), [""]);
        assert_eq!(options(&["only"]), ["", "--features only"]);
    }
}
