//! Where a part of the key comes from: `key = [customer, "order.id", header("x-tenant")]`.

use proc_macro2::{Span, TokenStream};
use syn::{
    Error, Ident, LitStr, Result, bracketed,
    ext::IdentExt,
    parenthesized,
    parse::{Parse, ParseStream},
    token::{Bracket, Paren},
};

use super::{field_path::FieldPath, list, sequence, suggestion};
use crate::mistakes::Mistakes;

const FUNCTIONS: [&str; 6] = [
    "header",
    "message_id",
    "position",
    "content",
    "first",
    "sequence",
];

/// One source.
pub(super) enum KeySource {
    Field(FieldPath),
    Header(LitStr),
    MessageId(Span),
    Position(Span),
    Content(Span),
    /// The first that is present.
    First(Vec<KeySource>, Span),
}

impl KeySource {
    /// The source's name in errors and, inside `first(…)`, in the key itself: it never changes.
    pub(super) fn name(&self) -> String {
        match self {
            Self::Field(path) => path.name(),
            Self::Header(name) => format!("header({})", name.value()),
            Self::MessageId(_) => "message_id()".into(),
            Self::Position(_) => "position()".into(),
            Self::Content(_) => "content()".into(),
            Self::First(sources, _) => {
                let names: Vec<_> = sources.iter().map(Self::name).collect();
                format!("first({})", names.join(", "))
            }
        }
    }

    /// Whether it can be told without the body's fields.
    pub(super) fn is_in_envelope(&self) -> bool {
        match self {
            Self::Field(_) => false,
            Self::Header(_) | Self::MessageId(_) | Self::Position(_) | Self::Content(_) => true,
            Self::First(sources, _) => sources.iter().all(Self::is_in_envelope),
        }
    }

    pub(super) fn span(&self) -> Span {
        match self {
            Self::Field(path) => path.span,
            Self::Header(name) => name.span(),
            Self::MessageId(span)
            | Self::Position(span)
            | Self::Content(span)
            | Self::First(_, span) => *span,
        }
    }
}

/// Parses what stands after `key =`: one source, or a list of them.
pub(super) fn parse(input: ParseStream<'_>) -> Result<Vec<KeySource>> {
    if !input.peek(Bracket) {
        return Ok(vec![input.parse()?]);
    }
    let content;
    let brackets = bracketed!(content in input);
    let span = brackets.span.join();
    several(
        &content,
        span,
        "a key without parts would be the same for all messages: name at least one field",
    )
}

/// A list that is not empty and names nothing twice; all that is wrong with its members.
fn several(input: ParseStream<'_>, span: Span, empty: &str) -> Result<Vec<KeySource>> {
    let mut sources: Vec<KeySource> = Vec::new();
    let mut mistakes = Mistakes::default();
    list::each(input, &mut mistakes, |input| {
        let source: KeySource = input.parse()?;
        let name = source.name();
        if sources.iter().any(|earlier| earlier.name() == name) {
            let message = format!("`{name}` is in the key already");
            return Err(Error::new(source.span(), message));
        }
        sources.push(source);
        Ok(())
    });
    mistakes.into_result()?;
    if sources.is_empty() {
        return Err(Error::new(span, empty));
    }
    Ok(sources)
}

impl Parse for KeySource {
    fn parse(input: ParseStream<'_>) -> Result<Self> {
        if input.peek(syn::Ident) && input.peek2(Paren) {
            return function(input);
        }
        if input.peek(Bracket) {
            return Err(input.error("a list inside a list: write all parts in one, as in `[\"customer\", \"order_id\"]`"));
        }
        if !input.peek(LitStr) && !input.peek(Ident::peek_any) {
            return Err(input.error(
                "write a field, `header(\"…\")`, `message_id()`, `position()`, `content()` or `first(…)`",
            ));
        }
        FieldPath::parse(input).map(Self::Field)
    }
}

const HEADER: &str = "name the header, as in `header(\"x-idempotency-key\")`";

/// Begins the headers that idem itself writes: a key made of them would change on every retry.
const OURS: &str = "idem-";

const RESERVED: &str = "headers that begin with `idem-` are idem's own and change from attempt to attempt: give the key a header of another name, as in `header(\"x-idempotency-key\")`";

/// `header("…")`, `message_id()`, `position()`, `content()`, `first(…)`.
fn function(input: ParseStream<'_>) -> Result<KeySource> {
    let name: Ident = input.parse()?;
    let content;
    let parens = parenthesized!(content in input);
    let span = parens.span.join();
    match name.to_string().as_str() {
        "header" => header(&content, span),
        "message_id" => nothing(&content, &name).map(|()| KeySource::MessageId(name.span())),
        "position" => nothing(&content, &name).map(|()| KeySource::Position(name.span())),
        "content" => nothing(&content, &name).map(|()| KeySource::Content(name.span())),
        "first" => {
            let sources = several(
                &content,
                span,
                "name the sources to try, as in `first(message_id(), content())`",
            )?;
            no_first_inside(&sources)?;
            Ok(KeySource::First(sources, name.span()))
        }
        "sequence" => Err(sequence::inside(&name, &content)),
        other => {
            content.parse::<TokenStream>()?;
            let message = suggestion::unknown(other, "a source of keys", &FUNCTIONS);
            Err(Error::new(name.span(), message))
        }
    }
}

fn header(content: ParseStream<'_>, span: Span) -> Result<KeySource> {
    let name = content.parse::<LitStr>();
    let name = name.map_err(|_| Error::new(span, HEADER))?;
    if name.value().trim().is_empty() {
        return Err(Error::new(name.span(), HEADER));
    }
    if name.value().starts_with(OURS) {
        return Err(Error::new(name.span(), RESERVED));
    }
    if !content.is_empty() {
        return Err(content.error("one header at a time: write `first(header(\"a\"), header(\"b\"))` to take the first that is present"));
    }
    Ok(KeySource::Header(name))
}

fn nothing(content: ParseStream<'_>, name: &Ident) -> Result<()> {
    if content.is_empty() {
        return Ok(());
    }
    let error = content.error(format!("`{name}()` takes nothing"));
    content.parse::<TokenStream>()?;
    Err(error)
}

fn no_first_inside(sources: &[KeySource]) -> Result<()> {
    let inner = sources.iter().find_map(|source| match source {
        KeySource::First(_, span) => Some(*span),
        _ => None,
    });
    match inner {
        Some(span) => Err(Error::new(
            span,
            "a `first` inside a `first`: write all sources in one",
        )),
        None => Ok(()),
    }
}
