//! What waits for somebody's decision: connect requests, introductions, questions to an introducer, held messages.
//! One list, numbered as it grew, bounded for strangers as a whole.
use muretai_protocol::{Did, UnixSeconds};
use sqlx::{Row, query};

use crate::{
    Store, StoreError,
    contacts::{Contact, Coordinates, Introduce},
    errands::NewErrand,
    introductions::IntroductionRow,
    messages::{Direction, Handling, Received},
};

mod deciding;
mod filing;
mod ours;
mod room;
mod rows;
mod sweep;

use deciding::Word;
use rows::{request_from, select};

/// What is asked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RequestKind {
    /// `connect/request`: "befriend me".
    Connect,
    /// Somebody is introduced to this agent: `introduce/propose`, or a first message that carries the introduction.
    Introduction,
    /// `introduction/request`: "introduce me to T".
    IntroduceMe,
    /// `referral/request`: "who of your contacts knows X?".
    Referral,
    /// A message that a trust policy put before the owner.
    Message,
}

/// How far it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RequestStatus {
    /// Undecided.
    Pending,
    /// Yes.
    Accepted,
    /// No.
    Rejected,
    /// Taken back by who asked.
    Withdrawn,
    /// Nobody decided in time. Never stored: a pending row that is past its time reads so.
    Expired,
    /// From somebody whom the owner blocked: counts like a pending one, and is shown to nobody.
    Hidden,
}

/// A yes or a no.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Decision {
    /// Yes.
    Accept,
    /// No.
    Reject,
}

/// One request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RequestRow {
    /// Its number: what `requests accept` takes. Never given twice.
    pub id: i64,
    /// What is asked.
    pub kind: RequestKind,
    /// From a peer, or ours.
    pub direction: Direction,
    /// Who asks (in) or is asked (out); for an introduction its subject.
    pub peer: Did,
    /// For an introduction: who vouches.
    pub via: Option<Did>,
    /// For [`RequestKind::IntroduceMe`]: to whom.
    pub about: Option<Did>,
    /// How far it is.
    pub status: RequestStatus,
    /// What the wire calls it: the requestId of a connect request, the credential's id of an introduction.
    pub wire_id: Option<String>,
    /// What the peer calls itself; unsafe to show raw.
    pub peer_name: Option<String>,
    /// What was said: note, need, topic; unsafe to show raw.
    pub note: Option<String>,
    /// Where the peer says that it is.
    pub coordinates: Coordinates,
    /// The signed record (8.2) of the question, as JSON, for the introduction that it may lead to.
    pub record: Option<String>,
    /// It came with an introduction that would be good enough.
    pub is_vouched: bool,
    /// When it was written here.
    pub created: UnixSeconds,
    /// The first second in which it is dead.
    pub expires: UnixSeconds,
    /// When somebody decided.
    pub decided: Option<UnixSeconds>,
    /// The text of the message that waits on this row.
    pub held_text: Option<String>,
}

/// A request to file.
#[derive(Debug, Clone)]
pub struct NewRequest {
    /// As in [`RequestRow`].
    pub kind: RequestKind,
    /// As in [`RequestRow`].
    pub peer: Did,
    /// As in [`RequestRow`].
    pub via: Option<Did>,
    /// As in [`RequestRow`].
    pub about: Option<Did>,
    /// As in [`RequestRow`].
    pub wire_id: Option<String>,
    /// As in [`RequestRow`].
    pub peer_name: Option<String>,
    /// As in [`RequestRow`].
    pub note: Option<String>,
    /// As in [`RequestRow`].
    pub coordinates: Coordinates,
    /// As in [`RequestRow`].
    pub record: Option<String>,
    /// As in [`RequestRow`].
    pub is_vouched: bool,
    /// As in [`RequestRow`].
    pub created: UnixSeconds,
    /// As in [`RequestRow`].
    pub expires: UnixSeconds,
}

/// Bounds on what waits, for all strangers together.
#[derive(Debug, Clone, Copy)]
pub struct PendingLimits {
    /// Incoming rows that may wait, hidden ones among them, all kinds together; introductions by direct contacts and
    /// questions of direct contacts have the same room again, and at most a quarter of it for each contact.
    pub total: u32,
    /// Connect requests and held messages of strangers without an introduction, within an hour.
    pub strangers_per_hour: u32,
}

/// What came of an incoming connect request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Filed {
    /// Waits for the owner, since now or since an earlier request of the same DID, which it refreshed (note and
    /// coordinates). Also said of a hidden one.
    Pending(Box<RequestRow>),
    /// Direct trust, now: the policy is open, or this agent had asked the same DID (crossing requests).
    Connected(Contact),
    /// There was direct trust before.
    AlreadyConnected(Contact),
    /// The owner said no to this DID, and the row still stands.
    Rejected,
    /// No room; seconds until trying again makes sense.
    Full {
        /// For `retryAfter`.
        retry_after_secs: u64,
    },
    /// The request's id was handled before; nothing changed.
    Duplicate {
        /// An honest re-send.
        same_content: bool,
    },
}

/// What came of an answer to a request of ours.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Answered {
    /// Direct trust, now.
    Connected(Box<Contact>),
    /// The peer said no.
    Rejected,
    /// This agent has no pending request to that DID. Nothing changed.
    NoSuch,
    /// The request's id was handled before; nothing changed.
    Duplicate {
        /// An honest re-send.
        same_content: bool,
    },
}

/// What came of filing an introduction, a question to an introducer, or a message to hold.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Queued {
    /// It waits on this row.
    Pending(Box<RequestRow>),
    /// It was decided before; the row says how.
    Decided(Box<RequestRow>),
    /// No room.
    Full {
        /// For `retryAfter`.
        retry_after_secs: u64,
    },
    /// The request's id was handled before; nothing changed.
    Duplicate {
        /// An honest re-send.
        same_content: bool,
    },
}

/// What an owner's decision did.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Decided {
    /// Recorded now; the row as it is, the contact that it made or found, and how many held messages were delivered to
    /// the inbox (as received, unread).
    Done {
        /// The request.
        row: Box<RequestRow>,
        /// Who is trusted now, when that is what was decided.
        contact: Option<Box<Contact>>,
        /// Messages that moved to the inbox.
        delivered: u32,
    },
    /// The same was decided before; nothing changed.
    Unchanged(Box<RequestRow>),
    /// It is not for this agent's owner to decide: outgoing, expired, withdrawn.
    NotOpen(Box<RequestRow>),
    /// No such row.
    NoSuch,
}

impl Store {
    /// Files an incoming connect request; everything in one transaction with the handled id. With `accept` it makes
    /// direct trust at once. One row for each DID: a second request refreshes the first. A blocked DID is filed as
    /// hidden, under the same bounds, and answered alike. Crossing requests connect both.
    ///
    /// What changes nothing (refused, no room, known already, repeated more than ten times) does not count as handled:
    /// it must not fill the disk.
    pub async fn file_connect(
        &self,
        request: &NewRequest,
        accept: bool,
        own_name: &str,
        limits: PendingLimits,
        handling: &Handling,
    ) -> Result<Filed, StoreError> {
        let (request, own_name, handling) = (request.clone(), own_name.to_owned(), handling.clone());
        let tail = self.inner.tail.clone();
        self.write(move |conn| {
            Box::pin(async move {
                let accepts = filing::Accepts { at_once: accept, own_name: &own_name };
                filing::connect(conn, &tail, &request, accepts, limits, &handling).await
            })
        })
        .await
    }

    /// Settles our own connect request to `who.did` by the peer's answer (`connect/respond`), consuming it once.
    pub async fn settle_connect(
        &self,
        who: &Introduce,
        decision: Decision,
        handling: &Handling,
    ) -> Result<Answered, StoreError> {
        let (who, handling, tail) = (who.clone(), handling.clone(), self.inner.tail.clone());
        self.write(move |conn| Box::pin(async move { ours::settle(conn, &tail, &who, decision, &handling).await }))
            .await
    }

    /// Files a proposed introduction: the credential and the request row. When the owner's policy is to accept what
    /// direct contacts vouch for, `accept` does so at once, writes that errand and gives [`Queued::Decided`]. The same
    /// credential again gives the row that is there; another one with its id is [`Queued::Full`], and so is anything
    /// whose issuer is no direct contact any more. A subject that the owner blocked is filed as hidden.
    pub async fn file_introduction(
        &self,
        introduction: &IntroductionRow,
        request: &NewRequest,
        accept: Option<NewErrand>,
        own_name: &str,
        limits: PendingLimits,
        handling: &Handling,
    ) -> Result<Queued, StoreError> {
        let (introduction, request, handling) = (introduction.clone(), request.clone(), handling.clone());
        let (accept, tail) = (accept.map(|errand| (errand, own_name.to_owned())), self.inner.tail.clone());
        self.write(move |conn| {
            Box::pin(async move {
                filing::introduction(conn, &tail, &introduction, &request, accept, limits, &handling).await
            })
        })
        .await
    }

    /// Accepts at once an introduction that came with its subject's first message; that message is another act. Otherwise
    /// as [`Store::file_introduction`].
    pub async fn accept_introduction(
        &self,
        introduction: &IntroductionRow,
        request: &NewRequest,
        errand: NewErrand,
        own_name: &str,
        limits: PendingLimits,
    ) -> Result<Queued, StoreError> {
        let (introduction, request) = (introduction.clone(), request.clone());
        let accept = Some((errand, own_name.to_owned()));
        self.write(move |conn| {
            Box::pin(async move { filing::take_introduction(conn, &introduction, &request, accept, limits).await })
        })
        .await
    }

    /// Files a question to this agent as an introducer. The same question again refreshes its row; one that was rejected
    /// is [`Queued::Decided`] until the row expires.
    pub async fn file_question(
        &self,
        request: &NewRequest,
        limits: PendingLimits,
        handling: &Handling,
    ) -> Result<Queued, StoreError> {
        let (request, handling, tail) = (request.clone(), handling.clone(), self.inner.tail.clone());
        self.write(move |conn| {
            Box::pin(async move { filing::question(conn, &tail, &request, limits, &handling).await })
        })
        .await
    }

    /// Holds a first message: on the pending introduction (filed now when it is not there), or, without one, on a row of
    /// kind [`RequestKind::Message`]. One message for each row: [`Queued::Full`] when there is one already, and when the
    /// bounds are reached, for what is larger than 64 KiB of text or of extra, and for blocked senders. The id counts as
    /// handled once the message is held. `message.reply` is kept, and put into the outbox, with a `message.reply_by` alone.
    pub async fn hold_message(
        &self,
        message: &Received,
        introduction: Option<&IntroductionRow>,
        request: &NewRequest,
        limits: PendingLimits,
    ) -> Result<Queued, StoreError> {
        let (message, introduction, request) = (message.clone(), introduction.cloned(), request.clone());
        let tail = self.inner.tail.clone();
        self.write(move |conn| {
            Box::pin(
                async move { filing::message(conn, &tail, &message, introduction.as_ref(), &request, limits).await },
            )
        })
        .await
    }

    /// Writes our own request before it is sent; a pending one of the same kind to the same peer (and about the same
    /// DID) is given instead.
    pub async fn open_request(&self, request: &NewRequest) -> Result<RequestRow, StoreError> {
        let request = request.clone();
        self.write(|conn| Box::pin(async move { ours::open(conn, &request).await })).await
    }

    /// Records that our own connect request was accepted in the answer itself, or that there was trust already.
    pub async fn connected_by_answer(&self, id: i64, who: &Introduce) -> Result<Option<Contact>, StoreError> {
        let who = who.clone();
        self.write(move |conn| Box::pin(async move { ours::connected(conn, id, &who).await })).await
    }

    /// Closes a row of ours without an act: the peer refused it, or answered a question.
    pub async fn close_request(
        &self,
        id: i64,
        status: RequestStatus,
        now: UnixSeconds,
    ) -> Result<Option<RequestRow>, StoreError> {
        self.write(move |conn| Box::pin(async move { ours::close(conn, id, status, now).await })).await
    }

    /// Takes back a pending request of ours: a later acceptance finds none. `NotOpen` for what is not pending or not
    /// ours.
    pub async fn withdraw_request(&self, id: i64, now: UnixSeconds) -> Result<Decided, StoreError> {
        self.write(move |conn| Box::pin(async move { ours::withdraw(conn, id, now).await })).await
    }

    /// Carries out the owner's decision about an incoming row, in one transaction with its errands.
    ///
    /// Accepting a connect request makes direct trust (also after an earlier no); an introduction admits its subject
    /// and delivers what is held on it; a message is delivered. Rejecting drops what is held. `name` is for the contact.
    pub async fn decide(
        &self,
        id: i64,
        decision: Decision,
        name: Option<&str>,
        own_name: &str,
        errands: Vec<NewErrand>,
        now: UnixSeconds,
    ) -> Result<Decided, StoreError> {
        let word = Word { decision, name: name.map(str::to_owned), own_name: own_name.to_owned(), errands, now };
        self.write(move |conn| Box::pin(async move { deciding::decide(conn, id, &word).await })).await
    }

    /// Undoes an acceptance that the peer no longer wanted: the contact goes back to what it was when this acceptance
    /// made it direct, and nothing has made it so again.
    pub async fn undo_accept(&self, id: i64, now: UnixSeconds) -> Result<(), StoreError> {
        self.write(move |conn| Box::pin(async move { deciding::undo(conn, id, now).await })).await
    }

    /// One row; hidden ones are not there.
    pub async fn request(&self, id: i64, now: UnixSeconds) -> Result<Option<RequestRow>, StoreError> {
        self.read(move |conn| {
            Box::pin(
                async move { Ok(rows::find(conn, id, now).await?.filter(|row| row.status != RequestStatus::Hidden)) },
            )
        })
        .await
    }

    /// Rows, newest last, hidden ones left out; with `all` also the ones that were decided.
    pub async fn requests(&self, all: bool, now: UnixSeconds) -> Result<Vec<RequestRow>, StoreError> {
        self.read(move |conn| {
            Box::pin(async move {
                let rows = query(concat!(
                    select!(),
                    "WHERE status <> 4 AND (?1 OR (status = 0 AND expires > ?2)) ORDER BY r.id"
                ))
                .bind(all)
                .bind(now.0)
                .fetch_all(conn)
                .await?;
                rows.iter().map(|row| request_from(row, now)).collect()
            })
        })
        .await
    }

    /// The pending row between this agent and a DID, in either direction: connect, introduction, held message; hidden
    /// ones left out.
    pub async fn pending_with(&self, did: &Did, now: UnixSeconds) -> Result<Option<RequestRow>, StoreError> {
        let did = did.clone();
        self.read(move |conn| {
            Box::pin(async move {
                let row = query(concat!(
                    select!(),
                    "WHERE r.peer = (SELECT id FROM peers WHERE address = ?) AND kind IN (0, 1, 4) AND status = 0 \
                     AND expires > ? ORDER BY r.id DESC LIMIT 1"
                ))
                .bind(did.as_str())
                .bind(now.0)
                .fetch_optional(conn)
                .await?;
                row.map(|row| request_from(&row, now)).transpose()
            })
        })
        .await
    }

    /// Whether something of a DID waits that only the owner does not see: it is blocked, and must hear what a stranger
    /// would.
    pub async fn has_hidden(&self, did: &Did, now: UnixSeconds) -> Result<bool, StoreError> {
        let did = did.clone();
        self.read(move |conn| {
            Box::pin(async move {
                let row = query(
                    "SELECT EXISTS (SELECT 1 FROM requests WHERE peer = (SELECT id FROM peers WHERE address = ?) \
                     AND kind IN (0, 1, 4) AND direction = 0 AND status = 4 AND expires > ?)",
                )
                .bind(did.as_str())
                .bind(now.0)
                .fetch_one(conn)
                .await?;
                Ok(row.try_get(0)?)
            })
        })
        .await
    }

    /// How many incoming rows wait for the owner.
    pub async fn pending_count(&self, now: UnixSeconds) -> Result<u64, StoreError> {
        self.read(move |conn| {
            Box::pin(async move {
                let row = query(
                    "SELECT count(*) FROM requests INDEXED BY requests_waiting \
                     WHERE direction = 0 AND status IN (0, 4) AND status = 0 AND expires > ?",
                )
                .bind(now.0)
                .fetch_one(conn)
                .await?;
                Ok(row.try_get::<i64, _>(0)?.unsigned_abs())
            })
        })
        .await
    }

    /// Deletes what nobody needs: rows that are past their time by 30 days, messages held on rows that nobody can accept
    /// any more, errands that gave up. Called by `serve` now and then; bounded work. Gives how many rows went: call it
    /// again while there are any.
    pub async fn sweep_trust(&self, now: UnixSeconds) -> Result<u64, StoreError> {
        self.write(move |conn| Box::pin(async move { sweep::sweep(conn, now).await })).await
    }
}
