//! `group`: how many messages share a transaction, and what has to go with it.

use proc_macro2::{Span, TokenStream, TokenTree};
use syn::{Error, LitInt, Result, parse::ParseStream};

use super::Arguments;
use crate::{idempotent::signature::Signature, mistakes::Mistakes};

/// A commit shared by more is not noticeably cheaper, and undoes more when it fails.
const LARGEST: usize = 256;

pub(super) fn parse(input: ParseStream<'_>) -> Result<LitInt> {
    const CURE: &str = "write a number from 2 to 256, such as `group = 32`";
    let span = input.span();
    let number = input.parse::<LitInt>();
    let number = number.map_err(|_| Error::new(span, CURE))?;
    match number.base10_parse::<usize>() {
        Ok(2..=LARGEST) => Ok(number),
        Ok(0 | 1) => Err(Error::new(
            span,
            "a message that shares its transaction with none needs no group: write at least 2, or remove `group`",
        )),
        _ => Err(Error::new(span, CURE)),
    }
}

/// Looks at it together with the function and the other arguments.
pub(super) fn check(arguments: &Arguments, signature: Option<&Signature>, mistakes: &mut Mistakes) {
    let Some(span) = arguments.span_of("group") else {
        return;
    };
    if let Some(signature) = signature {
        connection(signature, span, mistakes);
    }
    if arguments.span_of("recorded_by").is_some() {
        mistakes.push(Error::new(
            span,
            "with `recorded_by`, a copy waits for its original's commit, and in a group it would wait for others' as well: remove `group` or `recorded_by`",
        ));
    }
}

fn connection(signature: &Signature, span: Span, mistakes: &mut Mistakes) {
    match signature.connection() {
        None => mistakes.push(Error::new(
            span,
            "only messages that are handled in the store's transactions can share one: take `db: &mut PgConnection`, or remove `group`",
        )),
        Some(connection) if is_sqlite(connection.clone()) => mistakes.at(
            connection,
            "SQLite has one writer, which commits alone, so `group` needs PostgreSQL: take `&mut PgConnection` or `&mut PgTransaction<'_>`, or remove `group`",
        ),
        Some(_) => {}
    }
}

fn is_sqlite(connection: TokenStream) -> bool {
    connection.into_iter().any(|token| match token {
        TokenTree::Ident(name) => ["SqliteConnection", "SqliteTransaction", "Sqlite"]
            .iter()
            .any(|known| name == known),
        TokenTree::Group(group) => is_sqlite(group.stream()),
        _ => false,
    })
}
