-- Version 1: contacts, invites, messages and the durable set of handled ids of one agent.

-- Addresses of everyone that messages go to or come from, interned: rows elsewhere hold the small number. An address is
-- a DID, or the card URL of a foreign agent. Rows are never changed and never deleted.
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
) STRICT;

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

-- Small columns first: a scan then skips the pages that only hold long texts. A seq is never given twice.
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
) STRICT;

CREATE INDEX messages_unread ON messages (is_unread) WHERE is_unread = 1;

-- The durable set of handled ids. A key is the first 16 bytes of SHA-256 over sender, 0x00, message id; the digest of 32
-- bytes tells an honest re-send from a reused id.
CREATE TABLE handled (
    key BLOB PRIMARY KEY,
    digest BLOB NOT NULL
) STRICT, WITHOUT ROWID;

-- The newest handled ids, one row for each group commit: keys and digests, 48 bytes each, one after the other. They move
-- to `handled` in sorted order, many for each page. A row stays until all its entries are there.
CREATE TABLE handled_log (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    entries BLOB NOT NULL
) STRICT;

CREATE TABLE settings (
    key TEXT PRIMARY KEY,
    value TEXT NOT NULL
) STRICT, WITHOUT ROWID;
