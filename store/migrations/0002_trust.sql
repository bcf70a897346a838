-- Version 2: introductions, what waits for a decision, calls that are owed, domain verdicts, tags of contacts.

-- A JSON list of strings; the owner's tags.
ALTER TABLE contacts ADD COLUMN expertise TEXT NOT NULL DEFAULT '[]';

-- One row: grows with every relation, block and standing introduction that changes, in whichever process. A reader that
-- remembers them sees by it whether it may still believe what it remembers.
CREATE TABLE trust_version (
    version INTEGER NOT NULL
) STRICT;

INSERT INTO trust_version (version) VALUES (0);

CREATE TRIGGER contacts_added AFTER INSERT ON contacts
BEGIN
    UPDATE trust_version SET version = version + 1;
END;

CREATE TRIGGER contacts_changed AFTER UPDATE OF peer, relation, is_blocked ON contacts
BEGIN
    UPDATE trust_version SET version = version + 1;
END;

CREATE TRIGGER contacts_removed AFTER DELETE ON contacts
BEGIN
    UPDATE trust_version SET version = version + 1;
END;

-- Credentials by which somebody vouches. role: 0 this agent issued it, 1 it was told (target), 2 it was given (subject).
-- status: 0 pending, 1 accepted, 2 rejected, 3 revoked, 4 ended.
CREATE TABLE introductions (
    seq INTEGER PRIMARY KEY,
    role INTEGER NOT NULL,
    issuer INTEGER NOT NULL REFERENCES peers (id),
    subject INTEGER NOT NULL REFERENCES peers (id),
    target INTEGER NOT NULL REFERENCES peers (id),
    status INTEGER NOT NULL,
    trust_level_bp INTEGER,
    issued INTEGER NOT NULL,
    valid_until INTEGER NOT NULL,
    is_requested INTEGER NOT NULL,
    created INTEGER NOT NULL,
    changed INTEGER NOT NULL,
    id TEXT NOT NULL,
    issuer_endpoint TEXT,
    expertise TEXT NOT NULL,
    vc TEXT NOT NULL
) STRICT;

CREATE UNIQUE INDEX introductions_id ON introductions (role, issuer, id);

-- Whom an introduction is about here: the subject where this agent is the target, and the other way round.
CREATE INDEX introductions_subject ON introductions (subject) WHERE role = 1;
CREATE INDEX introductions_target ON introductions (target) WHERE role = 2;
CREATE INDEX introductions_end ON introductions (valid_until);

CREATE TRIGGER introductions_added AFTER INSERT ON introductions WHEN new.status = 1
BEGIN
    UPDATE trust_version SET version = version + 1;
END;

CREATE TRIGGER introductions_changed AFTER UPDATE OF status ON introductions
BEGIN
    UPDATE trust_version SET version = version + 1;
END;

CREATE TRIGGER introductions_removed AFTER DELETE ON introductions WHEN old.status = 1
BEGIN
    UPDATE trust_version SET version = version + 1;
END;

-- What waits for somebody's decision, and what was decided. An id is never given twice.
-- kind: 0 connect, 1 introduction, 2 "introduce me", 3 referral, 4 message. direction: 0 in, 1 out.
-- status: 0 pending, 1 accepted, 2 rejected, 3 withdrawn, 4 hidden; that a pending one has expired is read off its time.
-- is_stranger: which room it takes. refreshed: how often it was repeated. before: what the contact was before this row
-- made it direct, -1 for nothing; NULL when it did not.
CREATE TABLE requests (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    kind INTEGER NOT NULL,
    direction INTEGER NOT NULL,
    status INTEGER NOT NULL,
    peer INTEGER NOT NULL REFERENCES peers (id),
    via INTEGER REFERENCES peers (id),
    about INTEGER REFERENCES peers (id),
    is_vouched INTEGER NOT NULL,
    is_stranger INTEGER NOT NULL,
    refreshed INTEGER NOT NULL,
    before INTEGER,
    created INTEGER NOT NULL,
    expires INTEGER NOT NULL,
    decided INTEGER,
    wire_id TEXT,
    peer_name TEXT,
    url TEXT,
    relay TEXT,
    enc_pub TEXT,
    note TEXT,
    record TEXT
) STRICT;

CREATE INDEX requests_peer ON requests (peer);
CREATE INDEX requests_via ON requests (via) WHERE via IS NOT NULL;
CREATE INDEX requests_waiting ON requests (direction, expires) WHERE status IN (0, 4);
CREATE INDEX requests_of_strangers ON requests (created) WHERE direction = 0 AND is_vouched = 0 AND is_stranger = 1;
CREATE INDEX requests_end ON requests (expires);

-- The message that waits on a request; it moves to `messages` when the owner agrees.
CREATE TABLE held (
    request INTEGER PRIMARY KEY REFERENCES requests (id) ON DELETE CASCADE,
    is_auto INTEGER NOT NULL,
    timestamp INTEGER NOT NULL,
    received INTEGER NOT NULL,
    message_id TEXT NOT NULL,
    reply_to TEXT,
    context_id TEXT,
    sig TEXT NOT NULL,
    text TEXT NOT NULL,
    extra TEXT
) STRICT;

-- Calls that this agent owes. request: the row whose decision made it necessary; a new decision about it replaces it.
CREATE TABLE errands (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    peer INTEGER NOT NULL REFERENCES peers (id),
    request INTEGER,
    due INTEGER NOT NULL,
    attempts INTEGER NOT NULL,
    created INTEGER NOT NULL,
    expires INTEGER NOT NULL,
    kind TEXT NOT NULL,
    payload TEXT NOT NULL,
    last_error TEXT
) STRICT;

CREATE INDEX errands_due ON errands (due);
CREATE INDEX errands_peer ON errands (peer);

-- Domains that were proven to belong to a DID; a domain is one DID's.
CREATE TABLE domains (
    domain TEXT PRIMARY KEY,
    peer INTEGER NOT NULL REFERENCES peers (id),
    verified INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

CREATE INDEX domains_peer ON domains (peer);
