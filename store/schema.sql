CREATE TABLE peers (
    id INTEGER PRIMARY KEY,
    address TEXT NOT NULL UNIQUE
) STRICT;

CREATE TABLE contacts (
    peer INTEGER PRIMARY KEY REFERENCES peers (id),
    name TEXT NOT NULL UNIQUE,
    peer_name TEXT,
    relation INTEGER NOT NULL,
    is_blocked INTEGER NOT NULL,
    url TEXT,
    relay TEXT,
    enc_pub TEXT,
    source INTEGER NOT NULL,
    allow_private INTEGER NOT NULL,
    added INTEGER NOT NULL,
    last_seen INTEGER
, expertise TEXT NOT NULL DEFAULT '[]', enc_pub_pq TEXT) STRICT;

CREATE TABLE invites (
    id INTEGER PRIMARY KEY,
    nonce TEXT NOT NULL UNIQUE,
    code TEXT NOT NULL UNIQUE,
    card TEXT NOT NULL,
    note TEXT,
    created INTEGER NOT NULL,
    expires INTEGER NOT NULL,
    revoked INTEGER,
    used_by INTEGER REFERENCES peers (id),
    used INTEGER
) STRICT;

CREATE TABLE messages (
    seq INTEGER PRIMARY KEY AUTOINCREMENT,
    peer INTEGER NOT NULL,
    direction INTEGER NOT NULL,
    is_unread INTEGER NOT NULL,
    is_auto INTEGER NOT NULL,
    is_verified INTEGER NOT NULL,
    status INTEGER,
    answer INTEGER,
    timestamp INTEGER NOT NULL,
    received INTEGER NOT NULL,
    message_id TEXT NOT NULL,
    reply_to TEXT,
    context_id TEXT,
    sig TEXT,
    text TEXT NOT NULL,
    extra TEXT
, code INTEGER) STRICT;

CREATE INDEX messages_unread ON messages (is_unread) WHERE is_unread = 1;

CREATE TABLE handled (
    key BLOB PRIMARY KEY,
    digest BLOB NOT NULL
) STRICT, WITHOUT ROWID;

CREATE TABLE handled_log (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    entries BLOB NOT NULL
) STRICT;

CREATE TABLE settings (
    key TEXT PRIMARY KEY,
    value TEXT NOT NULL
) STRICT, WITHOUT ROWID;

CREATE TABLE trust_version (
    version INTEGER NOT NULL
) STRICT;

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

CREATE TABLE domains (
    domain TEXT PRIMARY KEY,
    peer INTEGER NOT NULL REFERENCES peers (id),
    verified INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

CREATE INDEX domains_peer ON domains (peer);

CREATE INDEX messages_sent ON messages (message_id) WHERE status IS NOT NULL;

CREATE TABLE outbox (
    seq INTEGER PRIMARY KEY,
    peer INTEGER NOT NULL REFERENCES peers (id),
    kind INTEGER NOT NULL,
    is_reply INTEGER NOT NULL,
    is_taken INTEGER NOT NULL,
    allow_private INTEGER NOT NULL,
    attempts INTEGER NOT NULL,
    due INTEGER NOT NULL,
    created INTEGER NOT NULL,
    expires INTEGER NOT NULL,
    deposited INTEGER,
    relay TEXT,
    via TEXT,
    fallback_relay TEXT,
    fallback_enc_pub TEXT,
    last_error TEXT,
    extra TEXT
) STRICT;

CREATE INDEX outbox_due ON outbox (due);

CREATE INDEX outbox_kind ON outbox (kind, seq);

CREATE INDEX outbox_peer ON outbox (peer);

CREATE TABLE rejected (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    received INTEGER NOT NULL,
    bytes INTEGER NOT NULL,
    code INTEGER,
    relay TEXT NOT NULL,
    sender TEXT NOT NULL,
    letter TEXT NOT NULL,
    reason TEXT NOT NULL
) STRICT;
