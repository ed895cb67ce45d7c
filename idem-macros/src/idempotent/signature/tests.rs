//! Which parameter is what, and what cannot be a handler.

use quote::{ToTokens, quote};

use super::*;

fn check(tokens: TokenStream) -> (Option<Signature>, Vec<String>) {
    let function: Function = syn::parse2(tokens).expect("it is a function");
    let mut mistakes = Mistakes::default();
    let signature = Signature::check(&function, &mut mistakes);
    let errors = mistakes.into_result().err().into_iter().flatten();
    (signature, errors.map(|error| error.to_string()).collect())
}

fn mistake(tokens: TokenStream) -> String {
    let (_, mut mistakes) = check(tokens);
    assert_eq!(mistakes.len(), 1, "{mistakes:#?}");
    mistakes.remove(0)
}

#[test]
fn the_message_comes_first_and_the_rest_in_any_order() {
    let (signature, mistakes) = check(quote! {
        pub(crate) async fn charge(
            Order { id, .. }: Order,
            db: &mut Transaction<'_, Postgres>,
            State(mail): State<Mailer>,
        ) -> Result<(), Failed> {
            let half =
        }
    });
    let signature = signature.unwrap();
    assert_eq!(mistakes, [""; 0]);
    assert_eq!(signature.message.to_token_stream().to_string(), "Order");
    let connection = signature.connection().unwrap().to_string();
    assert_eq!(connection, "Transaction < 'static , Postgres >");
    assert_eq!(signature.parameters.len(), 2);
}

#[test]
fn without_a_connection_a_handler_is_leased() {
    let (signature, _) = check(quote!(
        async fn f(m: M, a: Attempt) -> Done {}
    ));
    assert!(!signature.unwrap().is_atomic());
}

const MISTAKES: [(&str, &str); 23] = [
    ("fn f(m: M) -> Done {}", "write `async fn f`"),
    ("async fn f(m: M) {}", "write `-> Result<(), Failed>`"),
    ("async fn f() -> Done {}", "takes the message first"),
    ("async fn f(&self, m: M) -> Done {}", "a free function"),
    (
        "async fn f(self: Arc<Self>, m: M) -> Done {}",
        "a free function",
    ),
    ("async fn f<T>(m: M) -> Done {}", "cannot be generic"),
    ("async fn f<'a>(m: M) -> Done {}", "write `'_`"),
    ("async fn f(m: &M) -> Done {}", "by value: `M`"),
    ("async fn f(m: impl Msg) -> Done {}", "instead of `impl …`"),
    ("async fn f(m: M<'_>) -> Done {}", "owns its data"),
    ("async fn f(m: M, s: &S) -> Done {}", "this one by value"),
    (
        "async fn f(m: M, s: State<Cow<'_, str>>) -> Done {}",
        "owns its data",
    ),
    (
        "async fn f(m: M, a: &mut A, b: &mut B) -> Done {}",
        "keep one `&mut`",
    ),
    (
        "async fn f(db: &mut Db, m: M) -> Done {}",
        "before the connection",
    ),
    (
        "async fn f(s: State<S>, m: M) -> Done {}",
        "before the state",
    ),
    (
        "async fn f(m: M, tx: &mut sqlx::PgTransaction) -> Done {}",
        "`&mut PgTransaction<'_>`",
    ),
    (
        "async fn f(m: M, tx: &mut Transaction<sqlx::Sqlite>) -> Done {}",
        "`&mut Transaction<'_, sqlx::Sqlite>`",
    ),
    (
        "async fn f(m: M) -> Option<()> {}",
        "write `-> Result<(), Failed>`",
    ),
    (
        "async fn f(m: M) -> Result<impl Ser, E> {}",
        "instead of `impl …`",
    ),
    ("const async fn f(m: M) -> Done {}", "cannot be `const`"),
    ("async unsafe fn f(m: M) -> Done {}", "cannot be `unsafe`"),
    (
        r#"async extern "C" fn f(m: M) -> Done {}"#,
        "remove `extern`",
    ),
    ("async fn f(m: M, ...) -> Done {}", "remove `...`"),
];

#[test]
fn what_cannot_be_a_handler_is_told_why() {
    for (function, words) in MISTAKES {
        let mistake = mistake(function.parse().expect("it is Rust"));
        assert!(mistake.contains(words), "{mistake}");
    }
}

#[test]
fn a_transaction_of_ones_own_may_have_no_lifetime() {
    for ty in [
        quote!(Transaction),
        quote!(Transaction<MyDatabase>),
        quote!(WriteTransaction),
        quote!(PgTransaction<'_>),
        quote!(Transaction<'static, Postgres>),
    ] {
        let (_, mistakes) = check(quote!(async fn f(m: M, tx: &mut #ty) -> Done {}));
        assert_eq!(mistakes, [""; 0], "{ty}");
    }
}
