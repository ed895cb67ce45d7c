//! `#[derive(IdempotencyKey)]`: a message type that knows its own key.

use proc_macro2::TokenStream;
use quote::{quote, quote_spanned};
use syn::{
    Attribute, Data, DeriveInput, Field, Fields, FieldsNamed, Ident, Meta, Path, Token,
    ext::IdentExt, parse::ParseStream,
};

use crate::{facade::Facade, mistakes::Mistakes};

mod variants;

/// Parse, check, expand. The impl is there with a mistake too, so that the mistake is all that
/// rustc reports.
pub(crate) fn expand(facade: Facade, item: TokenStream) -> TokenStream {
    let mut mistakes = Mistakes::default();
    let generated = mistakes.keep(syn::parse2(item)).map(|input: DeriveInput| {
        let renamed = renamed(&input.attrs, &mut mistakes);
        let root = facade.root(renamed.as_ref());
        if let Data::Enum(data) = &input.data {
            let parts = variants::parts(&root, data, &mut mistakes);
            return implementation(&root, &input, &[], &parts);
        }
        let keys = key_fields(&input, &mut mistakes);
        let parts = keys.iter().map(|(field, _)| {
            let text = field.unraw().to_string();
            quote_spanned!(field.span()=> .part(#text, &self.#field))
        });
        implementation(&root, &input, &keys, &quote!(key #(#parts)*))
    });
    let errors = mistakes.into_compile_errors();
    quote!(#errors #generated)
}

/// `#[key(crate = path)]` on the type.
fn renamed(attributes: &[Attribute], mistakes: &mut Mistakes) -> Option<Path> {
    let attribute = attributes.iter().find(|attribute| is_key(attribute))?;
    let parsed = attribute.parse_args_with(|input: ParseStream<'_>| {
        input.parse::<Token![crate]>()?;
        input.parse::<Token![=]>()?;
        input.call(Path::parse_mod_style)
    });
    if parsed.is_err() {
        mistakes.at(
            attribute,
            "`#[key]` goes on fields; on the type there is only `#[key(crate = path::to::idem)]`",
        );
    }
    parsed.ok()
}

/// The marked fields, in the order in which they are declared.
fn key_fields<'a>(input: &'a DeriveInput, mistakes: &mut Mistakes) -> Vec<(&'a Ident, &'a Field)> {
    let name = &input.ident;
    let Data::Struct(data) = &input.data else {
        mistakes.at(
            name,
            "only a struct or an enum can derive `IdempotencyKey`: implement it by hand, or write `#[idempotent(key = …)]`",
        );
        return Vec::new();
    };
    let Fields::Named(fields) = &data.fields else {
        mistakes.at(
            name,
            "only a struct with named fields can derive `IdempotencyKey`: write `#[idempotent(key = \"0\")]` for a field without a name",
        );
        return Vec::new();
    };
    let marked = marked_fields(fields, mistakes);
    if marked.is_empty() {
        mistakes.at(name, "no field is the key: mark at least one with `#[key]`");
    }
    marked
}

fn marked_fields<'a>(
    fields: &'a FieldsNamed,
    mistakes: &mut Mistakes,
) -> Vec<(&'a Ident, &'a Field)> {
    let fields = fields.named.iter();
    let marked = fields.filter(|field| is_marked(field, mistakes));
    marked
        .filter_map(|field| Some((field.ident.as_ref()?, field)))
        .collect()
}

fn is_marked(field: &Field, mistakes: &mut Mistakes) -> bool {
    let mut marks = field.attrs.iter().filter(|attribute| is_key(attribute));
    let Some(mark) = marks.next() else {
        return false;
    };
    if !matches!(mark.meta, Meta::Path(_)) {
        mistakes.at(mark, "`#[key]` takes nothing: remove what follows `key`");
    }
    if let Some(twice) = marks.next() {
        mistakes.at(twice, "this field is marked already: remove one `#[key]`");
    }
    true
}

fn is_key(attribute: &Attribute) -> bool {
    attribute.path().is_ident("key")
}

fn implementation(
    root: &TokenStream,
    input: &DeriveInput,
    keys: &[(&Ident, &Field)],
    parts: &TokenStream,
) -> TokenStream {
    let name = &input.ident;
    let mut generics = input.generics.clone();
    if generics.type_params().next().is_some() {
        let bounds = &mut generics.make_where_clause().predicates;
        for (_, field) in keys {
            let ty = &field.ty;
            bounds.push(syn::parse_quote!(#ty: #root::message::KeyPart));
        }
    }
    let (impl_generics, ty_generics, where_clause) = generics.split_for_impl();
    quote! {
        #[automatically_derived]
        impl #impl_generics #root::IdempotencyKey for #name #ty_generics #where_clause {
            fn parts(&self, key: #root::message::KeyBuilder) -> #root::message::KeyBuilder {
                #parts
            }
        }
    }
}
