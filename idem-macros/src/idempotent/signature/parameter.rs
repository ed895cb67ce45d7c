//! One parameter: the message, an extractor, or what the store lends.

use proc_macro2::TokenStream;
use quote::ToTokens;
use syn::{Error, GenericArgument, PathArguments, PathSegment, Type, TypeReference};

use super::nameable;
use crate::{idempotent::elision, mistakes::Mistakes};

/// What stands after the message.
#[derive(Clone)]
pub(in crate::idempotent) enum Parameter {
    /// Implements `FromContext`.
    Extractor(TokenStream),
    /// `Outbox`, or `Outboxes` in a handler of batches: not an extractor, because only atomic handlers have one.
    Outbox(Box<Type>),
    /// The type behind a `&mut`, its lifetimes made `'static`.
    Connection(TokenStream),
}

/// Checks the first parameter.
pub(super) fn message(ty: &Type, mistakes: &mut Mistakes) {
    match bare(ty) {
        Type::Reference(reference) if reference.mutability.is_some() => mistakes.at(
            ty,
            "the first parameter is the message: put it before the connection",
        ),
        Type::Reference(reference) => {
            let owned = reference.elem.to_token_stream();
            mistakes.at(ty, format!("take the message by value: `{owned}`"));
        }
        Type::Path(path) if path.path.segments.last().is_some_and(is_state) => mistakes.at(
            ty,
            "the first parameter is the message: put it before the state",
        ),
        _ => nameable(ty, "the message", mistakes),
    }
}

fn is_state(segment: &PathSegment) -> bool {
    segment.ident == "State" && !segment.arguments.is_none()
}

/// The `T` of a `Batch<T>`.
pub(super) fn of_batch(ty: &Type) -> Option<&Type> {
    let Type::Path(path) = bare(ty) else {
        return None;
    };
    let last = path.path.segments.last()?;
    let PathArguments::AngleBracketed(arguments) = &last.arguments else {
        return None;
    };
    match arguments.args.first() {
        Some(GenericArgument::Type(message)) if last.ident == "Batch" => Some(message),
        _ => None,
    }
}

impl Parameter {
    /// Checks a further parameter.
    pub(super) fn check(ty: &Type, mistakes: &mut Mistakes) -> Self {
        match bare(ty) {
            Type::Reference(reference) if reference.mutability.is_some() => {
                connection(reference, mistakes);
                Self::Connection(elision::made_static(reference.elem.to_token_stream()))
            }
            Type::Reference(_) => {
                mistakes.at(
                    ty,
                    "parameters are made anew for each message: take this one by value, as in `State(mailer): State<Mailer>`",
                );
                Self::Extractor(ty.to_token_stream())
            }
            Type::Path(path) if path.path.segments.last().is_some_and(is_outbox) => {
                Self::Outbox(Box::new(ty.clone()))
            }
            _ => {
                nameable(ty, "a parameter", mistakes);
                Self::Extractor(ty.to_token_stream())
            }
        }
    }
}

pub(super) fn is_fencing_token(ty: &TokenStream) -> bool {
    let last = ty.clone().into_iter().last();
    last.is_some_and(|token| token.to_string() == "FencingToken")
}

fn is_outbox(segment: &PathSegment) -> bool {
    segment.arguments.is_none() && (segment.ident == "Outbox" || segment.ident == "Outboxes")
}

fn connection(reference: &TypeReference, mistakes: &mut Mistakes) {
    let elem = bare(&reference.elem);
    if let Some(span) = elision::mentions(elem, "impl") {
        let message =
            "write the connection's type, such as `&mut PgConnection` or `&mut SqliteConnection`";
        mistakes.push(Error::new(span, message));
    }
    if let Type::Path(path) = elem
        && let Some(cure) = path.path.segments.last().and_then(with_lifetime)
    {
        mistakes.at(
            elem,
            format!("write `&mut {cure}`: a transaction has a lifetime"),
        );
    }
}

/// How to write a transaction of sqlx whose lifetime was left out.
fn with_lifetime(segment: &PathSegment) -> Option<String> {
    let name = segment.ident.to_string();
    match (&segment.arguments, name.as_str()) {
        (
            PathArguments::None,
            "AnyTransaction" | "MySqlTransaction" | "PgTransaction" | "SqliteTransaction",
        ) => Some(format!("{name}<'_>")),
        (PathArguments::AngleBracketed(arguments), "Transaction") => {
            let database = arguments
                .args
                .to_token_stream()
                .to_string()
                .replace(' ', "");
            let is_sqlx = ["Any", "MySql", "Postgres", "Sqlite"]
                .iter()
                .any(|known| database.rsplit("::").next() == Some(known));
            is_sqlx.then(|| format!("{name}<'_, {database}>"))
        }
        _ => None,
    }
}

/// At most one parameter can be the store's.
pub(super) fn one_connection(
    parameters: Vec<(Parameter, &Type)>,
    mistakes: &mut Mistakes,
) -> Vec<Parameter> {
    let connections = parameters
        .iter()
        .filter(|(parameter, _)| matches!(parameter, Parameter::Connection(_)));
    for (_, ty) in connections.skip(1) {
        mistakes.at(
            ty,
            "the store lends one connection or transaction: keep one `&mut`, take others from `State<…>`",
        );
    }
    parameters
        .into_iter()
        .map(|(parameter, _)| parameter)
        .collect()
}

/// The type inside invisible groups (from `macro_rules!`) and parentheses.
fn bare(ty: &Type) -> &Type {
    match ty {
        Type::Group(group) => bare(&group.elem),
        Type::Paren(paren) => bare(&paren.elem),
        other => other,
    }
}
