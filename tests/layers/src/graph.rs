//! Who names whom, and what of it goes against the layers.

use std::collections::{BTreeMap, BTreeSet};

use crate::{Crate, ModulePath, Rows};

/// One module names another.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
struct Arrow {
    from: ModulePath,
    to: ModulePath,
    /// How it is written there.
    path: String,
}

impl Arrow {
    /// As a person reads it.
    fn told(&self) -> String {
        format!(
            "{} names {} as `{}`",
            self.from.join("::"),
            self.to.join("::"),
            self.path
        )
    }
}

impl Crate {
    fn arrows(&self) -> BTreeSet<Arrow> {
        let mut arrows = BTreeSet::new();
        for (from, module) in &self.modules {
            for path in &module.named {
                let Some(to) = self.resolve(from, path, 0) else {
                    continue;
                };
                if to != *from {
                    arrows.insert(Arrow {
                        from: from.clone(),
                        to,
                        path: path.join("::"),
                    });
                }
            }
        }
        arrows
    }

    /// The module in which that stands which `at` calls so. `None` if another crate has it.
    fn resolve(&self, at: &ModulePath, path: &[String], depth: usize) -> Option<ModulePath> {
        // Imports that name each other: somewhere else the name is found, or the compiler refuses it.
        if depth > 16 {
            return None;
        }
        let mut module = at.clone();
        let mut rest = path;
        while let Some((first, others)) = rest.split_first() {
            match first.as_str() {
                "crate" => module = Vec::new(),
                "self" => {}
                "super" => {
                    module.pop()?;
                }
                _ => break,
            }
            rest = others;
        }
        let began_here = rest.len() < path.len();
        let Some((name, others)) = rest.split_first() else {
            return Some(module);
        };
        let mut below = module.clone();
        below.push(name.clone());
        if self.modules.contains_key(&below) {
            let mut relative = vec!["self".to_owned()];
            relative.extend_from_slice(others);
            return self.resolve(&below, &relative, depth + 1);
        }
        let here = self.modules.get(&module)?;
        if let Some(target) = here.imported.get(name).filter(|target| *target != path) {
            let mut target = target.clone();
            target.extend_from_slice(others);
            return self
                .resolve(&module, &target, depth + 1)
                .or(Some(module).filter(|_| began_here));
        }
        if !began_here {
            return None;
        }
        let from_globs = here.globs.iter().find_map(|glob| {
            let of = self.resolve(&module, glob, depth + 1)?;
            let named = self.modules.get(&of)?.imported.contains_key(name);
            named.then(|| {
                let mut path = vec!["self".to_owned()];
                path.extend_from_slice(rest);
                self.resolve(&of, &path, depth + 1)
            })?
        });
        from_globs.or(Some(module))
    }
}

/// Every place where a module names one of a row above its own, and every module without a row.
pub fn upward(of: &Crate, rows: &Rows) -> Vec<String> {
    let mut found = Vec::new();
    // Modules that stand in `lib.rs` itself belong to it: they only hand on what others define.
    let tops: BTreeSet<_> = of
        .modules
        .iter()
        .filter(|(path, module)| path.len() == 1 && !module.within_its_parent)
        .map(|(path, _)| path[0].as_str())
        .collect();
    found.extend(
        tops.iter()
            .filter(|top| rows.of(top).is_none())
            .map(|top| format!("{top} stands in no row")),
    );
    found.extend(
        rows.modules()
            .filter(|row| !tops.contains(row))
            .map(|row| format!("there is no module {row}")),
    );
    for arrow in of.arrows() {
        let (Some(from), Some(to)) = (arrow.from.first(), arrow.to.first()) else {
            continue;
        };
        if let (Some(own), Some(other)) = (rows.of(from), rows.of(to))
            && other > own
        {
            found.push(format!("{}: row {own} names row {other}", arrow.told()));
        }
    }
    found
}

/// The parents of which modules name each other in a circle, and an arrow for every step in it.
pub fn circles(of: &Crate) -> Vec<(String, Vec<String>)> {
    // By the parent: which of its children names which other, and one place of it.
    let mut families: BTreeMap<ModulePath, BTreeMap<(String, String), Arrow>> = BTreeMap::new();
    for arrow in of.arrows() {
        let both = arrow.from.iter().zip(&arrow.to);
        let shared = both.take_while(|(one, other)| one == other).count();
        let (Some(one), Some(other)) = (arrow.from.get(shared), arrow.to.get(shared)) else {
            continue;
        };
        let family = families.entry(arrow.from[..shared].to_vec()).or_default();
        family.entry((one.clone(), other.clone())).or_insert(arrow);
    }
    let circles = families.into_iter().map(|(parent, steps)| {
        let reaches = reach(&steps);
        let is_in_circle = |one, other| reaches.get(other).is_some_and(|all| all.contains(one));
        let inside = steps
            .iter()
            .filter(|((one, other), _)| is_in_circle(one, other));
        (
            parent.join("::"),
            inside.map(|(_, arrow)| arrow.told()).collect(),
        )
    });
    circles
        .filter(|(_, steps): &(_, Vec<_>)| !steps.is_empty())
        .collect()
}

/// What can be reached from each of them, by one step or more.
fn reach(steps: &BTreeMap<(String, String), Arrow>) -> BTreeMap<String, BTreeSet<String>> {
    let mut reached: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    for (one, other) in steps.keys() {
        reached
            .entry(one.clone())
            .or_default()
            .insert(other.clone());
    }
    loop {
        let mut more = Vec::new();
        for (one, others) in &reached {
            let beyond = others
                .iter()
                .filter_map(|other| reached.get(other))
                .flatten();
            more.extend(
                beyond
                    .filter(|it| !others.contains(*it))
                    .map(|it| (one.clone(), it.clone())),
            );
        }
        if more.is_empty() {
            return reached;
        }
        for (one, other) in more {
            reached.entry(one).or_default().insert(other);
        }
    }
}
