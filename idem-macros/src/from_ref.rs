//! `#[derive(FromRef)]`: a worker's state, each of whose fields a handler may take.

use proc_macro2::TokenStream;
use quote::{ToTokens as _, quote};
use syn::{
    Attribute, Data, DeriveInput, Field, Fields, Ident, Path, Token, ext::IdentExt as _,
    parse::ParseStream,
};

use crate::{facade::Facade, mistakes::Mistakes};

/// Parse, check, expand.
pub(crate) fn expand(facade: Facade, item: TokenStream) -> TokenStream {
    let mut mistakes = Mistakes::default();
    let generated = mistakes.keep(syn::parse2(item)).map(|input: DeriveInput| {
        let renamed = renamed(&input.attrs, &mut mistakes);
        let root = facade.root(renamed.as_ref());
        let parts = parts(&input, &mut mistakes);
        let parts = parts.iter().map(|part| implementation(&root, &input, part));
        quote!(#(#parts)*)
    });
    // Without the parts, each handler that takes one would be an error, too.
    let errors = mistakes.into_compile_errors();
    quote!(#errors #generated)
}

/// `#[from_ref(crate = path)]` on the type.
fn renamed(attributes: &[Attribute], mistakes: &mut Mistakes) -> Option<Path> {
    let attribute = attributes.iter().find(|attribute| is_ours(attribute))?;
    let parsed = attribute.parse_args_with(|input: ParseStream<'_>| {
        input.parse::<Token![crate]>()?;
        input.parse::<Token![=]>()?;
        input.call(Path::parse_mod_style)
    });
    if parsed.is_err() {
        mistakes.at(
            attribute,
            "`#[from_ref(skip)]` goes on fields; on the type there is only `#[from_ref(crate = path::to::idem)]`",
        );
    }
    parsed.ok()
}

/// The fields that handlers may take.
fn parts<'a>(input: &'a DeriveInput, mistakes: &mut Mistakes) -> Vec<(&'a Ident, &'a Field)> {
    if let Some(parameter) = input.generics.params.first() {
        mistakes.at(
            parameter,
            "a worker has one state: derive `FromRef` for a struct without parameters, or implement it by hand",
        );
        return Vec::new();
    }
    let fields = match &input.data {
        Data::Struct(data) => match &data.fields {
            Fields::Named(fields) => &fields.named,
            _ => return refused(input, mistakes),
        },
        _ => return refused(input, mistakes),
    };
    let mut parts: Vec<(&Ident, &Field)> = Vec::new();
    for field in fields {
        let Some(name) = &field.ident else {
            continue;
        };
        if is_skipped(field, mistakes) {
            continue;
        }
        let ty = field.ty.to_token_stream().to_string();
        let same = |part: &&(&Ident, &Field)| part.1.ty.to_token_stream().to_string() == ty;
        if let Some((other, _)) = parts.iter().find(same) {
            let (name, other) = (name.unraw(), other.unraw());
            mistakes.at(
                &field.ty,
                format!(
                    "`{other}` is of this type, too, and a handler could not tell them apart: give one a type of its own, or mark `{name}` with `#[from_ref(skip)]`"
                ),
            );
            continue;
        }
        parts.push((name, field));
    }
    parts
}

fn refused<'a>(input: &DeriveInput, mistakes: &mut Mistakes) -> Vec<(&'a Ident, &'a Field)> {
    mistakes.at(
        &input.ident,
        "only a struct with named fields can derive `FromRef`: name them, or implement it by hand",
    );
    Vec::new()
}

fn is_skipped(field: &Field, mistakes: &mut Mistakes) -> bool {
    let Some(mark) = field.attrs.iter().find(|attribute| is_ours(attribute)) else {
        return false;
    };
    let word = mark.parse_args::<Ident>();
    if word.is_ok_and(|word| word == "skip") {
        return true;
    }
    mistakes.at(mark, "write `#[from_ref(skip)]`");
    true
}

fn is_ours(attribute: &Attribute) -> bool {
    attribute.path().is_ident("from_ref")
}

fn implementation(
    root: &TokenStream,
    input: &DeriveInput,
    (name, field): &(&Ident, &Field),
) -> TokenStream {
    let (state, ty) = (&input.ident, &field.ty);
    quote! {
        #[automatically_derived]
        impl #root::FromRef<#state> for #ty {
            fn from_ref(state: &#state) -> Self {
                ::core::clone::Clone::clone(&state.#name)
            }
        }
    }
}
