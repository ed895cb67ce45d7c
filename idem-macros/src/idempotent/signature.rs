//! Reads the function's signature: which parameter is what.

use proc_macro2::{Span, TokenStream};
use syn::{FnArg, GenericParam, ReturnType, Safety, Type};

use super::{elision, function::Function};
use crate::mistakes::Mistakes;

mod parameter;

pub(super) use parameter::Parameter;

/// A handler's signature, found to be fine.
pub(super) struct Signature {
    pub(super) message: Type,
    /// After the message, in their order.
    pub(super) parameters: Vec<Parameter>,
    pub(super) output: Type,
}

impl Signature {
    /// Adds all that is wrong; `None` if something is missing.
    pub(super) fn check(function: &Function, mistakes: &mut Mistakes) -> Option<Self> {
        let signature = &function.signature;
        qualifiers(signature, mistakes);
        generics(signature, mistakes);
        let parameters = parameters(signature, mistakes);
        let output = output(signature, mistakes);
        let (message, parameters) = parameters?;
        Some(Self {
            message,
            parameters,
            output: output?,
        })
    }

    /// The type behind the `&mut`, if there is one: what the store lends.
    pub(super) fn connection(&self) -> Option<&TokenStream> {
        self.parameters
            .iter()
            .find_map(|parameter| match parameter {
                Parameter::Connection(ty) => Some(ty),
                Parameter::Extractor(_) | Parameter::Outbox(_) => None,
            })
    }

    /// The type of one message, if the handler takes a `Batch` of them.
    pub(super) fn of_batch(&self) -> Option<&Type> {
        parameter::of_batch(&self.message)
    }

    /// The type of the outbox, if the handler takes one.
    pub(super) fn outbox(&self) -> Option<&Type> {
        self.parameters
            .iter()
            .find_map(|parameter| match parameter {
                Parameter::Outbox(ty) => Some(&**ty),
                Parameter::Extractor(_) | Parameter::Connection(_) => None,
            })
    }

    /// The parameters that are a fencing token, known by their name.
    pub(super) fn fencing_tokens(&self) -> impl Iterator<Item = &TokenStream> {
        let extractors = self
            .parameters
            .iter()
            .filter_map(|parameter| match parameter {
                Parameter::Extractor(ty) => Some(ty),
                Parameter::Outbox(_) | Parameter::Connection(_) => None,
            });
        extractors.filter(|ty| parameter::is_fencing_token(ty))
    }

    pub(super) fn is_atomic(&self) -> bool {
        self.connection().is_some()
    }
}

fn qualifiers(signature: &syn::Signature, mistakes: &mut Mistakes) {
    let name = &signature.ident;
    if signature.asyncness.is_none() {
        mistakes.at(
            signature.fn_token,
            format!("a handler is asynchronous: write `async fn {name}`"),
        );
    }
    if let Some(constness) = signature.constness {
        mistakes.at(constness, "a handler cannot be `const`: remove it");
    }
    if let Safety::Unsafe(unsafety) = &signature.safety {
        mistakes.at(
            unsafety,
            "a handler cannot be `unsafe`: keep the unsafe part in a function that it calls",
        );
    }
    if let Some(abi) = &signature.abi {
        mistakes.at(
            abi,
            "a handler is called by the worker only: remove `extern`",
        );
    }
    if let Some(variadic) = &signature.variadic {
        mistakes.at(
            variadic,
            "a handler has a fixed number of parameters: remove `...`",
        );
    }
}

fn generics(signature: &syn::Signature, mistakes: &mut Mistakes) {
    for parameter in &signature.generics.params {
        let cure = match parameter {
            GenericParam::Lifetime(_) => {
                "write `'_` where the lifetime is used, and remove it here"
            }
            _ => {
                "the worker calls it with one message type: write the type itself, or one handler per type around a generic function"
            }
        };
        mistakes.at(parameter, format!("a handler cannot be generic: {cure}"));
    }
}

fn output(signature: &syn::Signature, mistakes: &mut Mistakes) -> Option<Type> {
    const CURE: &str = "a handler says how it ended: write `-> Result<(), Failed>`";
    let ReturnType::Type(_, ty) = &signature.output else {
        mistakes.at(&signature.ident, CURE);
        return None;
    };
    if is_no_result(ty) {
        mistakes.at(ty, CURE);
    }
    nameable(ty, "what a handler returns", mistakes);
    Some((**ty).clone())
}

/// Whether the type can be no alias of `Result` either.
fn is_no_result(ty: &Type) -> bool {
    match ty {
        Type::Tuple(_) | Type::Reference(_) | Type::Never(_) => true,
        Type::Path(path) => path.path.segments.last().is_some_and(|last| {
            ["Option", "String", "Vec", "bool"]
                .iter()
                .any(|name| last.ident == name)
        }),
        _ => false,
    }
}

fn parameters(
    signature: &syn::Signature,
    mistakes: &mut Mistakes,
) -> Option<(Type, Vec<Parameter>)> {
    let mut types = Vec::new();
    for input in &signature.inputs {
        match input {
            FnArg::Receiver(receiver) => mistakes.at(
                receiver,
                "a handler is no method: write a free function that takes `State(service): State<Service>`",
            ),
            FnArg::Typed(parameter) => types.push(&*parameter.ty),
        }
    }
    let Some((message, rest)) = types.split_first() else {
        let no_self = signature.receiver().is_none();
        if no_self {
            let name = &signature.ident;
            mistakes.at(
                name,
                format!(
                    "a handler takes the message first: write `async fn {name}(message: MyMessage)`"
                ),
            );
        }
        return None;
    };
    parameter::message(message, mistakes);
    let rest = rest
        .iter()
        .map(|ty| (Parameter::check(ty, mistakes), *ty))
        .collect();
    Some((
        (*message).clone(),
        parameter::one_connection(rest, mistakes),
    ))
}

/// A type that stands in an associated type cannot leave anything to be inferred.
fn nameable(ty: &Type, what: &str, mistakes: &mut Mistakes) {
    let mut at = |span: Option<Span>, message: String| {
        if let Some(span) = span {
            mistakes.push(syn::Error::new(span, message));
        }
    };
    at(
        elision::mentions(ty, "impl"),
        format!("{what} needs a name: write the type instead of `impl …`"),
    );
    at(
        elision::mentions(ty, "Self"),
        "a handler is no method: write a free function and the type's name".into(),
    );
    at(
        elision::anonymous_lifetime(ty),
        format!("{what} owns its data: write an owned type, or `'static` instead of `'_`"),
    );
}

#[cfg(test)]
mod tests;
