//! Who answers, and how the work is kept in bounds: skills first, then the owner's command, then the acknowledgement.
use std::sync::Arc;

use muretai_plugins::{ContactState, Responder, Response, Skills};
use muretai_protocol::{json::Value, message::Verified, rpc::Refusal};
use muretai_transports::Stop;

use crate::{
    Agent,
    receive::{
        in_hand::{InHand, Place},
        methods::send::{self, Admitted},
        refusals as say,
        responder::{Acknowledge, CommandResponder},
    },
};

/// What a sender is told to wait when too much is in hand.
const BUSY_RETRY_SECS: u64 = 5;
/// Bytes that a message in hand costs beside its text and what is kept with it.
const OVERHEAD_BYTES: usize = 4_096;

/// Messages of strangers that came through relays and have a responder at work, or wait for one. A listener has a
/// bounded number of letters in hand; those of contacts must find room whatever strangers send, so more are refused.
const STRANGERS_BY_RELAY: u32 = 6;

/// Answers messages that were let in.
pub(super) enum Answerer {
    /// Answers at once.
    Quick,
    /// Takes its time: the work goes on when the asker hangs up, so that a slow answer is not begun over and over.
    Slow { responders: Arc<Responders>, in_hand: [InHand; 3], strangers: InHand, hurry: Stop },
}

/// What may take its time.
pub(super) struct Responders {
    pub(super) skills: Option<Arc<dyn Skills>>,
    pub(super) command: Option<CommandResponder>,
}

impl Responders {
    /// The first that answers has answered.
    async fn respond(&self, message: &Verified, state: ContactState) -> Response {
        if let Some(skills) = &self.skills
            && let Some(response) = skills.respond(message, state).await
        {
            return response;
        }
        match &self.command {
            Some(command) => command.respond(message, state).await,
            None => Acknowledge.respond(message).await,
        }
    }
}

impl Answerer {
    pub(super) fn new(responders: Responders) -> Answerer {
        if responders.skills.is_none() && responders.command.is_none() {
            return Answerer::Quick;
        }
        let in_hand = [InHand::new(), InHand::new(), InHand::new()];
        let strangers = InHand::few(STRANGERS_BY_RELAY);
        Answerer::Slow { responders: Arc::new(responders), in_hand, strangers, hurry: Stop::new() }
    }

    /// Tells slow responders that time is up.
    pub(super) fn hurry(&self) {
        if let Answerer::Slow { hurry, .. } = self {
            hurry.stop();
        }
    }

    /// Waits until nothing is in hand any more.
    pub(super) async fn idle(&self) {
        if let Answerer::Slow { in_hand, .. } = self {
            for hand in in_hand {
                hand.emptied().await;
            }
        }
    }

    /// Answers a message and stores both.
    pub(super) async fn answer(
        &self,
        agent: &Agent,
        admitted: Admitted,
        state: ContactState,
    ) -> Result<Value, Refusal> {
        match self {
            // The loop brake.
            _ if admitted.needs_no_responder() => send::store_and_reply(agent, admitted, Response::accepted()).await,
            Answerer::Quick => {
                let response = Acknowledge.respond(&admitted.passed.verified).await;
                send::store_and_reply(agent, admitted, response).await
            }
            Answerer::Slow { responders, in_hand, strangers, hurry } => {
                let few = match admitted.is_by_relay && state == ContactState::None {
                    true => Some(strangers.take(1).ok_or_else(|| say::rate_limited(BUSY_RETRY_SECS))?),
                    false => None,
                };
                let place = tokio::select! {
                    place = place(&in_hand[room(state)], &admitted) => place?,
                    () = hurry.stopped() => return Err(say::in_hand()),
                };
                let (agent, responders, hurry) = (agent.clone(), Arc::clone(responders), hurry.clone());
                let work = async move {
                    let _places = (place, few);
                    let response = tokio::select! {
                        response = responders.respond(&admitted.passed.verified, state) => response,
                        // The relay brings a letter again; somebody who waits is told the truth.
                        () = hurry.stopped() => match &admitted.back {
                            Some(_) => return Err(say::in_hand()),
                            None => Response::no_answer("the agent is stopping"),
                        },
                    };
                    send::store_and_reply(&agent, admitted, response).await
                };
                tokio::spawn(work).await.unwrap_or_else(|_| Err(say::internal()))
            }
        }
    }
}

/// A place for a message. A letter waits for one: nobody is there to be told to come again.
async fn place(in_hand: &InHand, admitted: &Admitted) -> Result<Place, Refusal> {
    // What is kept is counted twice: some of it may be in the message, too.
    let kept = admitted.extra.as_ref().map_or(0, String::len);
    let size = OVERHEAD_BYTES + admitted.passed.verified.message().text.len() + 2 * kept;
    match &admitted.back {
        None => in_hand.take(size).ok_or_else(|| say::rate_limited(BUSY_RETRY_SECS)),
        Some(_) => in_hand.wait(size).await.ok_or_else(say::internal),
    }
}

/// Nobody's messages take the room of those whom the owner knows better.
fn room(state: ContactState) -> usize {
    match state {
        ContactState::Direct => 0,
        ContactState::Introduced => 1,
        ContactState::None => 2,
    }
}
