//! A claim through the inviter's relay: answered at once when the inviter listens there, and otherwise left for it.
use muretai_protocol::{MessageId, rpc::Code, urls};
use muretai_transports::{MailboxAddress, TransportError};
use std::time::Duration;
use tokio::time::Instant;

use super::{
    ClaimError, ClaimRequest, Claimed,
    claim::{Errand, Presented, accepted},
    pending::{Ended, Pending},
};
use crate::{
    Agent,
    agent::{now, random},
    mail::MailError,
    trust::call::{NoAnswer, Relayed},
};

/// How long an inviter that listens has for its answer.
const ANSWER_WAIT: Duration = Duration::from_secs(10);

impl Agent {
    /// Leaves the claim at the relay. Its record is there before it leaves, because the answer may come at any time.
    pub(super) async fn present_by_relay(
        &self,
        errand: &Errand,
        request: &ClaimRequest,
        deadline: Instant,
    ) -> Result<Presented, ClaimError> {
        let Errand { invite, mailbox: Some(mailbox), .. } = errand else { return Err(ClaimError::NoAddress) };
        let home = self.home_for(errand, mailbox).await?;
        let message_id = MessageId::from_random(random());
        let id = message_id.as_str();
        let mut pending = Pending {
            message_id: id.to_owned(),
            did: invite.did.clone(),
            card: invite.raw.clone(),
            base: errand.base.clone().unwrap_or_default(),
            relay: mailbox.relay.clone(),
            allow_private: errand.allow_private,
            name: request.name.clone(),
            was_known: errand.was_known,
            greet: !request.no_greeting && !errand.was_known,
            is_trusted: false,
            made: now(),
            ended: None,
        };
        pending.save(self.store()).await?;
        let mut about = self.about_us().await?;
        about.insert("relay".to_owned(), home.as_str().into());
        let body = self.claim_body(invite, &message_id, about);
        let url = mailbox.relay.clone();
        match self.by_relay(&invite.did, mailbox, (id, body), deadline, ANSWER_WAIT).await {
            Ok(Relayed::Left { .. }) => {
                self.settle_home(errand, mailbox, &home).await?;
                self.trust_for_now(errand, &mut pending).await?;
                Ok(Presented::Left(Box::new(pending)))
            }
            Ok(Relayed::Said(response)) => {
                pending.forget(self.store()).await?;
                accepted(response, invite, url)?;
                self.settle_home(errand, mailbox, &home).await?;
                Ok(Presented::Accepted)
            }
            Err(NoAnswer::Transport { source, .. }) => {
                if cannot_lie_there(&source) {
                    pending.forget(self.store()).await?;
                }
                Err(ClaimError::Transport { url, source })
            }
            Err(NoAnswer::TimedOut { after }) => Err(ClaimError::TimedOut { url, after }),
        }
    }

    /// The relay where the answer is waited for: the owner's choice, the agent's own, or else the inviter's.
    async fn home_for(&self, errand: &Errand, mailbox: &MailboxAddress) -> Result<String, ClaimError> {
        if let Some(home) = &errand.home {
            return Ok(home.clone());
        }
        let own = self.mailboxes().await?;
        let at_inviters = own.iter().find(|own| urls::same_scope(own, &mailbox.relay));
        Ok(at_inviters.or(own.first()).unwrap_or(&mailbox.relay).clone())
    }

    /// The inviter was told where the answer is waited for.
    async fn settle_home(&self, errand: &Errand, mailbox: &MailboxAddress, home: &str) -> Result<(), ClaimError> {
        if errand.home.is_some() {
            self.remember_mailbox(home).await?;
        } else if home == mailbox.relay {
            self.settle_at(mailbox).await?;
        }
        Ok(())
    }

    /// The inviter is trusted from now on, until it says otherwise.
    async fn trust_for_now(&self, errand: &Errand, pending: &mut Pending) -> Result<(), ClaimError> {
        self.store().connect_provisionally(&self.inviter(errand)).await?;
        pending.is_trusted = true;
        if pending.replace(self.store(), &Pending { is_trusted: false, ..pending.clone() }).await? {
            return Ok(());
        }
        // The answer was faster than we.
        let ended = Pending::load(self.store(), &pending.message_id).await?.and_then(|record| record.ended);
        match ended {
            Some(Ended::Refused(_)) => _ = self.store().take_back(&pending.did).await?,
            _ => _ = self.store().connect(&self.inviter(errand)).await?,
        }
        pending.ended = ended;
        Ok(())
    }

    /// Waits for the inviter's answer as long as the owner wants to.
    pub(super) async fn await_inviter(
        &self,
        pending: Pending,
        errand: &Errand,
        request: &ClaimRequest,
    ) -> Result<Claimed, ClaimError> {
        let (store, id) = (self.store(), pending.message_id.as_str());
        let contact = match store.contact(&pending.did).await? {
            Some(contact) => Some(self.named(contact, request).await?),
            None => None,
        };
        let ended = || async move { Ok(Pending::load(store, id).await?.and_then(|record| record.ended)) };
        let mut late = Vec::new();
        let waiting = async {
            match request.wait.is_zero() {
                true => Ok(ended().await?),
                false => self.mail_until(request.wait, &request.receiver, ended).await,
            }
        };
        let end = match waiting.await {
            Ok(end) => end,
            Err(MailError::Store(error)) => return Err(error.into()),
            Err(error) => {
                late.push(format!("the inviter's answer could not be fetched: {error}"));
                None
            }
        };
        match (end, contact) {
            (Some(Ended::Refused(code)), _) => Err(refused(code)),
            // It was removed while we waited.
            (_, None) => Err(refused(Code::IntroductionInvalid.number())),
            (end, Some((contact, mut notes))) => {
                notes.append(&mut late);
                let is_pending = end.is_none();
                let at_relay = is_pending.then_some(pending.relay);
                let was_known = errand.was_known;
                Ok(Claimed { contact, was_known, is_pending, at_relay, purpose: None, notes })
            }
        }
    }
}

/// Whether the relay has not got the claim, for certain.
fn cannot_lie_there(error: &TransportError) -> bool {
    error.is_unreachable() || matches!(error, TransportError::RelayRefused { .. } | TransportError::BadSealingKey)
}

/// A refusal that came by mail.
fn refused(code: i64) -> ClaimError {
    let message = match code {
        code if code == Code::IntroductionInvalid.number() => Code::IntroductionInvalid.message(),
        _ => "the inviter's agent does not take the claim",
    };
    ClaimError::Refused { code, message: message.to_owned(), detail: None, data: None }
}
