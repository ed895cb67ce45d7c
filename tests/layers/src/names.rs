//! The paths that code names beside its imports.

use syn::{
    ImplItem,
    visit::{self, Visit},
};

use crate::source::is_test;

/// Paths that begin with `crate`, `self` or `super`, as they are written.
#[derive(Debug, Default)]
pub(crate) struct Names {
    pub(crate) found: Vec<Vec<String>>,
}

impl Visit<'_> for Names {
    fn visit_path(&mut self, path: &syn::Path) {
        let names: Vec<_> = path
            .segments
            .iter()
            .map(|it| it.ident.to_string())
            .collect();
        let first = names.first().map(String::as_str);
        if names.len() > 1 && matches!(first, Some("crate" | "self" | "super")) {
            self.found.push(names);
        }
        visit::visit_path(self, path);
    }

    fn visit_impl_item(&mut self, item: &ImplItem) {
        match item {
            ImplItem::Fn(function) if is_test(&function.attrs) => {}
            other => visit::visit_impl_item(self, other),
        }
    }

    // Where something is visible is no use of it.
    fn visit_visibility(&mut self, _: &syn::Visibility) {}

    // A macro's own words are not parsed; its path is.
    fn visit_macro(&mut self, it: &syn::Macro) {
        visit::visit_macro(self, it);
    }
}
