//! A server that owes nothing to `idem-amqp`: it answers requests as the test says, or does not.

use std::{sync::Arc, time::Duration};

use futures_util::{StreamExt as _, future::BoxFuture};
use lapin::{
    BasicProperties, Channel, Connection, ConnectionProperties,
    message::Delivery,
    options::{BasicAckOptions, BasicConsumeOptions, BasicPublishOptions, BasicQosOptions},
    types::{AMQPValue, FieldTable, ShortString},
};
use serde::Serialize;
use serde_json::json;
use tokio::{task::JoinHandle, time::sleep};

use crate::{
    bed::Bed,
    journal::Journal,
    leases::{CreateLease, Lease},
};

/// A request as it came.
#[derive(Debug, Clone)]
pub struct Asked {
    /// How many requests came before.
    pub number: usize,
    /// The body.
    pub body: Vec<u8>,
    /// The properties.
    pub properties: BasicProperties,
}

/// What is sent to whoever asked.
#[derive(Debug, Clone)]
pub struct Answer {
    body: Vec<u8>,
    correlation_id: Option<ShortString>,
    headers: FieldTable,
}

/// Consumes a queue over its own connection, made again when it is lost, and writes down what came.
#[derive(Debug)]
pub struct Responder {
    /// The requests so far.
    pub asked: Journal<Asked>,
    task: JoinHandle<()>,
}

type Behaviour = Arc<dyn Fn(Asked) -> BoxFuture<'static, Vec<Answer>> + Send + Sync>;

impl Asked {
    /// The request.
    ///
    /// # Panics
    /// If it asks for no lease.
    pub fn lease(&self) -> CreateLease {
        serde_json::from_slice(&self.body).expect("it asks for a lease")
    }

    /// What names the unit of work.
    pub fn message_id(&self) -> String {
        text(self.properties.message_id().as_ref())
    }

    /// What the reply is recognised by.
    pub fn correlation_id(&self) -> String {
        text(self.properties.correlation_id().as_ref())
    }

    /// Where the reply is to go.
    pub fn reply_to(&self) -> String {
        text(self.properties.reply_to().as_ref())
    }

    /// What kind of message it is.
    pub fn kind(&self) -> String {
        text(self.properties.kind().as_ref())
    }

    /// Its session, its number there, and the lowest number whose answer is still awaited.
    ///
    /// # Panics
    /// If it does not say so.
    pub fn place(&self) -> (String, i64, i64) {
        let headers = self.properties.headers().as_ref().expect("headers");
        let header = |name| headers.inner().get(name).expect("all three headers");
        let number = |name| match header(name) {
            AMQPValue::LongLongInt(number) => *number,
            other => panic!("{name}: {other:?}"),
        };
        let AMQPValue::LongString(session) = header("idem-session") else {
            panic!("no text: {headers:?}")
        };
        let session = session.to_string();
        (session, number("idem-number"), number("idem-awaited"))
    }

    /// A refusal with this code.
    pub fn refused_as(&self, code: &str) -> Answer {
        let refusal = json!({"code": code, "message": format!("it is {code}")});
        self.answer(&refusal).refused(code).replayed(false)
    }

    /// The lease that it asks for, with the request's number.
    pub fn granted(&self) -> Answer {
        self.answer(&Lease {
            name: self.lease().name,
            number: self.number as u64,
        })
    }

    /// This value, as JSON.
    ///
    /// # Panics
    /// If JSON cannot express it.
    pub fn answer(&self, body: &impl Serialize) -> Answer {
        Answer {
            body: serde_json::to_vec(body).expect("JSON expresses it"),
            correlation_id: self.properties.correlation_id().clone(),
            headers: FieldTable::default(),
        }
    }
}

impl Answer {
    /// It is repeated from memory, or it is not.
    pub fn replayed(self, replayed: bool) -> Self {
        self.header("idem-replayed", AMQPValue::Boolean(replayed))
    }

    /// It is a refusal with this code.
    pub fn refused(self, code: &str) -> Self {
        self.header("idem-refusal", AMQPValue::LongString(code.into()))
    }

    /// It answers another request, or none.
    pub fn to(mut self, correlation_id: Option<&str>) -> Self {
        self.correlation_id = correlation_id.map(Into::into);
        self
    }

    fn header(mut self, name: &str, value: AMQPValue) -> Self {
        self.headers.insert(name.into(), value);
        self
    }
}

impl Responder {
    /// Grants every lease.
    pub fn granting(bed: &Bed) -> Self {
        Self::start(bed, bed.name(), async |asked| {
            vec![asked.granted().replayed(false)]
        })
    }

    /// Answers the requests in this queue as the test says. It is acknowledged after that.
    pub fn start<F, Fut>(bed: &Bed, queue: &str, behaviour: F) -> Self
    where
        F: Fn(Asked) -> Fut + Send + Sync + 'static,
        Fut: Future<Output = Vec<Answer>> + Send + 'static,
    {
        let asked = Journal::default();
        let behaviour: Behaviour = Arc::new(move |asked| Box::pin(behaviour(asked)));
        let serving = serve(bed.url().into(), queue.into(), asked.clone(), behaviour);
        Self {
            asked,
            task: tokio::spawn(serving),
        }
    }
}

impl Drop for Responder {
    fn drop(&mut self) {
        self.task.abort();
    }
}

async fn serve(url: String, queue: String, asked: Journal<Asked>, behaviour: Behaviour) {
    loop {
        let served = serve_once(&url, &queue, &asked, &behaviour).await;
        if served.is_err() {
            sleep(Duration::from_millis(50)).await;
        }
    }
}

/// Until the connection is lost.
async fn serve_once(
    url: &str,
    queue: &str,
    asked: &Journal<Asked>,
    behaviour: &Behaviour,
) -> lapin::Result<()> {
    let connection = Connection::connect(url, ConnectionProperties::default()).await?;
    let channel = connection.create_channel().await?;
    channel.basic_qos(500, BasicQosOptions::default()).await?;
    let options = BasicConsumeOptions::default();
    let consuming = channel.basic_consume(queue.into(), "".into(), options, FieldTable::default());
    let mut requests = consuming.await?;
    while let Some(request) = requests.next().await {
        let request = request?;
        let next = Asked {
            number: asked.entries().len(),
            body: request.data.clone(),
            properties: request.properties.clone(),
        };
        asked.write(next.clone());
        let (channel, answers) = (channel.clone(), behaviour(next));
        tokio::spawn(async move {
            let _ = answer(&channel, &request, answers.await).await;
        });
    }
    Ok(())
}

async fn answer(channel: &Channel, request: &Delivery, answers: Vec<Answer>) -> lapin::Result<()> {
    let reply_to = request.properties.reply_to().clone().unwrap_or_default();
    for answer in answers {
        let mut properties = BasicProperties::default()
            .with_content_type("application/json".into())
            .with_headers(answer.headers);
        if let Some(correlation_id) = answer.correlation_id {
            properties = properties.with_correlation_id(correlation_id);
        }
        let options = BasicPublishOptions::default();
        let sent = channel.basic_publish(
            "".into(),
            reply_to.clone(),
            options,
            &answer.body,
            properties,
        );
        sent.await?.await?;
    }
    request.acker.ack(BasicAckOptions::default()).await?;
    Ok(())
}

fn text(text: Option<&ShortString>) -> String {
    text.map(ToString::to_string).unwrap_or_default()
}
