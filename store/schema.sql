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
