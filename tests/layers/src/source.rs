//! The modules of a crate, read from its files.

use std::{
    collections::BTreeMap,
    fs,
    path::{Path, PathBuf},
};

use syn::{Attribute, Item, Meta, UseTree, visit::Visit as _};

use crate::{ModulePath, names::Names};

/// A crate's modules, but for its tests.
#[derive(Debug)]
pub struct Crate {
    pub(crate) modules: BTreeMap<ModulePath, Module>,
}

/// What a module names, and under which names it has what others define.
#[derive(Debug, Default)]
pub(crate) struct Module {
    /// Paths that begin with `crate`, `self` or `super`, and all that are imported.
    pub(crate) named: Vec<Vec<String>>,
    /// What is imported, by the name that it has here.
    pub(crate) imported: BTreeMap<String, Vec<String>>,
    /// It has no file of its own.
    pub(crate) within_its_parent: bool,
    /// From where everything is imported.
    pub(crate) globs: Vec<Vec<String>>,
    /// The public errors whose `Debug` is derived.
    pub(crate) derived_errors: Vec<String>,
}

impl Crate {
    /// Reads `lib.rs` in this folder, and the files of all modules.
    ///
    /// # Panics
    /// If a file cannot be read or parsed.
    pub fn read(folder: &Path) -> Self {
        let mut modules = BTreeMap::new();
        read_file(&folder.join("lib.rs"), folder, Vec::new(), &mut modules);
        Self { modules }
    }

    /// The same, of modules that are given as text.
    ///
    /// # Panics
    /// If one cannot be parsed.
    pub fn of(files: &[(&str, &str)]) -> Self {
        let mut modules = BTreeMap::new();
        for (path, text) in files {
            let path: ModulePath = path
                .split("::")
                .filter(|it| !it.is_empty())
                .map(str::to_owned)
                .collect();
            let file = syn::parse_file(text).unwrap_or_else(|error| panic!("{path:?}: {error}"));
            read_items(&file.items, None, path, &mut modules);
        }
        Self { modules }
    }
}

fn read_file(
    file: &Path,
    children: &Path,
    path: ModulePath,
    modules: &mut BTreeMap<ModulePath, Module>,
) {
    let text =
        fs::read_to_string(file).unwrap_or_else(|error| panic!("{}: {error}", file.display()));
    let parsed =
        syn::parse_file(&text).unwrap_or_else(|error| panic!("{}: {error}", file.display()));
    read_items(&parsed.items, Some(children), path, modules);
}

fn read_items(
    items: &[Item],
    folder: Option<&Path>,
    path: ModulePath,
    modules: &mut BTreeMap<ModulePath, Module>,
) {
    let mut module = Module::default();
    let mut names = Names::default();
    for item in items {
        match item {
            Item::Mod(inner) if is_test(&inner.attrs) => {}
            Item::Mod(inner) => {
                let mut below = path.clone();
                below.push(inner.ident.to_string());
                if let Some((_, items)) = &inner.content {
                    let folder = folder.map(|folder| folder.join(inner.ident.to_string()));
                    read_items(items, folder.as_deref(), below.clone(), modules);
                    if let Some(inner) = modules.get_mut(&below) {
                        inner.within_its_parent = true;
                    }
                } else if let Some(folder) = folder {
                    let name = inner.ident.to_string();
                    let file: PathBuf = folder.join(format!("{name}.rs"));
                    read_file(&file, &folder.join(name), below, modules);
                }
            }
            Item::Use(import) if !is_test(&import.attrs) => {
                collect(&import.tree, &mut Vec::new(), &mut module);
            }
            other if is_test(attributes(other)) => {}
            other => names.visit_item(other),
        }
    }
    module.named.extend(names.found);
    module.derived_errors = derived_errors(items);
    modules.insert(path, module);
}

/// The public errors among these whose `Debug` is derived, so that `main` shows fields and not words.
fn derived_errors(items: &[Item]) -> Vec<String> {
    let written = items.iter().filter_map(|item| match item {
        Item::Impl(it) => {
            let (of, _) = it.trait_.as_ref()?;
            let is_error = of.segments.last()?.ident.to_string().ends_with("Error");
            let syn::Type::Path(it) = &*it.self_ty else {
                return None;
            };
            is_error.then_some(&it.path.segments.last()?.ident)
        }
        _ => None,
    });
    let written: Vec<_> = written.collect();
    let derived = items.iter().filter_map(|item| {
        let (name, visibility) = match item {
            Item::Enum(it) => (&it.ident, &it.vis),
            Item::Struct(it) => (&it.ident, &it.vis),
            _ => return None,
        };
        let is_public = matches!(visibility, syn::Visibility::Public(_));
        let is_error = derives(item, "Error") || written.contains(&name);
        (is_public && is_error && derives(item, "Debug")).then(|| name.to_string())
    });
    derived.collect()
}

fn derives(item: &Item, name: &str) -> bool {
    let mut lists = attributes(item)
        .iter()
        .filter_map(|attribute| match &attribute.meta {
            Meta::List(list) if list.path.is_ident("derive") => Some(list.tokens.to_string()),
            _ => None,
        });
    lists.any(|list| {
        list.split(|it: char| !it.is_alphanumeric())
            .any(|it| it == name)
    })
}

/// All that one `use` names.
fn collect(tree: &UseTree, before: &mut Vec<String>, module: &mut Module) {
    match tree {
        UseTree::Path(path) => {
            before.push(path.ident.to_string());
            collect(&path.tree, before, module);
            before.pop();
        }
        UseTree::Group(group) => {
            for tree in &group.items {
                collect(tree, before, module);
            }
        }
        UseTree::Glob(_) => {
            module.globs.push(before.clone());
            module.named.push(before.clone());
        }
        UseTree::Name(name) => {
            let name = name.ident.to_string();
            let mut path = before.clone();
            let alias = if name == "self" {
                before.last().cloned().unwrap_or_default()
            } else {
                path.push(name.clone());
                name
            };
            module.named.push(path.clone());
            module.imported.insert(alias, path);
        }
        UseTree::Rename(rename) => {
            let mut path = before.clone();
            if rename.ident != "self" {
                path.push(rename.ident.to_string());
            }
            module.named.push(path.clone());
            module.imported.insert(rename.rename.to_string(), path);
        }
    }
}

/// Whether it is there in tests only.
pub(crate) fn is_test(attributes: &[Attribute]) -> bool {
    attributes.iter().any(|attribute| match &attribute.meta {
        Meta::Path(path) => path.is_ident("test"),
        Meta::List(list) if list.path.is_ident("cfg") => {
            let condition = list.tokens.to_string();
            condition == "test"
                || condition.starts_with("all (test ,")
                || condition.starts_with("all(test,")
        }
        _ => false,
    })
}

fn attributes(item: &Item) -> &[Attribute] {
    match item {
        Item::Const(it) => &it.attrs,
        Item::Enum(it) => &it.attrs,
        Item::Fn(it) => &it.attrs,
        Item::Impl(it) => &it.attrs,
        Item::Macro(it) => &it.attrs,
        Item::Static(it) => &it.attrs,
        Item::Struct(it) => &it.attrs,
        Item::Trait(it) => &it.attrs,
        Item::Type(it) => &it.attrs,
        _ => &[],
    }
}
