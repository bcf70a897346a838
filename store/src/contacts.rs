//! Whom this agent knows.
use muretai_protocol::{Did, UnixSeconds};
use sqlx::{Row, SqliteConnection, query, sqlite::SqliteRow};

use crate::{Store, StoreError, lists, names, provisional, vouching};

/// Every column of a contact, in the order of [`contact_from`].
macro_rules! select {
    () => {
        "SELECT address, name, peer_name, relation, is_blocked, url, relay, enc_pub, source, allow_private, added, \
         last_seen, expertise, enc_pub_pq FROM contacts JOIN peers ON id = peer"
    };
}

/// How a contact came to be; a later relation never silently replaces a stronger one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Relation {
    /// Trust both ways: an invite and its claim, an accepted connection, the owner's word.
    Direct,
    /// A direct contact vouched for it, and the owner agreed: conversation, for as long as the introduction stands.
    /// Whether one stands is for [`Store::standing_introductions`] to say.
    Introduced,
    /// This agent was introduced to it and has not used that yet: it may be written to, and is not let in.
    Offered,
    /// No trust: what vouched for it has ended, or the owner blocked it.
    None,
}

/// Tags of one contact.
const MAX_TAGS: usize = 16;
/// Bytes of one tag.
const MAX_TAG_BYTES: usize = 64;

/// [`Relation::None`] as it is stored.
const NONE: i64 = 0;
/// [`Relation::Direct`] as it is stored.
pub(crate) const DIRECT: i64 = 1;
/// [`Relation::Introduced`] as it is stored.
pub(crate) const INTRODUCED: i64 = 2;
/// [`Relation::Offered`] as it is stored.
const OFFERED: i64 = 3;

impl Relation {
    /// As it is stored.
    pub(crate) fn stored(self) -> i64 {
        match self {
            Relation::None => NONE,
            Relation::Direct => DIRECT,
            Relation::Introduced => INTRODUCED,
            Relation::Offered => OFFERED,
        }
    }

    /// The one of two that allows more.
    fn or_stronger(self, other: Relation) -> Relation {
        let order = [Relation::None, Relation::Offered, Relation::Introduced, Relation::Direct];
        let is_stronger = |found: &Relation| *found == self || *found == other;
        order.into_iter().rev().find(is_stronger).unwrap_or(self)
    }

    /// As it is stored.
    pub(crate) fn from_stored(number: i64) -> Result<Relation, StoreError> {
        match number {
            NONE => Ok(Relation::None),
            DIRECT => Ok(Relation::Direct),
            INTRODUCED => Ok(Relation::Introduced),
            OFFERED => Ok(Relation::Offered),
            _ => Err(StoreError::Damaged),
        }
    }
}

/// Where the coordinates came from, weakest first: a claim never overwrites what a signed card said.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum CoordinateSource {
    /// Whoever introduced the peer said so: taken when nobody has said anything, and never for another's word.
    Introducer,
    /// The peer said so in a message or a claim.
    Peer,
    /// A signed invite.
    Invite,
    /// A signed card.
    Card,
    /// The owner.
    Owner,
}

impl CoordinateSource {
    /// As it is stored. The numbers are older than the order.
    fn stored(self) -> i64 {
        match self {
            CoordinateSource::Peer => 0,
            CoordinateSource::Invite => 1,
            CoordinateSource::Card => 2,
            CoordinateSource::Owner => 3,
            CoordinateSource::Introducer => 4,
        }
    }

    fn from_stored(number: i64) -> Result<CoordinateSource, StoreError> {
        match number {
            0 => Ok(CoordinateSource::Peer),
            1 => Ok(CoordinateSource::Invite),
            2 => Ok(CoordinateSource::Card),
            3 => Ok(CoordinateSource::Owner),
            4 => Ok(CoordinateSource::Introducer),
            _ => Err(StoreError::Damaged),
        }
    }
}

/// Where a peer can be reached.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Coordinates {
    /// Base URL for direct HTTP.
    pub url: Option<String>,
    /// Its relay.
    pub relay: Option<String>,
    /// Its sealing key, in hex.
    pub enc_pub: Option<String>,
    /// Its ML-KEM key, 2368 hex digits, out of a signed card only.
    pub enc_pub_pq: Option<String>,
}

impl Coordinates {
    fn is_empty(&self) -> bool {
        self.url.is_none() && self.relay.is_none() && self.enc_pub.is_none()
    }
}

/// One contact.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Contact {
    /// Its address.
    pub did: Did,
    /// Unique local name; the owner's, or derived from what the peer calls itself (`north`, `north-2`).
    pub name: String,
    /// What the peer calls itself, unsafe to show raw.
    pub peer_name: Option<String>,
    /// How it came to be.
    pub relation: Relation,
    /// The owner wants to hear nothing from it.
    pub is_blocked: bool,
    /// Where it can be reached.
    pub coordinates: Coordinates,
    /// Who said so.
    pub source: CoordinateSource,
    /// The owner lets us dial loopback and private addresses of this contact.
    pub allow_private: bool,
    /// When it was first written here.
    pub added: UnixSeconds,
    /// Last verified message from it, exact to about a minute.
    pub last_seen: Option<UnixSeconds>,
    /// What the owner says that it knows: tags.
    pub expertise: Vec<String>,
}

/// What a claim or an invite tells about a peer.
#[derive(Debug, Clone)]
pub struct Introduce {
    /// Its address.
    pub did: Did,
    /// What the peer calls itself.
    pub peer_name: Option<String>,
    /// What the agent calls itself: no contact gets this name.
    pub own_name: Option<String>,
    /// Where it can be reached.
    pub coordinates: Coordinates,
    /// Who says so.
    pub source: CoordinateSource,
    /// The owner lets us dial its loopback and private addresses. `false` takes nothing back.
    pub allow_private: bool,
    /// Our clock.
    pub now: UnixSeconds,
}

impl Store {
    /// All contacts, by name, strangers that are known from before or blocked among them.
    pub async fn contacts(&self) -> Result<Vec<Contact>, StoreError> {
        self.read(|conn| {
            Box::pin(async move {
                let rows = query(concat!(select!(), " ORDER BY name")).fetch_all(conn).await?;
                rows.iter().map(contact_from).collect()
            })
        })
        .await
    }

    /// The contact with this DID.
    pub async fn contact(&self, did: &Did) -> Result<Option<Contact>, StoreError> {
        let did = did.clone();
        self.read(|conn| Box::pin(async move { find(conn, &did).await })).await
    }

    /// The contact with this local name, exactly.
    pub async fn contact_named(&self, name: &str) -> Result<Option<Contact>, StoreError> {
        let name = name.to_owned();
        self.read(|conn| {
            Box::pin(async move {
                let row = query(concat!(select!(), " WHERE name = ?")).bind(name).fetch_optional(conn).await?;
                row.as_ref().map(contact_from).transpose()
            })
        })
        .await
    }

    /// Makes direct trust, or refreshes it: an existing contact keeps its name, its block and stronger coordinates.
    /// Fields that a newer source does not carry stay.
    pub async fn connect(&self, who: &Introduce) -> Result<Contact, StoreError> {
        let who = who.clone();
        self.write(|conn| Box::pin(async move { introduce(conn, &who).await })).await
    }

    /// Records newer coordinates of a known contact, when their source is at least as strong. Nothing happens when the
    /// contact is unknown or its coordinates have a better source.
    pub async fn update_coordinates(
        &self,
        did: &Did,
        coordinates: &Coordinates,
        source: CoordinateSource,
    ) -> Result<(), StoreError> {
        let (did, coordinates) = (did.clone(), coordinates.clone());
        self.write(move |conn| {
            Box::pin(async move {
                let Some(mut contact) = find(conn, &did).await? else { return Ok(()) };
                contact.learn(&coordinates, source);
                save(conn, &contact).await
            })
        })
        .await
    }

    /// Fills what is not known of a contact with what came with a letter: the weakest word there is, which replaces nothing.
    /// `told.relay` counts for the holder of the key that is known, or becomes so; where the owner said where the contact
    /// is, no relay is added. Nothing else of `told` is looked at.
    pub async fn fill_coordinates(&self, did: &Did, told: &Coordinates) -> Result<(), StoreError> {
        // Nearly always there is nothing to fill.
        if !self.contact(did).await?.is_some_and(|mut contact| contact.fill(told)) {
            return Ok(());
        }
        let (did, told) = (did.clone(), told.clone());
        self.write(move |conn| {
            Box::pin(async move {
                let Some(mut contact) = find(conn, &did).await? else { return Ok(()) };
                if contact.fill(&told) { save(conn, &contact).await } else { Ok(()) }
            })
        })
        .await
    }

    /// Fills the address of a contact that has none with what its signed card names, unless the owner said where the
    /// contact is. What else is known of it stays, and so does who said so. Says whether anything changed.
    pub async fn fill_address(&self, did: &Did, url: &str) -> Result<bool, StoreError> {
        let (did, url) = (did.clone(), url.to_owned());
        self.write(move |conn| {
            Box::pin(async move {
                let Some(mut contact) = find(conn, &did).await? else { return Ok(false) };
                // What the owner says is dialled wherever it is; a peer's word must not be taken for it.
                if contact.source == CoordinateSource::Owner || contact.coordinates.url.is_some() {
                    return Ok(false);
                }
                if contact.coordinates.is_empty() {
                    contact.source = CoordinateSource::Card;
                }
                contact.coordinates.url = Some(url);
                save(conn, &contact).await?;
                Ok(true)
            })
        })
        .await
    }

    /// Takes the sealing keys out of a contact's signed card, whoever said where the contact is: of its keys nobody knows
    /// better. Says whether anything changed.
    pub async fn renew_keys(&self, did: &Did, enc_pub: &str, enc_pub_pq: Option<&str>) -> Result<bool, StoreError> {
        let (did, enc_pub, enc_pub_pq) = (did.clone(), enc_pub.to_owned(), enc_pub_pq.map(str::to_owned));
        self.write(move |conn| {
            Box::pin(async move {
                let Some(mut contact) = find(conn, &did).await? else { return Ok(false) };
                let before = contact.coordinates.clone();
                contact.coordinates.enc_pub = Some(enc_pub);
                contact.coordinates.enc_pub_pq = enc_pub_pq;
                if contact.coordinates == before {
                    return Ok(false);
                }
                save(conn, &contact).await?;
                Ok(true)
            })
        })
        .await
    }

    /// Renames; `NameTaken` when another contact has the name. `false` when there is no such contact.
    pub async fn rename_contact(&self, did: &Did, name: &str) -> Result<bool, StoreError> {
        let (did, name) = (did.clone(), name.to_owned());
        self.write(|conn| {
            Box::pin(async move {
                let Some(mut contact) = find(conn, &did).await? else { return Ok(false) };
                if contact.name != name && names::is_taken(conn, &name).await? {
                    return Err(StoreError::NameTaken(name));
                }
                contact.name = name;
                save(conn, &contact).await?;
                Ok(true)
            })
        })
        .await
    }

    /// Replaces the tags of a contact. `false` when there is no such contact.
    ///
    /// # Errors
    /// [`StoreError::TooManyTags`] beyond 16 tags of 64 bytes.
    pub async fn set_expertise(&self, did: &Did, expertise: &[String]) -> Result<bool, StoreError> {
        if expertise.len() > MAX_TAGS || expertise.iter().any(|tag| tag.len() > MAX_TAG_BYTES) {
            return Err(StoreError::TooManyTags);
        }
        let (did, expertise) = (did.clone(), lists::encode(expertise));
        self.write(|conn| {
            Box::pin(async move {
                let done =
                    query("UPDATE contacts SET expertise = ? WHERE peer = (SELECT id FROM peers WHERE address = ?)")
                        .bind(expertise)
                        .bind(did.as_str())
                        .execute(conn)
                        .await?;
                Ok(done.rows_affected() == 1)
            })
        })
        .await
    }

    /// Ends trust and forgets the contact; its messages and handled ids stay. What it vouched for ends with it, and so do
    /// the introductions that let it in, for good. A blocked one stays blocked, and listed as such until it is unblocked.
    /// `false` when there was nothing to end or to forget.
    pub async fn remove_contact(&self, did: &Did) -> Result<bool, StoreError> {
        let did = did.clone();
        self.write(|conn| {
            Box::pin(async move {
                match find(conn, &did).await? {
                    Some(contact) => remove(conn, contact).await,
                    None => Ok(false),
                }
            })
        })
        .await
    }

    /// Blocks or unblocks a DID, known or not: a block outlives removal and re-invites. A stranger who is blocked is
    /// listed without trust; unblocking forgets it again, unless it was known before.
    ///
    /// While it is blocked, what waits from it is hidden and what it vouches for does not count. What was asked of it is
    /// taken back, what is queued for it has failed, and its held messages are dropped: these do not come back.
    pub async fn set_blocked(&self, did: &Did, blocked: bool, now: UnixSeconds) -> Result<(), StoreError> {
        let did = did.clone();
        self.write(move |conn| Box::pin(async move { block(conn, did, blocked, now).await })).await
    }
}

impl Contact {
    fn new(did: Did, name: String, now: UnixSeconds) -> Contact {
        Contact {
            did,
            name,
            peer_name: None,
            relation: Relation::None,
            is_blocked: false,
            coordinates: Coordinates::default(),
            source: CoordinateSource::Peer,
            allow_private: false,
            added: now,
            last_seen: None,
            expertise: Vec::new(),
        }
    }

    /// Whether a stranger is more than a name that a block gave it, or left of it.
    fn was_known(&self) -> bool {
        let was_described = self.peer_name.is_some() || !self.expertise.is_empty();
        was_described || !self.coordinates.is_empty() || self.last_seen.is_some()
    }

    /// Takes coordinates from a source that is at least as strong. An introducer's are taken whole and once: with the
    /// address of one and the key of another, a message would go astray.
    fn learn(&mut self, new: &Coordinates, source: CoordinateSource) {
        let is_first = self.coordinates.is_empty();
        let is_weaker = source < self.source || source == CoordinateSource::Introducer;
        if new.is_empty() || (is_weaker && !is_first) {
            return;
        }
        if self.source == CoordinateSource::Introducer && new.url.is_some() {
            self.coordinates = Coordinates::default();
        }
        self.source = source;
        self.learn_pq(new, source);
        for (old, new) in [
            (&mut self.coordinates.url, &new.url),
            (&mut self.coordinates.relay, &new.relay),
            (&mut self.coordinates.enc_pub, &new.enc_pub),
        ] {
            if new.is_some() {
                old.clone_from(new);
            }
        }
    }

    /// See [`Store::fill_coordinates`]; says whether anything changed.
    fn fill(&mut self, told: &Coordinates) -> bool {
        let Some(key) = &told.enc_pub else { return false };
        if self.coordinates.enc_pub.as_ref().is_some_and(|known| !known.eq_ignore_ascii_case(key)) {
            return false;
        }
        let before = self.coordinates.clone();
        if self.coordinates.is_empty() {
            self.source = CoordinateSource::Peer;
        }
        self.coordinates.enc_pub.get_or_insert_with(|| key.clone());
        // What the owner says is dialled wherever it is; a peer's word must not be taken for it.
        if self.source != CoordinateSource::Owner && self.coordinates.relay.is_none() {
            self.coordinates.relay.clone_from(&told.relay);
        }
        self.coordinates != before
    }

    /// The ML-KEM key is a signed card's word alone, and goes when such a card names another key or no longer has one:
    /// with the key of yesterday a letter would not open.
    fn learn_pq(&mut self, new: &Coordinates, source: CoordinateSource) {
        let is_proven = source >= CoordinateSource::Card;
        let has_changed = new.enc_pub.is_some() && new.enc_pub != self.coordinates.enc_pub;
        if is_proven && new.enc_pub.is_some() {
            self.coordinates.enc_pub_pq.clone_from(&new.enc_pub_pq);
        } else if has_changed {
            self.coordinates.enc_pub_pq = None;
        }
    }
}

/// See [`Store::remove_contact`].
pub(crate) async fn remove(conn: &mut SqliteConnection, mut contact: Contact) -> Result<bool, StoreError> {
    let peer = peer_id(conn, contact.did.as_str()).await?;
    let relation = std::mem::replace(&mut contact.relation, Relation::None);
    let is_blocked = contact.is_blocked;
    if is_blocked {
        // The name stays for as long as it is listed; nothing else keeps it here once it is unblocked.
        let bare = Contact::new(contact.did.clone(), contact.name, contact.added);
        save(conn, &Contact { is_blocked, ..bare }).await?;
    } else {
        forget(conn, &contact.did).await?;
    }
    vouching::end_about(conn, peer).await?;
    if relation == Relation::Direct {
        vouching::end_issued_by(conn, peer).await?;
    }
    Ok(relation != Relation::None || !is_blocked)
}

/// See [`Store::set_blocked`].
async fn block(conn: &mut SqliteConnection, did: Did, blocked: bool, now: UnixSeconds) -> Result<(), StoreError> {
    let found = find(conn, &did).await?;
    if found.is_none() && !blocked {
        return Ok(());
    }
    let mut contact = match found {
        Some(contact) => contact,
        None => Contact::new(did, names::unused(conn, None, None).await?, now),
    };
    contact.is_blocked = blocked;
    let peer = peer_id(conn, contact.did.as_str()).await?;
    if !blocked && contact.relation == Relation::None && !contact.was_known() {
        forget(conn, &contact.did).await?;
    } else {
        save(conn, &contact).await?;
    }
    if blocked { vouching::hide(conn, peer, now).await } else { vouching::show(conn, peer).await }
}

/// Forgets a contact that has no trust and is not blocked.
pub(crate) async fn forget_stranger(conn: &mut SqliteConnection, peer: i64) -> Result<(), StoreError> {
    query("DELETE FROM contacts WHERE peer = ? AND relation = 0 AND is_blocked = 0").bind(peer).execute(conn).await?;
    Ok(())
}

/// Makes direct trust inside the caller's transaction. What either had asked the other is settled by it.
pub(crate) async fn introduce(conn: &mut SqliteConnection, who: &Introduce) -> Result<Contact, StoreError> {
    let contact = admit(conn, who, Relation::Direct).await?;
    provisional::confirm(conn, &who.did).await?;
    let peer = peer_id(conn, who.did.as_str()).await?;
    query(
        "UPDATE requests SET status = 1, decided = ?1 \
         WHERE peer = ?2 AND kind = 0 AND status IN (0, 4) AND expires > ?1",
    )
    .bind(who.now.0)
    .bind(peer)
    .execute(&mut *conn)
    .await?;
    // Trust that was made once more does not go when an earlier yes is undone.
    query("UPDATE requests SET before = NULL WHERE peer = ? AND before IS NOT NULL").bind(peer).execute(conn).await?;
    Ok(contact)
}

/// Writes a contact of at least this relation, or refreshes it. An introducer's word fills in what is not known and
/// changes nothing that is: whoever vouches for somebody must not be able to lead what the owner writes to it elsewhere.
pub(crate) async fn admit(
    conn: &mut SqliteConnection,
    who: &Introduce,
    relation: Relation,
) -> Result<Contact, StoreError> {
    let mut contact = match find(conn, &who.did).await? {
        Some(mut contact) => {
            // A blocked stranger has a name that nobody chose.
            if contact.relation == Relation::None && names::is_generic(&contact.name) {
                forget(conn, &who.did).await?;
                contact.name = names::unused(conn, who.peer_name.as_deref(), who.own_name.as_deref()).await?;
            }
            contact
        }
        None => {
            let name = names::unused(conn, who.peer_name.as_deref(), who.own_name.as_deref()).await?;
            Contact::new(who.did.clone(), name, who.now)
        }
    };
    contact.relation = contact.relation.or_stronger(relation);
    contact.allow_private |= who.allow_private;
    let is_own_word = who.source != CoordinateSource::Introducer;
    if who.peer_name.is_some() && (is_own_word || contact.peer_name.is_none()) {
        contact.peer_name.clone_from(&who.peer_name);
    }
    contact.learn(&who.coordinates, who.source);
    save(conn, &contact).await?;
    Ok(contact)
}

/// The contact with this DID, as the transaction sees it.
pub(crate) async fn find(conn: &mut SqliteConnection, did: &Did) -> Result<Option<Contact>, StoreError> {
    let row = query(concat!(select!(), " WHERE address = ?")).bind(did.as_str()).fetch_optional(conn).await?;
    row.as_ref().map(contact_from).transpose()
}

/// The number of an address, given now when it has none.
pub(crate) async fn peer_id(conn: &mut SqliteConnection, address: &str) -> Result<i64, StoreError> {
    query("INSERT INTO peers (address) VALUES (?) ON CONFLICT DO NOTHING").bind(address).execute(&mut *conn).await?;
    let row = query("SELECT id FROM peers WHERE address = ?").bind(address).fetch_one(conn).await?;
    Ok(row.try_get(0)?)
}

/// Writes a contact as it is.
pub(crate) async fn save(conn: &mut SqliteConnection, contact: &Contact) -> Result<(), StoreError> {
    let peer = peer_id(conn, contact.did.as_str()).await?;
    query(
        "INSERT OR REPLACE INTO contacts (peer, name, peer_name, relation, is_blocked, url, relay, enc_pub, source, \
         allow_private, added, last_seen, expertise, enc_pub_pq) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
    )
    .bind(peer)
    .bind(&contact.name)
    .bind(&contact.peer_name)
    .bind(contact.relation.stored())
    .bind(contact.is_blocked)
    .bind(&contact.coordinates.url)
    .bind(&contact.coordinates.relay)
    .bind(&contact.coordinates.enc_pub)
    .bind(contact.source.stored())
    .bind(contact.allow_private)
    .bind(contact.added.0)
    .bind(contact.last_seen.map(|time| time.0))
    .bind(lists::encode(&contact.expertise))
    .bind(&contact.coordinates.enc_pub_pq)
    .execute(conn)
    .await?;
    Ok(())
}

async fn forget(conn: &mut SqliteConnection, did: &Did) -> Result<(), StoreError> {
    query("DELETE FROM contacts WHERE peer = (SELECT id FROM peers WHERE address = ?)")
        .bind(did.as_str())
        .execute(conn)
        .await?;
    Ok(())
}

fn contact_from(row: &SqliteRow) -> Result<Contact, StoreError> {
    Ok(Contact {
        did: did_from(row.try_get(0)?)?,
        name: row.try_get(1)?,
        peer_name: row.try_get(2)?,
        relation: Relation::from_stored(row.try_get(3)?)?,
        is_blocked: row.try_get(4)?,
        coordinates: Coordinates {
            url: row.try_get(5)?,
            relay: row.try_get(6)?,
            enc_pub: row.try_get(7)?,
            enc_pub_pq: row.try_get(13)?,
        },
        source: CoordinateSource::from_stored(row.try_get(8)?)?,
        allow_private: row.try_get(9)?,
        added: UnixSeconds(row.try_get(10)?),
        last_seen: row.try_get::<Option<i64>, _>(11)?.map(UnixSeconds),
        expertise: lists::decode(row.try_get(12)?)?,
    })
}

/// A DID as it was stored; only valid ones ever are.
pub(crate) fn did_from(text: &str) -> Result<Did, StoreError> {
    text.parse().map_err(|_| StoreError::Damaged)
}
