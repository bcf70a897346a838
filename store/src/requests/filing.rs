//! What peers ask, as it arrives.
use muretai_protocol::{Did, UnixSeconds};
use sqlx::SqliteConnection;

use super::{
    Filed, NewRequest, PendingLimits, Queued, RequestKind, RequestRow, RequestStatus, deciding,
    room::{Asks, LATER_SECS},
    rows::{self, As},
};
use crate::{
    StoreError,
    contacts::{self, Contact, CoordinateSource, Introduce, Relation, peer_id},
    errands::NewErrand,
    handled::{SharedTail, mark_fresh, seen_before},
    introductions::{IntroductionRow, IntroductionStatus, Role, rows as introductions},
    messages::{Direction, Handling, Received},
    outbox,
};

/// Bytes of text, and of what came beside it, that are held with one message.
const MAX_HELD_BYTES: usize = 64 * 1_024;

/// How the sender stands, as the transaction sees it.
struct Sender {
    is_blocked: bool,
    /// Direct and not blocked.
    is_trusted: bool,
}

impl Sender {
    fn of(contact: Option<&Contact>) -> Sender {
        let is_blocked = contact.is_some_and(|contact| contact.is_blocked);
        let is_direct = contact.is_some_and(|contact| contact.relation == Relation::Direct);
        Sender { is_blocked, is_trusted: is_direct && !is_blocked }
    }

    async fn find(conn: &mut SqliteConnection, did: &Did) -> Result<Sender, StoreError> {
        Ok(Sender::of(contacts::find(conn, did).await?.as_ref()))
    }

    /// A blocked peer is filed as any stranger, and nobody sees it.
    fn files_as(&self) -> As {
        let status = if self.is_blocked { RequestStatus::Hidden } else { RequestStatus::Pending };
        As { direction: Direction::In, status, is_stranger: !self.is_trusted }
    }
}

/// What the owner's policy says about connect requests.
pub(super) struct Accepts<'a> {
    pub(super) at_once: bool,
    pub(super) own_name: &'a str,
}

/// A connect request of this agent's own that a peer's request crosses.
fn crosses(ours: Option<&RequestRow>) -> bool {
    ours.is_some_and(|row| row.status == RequestStatus::Pending)
}

/// See [`crate::Store::file_connect`].
pub(super) async fn connect(
    conn: &mut SqliteConnection,
    tail: &SharedTail,
    request: &NewRequest,
    accepts: Accepts<'_>,
    limits: PendingLimits,
    handling: &Handling,
) -> Result<Filed, StoreError> {
    if let Some(same_content) = seen_before(conn, tail, handling).await? {
        return Ok(Filed::Duplicate { same_content });
    }
    let now = request.created;
    let contact = contacts::find(conn, &request.peer).await?;
    let sender = Sender::of(contact.as_ref());
    if sender.is_trusted
        && let Some(contact) = contact
    {
        return Ok(Filed::AlreadyConnected(contact));
    }
    let earlier = rows::newest_like(conn, request, Direction::In).await?;
    let ours = rows::newest_like(conn, request, Direction::Out).await?;
    let is_rejected = earlier.as_ref().is_some_and(|row| row.is_rejected(now));
    if !sender.is_blocked && (crosses(ours.as_ref()) || (accepts.at_once && !is_rejected)) {
        let contact = contacts::introduce(conn, &introduce_of(request, accepts.own_name)).await?;
        mark_fresh(conn, handling).await?;
        return Ok(Filed::Connected(contact));
    }
    if is_rejected {
        return Ok(Filed::Rejected);
    }
    if let Some(row) = earlier.filter(|row| row.is_live(now)) {
        if rows::refresh(conn, row.id, request).await? {
            mark_fresh(conn, handling).await?;
        }
        return Ok(Filed::Pending(rows::expect(conn, row.id, now).await?));
    }
    let sponsor = sponsor(conn, request.via.as_ref()).await?;
    if let Some(retry_after_secs) = (Asks { request, is_stranger: true, sponsor }).wait(conn, limits).await? {
        return Ok(Filed::Full { retry_after_secs });
    }
    let id = rows::insert(conn, request, sender.files_as()).await?;
    mark_fresh(conn, handling).await?;
    Ok(Filed::Pending(rows::expect(conn, id, now).await?))
}

async fn sponsor(conn: &mut SqliteConnection, via: Option<&Did>) -> Result<Option<i64>, StoreError> {
    match via {
        Some(did) => Ok(Some(peer_id(conn, did.as_str()).await?)),
        None => Ok(None),
    }
}

/// Where something was put.
enum Placed {
    Waiting(i64),
    Decided(i64),
    Full(u64),
}

/// See [`crate::Store::file_introduction`].
pub(super) async fn introduction(
    conn: &mut SqliteConnection,
    tail: &SharedTail,
    introduction: &IntroductionRow,
    request: &NewRequest,
    accept: Option<(NewErrand, String)>,
    limits: PendingLimits,
    handling: &Handling,
) -> Result<Queued, StoreError> {
    if let Some(same_content) = seen_before(conn, tail, handling).await? {
        return Ok(Queued::Duplicate { same_content });
    }
    let queued = take_introduction(conn, introduction, request, accept, limits).await?;
    if !matches!(queued, Queued::Full { .. }) {
        mark_fresh(conn, handling).await?;
    }
    Ok(queued)
}

/// See [`crate::Store::accept_introduction`].
pub(super) async fn take_introduction(
    conn: &mut SqliteConnection,
    introduction: &IntroductionRow,
    request: &NewRequest,
    accept: Option<(NewErrand, String)>,
    limits: PendingLimits,
) -> Result<Queued, StoreError> {
    let now = request.created;
    let placed = place_introduction(conn, introduction, request, accept.is_some(), limits).await?;
    let id = match placed {
        Placed::Full(retry_after_secs) => return Ok(Queued::Full { retry_after_secs }),
        Placed::Waiting(id) | Placed::Decided(id) => id,
    };
    let row = rows::expect(conn, id, now).await?;
    match (placed, accept) {
        (Placed::Waiting(_), Some((errand, own_name))) if row.status == RequestStatus::Pending => {
            let accepted = deciding::accept_introduction(conn, &row, None, &own_name, now).await?;
            if accepted.is_none() {
                return Ok(Queued::Pending(row));
            }
            crate::errands::insert(conn, &errand, Some(id)).await?;
            Ok(Queued::Decided(rows::expect(conn, id, now).await?))
        }
        (Placed::Waiting(_), _) => Ok(Queued::Pending(row)),
        _ => Ok(Queued::Decided(row)),
    }
}

/// Finds the row of an introduction, or files it. Nothing else of the same id by the same issuer passes for it. With
/// `will_accept` it will not wait, and needs no room among what waits.
async fn place_introduction(
    conn: &mut SqliteConnection,
    introduction: &IntroductionRow,
    request: &NewRequest,
    will_accept: bool,
    limits: PendingLimits,
) -> Result<Placed, StoreError> {
    let now = request.created;
    let issuer = contacts::find(conn, &introduction.issuer).await?;
    if !Sender::of(issuer.as_ref()).is_trusted || introduction.valid_until <= now {
        return Ok(Placed::Full(LATER_SECS));
    }
    let subject = Sender::find(conn, &introduction.subject).await?;
    let request = NewRequest {
        kind: RequestKind::Introduction,
        peer: introduction.subject.clone(),
        via: Some(introduction.issuer.clone()),
        about: None,
        wire_id: Some(introduction.id.clone()),
        expires: UnixSeconds(request.expires.0.min(introduction.valid_until.0)),
        ..request.clone()
    };
    let known = introductions::find(conn, Role::Received, &introduction.issuer, &introduction.id).await?;
    if let Some(known) = &known {
        if known.vc != introduction.vc || known.subject != introduction.subject {
            return Ok(Placed::Full(LATER_SECS));
        }
        let row = rows::newest_about(conn, &introduction.issuer, &introduction.id, now).await?;
        match (known.status, row) {
            (IntroductionStatus::Pending, Some(row)) if row.is_live(now) => return Ok(Placed::Waiting(row.id)),
            (IntroductionStatus::Pending, _) => {}
            (_, Some(row)) => return Ok(Placed::Decided(row.id)),
            (status, None) => {
                let status = match status {
                    IntroductionStatus::Accepted => RequestStatus::Accepted,
                    IntroductionStatus::Rejected => RequestStatus::Rejected,
                    _ => RequestStatus::Withdrawn,
                };
                let how = As { direction: Direction::In, status, is_stranger: false };
                return Ok(Placed::Decided(rows::insert(conn, &request, how).await?));
            }
        }
    }
    let issuer = peer_id(conn, introduction.issuer.as_str()).await?;
    let asks = Asks { request: &request, is_stranger: false, sponsor: Some(issuer) };
    if (!will_accept || subject.is_blocked)
        && let Some(wait) = asks.wait(conn, limits).await?
    {
        return Ok(Placed::Full(wait));
    }
    if known.is_none() {
        if !introductions::make_room(conn, Role::Received, issuer, now).await? {
            return Ok(Placed::Full(LATER_SECS));
        }
        let row = IntroductionRow {
            role: Role::Received,
            status: IntroductionStatus::Pending,
            created: now,
            changed: now,
            ..introduction.clone()
        };
        introductions::insert(conn, &row).await?;
    }
    let how = As { is_stranger: false, ..subject.files_as() };
    Ok(Placed::Waiting(rows::insert(conn, &request, how).await?))
}

/// See [`crate::Store::file_question`].
pub(super) async fn question(
    conn: &mut SqliteConnection,
    tail: &SharedTail,
    request: &NewRequest,
    limits: PendingLimits,
    handling: &Handling,
) -> Result<Queued, StoreError> {
    if let Some(same_content) = seen_before(conn, tail, handling).await? {
        return Ok(Queued::Duplicate { same_content });
    }
    let now = request.created;
    match rows::newest_like(conn, request, Direction::In).await? {
        Some(row) if row.is_live(now) => {
            if rows::refresh(conn, row.id, request).await? {
                mark_fresh(conn, handling).await?;
            }
            return Ok(Queued::Pending(rows::expect(conn, row.id, now).await?));
        }
        Some(row) if row.is_rejected(now) => return Ok(Queued::Decided(Box::new(row))),
        _ => {}
    }
    let sender = Sender::find(conn, &request.peer).await?;
    match file_own(conn, request, &sender, limits).await? {
        Ok(id) => {
            mark_fresh(conn, handling).await?;
            Ok(Queued::Pending(rows::expect(conn, id, now).await?))
        }
        Err(retry_after_secs) => Ok(Queued::Full { retry_after_secs }),
    }
}

/// Files what goes on the sender's own account, or says how long there is no room.
async fn file_own(
    conn: &mut SqliteConnection,
    request: &NewRequest,
    sender: &Sender,
    limits: PendingLimits,
) -> Result<Result<i64, u64>, StoreError> {
    let account = if sender.is_trusted { Some(&request.peer) } else { request.via.as_ref() };
    let sponsor = sponsor(conn, account).await?;
    match (Asks { request, is_stranger: !sender.is_trusted, sponsor }).wait(conn, limits).await? {
        Some(wait) => Ok(Err(wait)),
        None => Ok(Ok(rows::insert(conn, request, sender.files_as()).await?)),
    }
}

/// See [`crate::Store::hold_message`].
pub(super) async fn message(
    conn: &mut SqliteConnection,
    tail: &SharedTail,
    message: &Received,
    introduction: Option<&IntroductionRow>,
    request: &NewRequest,
    limits: PendingLimits,
) -> Result<Queued, StoreError> {
    let handling =
        Handling { from: message.from.clone(), message_id: message.message_id.clone(), digest: message.digest };
    if let Some(same_content) = seen_before(conn, tail, &handling).await? {
        return Ok(Queued::Duplicate { same_content });
    }
    let now = request.created;
    let sender = Sender::find(conn, &message.from).await?;
    let is_too_large =
        message.text.len() > MAX_HELD_BYTES || message.extra.as_ref().is_some_and(|extra| extra.len() > MAX_HELD_BYTES);
    if is_too_large || sender.is_blocked {
        return Ok(Queued::Full { retry_after_secs: LATER_SECS });
    }
    let placed = match introduction {
        Some(row) if row.subject != message.from => Placed::Full(LATER_SECS),
        Some(row) => place_introduction(conn, row, request, false, limits).await?,
        None => place_message(conn, request, &sender, limits).await?,
    };
    let id = match placed {
        Placed::Full(retry_after_secs) => return Ok(Queued::Full { retry_after_secs }),
        Placed::Decided(id) => return Ok(Queued::Decided(rows::expect(conn, id, now).await?)),
        Placed::Waiting(id) => id,
    };
    if rows::expect(conn, id, now).await?.held_text.is_some() {
        return Ok(Queued::Full { retry_after_secs: LATER_SECS });
    }
    rows::hold(conn, id, message).await?;
    mark_fresh(conn, &handling).await?;
    if let (Some(reply), Some(by)) = (&message.reply, &message.reply_by) {
        outbox::rows::write_reply(conn, message, reply, by).await?;
    }
    Ok(Queued::Pending(rows::expect(conn, id, now).await?))
}

async fn place_message(
    conn: &mut SqliteConnection,
    request: &NewRequest,
    sender: &Sender,
    limits: PendingLimits,
) -> Result<Placed, StoreError> {
    let now = request.created;
    match rows::newest_like(conn, request, Direction::In).await? {
        Some(row) if row.is_live(now) => return Ok(Placed::Waiting(row.id)),
        Some(row) if row.is_rejected(now) => return Ok(Placed::Decided(row.id)),
        _ => {}
    }
    Ok(match file_own(conn, request, sender, limits).await? {
        Ok(id) => Placed::Waiting(id),
        Err(wait) => Placed::Full(wait),
    })
}

/// Who a request says that it is from, on its own word.
fn introduce_of(request: &NewRequest, own_name: &str) -> Introduce {
    Introduce {
        did: request.peer.clone(),
        peer_name: request.peer_name.clone(),
        own_name: Some(own_name.to_owned()),
        coordinates: request.coordinates.clone(),
        source: CoordinateSource::Peer,
        allow_private: false,
        now: request.created,
    }
}
