//! One letter: opened, handed to the service, and answered when somebody waits.
use std::sync::Arc;

use bytes::Bytes;
use muretai_protocol::{Did, relay::Item};

use super::{lanes::Letter, mailbox::Mailbox, random};
use crate::{Incoming, Outcome, Postmark, Service, Unopened, UnopenedReason, Way};

/// Bytes of a sealed box: relays take deposits of 1 MiB.
const MAX_BLOB_BYTES: usize = 1_048_576;
/// What a service answers when it cannot take a request now.
const NOT_NOW: u16 = 503;

/// What became of a letter.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Fate {
    /// The service took it, for good or for bad.
    Taken,
    /// It is no request, and that is noted.
    Unopened,
    /// The service cannot take it now.
    NotNow,
}

/// Hands letters to a service.
pub(super) struct Opener {
    pub(super) mailbox: Arc<Mailbox>,
    pub(super) service: Arc<dyn Service>,
}

impl Opener {
    /// Brings one letter to its end. The service has committed when this returns.
    pub(super) async fn handle(&self, letter: &Letter) -> Fate {
        match letter {
            Letter::Damaged { qid, why } => {
                let item = Item { qid: qid.clone(), ..empty() };
                self.unopened(&item, UnopenedReason::BadItem(why)).await
            }
            Letter::Sealed(item) if item.blob.len() > MAX_BLOB_BYTES => {
                self.unopened(item, UnopenedReason::TooLarge).await
            }
            Letter::Sealed(item) => match self.open(item).await {
                Some((body, enc_pub)) if item.waits => self.call(item, body, enc_pub).await,
                Some((body, enc_pub)) => self.mail(item, body, enc_pub).await,
                None => self.unopened(item, UnopenedReason::DoesNotOpen).await,
            },
        }
    }

    /// The plaintext and the key that opened it: the one that the sender is known to have, else the one on the letter.
    async fn open(&self, item: &Item) -> Option<(Bytes, String)> {
        let keyring = &self.mailbox.keyring;
        let known = match item.from.parse::<Did>() {
            Ok(from) => keyring.enc_pub_of(&from).await,
            Err(_) => None,
        };
        let hint = item.from_enc.clone().filter(|hint| known.as_deref() != Some(hint));
        known.into_iter().chain(hint).find_map(|key| {
            let opened = keyring.sealing().open(&key, &item.blob, b"").ok()?;
            Some((Bytes::from(opened), key))
        })
    }

    async fn mail(&self, item: &Item, body: Bytes, enc_pub: String) -> Fate {
        let way = Way::Mailbox(self.postmark(item, Some(enc_pub)));
        match self.service.call(incoming(body, way)).await.status {
            NOT_NOW => Fate::NotNow,
            _ => Fate::Taken,
        }
    }

    /// The depositor waits: the answer goes back by `POST /reply`, and to whoever keeps answers when nobody hears it.
    async fn call(&self, item: &Item, body: Bytes, enc_pub: String) -> Fate {
        let Outcome { status, body: answer } = self.service.call(incoming(body.clone(), Way::RelayCall)).await;
        if status == NOT_NOW {
            return Fate::NotNow;
        }
        let sealed = self.mailbox.keyring.sealing().seal(&enc_pub, &answer, b"", random());
        let is_heard = match sealed {
            Ok(blob) => self.mailbox.reply(&item.qid, blob).await.unwrap_or_else(|error| {
                tracing::debug!(%error, "an answer did not get back through the relay");
                false
            }),
            Err(_) => false,
        };
        let postmark = self.postmark(item, Some(enc_pub.clone()));
        if is_heard {
            self.service.heard(&postmark, &body, &answer).await;
            return Fate::Taken;
        }
        if self.service.unheard(&postmark, answer).await {
            return Fate::Taken;
        }
        // What was refused to somebody who waited may be good as a letter, and a refusal has to be told.
        self.mail(item, body, enc_pub).await
    }

    async fn unopened(&self, item: &Item, reason: UnopenedReason) -> Fate {
        let letter = Unopened { postmark: self.postmark(item, None), reason, bytes: item.blob.len() };
        if self.service.unopened(letter).await { Fate::Unopened } else { Fate::NotNow }
    }

    fn postmark(&self, item: &Item, enc_pub: Option<String>) -> Postmark {
        Postmark {
            relay: self.mailbox.relay().to_owned(),
            qid: item.qid.clone(),
            id: item.id.clone(),
            from: item.from.clone(),
            enc_pub,
            ts: item.ts,
        }
    }
}

fn incoming(body: Bytes, way: Way) -> Incoming {
    Incoming { body, a2a_version: None, remote: None, way }
}

fn empty() -> Item {
    Item {
        qid: String::new(),
        id: String::new(),
        from: String::new(),
        from_enc: None,
        blob: String::new(),
        ts: 0,
        waits: false,
    }
}
