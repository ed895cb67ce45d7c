//! Carries a settlement out: acks, dead letters, retries, local delays.
//!
//! [`DeliveryProcessor::serve`] calls it when [`settle`] has decided. An ack that needs nothing else, as most do, goes
//! by [`ack_if_open`] instead. What must stay true:
//!
//! - An ack comes last, after whatever has to be in another queue is confirmed there.
//! - What cannot be settled is left to the broker, which delivers it again.

use idem_core::settlement::{Asker, Circumstances, OnFailure, Settlement, settle};
use tokio::time::sleep;

use super::DeliveryProcessor;
use crate::{
    wire::reply::ReplyOutcome,
    worker::{
        arrival::{Arrival, DeliveryEnd, LeftToBroker},
        channel_context::{ChannelContext, Slot},
        circumstances::circumstances,
        outgoing::Outgoing,
        replying::ReplyEffort,
    },
};

/// Queues the ack of a delivery that needs nothing else, and then says whether the channel was still open to take it.
pub(super) fn ack_if_open(tag: u64, context: &ChannelContext) -> Result<(), LeftToBroker> {
    context.acknowledge(tag);
    still_open(context)
}

impl DeliveryProcessor {
    /// Carries the settlement out, up to the ack. `LeftToBroker` if the delivery is left to the
    /// broker.
    ///
    /// Dead letter and reply may change what `end` says: a reply that reached nobody can make a
    /// dead letter of its request.
    pub(super) async fn carry_out(
        &self,
        tag: u64,
        arrival: &Arrival,
        end: &mut DeliveryEnd,
        context: &ChannelContext,
        slot: &mut Slot,
    ) -> Result<Option<ReplyOutcome>, LeftToBroker> {
        let mut reply = None;
        if let Settlement::Requeue { after } = end.settlement {
            // While it waits it needs no slot to run. If there is none to wait, it keeps the one
            // that it has, so that no more wait than may.
            slot.start_waiting(context);
            tokio::select! {
                // After the delay, or the message would be here again at once: a hot loop.
                () = sleep(after) => {
                    context.acks.give_back(tag);
                    still_open(context)?;
                }
                // Not given back here: with the channel's end it is back in its queue anyway.
                () = context.stopping() => return Err(LeftToBroker),
            }
        } else {
            // What is dead-lettered was given up by the executor before: docs/decisions/0002
            // The order keeps the message: first it is confirmed in the other queue, then it is
            // acknowledged here. A crash in between leaves two copies with one key, which is
            // harmless.
            if let Some(letter) = self.letter(arrival, end)? {
                slot.start_waiting(context);
                self.letters.send(letter, context).await?;
            }
            // Likewise: a request that was acknowledged before its reply is sent would never be
            // answered if the worker died in between.
            if let Some(answer) = &end.reply {
                slot.start_waiting(context);
                let effort = ReplyEffort::of(end.settlement);
                reply = self.replies.send(answer, effort, arrival, context).await?;
                // Some refusals must reach somebody: settled once more, as what nobody was told of.
                let not_told = reply != Some(ReplyOutcome::Sent);
                if let Some(error) = answer.unheard().filter(|_| not_told) {
                    let now = Circumstances {
                        asker: Asker::NotTold,
                        // It is handled: only its answer has reached nobody.
                        on_failure: OnFailure::Park,
                        ..circumstances(arrival, &self.queue, &self.policy, context)
                    };
                    let settlement = settle(end.kind, &now);
                    if let Settlement::DeadLetter(reason) = settlement {
                        let letter = Outgoing::not_told(arrival, end, reason, error, &self.queue);
                        self.letters.send(letter, context).await?;
                    }
                    end.settlement = settlement;
                }
            }
            ack_if_open(tag, context)?;
        }
        Ok(reply)
    }

    /// What has to be in another queue before the ack; `LeftToBroker` if nothing is decided.
    fn letter(
        &self,
        arrival: &Arrival,
        end: &DeliveryEnd,
    ) -> Result<Option<Outgoing>, LeftToBroker> {
        Ok(match end.settlement {
            Settlement::DeadLetter(reason) => {
                Some(Outgoing::dead_letter(arrival, end, reason, &self.queue))
            }
            Settlement::Retry { after } => Some(Outgoing::retry(arrival, end, after)),
            Settlement::Ack | Settlement::Drop(_) | Settlement::Requeue { .. } => None,
            // Held or left. Also what a later version of the engine adds: nothing is lost by leaving it.
            _ => return Err(LeftToBroker),
        })
    }
}

/// An error if the channel has ended: the ack goes nowhere, the broker has the message back, and a copy of it
/// comes. Otherwise the ack is queued for the channel's `AckSender`; whether it arrives, nobody can know.
fn still_open(context: &ChannelContext) -> Result<(), LeftToBroker> {
    if context.closed.is_cancelled() {
        return Err(LeftToBroker);
    }
    Ok(())
}
