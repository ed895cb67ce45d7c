//! Exchanges and bindings of a test's vhost, as an operator would change them.

use lapin::{
    ExchangeKind,
    options::{ExchangeDeclareOptions, ExchangeDeleteOptions, QueueBindOptions},
    types::FieldTable,
};

use super::{Bed, Line};
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
        self.line.declare_exchange(exchange).await;
    }

    /// Deletes an exchange.
    pub async fn delete_exchange(&self, exchange: &str) {
        self.line.delete_exchange(exchange).await;
    }
}

impl Line {
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

    async fn declare_exchange(&self, exchange: &str) {
        let channel = self.channel().await;
        let declared = channel.exchange_declare(
            exchange.into(),
            ExchangeKind::Topic,
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
