//! Exchanges and bindings of a test's vhost, as an operator would change them.

use lapin::{
    BasicProperties, ExchangeKind,
    options::{
        BasicPublishOptions, ExchangeDeclareOptions, ExchangeDeleteOptions, QueueBindOptions,
    },
    types::FieldTable,
};

use super::{Bed, Line, persistent};
use crate::journal::within;

impl Bed {
    /// Binds a queue to an exchange.
    pub async fn bind(&self, queue: &str, exchange: &str, routing_key: &str) {
        self.line.bind(queue, exchange, routing_key).await;
    }

    /// Removes a queue's binding to an exchange.
    pub async fn unbind(&self, queue: &str, exchange: &str, routing_key: &str) {
        self.line.unbind(queue, exchange, routing_key).await;
    }

    /// Declares a topic exchange that is not as a worker would declare it.
    pub async fn declare_foreign_exchange(&self, exchange: &str) {
        self.line
            .declare_exchange(exchange, ExchangeKind::Topic)
            .await;
    }

    /// Declares an exchange of a type that a plugin brings.
    pub async fn declare_exchange_of(&self, kind: &str, exchange: &str) {
        let kind = ExchangeKind::Custom(kind.into());
        self.line.declare_exchange(exchange, kind).await;
    }

    /// Publishes a message to an exchange, which leads somewhere, and waits for the confirm.
    pub async fn send_by(&self, exchange: &str, routing_key: &str, body: &[u8]) {
        self.send_by_with(exchange, routing_key, body, persistent())
            .await;
    }

    /// The same with any properties.
    pub async fn send_by_with(
        &self,
        exchange: &str,
        routing_key: &str,
        body: &[u8],
        properties: BasicProperties,
    ) {
        self.line
            .send_by(exchange, routing_key, body, properties)
            .await;
    }

    /// Deletes an exchange.
    pub async fn delete_exchange(&self, exchange: &str) {
        self.line.delete_exchange(exchange).await;
    }
}

impl Line {
    pub(super) async fn send_by(
        &self,
        exchange: &str,
        routing_key: &str,
        body: &[u8],
        properties: BasicProperties,
    ) {
        let options = BasicPublishOptions {
            mandatory: true,
            ..BasicPublishOptions::default()
        };
        let channel = self.channel().await;
        let (to, key) = (exchange.into(), routing_key.into());
        let sent = channel.basic_publish(to, key, options, body, properties);
        let confirmation = within("the broker confirms", async { sent.await?.await }).await;
        let confirmation = confirmation.expect("a channel");
        assert!(confirmation.is_ack(), "{exchange} refused a message");
        let returned = confirmation.take_message();
        assert!(
            returned.is_none(),
            "{exchange:?} leads {routing_key} nowhere"
        );
    }

    async fn bind(&self, queue: &str, exchange: &str, routing_key: &str) {
        let channel = self.channel().await;
        let bound = channel.queue_bind(
            queue.into(),
            exchange.into(),
            routing_key.into(),
            QueueBindOptions::default(),
            FieldTable::default(),
        );
        let bound = within("the queue is bound", bound).await;
        bound.expect("a queue and an exchange that are there");
    }

    async fn unbind(&self, queue: &str, exchange: &str, routing_key: &str) {
        let channel = self.channel().await;
        let unbound = channel.queue_unbind(
            queue.into(),
            exchange.into(),
            routing_key.into(),
            FieldTable::default(),
        );
        let unbound = within("the queue is unbound", unbound).await;
        unbound.expect("a binding that is not there is no error");
    }

    async fn declare_exchange(&self, exchange: &str, kind: ExchangeKind) {
        let channel = self.channel().await;
        let declared = channel.exchange_declare(
            exchange.into(),
            kind,
            ExchangeDeclareOptions::default(),
            FieldTable::default(),
        );
        let declared = within("the exchange is declared", declared).await;
        declared.expect("a name that is free");
    }

    async fn delete_exchange(&self, exchange: &str) {
        let channel = self.channel().await;
        let deleted = channel.exchange_delete(exchange.into(), ExchangeDeleteOptions::default());
        let deleted = within("the exchange is deleted", deleted).await;
        deleted.expect("an exchange that is not there is no error");
    }
}
