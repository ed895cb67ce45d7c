//! From an envelope to the function's result, through an executor.

use idem_core::{
    Attempt, Envelope, Execution, Executor, Failed, FromContext, FromRef, Headers, MemoryStore,
    Policy, Prepared, State,
    handler::{Context, DecodeError, Handler, Leased, Rejection},
    idempotent,
    message::EnvelopeBuilder,
};

use crate::{OrderPlaced, order};

#[derive(Clone)]
struct Mailer(&'static str);

struct App {
    mailer: Mailer,
}

impl FromRef<App> for Mailer {
    fn from_ref(app: &App) -> Self {
        app.mailer.clone()
    }
}

struct Tenant(String);

impl<S> FromContext<S> for Tenant {
    fn from_context(context: &Context<'_, S>) -> Result<Self, Rejection> {
        let tenant = context.envelope.header("x-tenant");
        let tenant = tenant.ok_or_else(|| Rejection::new("no x-tenant"))?;
        Ok(Self(tenant.into_owned()))
    }
}

#[idempotent(key = "order_id")]
async fn notify(
    order: OrderPlaced,
    State(Mailer(mailer)): State<Mailer>,
    tenant: Tenant,
    headers: Headers,
    attempt: Attempt,
) -> Result<String, Failed> {
    let Tenant(tenant) = tenant;
    let (id, number) = (order.order_id, attempt.number());
    let names = headers.names().join(",");
    Ok(format!("{id} {mailer} {tenant} {names} {number}"))
}

#[idempotent(key = "0", decode = first_line)]
async fn read(line: Line) -> Result<usize, Failed> {
    if line.0.is_empty() {
        return Err(Failed::rejected("empty"));
    }
    Ok(line.0.len())
}

struct Line(String);

fn first_line(envelope: &Envelope) -> Result<Line, DecodeError> {
    let text = str::from_utf8(envelope.body()).map_err(DecodeError::new)?;
    Ok(Line(text.lines().next().unwrap_or_default().to_owned()))
}

async fn run<H: Handler<App, Mode = Leased>>(
    envelope: EnvelopeBuilder,
) -> Execution<H::Output, H::Error> {
    let app = App {
        mailer: Mailer("smtp"),
    };
    match Prepared::<H>::new(envelope.build(), &Policy::DEFAULT) {
        Ok(mut message) => {
            let executor = Executor::new(MemoryStore::new());
            executor.handle(&mut message, &app).await
        }
        Err(ended) => ended,
    }
}

#[tokio::test]
async fn a_handler_gets_its_message_and_its_parameters_in_their_order() {
    let execution = run::<notify>(order().header("x-tenant", "acme")).await;
    let Execution::Executed { output, .. } = execution else {
        panic!("{execution:?}");
    };
    assert_eq!(output, "o-17 smtp acme x-tenant 1");
}

#[tokio::test]
async fn a_parameter_that_cannot_be_made_keeps_the_handler_from_running() {
    let execution = run::<notify>(order()).await;
    assert!(
        format!("{execution:?}").contains("no x-tenant"),
        "{execution:?}"
    );
}

#[tokio::test]
async fn a_body_that_is_no_message_is_undecodable() {
    let execution = run::<notify>(Envelope::builder("[]")).await;
    assert!(
        matches!(execution, Execution::Undecodable { .. }),
        "{execution:?}"
    );
}

#[tokio::test]
async fn a_decoder_of_ones_own_is_asked_instead() {
    let execution = run::<read>(Envelope::builder("first\nsecond")).await;
    assert!(
        matches!(execution, Execution::Executed { output: 5, .. }),
        "{execution:?}"
    );
}

#[tokio::test]
async fn the_function_stays_an_ordinary_function() {
    assert_eq!(read(Line("four".into())).await.unwrap(), 4);
    assert!(read(Line(String::new())).await.is_err());
}
