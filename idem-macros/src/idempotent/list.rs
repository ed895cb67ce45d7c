//! A list with commas, read to its end whatever is wrong with its members.

use proc_macro2::TokenTree;
use syn::{Error, Result, Token, parse::ParseStream};

use crate::mistakes::Mistakes;

/// Reads member after member; one that cannot be read becomes a mistake and is skipped.
pub(super) fn each(
    input: ParseStream<'_>,
    mistakes: &mut Mistakes,
    mut read: impl FnMut(ParseStream<'_>) -> Result<()>,
) {
    while !input.is_empty() {
        if let Err(error) = read(input).and_then(|()| separator(input)) {
            mistakes.push(error);
            skip_to_next(input);
        }
    }
}

fn separator(input: ParseStream<'_>) -> Result<()> {
    if input.is_empty() {
        return Ok(());
    }
    let comma = input.parse::<Token![,]>();
    comma.map_err(|error| Error::new(error.span(), "expected `,`"))?;
    Ok(())
}

fn skip_to_next(input: ParseStream<'_>) {
    while !input.is_empty() && input.parse::<Token![,]>().is_err() {
        let skipped = input.parse::<TokenTree>();
        debug_assert!(skipped.is_ok(), "the input is not empty");
    }
}
